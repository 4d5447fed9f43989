"""Figures of a posterior."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from invlift.errors import InputError
from invlift.posterior import parameter_plots, plots, sensor_plots, series_plots
from invlift.posterior.along_axis import places_of_residuals
from invlift.posterior.names import FIELD
from invlift.posterior.plots import Panel
from invlift.posterior.quantities import chosen
from invlift.posterior.quantity import Quantity
from invlift.posterior.slices import flatten


class Figures:
    """Methods of a posterior that draw what it can tell."""

    def plot_fields(
        self,
        path: str | os.PathLike | None = None,
        *,
        length_unit: str = "",
        conductivity_unit: str = "",
        solution_name: str = "Solution",
        solution_unit: str = "",
    ) -> Figure:
        """Draw an overview in four panels; of a mesh in space, the slice through its middle.

        Parameters
        ----------
        path : path-like or None
            Where to save the figure, in the format of its ending.
        length_unit, conductivity_unit, solution_unit : str
            Units to write on the axes, e.g. "m", "W/(m K)", "K".
        solution_name : str
            What the solution is, e.g. "Temperature".

        Returns
        -------
        matplotlib.figure.Figure
            Mean and standard deviation of the log-conductivity; mean of the solution with the
            sensors filled by their readings (or of the conductivity, if no solution was kept);
            variance reduction, if the prior standard deviation is known. For a model of one's own
            mean, standard deviation and variance reduction of each field.

        Raises
        ------
        InputError
            If there is no mesh.
        """
        if self.mesh is None or self._field is None:
            raise InputError(
                "plot of fields", "a posterior on a mesh", "a model without one", "plot the chains"
            )
        if self._field.name == FIELD:
            panels = _overview(
                self.fields(),
                self._field.place == "node",
                getattr(self.sensors, "values", None),
                conductivity_unit=conductivity_unit,
                solution_name=solution_name,
                solution_unit=solution_unit,
            )
        else:
            named = self._described.values()
            named = [each for each in named if each.place and not each.is_derived]
            panels = _panels_of(self.fields(), named)
        flat = flatten(self.mesh.points, self.mesh.cells)
        figure = plots.plot_panels(flat, panels, getattr(self.sensors, "points", None), length_unit)
        return plots.saved(figure, path)

    def plot_chains(
        self, path: str | os.PathLike | None = None, *, names: Sequence[str] | None = None
    ) -> Figure:
        """Draw traces and ranks of scalars: see `plots.plot_chains`.

        Parameters
        ----------
        path : path-like or None
            Where to save the figure, in the format of its ending.
        names : sequence of str or None
            Which of the `scalars`; the name of a vector stands for its first entries. Without them
            the first eight.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            If there is no scalar of a name.
        """
        scalars = chosen(self.scalars, names)
        return plots.saved(plots.plot_chains(scalars, self.scalar_diagnostics), path)

    def plot_parameters(
        self, path: str | os.PathLike | None = None, *, names: Sequence[str] | None = None
    ) -> Figure:
        """Draw scalars beside their priors, and pairs: see `parameter_plots.plot_parameters`.

        Parameters
        ----------
        path : path-like or None
            Where to save the figure, in the format of its ending.
        names : sequence of str or None
            As of :meth:`plot_chains`. Without them the first eight whose prior density is known, or
            if there is none of these the first eight.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            If there is no scalar of a name, or none at all.
        """
        if not self.scalars:
            found = "fields or matrices alone"
            raise InputError("plot of parameters", "draws of a scalar", found, "plot the fields")
        names = names or parameter_plots.parameters_of(self.scalars, self._described)
        scalars = chosen(self.scalars, names)
        return plots.saved(parameter_plots.plot_parameters(scalars, self._described), path)

    def plot_leave_one_out(self, path: str | os.PathLike | None = None) -> Figure:
        """Draw leave-one-out probabilities and Pareto k: see `sensor_plots.plot_leave_one_out`."""
        labels = getattr(self.sensors, "labels", None)
        return plots.saved(sensor_plots.plot_leave_one_out(self.leave_one_out(), labels), path)

    def plot_sensors(
        self, path: str | os.PathLike | None = None, *, quantity: str = "reading"
    ) -> Figure:
        """Draw predictions against readings: see `sensor_plots.plot_sensors`."""
        labels = getattr(self.sensors, "labels", None)
        fit = self.sensor_fit()
        places = places_of_residuals(self._series, len(fit.observed))
        figure = sensor_plots.plot_sensors(fit, quantity, labels, places)
        return plots.saved(figure, path)

    @property
    def has_series(self) -> bool:
        """Whether there is something along an axis of numbers, for `plot_series`."""
        return bool(self._series)

    def plot_series(
        self, path: str | os.PathLike | None = None, *, names: Sequence[str] | None = None
    ) -> Figure:
        """Draw what there is along an axis of numbers, such as time.

        See `series_plots.plot_series`.

        Parameters
        ----------
        path : path-like or None
            Where to save the figure, in the format of its ending.
        names : sequence of str or None
            Of readings with such an axis, and of other quantities that have one. Without them the
            first eight, those with readings before the others.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            If there is nothing of the kind, or not by a name.
        """
        known = {each.name: each for each in self._series}
        for name in names if names is not None else [] if known else [""]:
            if name not in known:
                expected = f"some of {', '.join(known)}" if known else "draws along numbers"
                found = repr(name) if known else "none that have such an axis"
                remedy = "name axes and coordinates: argument axes of inverse_problem"
                raise InputError("plot of series", expected, found, remedy)
        shown = [known[name] for name in (names or known)]
        residual = self.sensor_fit().standardised_residual if self._has_fit else None
        return plots.saved(series_plots.plot_series(shown, residual), path)


def _panels_of(fields: Mapping[str, np.ndarray], quantities: Iterable[Quantity]) -> list[Panel]:
    """Panels of fields of a model of one's own: of each mean, sd and variance reduction."""
    panels = []
    for each in quantities:
        name, is_nodal = each.name, each.place == "node"
        panels += [
            Panel(
                f"{name}, posterior mean", fields[f"{name}_mean"], is_nodal, "viridis", each.unit
            ),
            Panel(f"{name}, posterior sd", fields[f"{name}_sd"], is_nodal, "magma", each.unit),
        ]
        if f"{name}_variance_reduction" in fields:
            reduction = fields[f"{name}_variance_reduction"]
            panels.append(
                Panel(f"{name}, variance reduction", reduction, is_nodal,
                      "cividis", "of prior variance", is_share=True)
            )  # fmt: skip
    return panels


