"""The pictures of a posterior."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from invlift.posterior.figures.field_plots import plot_fields
from invlift.posterior.figures.scalar_plots import (
    parameters_of,
    plot_chains,
    plot_parameters,
    titles_of,
)
from invlift.posterior.figures.sensor_plots import plot_leave_one_out, plot_sensors
from invlift.posterior.figures.series import plot_series
from invlift.posterior.figures.style import Panels, saved
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.scalars import chosen
from invlift.posterior.statistics.series import chosen_series


@dataclass(frozen=True, eq=False)
class Plots:
    """Pictures of a posterior: `posterior.plot`.

    Each method draws on a new figure, or on axes of yours: `ax` is one for each panel, in the order
    of reading.  It returns the axes, whose `figure` a notebook shows, and writes the picture to
    `path`, if there is one, in the format of its ending.  An `InputError` if the number of axes is
    another one, or a picture of that ending cannot be written.
    """

    posterior: PosteriorStatistics

    def fields(
        self,
        path: str | os.PathLike | None = None,
        *,
        names: Sequence[str] | None = None,
        length_unit: str = "",
        conductivity_unit: str = "",
        solution_name: str = "Solution",
        solution_unit: str = "",
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Panels:
        """Draw an overview in four panels; of a mesh in space, the slice through its middle.

        Mean and standard deviation of the log-conductivity; mean of the solution with the sensors
        filled by their readings (or of the conductivity, if no solution was kept); variance
        reduction, if the prior standard deviation is known. For a model of one's own mean, standard
        deviation and variance reduction of each field. Or `names`, some of `posterior.fields()`,
        one panel each. Units are to be written on the axes, e.g. "m", "W/(m K)", "K"; the solution
        is, e.g., "Temperature". An `InputError` without a mesh.
        """
        units = length_unit, conductivity_unit, solution_name, solution_unit
        return saved(plot_fields(self.posterior, *units, names, ax), path)

    def chains(
        self,
        path: str | os.PathLike | None = None,
        *,
        names: Sequence[str] | None = None,
        ax: Sequence[Axes] | None = None,
    ) -> Panels:
        """Draw traces and ranks of scalars, two panels each: see `scalar_plots.plot_chains`.

        `names` are some of the `scalars`, or there is an `InputError`; the name of a vector stands
        for its first entries. Without them the first eight are drawn.
        """
        own = self.posterior
        shown = chosen(own.scalars, names)
        titles = titles_of(own.scalars, own.described)
        return saved(plot_chains(shown, own.scalar_diagnostics, titles, ax), path)

    def parameters(
        self,
        path: str | os.PathLike | None = None,
        *,
        names: Sequence[str] | None = None,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Panels:
        """Draw scalars beside their priors, and pairs: see `scalar_plots.plot_parameters`.

        `names` are as of :meth:`chains`. Without them the first eight whose prior density is known
        are drawn, or if there is none of these the first eight; an `InputError` if there is no
        scalar at all. Of k scalars there are k x k panels.
        """
        own = self.posterior
        names = names or parameters_of(own.scalars, own.described)
        return saved(plot_parameters(chosen(own.scalars, names), own.described, ax), path)

    def leave_one_out(
        self, path: str | os.PathLike | None = None, *, ax: Axes | Sequence[Axes] | None = None
    ) -> Panels:
        """Draw leave-one-out probabilities and Pareto k: see `sensor_plots.plot_leave_one_out`."""
        labels = getattr(self.posterior.sensors, "labels", None)
        return saved(plot_leave_one_out(self.posterior.fit.leave_one_out(), labels, ax), path)

    def sensors(
        self,
        path: str | os.PathLike | None = None,
        *,
        quantity: str = "reading",
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Panels:
        """Draw predictions against readings, and residuals: see `sensor_plots.plot_sensors`."""
        labels = getattr(self.posterior.sensors, "labels", None)
        return saved(plot_sensors(self.posterior.fit.sensors(), quantity, labels, ax), path)

    def series(
        self,
        path: str | os.PathLike | None = None,
        *,
        names: Sequence[str] | None = None,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Panels:
        """Draw what there is along an axis of numbers: see `series.plot_series`.

        `names` are of readings with such an axis, and of other quantities that have one, or there
        is an `InputError`. Without them the first twelve are drawn, those with readings first. On
        axes of yours there is one panel for each, without residuals.
        """
        fit = self.posterior.fit
        residual = fit.sensors().standardised_residual if fit.is_known else None
        return saved(plot_series(chosen_series(fit.series, names), residual, ax), path)
