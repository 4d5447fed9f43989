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
from matplotlib.figure import Figure

from invlift.errors import InputError
from invlift.posterior import files, labelled, plots
from invlift.posterior.agreement import check_mesh, check_names, check_readings
from invlift.posterior.chains import Chain, check_chains, every_of, kept
from invlift.posterior.diagnostics import Diagnostics, diagnose
from invlift.posterior.exceedance import check_thresholds, exceedance_fields
from invlift.posterior.leave_one_out import LeaveOneOut, leave_one_out
from invlift.posterior.names import (
    FIELD,
    NOISE_SCORE,
    PARAMETERS,
    PREDICTED,
    SIGMA,
    SOLUTION,
    vector_of,
)
from invlift.posterior.overview import overview_panels
from invlift.posterior.quantities import (
    coefficient_fields,
    movement,
    scalar_draws,
    solution_fields,
    vector_draws,
)
from invlift.posterior.readings import SensorTable, sensor_table
from invlift.posterior.record import run_record
from invlift.posterior.slices import flatten
from invlift.posterior.standards import Standards
from invlift.posterior.statistics import (
    SensorStatistics,
    misfit_p_value,
    normal_log_likelihood,
    normal_readings,
    normal_scores,
    sensor_statistics,
)
from invlift.posterior.verdict import Verdict, judge

