"""A run with everything needed to read it: draws, mesh, sensors, prior."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from scipy.sparse import csr_array

from invlift.errors import InputError
from invlift.posterior import files, labelled, plots
from invlift.posterior.agreement import Mesh, check_fields, check_readings
from invlift.posterior.chains import Chain, check_chains, every_of, kept
from invlift.posterior.diagnostics import Diagnostics, diagnose
from invlift.posterior.exceedance import check_thresholds, exceedance_fields
from invlift.posterior.leave_one_out import LeaveOneOut, leave_one_out
from invlift.posterior.names import (
    FIELD,
    NOISE_SCORE,
    PREDICTED,
    SOLUTION,
    prior_sd_name,
    vector_of,
)
from invlift.posterior.overview import field_panels, overview_panels
from invlift.posterior.quantities import (
    derived_statistics,
    field_statistics_of,
    movement,
    scalar_draws,
    vector_draws,
)
from invlift.posterior.quantity import PLACES, Quantity, described
from invlift.posterior.readings import ReadingNoise, SensorTable, sensor_table
from invlift.posterior.record import run_record
from invlift.posterior.slices import flatten
from invlift.posterior.standards import Standards
from invlift.posterior.statistics import SensorStatistics, misfit_p_value, sensor_statistics
from invlift.posterior.verdict import Verdict, judge

NOISE_SEED = 0  # of the new readings in posterior_predictive


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of a run, read as a posterior.

    Attributes
    ----------
    chains : sequence of Chain
        Draws by name, (num_draws, ...) each. Those of "predicted" and "noise_score", (num_draws,
        d), are the noise-free readings and the noise variables that explain the readings, standard
        normal before these.
    quantities : sequence of Quantity
        What the draws are of, with axes and units. A draw that is not described is a scalar or an
        array without coordinates.
    mesh : Mesh or None
        Of the fields among the quantities, to write and draw them.
    sensors : SensorTable or None
        `Readings`, or a sensor table whose column `sigma`, if it has one, is the noise's scale.
    noise : ReadingNoise or None
        What new readings and the likelihood of the readings are found by.
    standards : Standards or None
        By what the sampler's statistics are judged: the `standards` of the run.
    num_draws_requested : int or None
        Draws per chain that were asked for, to notice a run that was cut short.
    compile_seconds : float or None
        Time it took to compile what the chains ran.
    is_interrupted : bool or None
        Whether the run was stopped before it was done.
    exceedance : sequence of float
        Thresholds of the conductivity, in its unit, whose probabilities of being exceeded are
        among the fields.
    objections : sequence of str
        What was found about the problem before it was sampled that makes it a doubtful one.
    boundary_flux : callable or None
        ``boundary_flux(group, log_conductivity, solution)``, of (k, N) and (k, num_nodes) arrays:
        what flows through a boundary group, (k,).

    Raises
    ------
    InputError
        On construction, if the parts do not fit together or hold no draws.
    """

    chains: Sequence[Chain]
    quantities: Sequence[Quantity] = ()
    mesh: Mesh | None = None
    sensors: SensorTable | None = None
    noise: ReadingNoise | None = None
    standards: Standards | None = None
    num_draws_requested: int | None = None
    compile_seconds: float | None = None
    is_interrupted: bool | None = None
    exceedance: Sequence[float] = ()
    objections: Sequence[str] = ()
    boundary_flux: Callable[[str, np.ndarray, np.ndarray], np.ndarray] | None = None

    def __post_init__(self) -> None:
        shapes = check_chains(self.chains)
        check_fields(shapes, self._described.values(), self.mesh)
        check_readings(shapes, self.sensors)
        check_thresholds(self.exceedance)
        if len(self.exceedance) and FIELD not in shapes:
            raise InputError(
                "posterior, exceedance",
                f"draws of {FIELD}",
                "none",
                "leave exceedance out for a model of your own",
            )

    # -- pieces -----------------------------------------------------------------------------------

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
        if not self._has(name):
            raise InputError(
                "posterior",
                f"one of {', '.join(sorted(self.chains[0].draws))}",
                repr(name),
                "ask for a quantity that was stored",
            )
        return self._draws[name]

    @cached_property
    def _described(self) -> dict[str, Quantity]:
        """What each of the draws is of."""
        shapes = {name: np.shape(draws)[1:] for name, draws in self.chains[0].draws.items()}
        return described(shapes, self.quantities)

    @property
    def _draws(self) -> dict[str, list[np.ndarray]]:
        return {name: [chain.draws[name] for chain in self.chains] for name in self.chains[0].draws}

    def _has(self, name: str) -> bool:
        return name in self.chains[0].draws

    @property
    def _has_fit(self) -> bool:
        return self.sensors is not None and self._has(PREDICTED)

    def _sensor_data(self, name: str) -> np.ndarray | None:
        return None if self.sensors is None else getattr(self.sensors, name)

    @property
    def _scores(self) -> list[np.ndarray] | None:
        """Noise variables that explain the readings, if they are drawn."""
        return self.draws(NOISE_SCORE) if self._has(NOISE_SCORE) else None

    def _replicated(self) -> list[np.ndarray] | None:
        """New readings for each draw; None if the noise is unknown here."""
        if self.noise is None or not self._has_fit:
            return None
        rng = np.random.default_rng(NOISE_SEED)
        return self.noise.new_readings(rng, [chain.draws for chain in self.chains])

    @cached_property
    def _log_likelihood(self) -> list[np.ndarray] | None:
        """Log density of each reading given each draw; None if the noise is unknown here."""
        if self.noise is None or not self._has_fit:
            return None
        return self.noise.log_likelihood([chain.draws for chain in self.chains])

    @cached_property
    def _misfit_p_value(self) -> float | None:
        """See `statistics.misfit_p_value`; None if the noise variables are unknown here."""
        scores = self._scores if self._has_fit else None
        return None if scores is None else misfit_p_value(scores)

    @cached_property
    def _leave_one_out(self) -> LeaveOneOut | None:
        logs = self._log_likelihood
        return None if logs is None else leave_one_out(logs, self._scores)

    @property
    def _field(self) -> Quantity | None:
        """The field that the equation is about, if there is one."""
        fields = (each for each in self._described.values() if each.place and not each.is_derived)
        return next(fields, None)

    @cached_property
    def scalars(self) -> dict[str, list[np.ndarray]]:
        """Draws of the scalars by name: lists of (num_draws,) arrays, one per chain.

        All scalars that are drawn (such as `sigma`); of each field its arithmetic mean
        `log_conductivity_field_mean` and standard deviation `log_conductivity_field_std` (divisor
        N) over its nodes or cells; of a vector of more than 1,000 entries the same; last the
        entries of other vectors, as `sigma[0]`, or `rate[hare]` where they have coordinates.
        """
        return scalar_draws(self._draws, self._described)

    @property
    def _movement(self) -> list[np.ndarray]:
        """A scalar of each chain, (num_draws,), that changes whenever the chain moves."""
        if self._field is None:
            return movement(self._draws)
        name, means = self._field.name, f"{self._field.name}_field_mean"
        chosen = means if self._has(means) else name  # of which all draws are stored
        return movement({chosen: self.draws(chosen)})

    @cached_property
    def scalar_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of each of the `scalars`, with arrays of size 1."""
        return {
            name: diagnose([chain[:, None] for chain in chains], name)
            for name, chains in self.scalars.items()
        }

    @cached_property
    def vector_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of vectors of more than 1,000 entries, of matrices and of further fields.

        By name; arrays of (N,), of matrices flattened.  Those of the field are among the `fields`.
        """
        known = {self._field.name} if self._field else set()
        vectors = vector_draws(self._draws, self._described)
        return {name: diagnose(vectors[name], name) for name in vectors if name not in known}

    @cached_property
    def _fields(self) -> dict[str, dict[str, np.ndarray]]:
        """Statistics of the fields on nodes and on cells."""
        found = {place: {} for place in PLACES}
        moments = kept(self.chains, "moments")
        for quantity in (self._described | {each.name: each for each in self.quantities}).values():
            name = quantity.name
            if quantity.place is None or not (self._has(name) or any(name in m for m in moments)):
                continue
            draws = self.draws(name) if self._has(name) else None
            if quantity.is_derived:
                parts = [part[name] for part in moments if name in part]
                found[quantity.place] |= derived_statistics(name, parts, draws)
                continue
            sums = None
            if every_of(self.chains, name) > 1 and all(name in part for part in moments):
                batches = [part[name] for part in kept(self.chains, "batches")]
                sums = [part[name] for part in moments], batches
            found[quantity.place] |= field_statistics_of(draws, quantity, sums)
            if name == FIELD:
                found[quantity.place] |= exceedance_fields(draws, self.exceedance)
        return found

    # -- what a person asks for -------------------------------------------------------------------

    def fields(self) -> dict[str, np.ndarray]:
        """Posterior statistics of the fields.

        Returns
        -------
        dict
            For a field problem `log_conductivity_mean`, `_sd`, `_q05`, `_q50`, `_q95`, `_r_hat`,
            `_ess_bulk`, `_ess_tail`, `_mcse_mean`, `_mcse_sd`, `conductivity_mean`, `_q05`, `_q50`,
            `_q95` and for each threshold `conductivity_above_{threshold}`; with a prior standard
            deviation also `variance_reduction` and `log_conductivity_prior_sd`; each one value per
            node or per cell. Always per node, `solution_mean` and `solution_sd` if the chains have
            kept moments of the solution, and `solution_q05`, `_q50`, `_q95` if they have kept draws
            of it. Of any other field the same as of the log-conductivity, without the conductivity,
            and its variance reduction by name.
        """
        return self._fields["node"] | self._fields["cell"]

    def at(self, points: np.ndarray, name: str | None = None) -> xr.DataArray:
        """Draws of a field at points.

        Parameters
        ----------
        points : (k, dim) array
            Positions, in the length unit of the mesh.
        name : str or None
            The field, "solution" say; by default the one that the equation is about.

        Returns
        -------
        xarray.DataArray
            Axes chain, draw (or stored_draw, where not all draws are stored) and point.

        Raises
        ------
        InputError
            If there is no such field, or a point is outside the mesh.
        """
        quantity = self._field_of(name)
        found = self._applied(quantity, self.mesh.values_at(points, quantity.place), ("point",))
        axes = zip("xyz", np.transpose(points), strict=False)
        return found.assign_coords({axis: ("point", values) for axis, values in axes})

    def mean_over(self, group: str | None = None, name: str | None = None) -> xr.DataArray:
        """Draws of the mean of a field over a part of the mesh.

        Parameters
        ----------
        group : str or None
            A subdomain or boundary group of the mesh; by default the whole body.
        name : str or None
            As for `at`.

        Returns
        -------
        xarray.DataArray
            Axes chain and draw (or stored_draw).

        Raises
        ------
        InputError
            If there is no such field or group.
        """
        quantity = self._field_of(name)
        matrix = self.mesh.mean_over(group, quantity.place)
        return self._applied(quantity, matrix, ("part",)).squeeze("part")

    def flux(self, group: str) -> xr.DataArray:
        """Draws of the flux into the body through a boundary group.

        The integral of exp(phi) du/dn over the group, n outwards. Where u is held, it is the
        consistent flux, by the residual of the discrete equation (Carey 1982; Hughes, Engel, Mazzei
        & Larson 2000, section 2), which balances the source exactly and is of second order; else
        the integral of the gradients in the cells behind the boundary, of first order.

        Parameters
        ----------
        group : str
            A boundary group of the mesh, or "boundary".

        Returns
        -------
        xarray.DataArray
            Axes chain and draw (or stored_draw, of the draws for which both field and solution are
            stored), with attribute `units`: C U in the plane, for each unit of thickness, and C U L
            in space, with the units of docs/notation.md.

        Raises
        ------
        InputError
            If there is no such group, a facet of it is inside the body, or the posterior is not
            that of a field problem with draws of its solution.
        """
        if self.boundary_flux is None or not (self._has(FIELD) and self._has(SOLUTION)):
            raise InputError(
                "posterior, flux",
                "a field problem with stored draws of its solution",
                "none" if self.boundary_flux is None else "no draws of it",
                "take the posterior that build_posterior makes of such a problem",
            )
        every = {name: every_of(self.chains, name) for name in (FIELD, SOLUTION)}
        step = max(every.values())  # a power of two, as the other is
        parts = [
            [chain[:: step // every[name]] for chain in self.draws(name)]
            for name in (FIELD, SOLUTION)
        ]
        draws = [self.boundary_flux(group, *both) for both in zip(*parts, strict=True)]
        unit = "C U L" if np.shape(self.mesh.points)[1] == 3 else "C U"
        return self._labelled(Quantity("flux", {}, unit), draws, step)

    def _field_of(self, name: str | None) -> Quantity:
        """The field of a name."""
        known = {each.name: each for each in self._described.values() if each.place}
        found = self._field if name is None else known.get(name)
        if found is None or self.mesh is None:
            names = ", ".join(known) if self.mesh else ""
            raise InputError(
                "posterior",
                f"a field, one of {names}" if names else "draws of a field, and its mesh",
                "none" if name is None else repr(name),
                "ask for one that was stored",
            )
        return found

    def _applied(self, quantity: Quantity, matrix: csr_array, axes: tuple[str]) -> xr.DataArray:
        """Draws of a linear functional of a field."""
        name = quantity.name
        draws = [np.asarray(matrix @ np.transpose(values)).T for values in self.draws(name)]
        found = Quantity(name, dict.fromkeys(axes), quantity.unit)
        return self._labelled(found, draws, every_of(self.chains, name))

    def _labelled(self, found: Quantity, draws: list[np.ndarray], every: int) -> xr.DataArray:
        """Draws, every so-many-th of them, with their axes."""
        name, steps = found.name, {found.name: every}
        return next(labelled.build_groups({name: draws}, {name: found}, every=steps))[1][name]

    def sensor_fit(self) -> SensorStatistics:
        """Readings against predictions at the sensors.

        Raises
        ------
        InputError
            If there are no sensors, or no draws of "predicted".
        """
        if not self._has_fit:
            raise InputError(
                "posterior",
                "sensors and draws of predicted",
                "neither or only one of them",
                "pass sensors, and store the predictions while sampling",
            )
        return sensor_statistics(self.draws(PREDICTED), self.sensors.values, self._scores)

    def leave_one_out(self) -> LeaveOneOut:
        """Leave-one-out predictions of the readings, by Pareto smoothed importance sampling.

        Raises
        ------
        InputError
            If there are no sensors, no draws of "predicted", fewer than 25 draws in all, or the
            density of the noise is unknown here.
        """
        if self._leave_one_out is None:
            raise InputError(
                "posterior",
                "sensors, 25 draws of predicted or more, and noise of known density",
                "not all of them",
                "store the predictions while sampling, and pass the noise",
            )
        return self._leave_one_out

    def summary(self) -> pd.DataFrame:
        """Table of the scalars: see `labelled.summarise`."""
        return labelled.summarise(self.scalars, self.scalar_diagnostics)

    def _table(self) -> pd.DataFrame:
        """The summary with the totals of leave-one-out predictions, for `summary.csv`."""
        table = self.summary()
        if self._leave_one_out is not None:
            for name, (estimate, error) in self._leave_one_out.totals().items():
                table.loc[name, ["mean", "sd"]] = estimate, error
            num_unreliable = (~self._leave_one_out.is_reliable).sum()
            table.loc["num_loo_unreliable", "mean"] = num_unreliable
        return table

    def verdict(self) -> Verdict:
        """Whether the draws can be trusted, and if not, why and what to do."""
        fields = self.fields()
        field = self._field
        return judge(
            self.scalar_diagnostics,
            self.num_chains,
            self.num_draws,
            field_r_hat=None if field is None else fields[f"{field.name}_r_hat"],
            field_ess=None if field is None else fields[f"{field.name}_ess_bulk"],
            field_place="" if field is None else f"{field.place}s",
            vectors=self.vector_diagnostics,
            stats=kept(self.chains, "stats"),
            standards=self.standards,
            movement=self._movement,
            residuals=self.sensor_fit().standardised_residual if self._has_fit else None,
            misfit_p_value=self._misfit_p_value,
            pareto_k=None if self._leave_one_out is None else self._leave_one_out.pareto_k,
            num_draws_requested=self.num_draws_requested,
            objections=self.objections,
        )

    def _groups(self) -> Iterator[tuple[str, Any]]:
        quantities = self._described
        positions, sigma = self._sensor_data("points"), self._sensor_data("sigma")
        constants, coords = {}, {}
        for quantity in quantities.values():
            coords |= {axis: xs for axis, xs in quantity.axes.items() if xs is not None}
        if self.mesh is not None:
            constants["points"] = (("node", "axis"), self.mesh.points)
            constants["cells"] = (("cell", "corner"), self.mesh.cells)
            coords["axis"] = list("xyz")[: np.shape(self.mesh.points)[1]]
        if positions is not None:
            constants["sensor_points"] = (("sensor", "axis"), positions)
            coords["axis"] = list("xyz")[: np.shape(positions)[1]]
        if sigma is not None:
            shape = np.shape(self.sensors.values)
            constants["sensor_sigma"] = (("sensor",), np.broadcast_to(sigma, shape))
        for name, values in getattr(self.sensors, "coordinates", {}).items():
            constants[f"sensor_{name}"] = (("sensor",), np.asarray(values))
        for quantity in quantities.values():
            if quantity.prior_sd is not None:
                shape = np.shape(self.draws(quantity.name)[0])[1:]
                key = prior_sd_name(quantity.name)
                constants[key] = (tuple(quantity.axes), np.broadcast_to(quantity.prior_sd, shape))
        stats = labelled.common_statistics(kept(self.chains, "stats"))
        return labelled.build_groups(
            self._draws,
            quantities,
            stats={name: x for name, x in stats.items() if len(x[0]) == self.num_draws},
            warmup_stats=labelled.common_statistics(kept(self.chains, "warmup_stats")),
            observed=self._sensor_data("values"),
            replicated=self._replicated(),
            log_likelihood=self._log_likelihood,
            constants=constants,
            coords=coords,
            every={name: every_of(self.chains, name) for name in self._draws},
        )

    def to_arviz(self) -> Any:
        """Everything in ArviZ's layout, for its functions: see `labelled.build_groups`.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            The former under ArviZ 0.x, the latter under 1.x.
        """
        return labelled.to_arviz(dict(self._groups()))

    def record(self) -> dict[str, Any]:
        """Sizes, times, counts and verdict of the run, for `run.json`."""
        record = run_record(
            self.chains, self.num_draws, self.num_draws_requested, self.verdict(), self.standards
        )
        times = {"compile_seconds": self.compile_seconds, "is_interrupted": self.is_interrupted}
        return record | times | {"misfit_p_value": self._misfit_p_value}

    def write(
        self, directory: str | os.PathLike, run_info: Mapping[str, Any] | None = None
    ) -> list[Path]:
        """Write all results to a folder.

        Parameters
        ----------
        directory : path-like
            Made if it does not exist. Each file is complete or absent; older ones are replaced.
        run_info : mapping or None
            What `run.json` should say beyond `record()`: versions, seed, hash of the mesh; its
            keys take precedence.

        Returns
        -------
        list of pathlib.Path
            The files written: `posterior.vtu` (if there is a mesh), `sensor_fit.csv` (if there
            are readings), `sensors.vtu` (if sensors have positions), `summary.csv`,
            `posterior.nc`, `run.json`.
        """
        directory = Path(directory)
        written = []
        if self.mesh is not None:
            written.append(directory / "posterior.vtu")
            files.write_fields(
                written[-1], self.mesh.points, self.mesh.cells, *map(self._fields.get, PLACES)
            )
        positions = self._sensor_data("points")
        if self.sensors is not None:
            data = self._at_sensors()
            written.append(directory / "sensor_fit.csv")
            files.write_table(written[-1], sensor_table(data, positions, self.sensors.labels))
        if positions is not None:
            written.append(directory / "sensors.vtu")
            files.write_points(written[-1], positions, data)
        written.append(directory / "summary.csv")
        files.write_table(written[-1], self._table())
        written.append(directory / "posterior.nc")
        labelled.save_netcdf(self._groups(), written[-1])
        written.append(directory / "run.json")
        files.write_json(written[-1], self.record() | dict(run_info or {}))
        return written

    def __str__(self) -> str:
        """Return summary and verdict as text."""
        table = self.summary().to_string(float_format="{:.4g}".format)
        return f"{table}\n\n{self.verdict()}"

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        table = self.summary().to_html(float_format="{:.4g}".format)
        return f"{table}{self.verdict()._repr_html_()}"

    def _at_sensors(self) -> dict[str, np.ndarray | None]:
        """Readings, and what is known of how well each is predicted: (d,) by name."""
        data = {"observed": np.asarray(self.sensors.values)}
        if self._has(PREDICTED):
            data |= vars(self.sensor_fit())
            del data["noise_sd"]
        if self._leave_one_out is not None:
            loo = self._leave_one_out
            data |= {"loo_elpd": loo.elpd, "loo_pareto_k": loo.pareto_k, "loo_pit": loo.pit}
        return data

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
            panels = overview_panels(
                self.fields(),
                self._field.place == "node",
                self._sensor_data("values"),
                conductivity_unit=conductivity_unit,
                solution_name=solution_name,
                solution_unit=solution_unit,
            )
        else:
            named = self._described.values()
            named = [each for each in named if each.place and not each.is_derived]
            panels = field_panels(self.fields(), named)
        flat = flatten(self.mesh.points, self.mesh.cells)
        figure = plots.plot_panels(flat, panels, self._sensor_data("points"), length_unit)
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
        scalars = self.scalars
        for name in names or ():
            if name not in {each for key in scalars for each in (key, vector_of(key))}:
                known = ", ".join(scalars)
                raise InputError("plot of chains", f"some of {known}", repr(name), "choose one")
        if names:
            scalars = {
                key: chains
                for key, chains in scalars.items()
                if key in names or vector_of(key) in names
            }
        return plots.saved(plots.plot_chains(scalars, self.scalar_diagnostics), path)

    def plot_leave_one_out(self, path: str | os.PathLike | None = None) -> Figure:
        """Draw leave-one-out probabilities and Pareto k: see `plots.plot_leave_one_out`."""
        labels = self._sensor_data("labels")
        return plots.saved(plots.plot_leave_one_out(self.leave_one_out(), labels), path)

    def plot_sensors(
        self, path: str | os.PathLike | None = None, *, quantity: str = "reading"
    ) -> Figure:
        """Draw predictions against readings: see `plots.plot_sensors`."""
        labels = self._sensor_data("labels")
        return plots.saved(plots.plot_sensors(self.sensor_fit(), quantity, labels), path)
