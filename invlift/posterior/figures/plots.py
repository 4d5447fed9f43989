"""Figures of a posterior, as methods."""

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
from invlift.posterior.figures.style import Panels, saved, with_unit
from invlift.posterior.names import PREDICTED
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.parts import unit_of_readings
from invlift.posterior.statistics.scalars import chosen
from invlift.posterior.statistics.series import chosen_series


@dataclass(frozen=True, eq=False)
class Plots:
    """Figures of a posterior: `posterior.plot`.

    Each method makes a new figure, or uses given axes: `ax` has one for each panel, row by row. It
    returns the axes, whose `figure` a notebook shows, and writes the figure to `path`, if given, in
    the format of its ending.  Raises an `InputError` if the number of axes is wrong, or a figure
    cannot be written in this format.
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
        """Plot an overview in four panels; in 3D a slice through the middle of the mesh.

        The panels are mean and standard deviation of the log-conductivity; mean of the solution
        with sensors coloured by their readings (or of the conductivity, if no solution was stored);
        and variance reduction, if the prior standard deviation is known. A model of the user has
        mean, standard deviation and variance reduction of each field. `names` selects some of
        `posterior.fields()`, one panel each. Units are texts for the axes, e.g. "m", "W/(m K)",
        "K"; the name of the solution is, e.g., "Temperature". Raises an `InputError` without a
        mesh.
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
        """Plot traces and ranks of scalars, two panels each: see `scalar_plots.plot_chains`.

        `names` are some of the `scalars`; the name of a vector selects its first entries. The
        default is the first eight scalars. Raises an `InputError` if a name is unknown.
        """
        posterior = self.posterior
        shown = chosen(posterior.scalars, names)
        titles = titles_of(posterior.scalars, posterior.described)
        return saved(plot_chains(shown, posterior.scalar_diagnostics, titles, ax), path)

    def parameters(
        self,
        path: str | os.PathLike | None = None,
        *,
        names: Sequence[str] | None = None,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Panels:
        """Plot scalars with their priors, and pairs: see `scalar_plots.plot_parameters`.

        `names` are as for :meth:`chains`. The default is the first eight scalars with a known prior
        density, or if there are none the first eight scalars. k scalars give k x k panels. Raises
        an `InputError` if there are no scalars.
        """
        posterior = self.posterior
        names = names or parameters_of(posterior.scalars, posterior.described)
        return saved(
            plot_parameters(chosen(posterior.scalars, names), posterior.described, ax), path
        )

    def leave_one_out(
        self, path: str | os.PathLike | None = None, *, ax: Axes | Sequence[Axes] | None = None
    ) -> Panels:
        """Plot leave-one-out probabilities and Pareto k: see `sensor_plots.plot_leave_one_out`."""
        labels = getattr(self.posterior.sensors, "labels", None)
        return saved(plot_leave_one_out(self.posterior.fit.leave_one_out(), labels, ax), path)

    def sensors(
        self,
        path: str | os.PathLike | None = None,
        *,
        quantity: str = "",
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Panels:
        """Plot predictions against readings, and residuals: see `sensor_plots.plot_sensors`.

        The default of `quantity` is "reading" with its unit.
        """
        predicted = self.posterior.described.get(PREDICTED)
        unit = unit_of_readings(predicted, self.posterior.sensors)
        quantity = quantity or with_unit("reading", unit)
        labels = getattr(self.posterior.sensors, "labels", None)
        return saved(plot_sensors(self.posterior.fit.sensors(), quantity, labels, ax), path)

    def series(
        self,
        path: str | os.PathLike | None = None,
        *,
        names: Sequence[str] | None = None,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Panels:
        """Plot quantities along an axis of numbers: see `series.plot_series`.

        `names` are names of readings with such an axis, or of other quantities with one. The
        default is the first twelve, those with readings first. Given axes have one panel for each,
        without residuals. Raises an `InputError` if a name is unknown.
        """
        fit = self.posterior.fit
        residual = fit.sensors().standardised_residual if fit.is_known else None
        return saved(plot_series(chosen_series(fit.series, names), residual, ax), path)