NewReadings = Callable[[np.random.Generator, Mapping[str, np.ndarray]], np.ndarray]
LogLikelihood = Callable[[Mapping[str, np.ndarray]], np.ndarray]
NOISE_SEED = 0  # of the new readings in posterior_predictive


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of a run, read as a posterior.

    Attributes
    ----------
    chains : sequence of Chain
        A field problem stores draws of "log_conductivity" (num_draws, N), a user's own model of
        "parameters" (num_draws, N). Both may store "predicted" (num_draws, d); "noise_score"
        (num_draws, d), the noise variables that explain the readings, standard normal before
        these; "sigma", (num_draws,), (num_draws, d) or one for each group of readings; and other
        scalars and short vectors by any name.
    points : (num_nodes, dim) array or None
        Nodes of the mesh, in its length unit.
    cells : (num_cells, dim + 1) array of int or None
        Triangles or tetrahedra.
    location : "nodes", "cells" or None
        Where the log-conductivity lives; None for models without a mesh.
    sensors : SensorTable or None
        `Readings`, or a sensor table whose column `sigma`, if it has one, is the noise's scale.
    prior_sd : (N,) array, number or None
        Prior standard deviation of the log-conductivity or of the parameters.
    names : sequence of str or None
        Names of the N parameters of a user's own model.
    standards : Standards or None
        By what the sampler's statistics are judged: the `standards` of the run. Without them those
        that the statistics suggest, see `presumed_standards`.
    new_readings : NewReadings or None
        `new_readings(rng, draws)`: new readings, (num_draws, d), for the draws of one chain by a
        `numpy.random.Generator`. Without it the noise is taken to be normal where `noise_score`
        does not contradict that.
    log_likelihood : LogLikelihood or None
        `log_likelihood(draws)`: log density of each reading, (num_draws, d), given the draws of one
        chain, with all constants. Without it that of normal noise, as for `new_readings`.
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

    Raises
    ------
    InputError
        On construction, if the parts do not fit together or hold no draws.
    """

    chains: Sequence[Chain]
    points: np.ndarray | None = None
    cells: np.ndarray | None = None
    location: str | None = None
    sensors: SensorTable | None = None
    prior_sd: np.ndarray | float | None = None
    names: Sequence[str] | None = None
    standards: Standards | None = None
    new_readings: NewReadings | None = None
    log_likelihood: LogLikelihood | None = None
    num_draws_requested: int | None = None
    compile_seconds: float | None = None
    is_interrupted: bool | None = None
    exceedance: Sequence[float] = ()
    objections: Sequence[str] = ()

    def __post_init__(self) -> None:
        shapes = check_chains(self.chains)
        if self.location is None:
            check_names(shapes, self.names)
        else:
            check_mesh(shapes, self.location, self.points, self.cells)
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
        return self._quantities[name]

    @property
    def _quantities(self) -> dict[str, list[np.ndarray]]:
        return {name: [chain.draws[name] for chain in self.chains] for name in self.chains[0].draws}

    def _has(self, name: str) -> bool:
        return name in self.chains[0].draws

    @property
    def _has_fit(self) -> bool:
        return self.sensors is not None and self._has(PREDICTED)

    def _sensor_data(self, name: str) -> np.ndarray | None:
        return None if self.sensors is None else getattr(self.sensors, name)

    @property
    def _sigma(self) -> list[np.ndarray] | np.ndarray | float | None:
        """Scale of the noise, drawn or known; None if there is none for each reading."""
        if not self._has(SIGMA):
            return self._sensor_data("sigma")
        shape = np.shape(self.draws(SIGMA)[0])[1:]
        return self.draws(SIGMA) if shape in ((), (1,), np.shape(self.sensors.values)) else None

    @cached_property
    def _scores(self) -> list[np.ndarray] | None:
        """Noise variables that explain the readings: as drawn, or else those of normal noise."""
        if self._has(NOISE_SCORE):
            return self.draws(NOISE_SCORE)
        if self._sigma is None:
            return None
        return normal_scores(self.draws(PREDICTED), self.sensors.values, self._sigma)

    def _replicated(self) -> list[np.ndarray] | None:
        """New readings for each draw; None if the noise is unknown here."""
        if not self._has_fit:
            return None
        rng = np.random.default_rng(NOISE_SEED)
        if self.new_readings is not None:
            return [self.new_readings(rng, chain.draws) for chain in self.chains]
        sigma = self._normal_sigma
        return None if sigma is None else normal_readings(rng, self.draws(PREDICTED), sigma)

    @cached_property
    def _normal_sigma(self) -> list[np.ndarray] | np.ndarray | float | None:
        """Scale of the noise where it may be taken as normal; None where it may not."""
        predicted, sigma = self.draws(PREDICTED), self._sigma
        if sigma is not None and self._has(NOISE_SCORE):
            normal = normal_scores(predicted, self.sensors.values, sigma)
            pairs = zip(normal, self.draws(NOISE_SCORE), strict=True)
            if not all(np.allclose(one, other, rtol=1e-6, atol=1e-6) for one, other in pairs):
                return None
        return sigma

    @cached_property
    def _log_likelihood(self) -> list[np.ndarray] | None:
        """Log density of each reading given each draw; None if the noise is unknown here."""
        if not self._has_fit:
            return None
        if self.log_likelihood is not None:
            return [np.asarray(self.log_likelihood(chain.draws)) for chain in self.chains]
        if self._normal_sigma is None:
            return None
        return normal_log_likelihood(self.draws(PREDICTED), self.sensors.values, self._normal_sigma)

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
    def _field(self) -> str | None:
        """Name of the vector of coefficients, if there is one."""
        return next((name for name in (FIELD, PARAMETERS) if self._has(name)), None)

    @cached_property
    def scalars(self) -> dict[str, list[np.ndarray]]:
        """Draws of the scalars by name: lists of (num_draws,) arrays, one per chain.

        These are all stored scalars (such as `sigma`), then, for a field, its arithmetic mean
        `log_conductivity_field_mean` and standard deviation `log_conductivity_field_std` (divisor
        N) over its nodes or cells; for a user's own model the parameters one by one, by the given
        names or as `parameters[i]`; last the entries of other short vectors, as `sigma[i]`.  Of a
        vector of more than 1,000 entries mean and standard deviation, as of a field.
        """
        return scalar_draws(self._quantities, self.names)

    @property
    def _movement(self) -> list[np.ndarray]:
        """A scalar of each chain, (num_draws,), that changes whenever the chain moves."""
        name = self._field
        if name is None:
            return movement(self._quantities)
        means = f"{name}_field_mean"
        if self._has(means):
            return self.draws(means)
        return [np.mean(values, axis=1) for values in self.draws(name)]

    @cached_property
    def scalar_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of each of the `scalars`, with arrays of size 1."""
        return {
            name: diagnose([chain[:, None] for chain in chains], name)
            for name, chains in self.scalars.items()
        }

    @cached_property
    def vector_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of vectors of more than 1,000 entries and of matrices, by name.

        Arrays of (N,), of matrices flattened.  Those of a field are among the `fields`.
        """
        return {
            name: diagnose(chains, name) for name, chains in vector_draws(self._quantities).items()
        }

    @cached_property
    def _fields(self) -> dict[str, np.ndarray]:
        name, result = self._field, {}
        if name is not None:
            every = every_of(self.chains, name)
            sums = None
            if every > 1:
                sums = [kept(self.chains, kind) for kind in ("moments", "batches")]
                sums = [[part[name] for part in parts] for parts in sums]
            result |= coefficient_fields(self.draws(name), name, self.prior_sd, sums)
        if name == FIELD:
            result |= exceedance_fields(self.draws(name), self.exceedance)
        solutions = self.draws(SOLUTION) if self._has(SOLUTION) else None
        return result | solution_fields(kept(self.chains, "moments"), solutions)

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
            of it. For a user's own model the same of `parameters`, without the conductivity.
        """
        return dict(self._fields)

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
                "store the predictions while sampling, and pass sensors with a scale of normal "
                "noise, or log_likelihood",
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
        fields = self._fields
        return judge(
            self.scalar_diagnostics,
            self.num_chains,
            self.num_draws,
            field_r_hat=fields.get(f"{FIELD}_r_hat"),
            field_ess=fields.get(f"{FIELD}_ess_bulk"),
            field_place=self.location or "coefficients",
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
        place = {"nodes": "node", "cells": "cell", None: "coefficient"}[self.location]
        axes = {FIELD: (place,), PARAMETERS: ("parameter",)}
        axes |= {SOLUTION: ("node",), PREDICTED: ("sensor",), NOISE_SCORE: ("sensor",)}
        if self._has(SIGMA) and np.ndim(self.draws(SIGMA)[0]) == 2:
            num_scales, values = self.draws(SIGMA)[0].shape[1], self._sensor_data("values")
            is_each = values is None or num_scales == len(values)
            axes[SIGMA] = ("sensor",) if is_each else ("noise_group",)
        positions, sigma = self._sensor_data("points"), self._sensor_data("sigma")
        constants, coords = {}, {}
        if self.points is not None and self.cells is not None:
            constants["points"] = (("node", "axis"), self.points)
            constants["cells"] = (("cell", "corner"), self.cells)
            coords["axis"] = list("xyz")[: np.shape(self.points)[1]]
        if positions is not None:
            constants["sensor_points"] = (("sensor", "axis"), positions)
            coords["axis"] = list("xyz")[: np.shape(positions)[1]]
        if sigma is not None:
            shape = np.shape(self.sensors.values)
            constants["sensor_sigma"] = (axes[PREDICTED], np.broadcast_to(sigma, shape))
        if self.prior_sd is not None and self._field is not None:
            shape = np.shape(self.draws(self._field)[0])[1:]
            constants["prior_sd"] = (axes[self._field], np.broadcast_to(self.prior_sd, shape))
        if self.names is not None:
            coords["parameter"] = list(self.names)
        stats = labelled.common_statistics(kept(self.chains, "stats"))
        return labelled.build_groups(
            self._quantities,
            axes,
            stats={name: x for name, x in stats.items() if len(x[0]) == self.num_draws},
            warmup_stats=labelled.common_statistics(kept(self.chains, "warmup_stats")),
            observed=self._sensor_data("values"),
            replicated=self._replicated(),
            log_likelihood=self._log_likelihood,
            constants=constants,
            coords=coords,
            every={name: every_of(self.chains, name) for name in self._quantities},
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
        if self.location is not None:
            fields = self._fields
            on_nodes = {
                name: values
                for name, values in fields.items()
                if self.location == "nodes" or name.startswith("solution_")
            }
            on_cells = {name: fields[name] for name in fields if name not in on_nodes}
            written.append(directory / "posterior.vtu")
            files.write_fields(written[-1], self.points, self.cells, on_nodes, on_cells)
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

    def _repr_html_(self) -> str:
        """Return summary and verdict for notebooks."""
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
            variance reduction, if the prior standard deviation is known.

        Raises
        ------
        InputError
            If there is no mesh.
        """
        if self.location is None:
            raise InputError(
                "plot of fields", "a posterior on a mesh", "a model without one", "plot the chains"
            )
        panels = overview_panels(
            self._fields,
            self.location == "nodes",
            self._sensor_data("values"),
            conductivity_unit=conductivity_unit,
            solution_name=solution_name,
            solution_unit=solution_unit,
        )
        flat = flatten(self.points, self.cells)
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
        return plots.saved(plots.plot_leave_one_out(self.leave_one_out()), path)

    def plot_sensors(
        self, path: str | os.PathLike | None = None, *, quantity: str = "reading"
    ) -> Figure:
        """Draw predictions against readings: see `plots.plot_sensors`."""
        return plots.saved(plots.plot_sensors(self.sensor_fit(), quantity), path)