def _overview(
    fields: Mapping[str, np.ndarray],
    is_nodal: bool,
    readings: np.ndarray | None = None,
    *,
    conductivity_unit: str = "",
    solution_name: str = "Solution",
    solution_unit: str = "",
) -> list[Panel]:
    """Panels of `Figures.plot_fields`, of readings (d,) to fill the sensors' marks with."""
    log_unit = f"ln k, k in {conductivity_unit}" if conductivity_unit else ""
    panels = [
        Panel("Log-conductivity, posterior mean", fields[f"{FIELD}_mean"], is_nodal,
              "viridis", log_unit),
        Panel("Log-conductivity, posterior sd", fields[f"{FIELD}_sd"], is_nodal, "magma"),
    ]  # fmt: skip
    if "solution_mean" in fields:
        panels.append(
            Panel(f"{solution_name}, posterior mean", fields["solution_mean"], True,
                  "inferno", solution_unit, sensor_values=readings)
        )  # fmt: skip
    else:
        panels.append(
            Panel("Conductivity, posterior mean", fields["conductivity_mean"], is_nodal,
                  "plasma", conductivity_unit)
        )  # fmt: skip
    if "variance_reduction" in fields:
        panels.append(
            Panel("Variance reduction", fields["variance_reduction"], is_nodal,
                  "cividis", "of prior variance", is_share=True)
        )  # fmt: skip
    return panels
