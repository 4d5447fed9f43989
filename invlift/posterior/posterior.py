"""A run with everything needed to read it: draws, mesh, sensors, prior."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from invlift.errors import InputError
from invlift.posterior.figures.field_plots import plot_fields
from invlift.posterior.figures.scalar_plots import (
    parameters_of,
    plot_chains,
    plot_parameters,
    titles_of,
)
from invlift.posterior.figures.sensor_plots import plot_leave_one_out, plot_sensors
from invlift.posterior.figures.series import (
    Series,
    chosen_series,
    in_time,
    plot_series,
    readings_along,
    series_of,
)
from invlift.posterior.figures.style import saved
from invlift.posterior.names import NOISE_SCORE, OBSERVED, PREDICTED, path_name
from invlift.posterior.output.files import record_of, sensor_table, write_results
from invlift.posterior.statistics import in_mesh, labelled
from invlift.posterior.statistics.diagnostics import Diagnostics, diagnose
from invlift.posterior.statistics.fields import fields_of, of_all_draws
from invlift.posterior.statistics.leave_one_out import LeaveOneOut, leave_one_out
from invlift.posterior.statistics.next_sensors import NextSensors, next_sensors
from invlift.posterior.statistics.parts import (
    Chain,
    Mesh,
    ReadingNoise,
    Readings,
    check_chains,
    check_fit,
    every_of,
)
from invlift.posterior.statistics.quantity import Quantity, described
from invlift.posterior.statistics.scalars import (
    chosen,
    scalar_draws,
    summarise,
    unknown_entries,
    vector_draws,
)
from invlift.posterior.statistics.sensor_fit import (
    SensorStatistics,
    misfit_p_value,
    sensor_statistics,
)
from invlift.posterior.verdict import Verdict, verdict_of
from invlift.standards import NO_STANDARDS, Standards

if TYPE_CHECKING:
    from arviz import InferenceData

NOISE_SEED = 0  # of the new readings in posterior_predictive


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of a run, read as a posterior.

    The methods `plot_...` return a Matplotlib figure and save it where `path` says, if anywhere, in
    the format of its ending.

    Attributes
    ----------
    chains : sequence of Chain
        Draws by name, (num_draws, ...) each. Those of "predicted" and "noise_score", (num_draws,
        d), are the noise-free readings and the noise variables that explain the readings, standard
        normal before these.
    quantities : sequence of Quantity
        What the draws are of, with axes and units. A draw that is not described is a scalar or an
        array without coordinates.
    mesh, sensors : Mesh, Readings or None
        Of the fields among the quantities, to write and draw them. A sensor table may take the
        place of readings, whose `sigma`, if it has one, is the noise's scale.
    noise, standards : ReadingNoise or None, Standards
        By what new readings and the likelihood of the readings are found, and by what the sampler's
        statistics are judged: the `standards` of the run.
    num_draws_requested, compile_seconds, is_interrupted : int, float, bool or None
        Draws per chain that were asked for, time to compile what the chains ran, and whether the
        run was stopped before it was done.
    exceedance : sequence of float
        Thresholds of the conductivity, in its unit, whose probabilities of being exceeded are
        among the fields.
    objections : sequence of str
        What was found about the problem before it was sampled that makes it a doubtful one.
    doubts : sequence of (str, str)
        What was found about the model at the draws, and what to do.
    boundary_flux : callable or None
        ``boundary_flux(group, experiment)``: names of the unknowns beside the field that the flux
        through a boundary group depends on, the name of the solution, and the function that makes
        fluxes, (k,), of draws of all of them, (k, N), and of the solution, (k, num_nodes), if any.

    Raises
    ------
    InputError
        On construction, if the parts do not fit together or hold no draws.
    """

    chains: Sequence[Chain]
    quantities: Sequence[Quantity] = ()
    mesh: Mesh | None = None
    sensors: Readings | None = None
    noise: ReadingNoise | None = None
    standards: Standards = NO_STANDARDS
    num_draws_requested: int | None = None
    compile_seconds: float | None = None
    is_interrupted: bool | None = None
    exceedance: Sequence[float] = ()
    objections: Sequence[str] = ()
    doubts: Sequence[tuple[str, str]] = ()
    boundary_flux: Callable[[str, str], tuple[Sequence[str], str, Callable]] | None = None

    def __post_init__(self) -> None:
        shapes = check_chains(self.chains)
        check_fit(shapes, self.described.values(), self.mesh, self.sensors, self.exceedance)

    # -- draws ------------------------------------------------------------------------------------

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self.chains)

    @property
    def num_draws(self) -> int:
        """Number of draws per chain."""
        return max(map(len, self.chains[0].draws.values()))

    def draws(self, name: str) -> list[np.ndarray]:
        """Draws of one quantity: a list of (num_draws, ...) arrays, one per chain, not copied.

        Of a field for which there was no room fewer: draws 0, k, 2 k, ... with `every[name]` = k.
        """
        if name not in self.described:
            known = f"one of {', '.join(sorted(self.described))}"
            raise InputError("posterior", known, repr(name), "ask for a quantity that was stored")
        return self.all_draws[name]

    def __getitem__(self, name: str) -> xr.DataArray:
        """Draws of one quantity, with names, coordinates and unit, as an array of xarray.

        Its axes are chain, draw (or stored_draw) and those of the quantity; see `draws`. Along the
        axis node there are coordinates x, y (and z), along cell those of the cells' middles,
        cell_x, cell_y (and cell_z).
        """
        every, places = {name: every_of(self.chains, name)}, labelled.places_on(self.mesh)
        return labelled.label({name: self.draws(name)}, self.described, every, places)[name]

    @cached_property
    def described(self) -> dict[str, Quantity]:
        """What each of the draws is of, by name."""
        shapes = {name: np.shape(draws)[1:] for name, draws in self.chains[0].draws.items()}
        return described(shapes, self.quantities)

    @property
    def all_draws(self) -> dict[str, list[np.ndarray]]:
        """Draws of every quantity by name, as `draws` gives them."""
        return {name: [chain.draws[name] for chain in self.chains] for name in self.described}

    @property
    def field(self) -> Quantity | None:
        """The field that the equation is about, if there is one."""
        fields = (each for each in self.described.values() if each.place and not each.is_derived)
        return next(fields, None)

    @property
    def has_fit(self) -> bool:
        """Whether there are readings, and predictions of them."""
        return self.sensors is not None and PREDICTED in self.described

    @property
    def _scores(self) -> list[np.ndarray] | None:
        return self.all_draws.get(NOISE_SCORE) if self.has_fit else None

    def replicated(self) -> dict[str, list[np.ndarray]]:
        """New readings of the `arrays`, and along paths by name; empty if the noise is unknown."""
        if self.noise is None or not self.has_fit:
            return {}
        along = readings_along(self._coordinates).items()
        paths = {path_name(name): rows for name, (_, rows) in along}
        every = {path: every_of(self.chains, path) for path in paths if path in self.described}
        paths = {path: rows for path, rows in paths.items() if every.get(path) == 1}
        chains = [chain.draws for chain in self.chains]
        return self.noise.new_readings(np.random.default_rng(NOISE_SEED), chains, paths)

    @property
    def _coordinates(self) -> Mapping[str, Sequence]:
        return in_time(self.sensors) or getattr(self.sensors, "coordinates", {})

    @cached_property
    def series(self) -> list[Series]:
        """What there is along axes of numbers: see `series.series_of`."""
        observed = self.sensors.values if self.has_fit else None
        new = self.replicated() if readings_along(self._coordinates) else {}
        return series_of(self.all_draws, self.described, self._coordinates, observed, new)

    @property
    def arrays(self) -> dict[str, tuple[Mapping, np.ndarray]]:
        """Readings by name, each with its axes: `observed`, or those that are arrays of a model."""
        if self.sensors is None:
            return {}
        if arrays := getattr(self.sensors, "arrays", None):
            return dict(arrays)
        labels = (each.axes.get("sensor") for each in self.described.values())
        axes = {"sensor": next(filter(None, labels), None)}
        return {OBSERVED: (axes, np.asarray(self.sensors.values, dtype=float))}

    @cached_property
    def log_likelihoods(self) -> dict[str, list[np.ndarray]]:
        """Log densities of the `arrays` given each draw, (num_draws, ...) for each chain.

        Along their first axes, as the entries of a vector may have one density; empty if the noise
        is unknown here.
        """
        if self.noise is None or not self.has_fit:
            return {}
        return self.noise.log_likelihoods([chain.draws for chain in self.chains])

    @property
    def log_likelihood(self) -> list[np.ndarray] | None:
        """The same as one array, (num_draws, k) for each chain; None if the noise is unknown."""
        parts = list(zip(*self.log_likelihoods.values(), strict=True))
        flat = [[part.reshape(len(part), -1) for part in each] for each in parts]
        return [np.concatenate(each, axis=1) for each in flat] or None

    @cached_property
    def scalars(self) -> dict[str, list[np.ndarray]]:
        """Draws of the scalars by name: lists of (num_draws,) arrays, one per chain.

        All scalars that are drawn (such as `sigma`); of each field its arithmetic mean
        `log_conductivity_field_mean` and standard deviation `log_conductivity_field_std` (divisor
        N) over its nodes or cells; of a vector of more than 1,000 entries, or of more than 50 along
        an axis of numbers, the same; then the entries of other vectors, as `sigma[0]`, or
        `rate[hare]` where they have coordinates, last of those along an axis of numbers.
        """
        return scalar_draws(self.all_draws, self.described)

    @property
    def titles(self) -> dict[str, str]:
        """What the `scalars` are called where they are shown: with their units, by name."""
        return titles_of(self.scalars, self.described)

    # -- diagnostics ------------------------------------------------------------------------------

    @cached_property
    def scalar_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of each of the `scalars`, with arrays of size 1."""
        return {
            name: diagnose([chain[:, None] for chain in chains], name)
            for name, chains in self.scalars.items()
        }

    @cached_property
    def vector_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics, (N,), of long vectors, flattened matrices and further fields, by name.

        Long are those of more than 1,000 entries, or of more than 50 along an axis of numbers.
        Entries that are known, such as those of a path where it is read exactly, are left out.
        """
        vectors = vector_draws(self.all_draws, self.described)
        if self.field:
            vectors.pop(self.field.name, None)
        found = {}
        for name, draws in vectors.items():
            is_unknown, whole = unknown_entries(draws), of_all_draws(self.chains, name)
            stored = diagnose([chain[:, is_unknown] for chain in draws], name)
            keys = {"r_hat", "ess_bulk"} & {*whole}
            found[name] = replace(stored, **{key: whole[key].ravel()[is_unknown] for key in keys})
        return found

    @cached_property
    def fields_by_place(self) -> dict[str, dict[str, np.ndarray]]:
        """The `fields` at the nodes and those in the cells, by "node" and "cell"."""
        return fields_of(self.chains, self.described, self.quantities, self.exceedance)

    def fields(self) -> dict[str, np.ndarray]:
        """Posterior statistics of the fields, by name.

        For a field problem `log_conductivity_mean`, `_sd`, `_q05`, `_q50`, `_q95`, `_r_hat`,
        `_ess_bulk`, `_ess_tail`, `_mcse_mean`, `_mcse_sd`, `conductivity_mean`, `_q05`, `_q50`,
        `_q95` and for each threshold `conductivity_above_{threshold}`; with a prior standard
        deviation also `variance_reduction` and `log_conductivity_prior_sd`; each one value per node
        or per cell. Always per node, `solution_mean` and `solution_sd` if the chains have kept
        moments of the solution, and `solution_q05`, `_q50`, `_q95` if they have kept draws of it.
        Of any other field the same as of the log-conductivity, without the conductivity, and its
        variance reduction by name.
        """
        return self.fields_by_place["node"] | self.fields_by_place["cell"]

    def sensor_fit(self) -> SensorStatistics:
        """Readings against predictions; an `InputError` without sensors, or predictions."""
        if not self.has_fit:
            expected, found = "sensors and draws of predicted", "neither or only one of them"
            remedy = "pass sensors, and store the predictions while sampling"
            raise InputError("posterior", expected, found, remedy)
        return self._fit

    @cached_property
    def _fit(self) -> SensorStatistics:
        return sensor_statistics(self.draws(PREDICTED), self.sensors.values, self._scores)

    def sensor_table(self) -> pd.DataFrame:
        """A row for each reading, by its name: what `sensor_fit.csv` holds (docs/commands/run.md).

        Where it is, the reading, and what is known of how well it is predicted; an `InputError` if
        there are no readings.
        """
        if self.sensors is None:
            raise InputError("posterior", "readings", "none", "pass sensors")
        return sensor_table(self)

    @cached_property
    def misfit_p_value(self) -> float | None:
        """See `sensor_fit.misfit_p_value`; None if the noise variables are unknown here."""
        return None if self._scores is None else misfit_p_value(self._scores)

    @cached_property
    def loo(self) -> LeaveOneOut | None:
        """What `leave_one_out` returns, or None where that raises an error."""
        if self.log_likelihood is None:
            return None
        return leave_one_out(self.log_likelihood, self._scores if self.is_loo_of_sensors else None)

    @property
    def is_loo_of_sensors(self) -> bool:
        """Whether leave-one-out predictions are of the sensors' readings, one for each.

        Not where some readings have no noise variables, or several one density.
        """
        sizes = [np.size(values) for _, values in self.arrays.values()]
        num_logs = [math.prod(each[0].shape[1:]) for each in self.log_likelihoods.values()]
        return sizes == num_logs and sum(sizes) == len(self.sensors.values)

    def leave_one_out(self) -> LeaveOneOut:
        """Leave-one-out predictions of the readings, by Pareto smoothed importance sampling.

        An `InputError` if there are no sensors, no draws of "predicted", fewer than 25 draws in
        all or none that differ, or the density of the noise is unknown here.
        """
        if self.log_likelihood is None:
            expected, found = "readings, draws of predicted, and noise of known density", "not all"
            remedy = "store the predictions while sampling, and pass the noise"
            raise InputError("posterior", expected, found, remedy)
        if self.loo is None:
            found = f"{sum(map(len, self.log_likelihood))}"
            expected = "25 draws in all, or more, that differ from each other"
            raise InputError("leave-one-out", expected, found, "run for longer")
        return self.loo

    def summary(self) -> pd.DataFrame:
        """Table of the scalars: see `scalars.summarise`."""
        return summarise(self.scalars, self.scalar_diagnostics)

    def verdict(self) -> Verdict:
        """Whether the draws can be trusted, and if not, why and what to do."""
        return verdict_of(self)

    # -- fields at places of the mesh -------------------------------------------------------------

    def at(self, points: np.ndarray, name: str | None = None) -> xr.DataArray:
        """Draws of a field at points, with axes chain, draw and point.

        Or stored_draw, where not all draws are stored. Points are (k, dim), in the length unit of
        the mesh; `name` is the field, "solution" or "conductivity" say, by default the one that the
        equation is about. An `InputError` if there is no such field, or a point is outside.
        """
        return in_mesh.values_at(self, points, name)

    def mean_over(self, group: str | None = None, name: str | None = None) -> xr.DataArray:
        """Draws of the mean of a field over a part of the mesh, with the axes chain and draw.

        The part is a subdomain or boundary group of the mesh, by default the whole body; the field
        is as for `at`. An `InputError` if there is no such field or group.
        """
        return in_mesh.mean_over(self, group, name)

    def flux(self, group: str, experiment: str = "") -> xr.DataArray:
        """Draws of the flux into the body through a boundary group of the mesh, or its "boundary".

        The integral of exp(phi) du/dn over the group, n outwards, as a reading of kind "flux" has
        it: of the stored draws of field and solution, or where no solutions are stored of the
        equation solved once more for each draw. Where u is held, it is the consistent flux, by the
        residual of the discrete equation (Carey 1982; Hughes, Engel, Mazzei & Larson 2000, section
        2), which balances the source exactly and is of second order; on a group of a Robin
        condition the integral of coefficient * (ambient - u). Through other groups it is given, or
        nothing.

        Axes are chain and draw (or stored_draw, of the draws for which both are stored); the
        attribute `units` is C U in the plane, for each unit of thickness, and C U L in space, with
        the units of docs/notation.md, and the solution's own in place of U if it is known.

        Parameters
        ----------
        group : str
        experiment : str, optional
            Which of several it is of.

        Raises
        ------
        InputError
            If there is no such experiment or group, a facet of it is inside the body, the flux
            through it is given, or a problem is not one of a field with stored draws.
        """
        return in_mesh.flux(self, group, experiment)

    def next_sensors(self, num: int = 5, name: str | None = None) -> NextSensors:
        """Where one more reading would tell most, and the best `num` places one after the other.

        By the covariances of the draws, for a reading with the noise of a usual one of today.

        Parameters
        ----------
        num : int
            Places to choose.
        name : str or None
            What is to be known better: a field, everywhere, or a scalar of `summary`; by default
            the field that the equation is about.

        Returns
        -------
        NextSensors
            An `InputError` if there are no stored draws of a solution, no such quantity, all of
            its draws are equal, or `num` is not positive.
        """
        return next_sensors(self, num, name)

    # -- pictures: `path` says where to save one, in the format of its ending ----------------------

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

        Mean and standard deviation of the log-conductivity; mean of the solution with the sensors
        filled by their readings (or of the conductivity, if no solution was kept); variance
        reduction, if the prior standard deviation is known. For a model of one's own mean, standard
        deviation and variance reduction of each field. Units are to be written on the axes, e.g.
        "m", "W/(m K)", "K"; the solution is, e.g., "Temperature". An `InputError` without a mesh.
        """
        units = conductivity_unit, solution_name, solution_unit
        return saved(plot_fields(self, length_unit, *units), path)

    def plot_chains(
        self, path: str | os.PathLike | None = None, *, names: Sequence[str] | None = None
    ) -> Figure:
        """Draw traces and ranks of scalars: see `scalar_plots.plot_chains`.

        `names` are some of the `scalars`, or there is an `InputError`; the name of a vector stands
        for its first entries. Without them the first eight are drawn.
        """
        shown = chosen(self.scalars, names)
        return saved(plot_chains(shown, self.scalar_diagnostics, self.titles), path)

    def plot_parameters(
        self, path: str | os.PathLike | None = None, *, names: Sequence[str] | None = None
    ) -> Figure:
        """Draw scalars beside their priors, and pairs: see `scalar_plots.plot_parameters`.

        `names` are as of :meth:`plot_chains`. Without them the first eight whose prior density is
        known are drawn, or if there is none of these the first eight; an `InputError` if there is
        no scalar at all.
        """
        names = names or parameters_of(self.scalars, self.described)
        return saved(plot_parameters(chosen(self.scalars, names), self.described), path)

    def plot_leave_one_out(self, path: str | os.PathLike | None = None) -> Figure:
        """Draw leave-one-out probabilities and Pareto k: see `sensor_plots.plot_leave_one_out`."""
        labels = getattr(self.sensors, "labels", None)
        return saved(plot_leave_one_out(self.leave_one_out(), labels), path)

    def plot_sensors(
        self, path: str | os.PathLike | None = None, *, quantity: str = "reading"
    ) -> Figure:
        """Draw predictions against readings: see `sensor_plots.plot_sensors`."""
        labels = getattr(self.sensors, "labels", None)
        return saved(plot_sensors(self.sensor_fit(), quantity, labels), path)

    def plot_series(
        self, path: str | os.PathLike | None = None, *, names: Sequence[str] | None = None
    ) -> Figure:
        """Draw what there is along an axis of numbers: see `series.plot_series`.

        `names` are of readings with such an axis, and of other quantities that have one, or there
        is an `InputError`. Without them the first twelve are drawn, those with readings first.
        """
        residual = self.sensor_fit().standardised_residual if self.has_fit else None
        return saved(plot_series(chosen_series(self.series, names), residual), path)

    # -- files ------------------------------------------------------------------------------------

    def to_arviz(self) -> InferenceData | xr.DataTree:
        """Everything in ArviZ's layout: `InferenceData` under ArviZ 0.x, `DataTree` under 1.x."""
        return labelled.to_arviz(dict(labelled.groups_of(self)))

    def record(self) -> dict[str, Any]:
        """Sizes, times, counts and verdict of the run, for `run.json`."""
        return record_of(self)

    def write(
        self, directory: str | os.PathLike, run_info: Mapping[str, Any] | None = None
    ) -> list[Path]:
        """Write all results to a folder, made if it does not exist; return the paths.

        `posterior.vtu` (if there is a mesh), `sensor_fit.csv` (if there are readings),
        `sensors.vtu` (if sensors have positions), `summary.csv`, `posterior.nc`, `run.json`, and
        `draws.pvd` (if there is a mesh) with some draws of the field. Each is complete or absent;
        older ones are replaced. `run_info` is what `run.json` should say
        beyond `record()`: versions, seed, hash of the mesh; its keys take precedence.
        """
        return write_results(self, Path(directory), self.record() | dict(run_info or {}))

    def __str__(self) -> str:
        """Return summary and verdict as text."""
        table = self._titled_summary().to_string(float_format="{:.4g}".format)
        return f"{table}\n\n{self.verdict()}"

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        table = self._titled_summary().to_html(float_format="{:.4g}".format)
        return f"{table}{self.verdict()._repr_html_()}"

    def _titled_summary(self) -> pd.DataFrame:
        return self.summary().rename(index=self.titles)
