"""A run with everything needed to read it: draws, mesh, sensors, prior."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from invlift.errors import InputError
from invlift.posterior import files, labelled, plots
from invlift.posterior.blocks import check_draws
from invlift.posterior.diagnostics import Diagnostics, diagnose, diagnose_field
from invlift.posterior.slices import flatten
from invlift.posterior.statistics import (
    SensorStatistics,
    conductivity_statistics,
    field_statistics,
    merge_moments,
    sensor_statistics,
    variance_reduction,
)
from invlift.posterior.verdict import Verdict, judge

FIELD, PARAMETERS = "log_conductivity", "parameters"


@dataclass(frozen=True, eq=False)
class Readings:
    """What the sensors said, for posteriors that do not come with a sensor table.

    Attributes
    ----------
    values : (d,) array
        Readings.
    sigma : (d,) array or None
        Standard deviation of the noise where it is known.
    points : (d, dim) array or None
        Positions, for models that have any.
    """

    values: np.ndarray
    sigma: np.ndarray | None = None
    points: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of a run, read as a posterior.

    Attributes
    ----------
    chains : sequence
        One object per chain with `draws` (name -> (num_draws, ...)) and, where there are any,
        `stats`, `moments`, `warmup_stats`, `step_size`, `warmup_seconds`, `sampling_seconds`,
        `compile_seconds`. A field problem stores draws of "log_conductivity" (num_draws, N), a
        user's own model of "parameters" (num_draws, N); both may store "predicted" (num_draws, d)
        and scalars such as "sigma" (num_draws,).
    points : (num_nodes, dim) array or None
        Nodes of the mesh, in its length unit.
    cells : (num_cells, dim + 1) array of int or None
        Triangles or tetrahedra.
    location : "nodes", "cells" or None
        Where the log-conductivity lives; None for models without a mesh.
    sensors : object or None
        With `values` (d,) and, where known, `sigma` (d,) and `points` (d, dim): a sensor table, or
        `Readings`.
    prior_sd : (N,) array, number or None
        Prior standard deviation of the log-conductivity or of the parameters.
    names : sequence of str or None
        Names of the N parameters of a user's own model.
    num_draws_requested : int or None
        Draws per chain that were asked for, to notice a run that was cut short.

    Raises
    ------
    InputError
        On construction, if the parts do not fit together or hold no draws.
    """

    chains: Sequence[Any]
    points: np.ndarray | None = None
    cells: np.ndarray | None = None
    location: str | None = None
    sensors: Any = None
    prior_sd: np.ndarray | float | None = None
    names: Sequence[str] | None = None
    num_draws_requested: int | None = None

    def __post_init__(self) -> None:
        if not self.chains:
            raise InputError(
                "posterior", "at least one chain", "none", "run the sampler before asking for it"
            )
        known = [set(chain.draws) for chain in self.chains]
        if any(names != known[0] for names in known):
            raise InputError(
                "posterior",
                "draws of the same quantities in every chain",
                "; ".join(str(sorted(names)) for names in known),
                "combine chains of one problem only",
            )
        if not known[0]:
            raise InputError(
                "posterior", "draws in every chain", "none", "run the sampler for longer"
            )
        num_draws = {name: check_draws(self.draws(name), name)[1] for name in self.chains[0].draws}
        if len(set(num_draws.values())) > 1:
            raise InputError(
                "posterior",
                "equally many draws of every quantity",
                str(num_draws),
                "thin all quantities alike",
            )
        self._check_mesh()
        if self.sensors is not None and "predicted" in known[0]:
            observed, predicted = np.shape(self.sensors.values), self._shape("predicted")
            if observed != predicted:
                raise InputError(
                    "sensors",
                    f"one reading for each of the predictions {predicted}",
                    f"readings {observed}",
                    "pass the sensors that were used in the run",
                )

    def _check_mesh(self) -> None:
        if self.location not in (None, "nodes", "cells"):
            raise InputError(
                "posterior, location", '"nodes", "cells" or None', repr(self.location), "fix it"
            )
        if self.location is None:
            size = self._shape(PARAMETERS)[0] if PARAMETERS in self.chains[0].draws else 0
            if self.names is not None and len(self.names) != size:
                raise InputError(
                    "posterior, names", f"{size} names", f"{len(self.names)}", "name each parameter"
                )
            return
        if self.points is None or self.cells is None or FIELD not in self.chains[0].draws:
            raise InputError(
                "posterior",
                f"points, cells and draws of {FIELD}",
                f"location {self.location!r} without them",
                "pass the mesh, or location=None for a model without one",
            )
        size = len(self.points) if self.location == "nodes" else len(self.cells)
        if self._shape(FIELD) != (size,):
            raise InputError(
                f"draws of {FIELD}",
                f"one value for each of the {size} {self.location}",
                f"shape {self._shape(FIELD)}",
                "pass the mesh that was used in the run",
            )

    # -- pieces -----------------------------------------------------------------------------------

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self.chains)

    @property
    def num_draws(self) -> int:
        """Number of draws per chain."""
        return len(next(iter(self.chains[0].draws.values())))

    def draws(self, name: str) -> list[np.ndarray]:
        """Draws of one quantity: a list of (num_draws, ...) arrays, one per chain, not copied."""
        if name not in self.chains[0].draws:
            raise InputError(
                "posterior",
                f"one of {', '.join(sorted(self.chains[0].draws))}",
                repr(name),
                "ask for a quantity that was stored",
            )
        return [chain.draws[name] for chain in self.chains]

    def _shape(self, name: str) -> tuple[int, ...]:
        return np.shape(self.chains[0].draws[name])[1:]

    def _has(self, name: str) -> bool:
        return name in self.chains[0].draws

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
        names or as `parameters[i]`.
        """
        result = {
            name: [np.asarray(chain, dtype=float) for chain in self.draws(name)]
            for name in self.chains[0].draws
            if self._shape(name) == ()
        }
        if self._has(FIELD):
            fields = self.draws(FIELD)
            result[f"{FIELD}_field_mean"] = [np.mean(field, axis=1) for field in fields]
            with np.errstate(invalid="ignore"):  # the verdict tells of draws that are not finite
                result[f"{FIELD}_field_std"] = [np.std(field, axis=1) for field in fields]
        if self._has(PARAMETERS):
            size = self._shape(PARAMETERS)[0]
            names = self.names or [f"{PARAMETERS}[{index}]" for index in range(size)]
            for index, name in enumerate(names):
                result[name] = [np.asarray(x[:, index]) for x in self.draws(PARAMETERS)]
        return result

    @cached_property
    def scalar_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of each of the `scalars`, with arrays of size 1."""
        return {
            name: diagnose([chain[:, None] for chain in chains], name)
            for name, chains in self.scalars.items()
        }

    @cached_property
    def _fields(self) -> dict[str, np.ndarray]:
        name = self._field
        result: dict[str, np.ndarray] = {}
        if name is not None:
            draws = self.draws(name)
            result |= field_statistics(draws, name)
            if name == FIELD:
                result |= conductivity_statistics(draws, result)
            r_hat, ess_bulk = diagnose_field(draws, name)
            result |= {f"{name}_r_hat": r_hat, f"{name}_ess_bulk": ess_bulk}
            if self.prior_sd is not None:
                posterior_sd = result[f"{name}_sd"]
                result["variance_reduction"] = variance_reduction(posterior_sd, self.prior_sd)
                result[f"{name}_prior_sd"] = np.broadcast_to(
                    np.asarray(self.prior_sd, dtype=float), posterior_sd.shape
                )
        moments = [
            chain.moments["solution"]
            for chain in self.chains
            if "solution" in (getattr(chain, "moments", None) or {})
        ]
        if any(int(part.count) > 0 for part in moments):
            merged = merge_moments(moments)
            result |= {"solution_mean": merged.mean, "solution_sd": merged.sd}
        return result

    # -- what a person asks for -------------------------------------------------------------------

    def fields(self) -> dict[str, np.ndarray]:
        """Posterior statistics of the fields.

        Returns
        -------
        dict
            For a field problem `log_conductivity_mean`, `_sd`, `_q05`, `_q50`, `_q95`, `_r_hat`,
            `_ess_bulk`, `conductivity_mean`, `_q05`, `_q50`, `_q95`; with a prior standard
            deviation also `variance_reduction` and `log_conductivity_prior_sd`; each one value per
            node or per cell. `solution_mean` and `solution_sd`, always per node, if the chains
            have kept moments of the solution. For a user's own model the same of `parameters`,
            without the conductivity.
        """
        return dict(self._fields)

    def sensor_fit(self) -> SensorStatistics:
        """Readings against predictions at the sensors.

        Raises
        ------
        InputError
            If there are no sensors, or no draws of "predicted".
        """
        if self.sensors is None or not self._has("predicted"):
            raise InputError(
                "posterior",
                "sensors and draws of predicted",
                "neither or only one of them",
                "pass sensors, and store the predictions while sampling",
            )
        sigma = self.draws("sigma") if self._has("sigma") else self._known_sigma()
        return sensor_statistics(self.draws("predicted"), self.sensors.values, sigma)

    def _known_sigma(self) -> np.ndarray | None:
        return getattr(self.sensors, "sigma", None)

    def _sensor_points(self) -> np.ndarray | None:
        return getattr(self.sensors, "points", None)

    def summary(self) -> pd.DataFrame:
        """Table of the scalars: see `labelled.summarise`."""
        return labelled.summarise(self.scalars, self.scalar_diagnostics)

    def verdict(self) -> Verdict:
        """Whether the draws can be trusted, and if not, why and what to do."""
        name = self._field
        fields = self._fields
        return judge(
            self.scalar_diagnostics,
            self.num_chains,
            self.num_draws,
            field_r_hat=fields.get(f"{FIELD}_r_hat"),
            field_ess=fields.get(f"{FIELD}_ess_bulk"),
            field_place=self.location or "coefficients",
            stats=[getattr(chain, "stats", None) or {} for chain in self.chains],
            movement=[] if name is None else [np.mean(x, axis=1) for x in self.draws(name)],
            num_draws_requested=self.num_draws_requested,
        )

    def _groups(self) -> dict:
        place = {"nodes": "node", "cells": "cell", None: "coefficient"}[self.location]
        stats, warmup = (
            _common([getattr(chain, key, None) or {} for chain in self.chains])
            for key in ("stats", "warmup_stats")
        )
        stats = {name: x for name, x in stats.items() if len(x[0]) == self.num_draws}
        constants, coords = {}, {}
        if self.points is not None and self.cells is not None:
            constants["points"] = (("node", "axis"), self.points)
            constants["cells"] = (("cell", "corner"), self.cells)
            coords["axis"] = list("xyz")[: np.shape(self.points)[1]]
        if self._sensor_points() is not None:
            constants["sensor_points"] = (("sensor", "axis"), self._sensor_points())
            coords["axis"] = list("xyz")[: np.shape(self._sensor_points())[1]]
        if self.sensors is not None and self._known_sigma() is not None:
            sigma = np.broadcast_to(self._known_sigma(), np.shape(self.sensors.values))
            constants["sensor_sigma"] = (("sensor",), sigma)
        if self.prior_sd is not None and self._field is not None:
            axis = place if self._has(FIELD) else "parameter"
            prior_sd = np.broadcast_to(self.prior_sd, self._shape(self._field))
            constants["prior_sd"] = ((axis,), prior_sd)
        if self.names is not None:
            coords["parameter"] = list(self.names)
        return labelled.build_groups(
            {name: self.draws(name) for name in self.chains[0].draws},
            {FIELD: (place,), PARAMETERS: ("parameter",), "predicted": ("sensor",)},
            stats=stats,
            warmup_stats=warmup,
            observed=None if self.sensors is None else self.sensors.values,
            sigma=None if self.sensors is None else self._known_sigma(),
            constants=constants,
            coords=coords,
        )

    def to_arviz(self) -> Any:
        """Everything in ArviZ's layout, for its functions: see `labelled.build_groups`.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            The former under ArviZ 0.x, the latter under 1.x.
        """
        return labelled.to_arviz(self._groups())

    def record(self) -> dict[str, Any]:
        """Sizes, times, counts and verdict of the run, for `run.json`."""
        verdict = self.verdict()

        def total(name: str) -> int | None:
            parts = [chain.stats[name] for chain in self.chains if name in _stats(chain)]
            return int(sum(np.sum(part) for part in parts)) if parts else None

        def each(name: str) -> list:
            return [getattr(chain, name, None) for chain in self.chains]

        return {
            "num_chains": self.num_chains,
            "num_draws": self.num_draws,
            "num_draws_requested": self.num_draws_requested,
            "step_size": each("step_size"),
            "warmup_seconds": each("warmup_seconds"),
            "sampling_seconds": each("sampling_seconds"),
            "compile_seconds": each("compile_seconds"),
            "acceptance_rate": [
                float(np.nanmean(_stats(chain)["acceptance_rate"]))
                if np.isfinite(_stats(chain).get("acceptance_rate", np.nan)).any()
                else None
                for chain in self.chains
            ],
            "num_steps": total("num_steps"),
            "num_factorisations": total("num_factorisations"),
            "num_projection_failures": total("num_projection_failures"),
            "verdict": {
                "is_converged": verdict.is_converged,
                "headline": verdict.headline,
                "reasons": verdict.reasons,
                "warnings": verdict.warnings,
                "advice": verdict.advice,
            },
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
            The files written: `posterior.vtu` (if there is a mesh), `sensors.vtu` (if sensors
            have positions), `posterior.nc`, `summary.csv`, `run.json`.
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
        if self._sensor_points() is not None:
            data = {"observed": np.asarray(self.sensors.values)}
            if self._has("predicted"):
                data |= vars(self.sensor_fit())
            written.append(directory / "sensors.vtu")
            files.write_sensors(written[-1], self._sensor_points(), data)
        written.append(directory / "summary.csv")
        files.write_table(written[-1], self.summary())
        written.append(directory / "posterior.nc")
        labelled.save_netcdf(self._groups(), written[-1])
        written.append(directory / "run.json")
        files.write_json(written[-1], self.record() | dict(run_info or {}))
        return written

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
        fields, is_nodal = self._fields, self.location == "nodes"
        log_unit = f"ln k, k in {conductivity_unit}" if conductivity_unit else ""
        panels = [
            plots.Panel("Log-conductivity, posterior mean", fields[f"{FIELD}_mean"], is_nodal,
                        "viridis", log_unit),
            plots.Panel("Log-conductivity, posterior sd", fields[f"{FIELD}_sd"], is_nodal,
                        "magma"),
        ]  # fmt: skip
        if "solution_mean" in fields:
            readings = None if self.sensors is None else self.sensors.values
            panels.append(
                plots.Panel(f"{solution_name}, posterior mean", fields["solution_mean"], True,
                            "inferno", solution_unit, sensor_values=readings)
            )  # fmt: skip
        else:
            panels.append(
                plots.Panel("Conductivity, posterior mean", fields["conductivity_mean"], is_nodal,
                            "plasma", conductivity_unit)
            )  # fmt: skip
        if "variance_reduction" in fields:
            panels.append(
                plots.Panel("Variance reduction", fields["variance_reduction"], is_nodal,
                            "cividis", "of prior variance", is_share=True)
            )  # fmt: skip
        figure = plots.plot_panels(
            flatten(self.points, self.cells), panels, self._sensor_points(), length_unit
        )
        return _saved(figure, path)

    def plot_chains(self, path: str | os.PathLike | None = None) -> Figure:
        """Draw traces and ranks of the scalars: see `plots.plot_chains`."""
        return _saved(plots.plot_chains(self.scalars, self.scalar_diagnostics), path)

    def plot_sensors(
        self, path: str | os.PathLike | None = None, *, quantity: str = "reading"
    ) -> Figure:
        """Draw predictions against readings: see `plots.plot_sensors`."""
        return _saved(plots.plot_sensors(self.sensor_fit(), quantity), path)


def _saved(figure: Figure, path: str | os.PathLike | None) -> Figure:
    if path is not None:
        plots.save_figure(figure, path)
    return figure


def _stats(chain: Any) -> Mapping[str, np.ndarray]:
    return getattr(chain, "stats", None) or {}


def _common(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, list[np.ndarray]]:
    """Statistics that all chains have, with one shape (chains may differ after an interruption)."""
    return {
        name: [np.asarray(part[name]) for part in parts]
        for name in parts[0]
        if all(name in part for part in parts)
        and len({np.shape(part[name]) for part in parts}) == 1
        and np.ndim(parts[0][name]) >= 1
        and np.size(parts[0][name])
    }
