"""The posterior of a run: draws, mesh, sensors and prior, with statistics, figures and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from invlift.posterior.figures.plots import Plots
from invlift.posterior.output.files import record_of, write_results
from invlift.posterior.output.groups import groups_of
from invlift.posterior.statistics import in_mesh
from invlift.posterior.statistics.labelled import to_arviz
from invlift.posterior.statistics.next_sensors import NextSensors, next_sensors
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from arviz import InferenceData

#: Names of earlier versions, and their replacements.
_MOVED = {
    **{f"plot_{name}": f"plot.{name}" for name in (
        "fields", "chains", "parameters", "leave_one_out", "sensors", "series",
    )},
    "sensor_fit": "fit.sensors", "sensor_table": "fit.table", "loo": "fit.leave_one_out()",
    "leave_one_out": "fit.leave_one_out", "replicated": "fit.new_readings",
    **{name: f"fit.{name}" for name in (
        "arrays", "log_likelihood", "log_likelihoods", "misfit_p_value", "series",
    )},
}  # fmt: skip


class Posterior(PosteriorStatistics):
    """Draws of a run with their statistics, pictures and files.

    `problem.posterior(run)` and `invlift.load(folder)` return one. `posterior.plot` has the
    figures, `posterior.fit` compares readings and predictions.

    Parameters
    ----------
    chains : sequence of Chain
        Draws by name, (num_draws, ...) each, in their units.
    quantities : sequence of Quantity, optional
        Axes and unit of each quantity that is drawn. Without a description a quantity is a scalar
        or an array without coordinates.
    mesh : Mesh or None
        The mesh of the fields; lengths are in its unit.
    sensors : Readings, Sensors or None
        The readings, (d,).
    noise : ReadingNoise or None
        The noise, for new readings and likelihoods of readings.
    standards : Standards, optional
        Limits for the statistics of the sampler.
    num_draws_requested, num_chains_requested : int or None
        Numbers of draws per chain and of chains that the user requested.
    compile_seconds, is_interrupted : float, bool or None
        Compile time in seconds, and whether the run was stopped early.
    exceedance : sequence of float, optional
        Conductivities, in their unit, for which the probability of a larger one is a field.
    materials : mapping of str to float or str, optional
        Of a field that consists of materials, the conductivity of each, or the name of its draws.
    objections : sequence of str, optional
        Doubts about the problem from the check before the run.
    doubts : sequence of (str, str), optional
        Doubts about the model at the draws, with a remedy each.
    boundary_flux : callable or None
        See :class:`~invlift.posterior.draws.PosteriorDraws`.
    mesh_error : (num_nodes,) array or None
        Contribution of the mesh near each node to the errors of the readings, in standard
        deviations of their noise.

    Raises
    ------
    InputError
        If the parts do not fit together or contain no draws.
    """

    @cached_property
    def plot(self) -> Plots:
        """The figures: `posterior.plot.fields("fields.png")`, `posterior.plot.chains(ax=axes)`."""
        return Plots(self)

    def verdict(self) -> Verdict:
        """Judge whether the draws can be trusted, and if not, say why and what to do."""
        return verdict_of(self)

    # -- fields at places of the mesh -------------------------------------------------------------

    def at(self, points: np.ndarray, name: str | None = None) -> xr.DataArray:
        """Return the draws of a field at points.

        Parameters
        ----------
        points : (k, dim)
            Positions, in the length unit of the mesh.
        name : str or None
            The field, "solution" or "conductivity" for example; by default the unknown field of
            the equation.

        Returns
        -------
        DataArray
            Axes chain, draw and point; stored_draw in place of draw if not all draws are stored.
            The attribute `units` is the unit of the field if it is known.

        Raises
        ------
        InputError
            If there is no such field, or a point is outside the mesh.
        """
        return in_mesh.values_at(self, points, name)

    def mean_over(self, group: str | None = None, name: str | None = None) -> xr.DataArray:
        """Return the draws of the mean of a field over a part of the mesh.

        Parameters
        ----------
        group : str or None
            A subdomain or boundary group of the mesh; by default the whole body.
        name : str or None
            The field, as for `at`.

        Returns
        -------
        DataArray
            Axes chain and draw, in the unit of the field.

        Raises
        ------
        InputError
            If there is no such field or group.
        """
        return in_mesh.mean_over(self, group, name)

    def flux(self, group: str, experiment: str = "") -> xr.DataArray:
        """Return the draws of the flux into the body through a boundary group, or its "boundary".

        The flux is the integral of exp(phi) du/dn over the group, with n outwards, as for a reading
        of kind "flux". It uses the stored draws of field and solution. If no solutions are stored,
        the equation is solved once more for each draw. On a Dirichlet group it is the consistent
        flux, from the residual of the discrete equation (Carey 1982; Hughes, Engel, Mazzei & Larson
        2000, section 2), which balances the source exactly and is of second order. On a Robin group
        it is the integral of coefficient * (ambient - u). On other groups the flux is prescribed or
        zero, and there is nothing to compute.

        Axes are chain and draw, or stored_draw if not all draws of both are stored. The attribute
        `units` is C U in the plane, per unit of thickness, and C U L in space and with a thickness,
        with the units of docs/notation.md. The unit of the solution replaces U if it is known.

        Parameters
        ----------
        group : str
            A boundary group of the mesh, or "boundary".
        experiment : str, optional
            The name of the experiment, if there are several.

        Returns
        -------
        DataArray
            Axes chain and draw, or stored_draw.

        Raises
        ------
        InputError
            If there is no such experiment or group, a facet of the group is inside the body, the
            flux through the group is prescribed, or the problem has no field with stored draws.
        """
        return in_mesh.flux(self, group, experiment)

    def next_sensors(self, num: int = 5, name: str | None = None) -> NextSensors:
        """Find the `num` places where further readings reduce the uncertainty most, one by one.

        It uses the covariances of the draws, for a reading with the median noise of the present
        readings.

        Parameters
        ----------
        num : int
            Number of places to choose.
        name : str or None
            The quantity whose variance is to be reduced: a field, everywhere, or a scalar of
            `summary`; by default the unknown field of the equation.

        Returns
        -------
        NextSensors

        Raises
        ------
        InputError
            If there are no stored draws of a solution, there is no such quantity, all of its draws
            are equal, or `num` is not positive.
        """
        return next_sensors(self, num, name)

    # -- files ------------------------------------------------------------------------------------

    def to_arviz(self) -> InferenceData | xr.DataTree:
        """Convert to the layout of ArviZ: `InferenceData` under ArviZ 0.x, `DataTree` under 1.x."""
        return to_arviz(dict(groups_of(self)))

    def record(self) -> dict[str, Any]:
        """Return the sizes, times, counts and verdict of the run, for `run.json`."""
        return record_of(self)

    def write(
        self, directory: str | os.PathLike, run_info: Mapping[str, Any] | None = None
    ) -> list[Path]:
        """Write all results to a folder.

        The files are `posterior.vtu` (if there is a mesh), `sensor_fit.csv` (if there are
        readings), `sensors.vtu` (if sensors have positions), `summary.csv`, `posterior.nc`,
        `run.json`, and `draws.pvd` (if there is a mesh) with some draws of the field. Each file is
        complete or absent. Older files are replaced.

        Parameters
        ----------
        directory : path
            The folder; it is created if it does not exist.
        run_info : mapping of str, optional
            Further entries of `run.json`, such as versions and the seed; they replace those of
            `record()`.

        Returns
        -------
        list of Path
            The files.

        Raises
        ------
        InputError
            If a field does not fit the mesh.
        """
        return write_results(self, Path(directory), self.record() | dict(run_info or {}))

    def __str__(self) -> str:
        """Return summary and verdict as text."""
        table = self._titled_summary().to_string(float_format="{:.4g}".format)
        return f"{table}\n\n{self.verdict()}"

    def _repr_html_(self) -> str:
        """Return summary and verdict as HTML for notebooks."""
        table = self._titled_summary().to_html(float_format="{:.4g}".format)
        return f"{table}{self.verdict()._repr_html_()}"

    def _titled_summary(self) -> pd.DataFrame:
        return self.summary().rename(index=self.titles)

    def __getattr__(self, name: str):
        """Raise an error that names the new place of an attribute of earlier versions."""
        where = f"; it is posterior.{_MOVED[name]} now" if name in _MOVED else ""
        raise AttributeError(f"Posterior has no attribute {name!r}{where}")
