"""Figures of a posterior, as methods."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from invlift.posterior.figures.field_plots import plot_fields
from invlift.posterior.figures.scalar_plots import parameters_of, plot_chains, plot_parameters
from invlift.posterior.figures.sensor_plots import plot_leave_one_out, plot_sensors
from invlift.posterior.figures.series import plot_series
from invlift.posterior.figures.style import GivenAxes, Panels, saved
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.series import chosen_series
from invlift.units import with_unit

#: File of a figure, and names of what is drawn.
SavedAs, Names = str | os.PathLike | None, Sequence[str] | None


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
        path: SavedAs = None,
        *,
        names: Names = None,
        length_unit: str = "",
        conductivity_unit: str = "",
        solution_name: str = "Solution",
        solution_unit: str = "",
        ax: GivenAxes = None,
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

    def chains(self, path: SavedAs = None, *, names: Names = None, ax: GivenAxes = None) -> Panels:
        """Plot traces and ranks of scalars, two panels each: see `scalar_plots.plot_chains`.

        `names` are some of the `scalars`; the name of a vector selects its first entries. The
        default is the first eight scalars. Raises an `InputError` if a name is unknown.
        """
        return saved(plot_chains(self.posterior, names, ax), path)

    def parameters(
        self, path: SavedAs = None, *, names: Names = None, ax: GivenAxes = None
    ) -> Panels:
        """Plot scalars with their priors, and pairs: see `scalar_plots.plot_parameters`.

        `names` are as for :meth:`chains`. The default is the first eight scalars with a known prior
        density, or if there are none the first eight scalars. k scalars give k x k panels. Raises
        an `InputError` if there are no scalars.
        """
        names = names or parameters_of(self.posterior)
        return saved(plot_parameters(self.posterior, names, ax), path)

    def leave_one_out(self, path: SavedAs = None, *, ax: GivenAxes = None) -> Panels:
        """Plot leave-one-out probabilities and Pareto k: see `sensor_plots.plot_leave_one_out`."""
        labels = self.posterior.readings.labels
        return saved(plot_leave_one_out(self.posterior.fit.leave_one_out(), labels, ax), path)

    def sensors(self, path: SavedAs = None, *, quantity: str = "", ax: GivenAxes = None) -> Panels:
        """Plot predictions against readings, and residuals: see `sensor_plots.plot_sensors`.

        The default of `quantity` is "reading" with its unit.
        """
        fit, labels = self.posterior.fit, self.posterior.readings.labels
        quantity = quantity or with_unit("reading", fit.unit)
        return saved(plot_sensors(fit.sensors(), quantity, labels, ax), path)

    def series(self, path: SavedAs = None, *, names: Names = None, ax: GivenAxes = None) -> Panels:
        """Plot quantities along an axis of numbers: see `series.plot_series`.

        `names` are names of readings with such an axis, or of other quantities with one. The
        default is the first twelve, those with readings first. Given axes have one panel for each,
        without residuals. Raises an `InputError` if a name is unknown.
        """
        fit = self.posterior.fit
        residual = fit.sensors().standardised_residual if fit.is_known else None
        return saved(plot_series(chosen_series(fit.series, names), residual, ax), path)
