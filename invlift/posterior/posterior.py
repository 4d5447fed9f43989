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

from invlift.errors import InputError
from invlift.posterior import labelled
from invlift.posterior.agreement import Mesh, check_fields, check_readings
from invlift.posterior.along_axis import Series, readings_along, series_of
from invlift.posterior.chains import Chain, check_chains, every_of, kept
from invlift.posterior.diagnostics import Diagnostics, diagnose
from invlift.posterior.exceedance import check_thresholds
from invlift.posterior.figures import Figures
from invlift.posterior.in_mesh import DrawsInMesh
from invlift.posterior.leave_one_out import LeaveOneOut, leave_one_out
from invlift.posterior.names import FIELD, NOISE_SCORE, OBSERVED, PREDICTED, path_name
from invlift.posterior.output import constants_of, write_results
from invlift.posterior.quantities import (
    fields_of,
    movement,
    scalar_draws,
    vector_draws,
    without_known,
)
from invlift.posterior.quantity import Quantity, described
from invlift.posterior.readings import ReadingNoise, SensorTable
from invlift.posterior.record import run_record
from invlift.posterior.standards import Standards
from invlift.posterior.statistics import SensorStatistics, misfit_p_value, sensor_statistics
from invlift.posterior.verdict import Verdict, judge

NOISE_SEED = 0  # of the new readings in posterior_predictive


@dataclass(frozen=True, eq=False)
class Posterior(DrawsInMesh, Figures):
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
        check_thresholds(self.exceedance, has_field=FIELD in shapes)

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

    @property
    def _scores(self) -> list[np.ndarray] | None:
        """Noise variables that explain the readings, if they are drawn."""
        return self.draws(NOISE_SCORE) if self._has(NOISE_SCORE) else None

    def _replicated(self) -> dict[str, list[np.ndarray]]:
        """New readings for each draw: "observed", and along the paths of readings by name.

        Empty if the noise is unknown here.
        """
        if self.noise is None or not self._has_fit:
            return {}
        rng = np.random.default_rng(NOISE_SEED)
        chains = [chain.draws for chain in self.chains]
        found = {OBSERVED: self.noise.new_readings(rng, chains)}
        for name, (_, rows) in readings_along(self._coordinates).items():
            path = path_name(name)
            if self._has(path) and every_of(self.chains, path) == 1:
                found[path] = self.noise.new_along(rng, chains, path, rows)
        return {name: new for name, new in found.items() if new is not None}

    @property
    def _coordinates(self) -> Mapping[str, Sequence]:
        return getattr(self.sensors, "coordinates", {})

    @cached_property
    def _series(self) -> list[Series]:
        """What there is along axes of numbers: see `along_axis.series_of`."""
        observed = self.sensors.values if self._has_fit else None
        parts = self._draws, self._described, self._coordinates, observed
        return series_of(*parts, self._replicated() if readings_along(self._coordinates) else {})

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
        N) over its nodes or cells; of a vector of more than 1,000 entries, or of more than 50 along
        an axis of numbers, the same; last the entries of other vectors, as `sigma[0]`, or
        `rate[hare]` where they have coordinates.
        """
        return scalar_draws(self._draws, self._described)

    @property
    def _movement(self) -> list[np.ndarray]:
        """A scalar of each chain, (num_draws,), that changes whenever the chain moves."""
        return movement(self._draws, None if self._field is None else self._field.name)

    @cached_property
    def scalar_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of each of the `scalars`, with arrays of size 1."""
        return {
            name: diagnose([chain[:, None] for chain in chains], name)
            for name, chains in self.scalars.items()
        }

    @cached_property
    def vector_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of long vectors, of matrices and of further fields.

        Long are those of more than 1,000 entries, or of more than 50 along an axis of numbers.  By
        name; arrays of (N,), of matrices flattened.  Those of the field are among the `fields`.
        Entries that are known, such as those of a path where it is read exactly, are left out.
        """
        known = {self._field.name} if self._field else set()
        vectors = vector_draws(self._draws, self._described)
        return {
            name: diagnose(without_known(vectors[name]), name)
            for name in vectors
            if name not in known
        }

    @cached_property
    def _fields(self) -> dict[str, dict[str, np.ndarray]]:
        """Statistics of the fields on nodes and on cells."""
        return fields_of(self.chains, self._described, self.quantities, self.exceedance)

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
            num_draws_requested=self.num_draws_requested,
            objections=self.objections,
        )

    def _groups(self) -> Iterator[tuple[str, Any]]:
        shapes = {name: np.shape(chains[0])[1:] for name, chains in self._draws.items()}
        quantities = self._described
        constants, coords = constants_of(quantities.values(), shapes, self.mesh, self.sensors)
        stats = labelled.common_statistics(kept(self.chains, "stats"))
        return labelled.build_groups(
            self._draws,
            quantities,
            stats={name: x for name, x in stats.items() if len(x[0]) == self.num_draws},
            warmup_stats=labelled.common_statistics(kept(self.chains, "warmup_stats")),
            observed=None if self.sensors is None else self.sensors.values,
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
        return record | {
            "compile_seconds": self.compile_seconds,
            "is_interrupted": self.is_interrupted,
            "misfit_p_value": self._misfit_p_value,
            "exceedance": list(self.exceedance),
            "objections": list(self.objections),
        }

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
        return write_results(
            Path(directory),
            mesh=self.mesh,
            fields=self._fields,
            sensors=self.sensors,
            fit=self.sensor_fit() if self._has_fit else None,
            loo=self._leave_one_out,
            summary=self.summary(),
            groups=self._groups(),
            record=self.record() | dict(run_info or {}),
        )

    def __str__(self) -> str:
        """Return summary and verdict as text."""
        table = self.summary().to_string(float_format="{:.4g}".format)
        return f"{table}\n\n{self.verdict()}"

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        table = self.summary().to_html(float_format="{:.4g}".format)
        return f"{table}{self.verdict()._repr_html_()}"
