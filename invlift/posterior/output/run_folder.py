"""Read the folder of a run: its record, its draws, and its posterior."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from pydantic import BaseModel, ConfigDict, ValidationError

from invlift.chains import Chain
from invlift.errors import InputError
from invlift.files.input_files import read_text
from invlift.posterior.names import LIMITS, MESH_ERROR, OBSERVED
from invlift.posterior.output.files import RECORD_SHA256, record_sha256
from invlift.posterior.output.folder_files import (
    DRAWS,
    RECORD,
    REMEDY,
    problem_file,
    problem_sha256,
)
from invlift.posterior.posterior import Posterior
from invlift.posterior.statistics.labelled import (
    ROOT,
    axes_of,
    coordinates_of,
    quantity_of,
    read_groups,
)
from invlift.posterior.statistics.parts import Draws, Readings
from invlift.posterior.verdict import Verdict
from invlift.standards import NO_STANDARDS, Standards

#: Entries of the record that belong to the posterior, and those that belong to its chains.
_RECORDED = {
    "num_draws_requested", "num_chains_requested", "compile_seconds", "is_interrupted",
    "exceedance", "materials", "objections", "doubts",
}  # fmt: skip
_OF_CHAINS = {"step_size", "warmup_seconds", "sampling_seconds"}
#: Largest size of a text file of a run that is read, bytes.
MAX_BYTES = 2**24


class Record(BaseModel):
    """The content of ``run.json`` (docs/outputs.md); None or empty where unknown."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    verdict: Verdict
    method: str | None = None
    problem_sha256: str | None = None
    num_chains: int | None = None
    num_draws: int | None = None
    num_draws_requested: int | None = None
    num_chains_requested: int | None = None
    compile_seconds: float | None = None
    is_interrupted: bool | None = None
    exceedance: list[float] = []
    materials: dict[str, float | str] = {}
    objections: list[str] = []
    doubts: list[tuple[str, str]] = []
    step_size: list[float | None] = []
    warmup_seconds: list[float | None] = []
    sampling_seconds: list[float | None] = []


def read_record(directory: Path) -> Record:
    """Read the record of a run, ``run.json``; an InputError if it is not valid."""
    return _read_record(directory)[0]


def _read_record(directory: Path) -> tuple[Record, str]:
    """Return the record and the digest of its values."""
    file = directory / RECORD
    what = "the record of a run with its verdict, as invlift run writes it"
    remedy = "give the folder that invlift run has written"
    text = read_text(file, str(file), what, remedy=remedy, max_bytes=MAX_BYTES)
    try:
        return Record.model_validate_json(text), record_sha256(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(f"{file}{key and ', '}{key}", what, first["msg"], REMEDY) from None


class SavedMesh(NamedTuple):
    """Nodes and cells as stored in files, without groups."""

    points: np.ndarray  # (num_nodes, dim)
    cells: np.ndarray  # (num_cells, dim + 1)
    unit: str = ""
    inner_facets: np.ndarray = np.zeros((0, 2), dtype=int)
    boundaries: Mapping[str, np.ndarray] = {}


@dataclass(frozen=True, eq=False)
class SavedNoise:
    """New readings and log densities by name, as stored in files: see `ReadingNoise`."""

    replicated: Mapping[str, list[np.ndarray]]
    likelihoods: Mapping[str, list[np.ndarray]]
    thinning: int = 1

    def every(self, chains: Sequence[Chain]) -> int:
        """Return the thinning of the draws for which they are stored."""
        return self.thinning

    def new_readings(
        self, rng: np.random.Generator, chains: Draws, paths: Mapping[str, np.ndarray]
    ) -> dict[str, list[np.ndarray]]:
        """Return new readings, also along paths, by name, (num_draws, ...) for each chain."""
        return dict(self.replicated)

    def log_likelihoods(self, chains: Draws) -> dict[str, list[np.ndarray]]:
        """Return log densities by name, (num_draws, ...) for each chain."""
        return dict(self.likelihoods)


def read_posterior(
    directory: str | os.PathLike, standards: Mapping[str, Standards] | None = None
) -> Posterior:
    """Read the posterior that a run has written, with all draws in memory.

    `standards` are the standards of methods by name. If not all draws of a field were stored, its
    statistics are computed from the stored draws. Raises an InputError if the folder has no run
    with draws, a file is damaged, or record or problem belong to another run.
    """
    directory = Path(directory)
    file = directory / DRAWS
    if not file.is_file():
        found = f"no {DRAWS} in it" if directory.is_dir() else "no such folder"
        remedy = "give the folder that invlift run or Posterior.write has written; chains without "
        remedy += "one go on with --resume, in Python sample(..., checkpoint=folder, resume=True)"
        raise InputError(str(directory), "the results folder of a run", found, remedy)
    found, (record, digest) = read_groups(file), _read_record(directory)
    try:
        posterior = Posterior(
            _chains(found, record),
            [quantity_of(each, found["constant_data"]) for each in found["posterior"].values()],
            **_surroundings(found),
            standards=(standards or {}).get(record.method, NO_STANDARDS),
            **record.model_dump(include=_RECORDED),
        )
    except (LookupError, ValueError, TypeError) as reason:
        expected = "the draws of a run, as invlift run writes them"
        raise InputError(str(file), expected, f"others ({reason})"[:80], REMEDY) from None
    # Another program that rewrote the draws may have left out the digest.
    is_own = found[ROOT].attrs.get(RECORD_SHA256, digest) == digest
    sizes = {"num_chains": posterior.num_chains, "num_draws": posterior.num_draws}
    is_own &= all(getattr(record, name) in (None, size) for name, size in sizes.items())
    _check_is_of_one_run(directory, is_own, record)
    return posterior


def _check_is_of_one_run(directory: Path, has_own_record: bool, record: Record) -> None:
    """Raise an InputError if record or problem were not written together with the draws."""
    has_own_problem, problem = True, problem_file(directory)
    if record.problem_sha256 is not None and problem.is_file():
        what, where = "the problem of the run", f"{problem}"
        text = read_text(problem, where, what, remedy=REMEDY, max_bytes=MAX_BYTES)
        has_own_problem = problem_sha256(problem.name, text) == record.problem_sha256
    for file, is_own in ((directory / RECORD, has_own_record), (problem, has_own_problem)):
        if not is_own:
            expected, found = f"the file that was written with {DRAWS}", "another one, or changed"
            remedy = "take it from a copy of the run, or write all files again by run --resume"
            raise InputError(f"{file}", expected, found, remedy)


def _surroundings(groups: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    """Return mesh, sensors and noise of a posterior, as far as they are stored."""
    surroundings, constants = {}, groups["constant_data"]

    def known(name: str) -> np.ndarray | None:
        return constants[name].to_numpy() if name in constants else None

    if "cells" in constants:
        surroundings["mesh"] = SavedMesh(
            known("points"), known("cells"), constants["points"].attrs.get("units", "")
        )
        surroundings["mesh_error"] = known(MESH_ERROR)
    if observed := groups["observed_data"].data_vars:
        axes = axes_of(groups["posterior"])
        arrays = {str(name): (axes_of(each), each.to_numpy()) for name, each in observed.items()}
        coordinates = coordinates_of(constants)
        # Readings without noise variables, such as counts, are not part of the vector of readings.
        names = [OBSERVED] if OBSERVED in arrays else dict.fromkeys(coordinates["name"])
        values = np.concatenate([np.ravel(arrays[name][1]) for name in names]).astype(float)
        places = known("sensor_sigma"), known("sensor_points")
        arrays.pop(OBSERVED, None)
        limits = known(LIMITS)
        limits = None if limits is None else limits.astype(str)
        further = axes.get("sensor"), coordinates, arrays, limits
        surroundings["sensors"] = Readings(values, *places, *further)
    parts = groups["posterior_predictive"], groups["log_likelihood"]
    if all(each.data_vars for each in parts):
        step = max(map(_step_along, parts[1].data_vars.values()))
        surroundings["noise"] = SavedNoise(*map(_chains_of, parts), step)
    return surroundings


def _chains_of(group: xr.Dataset) -> dict[str, list[np.ndarray]]:
    """Return draws by name, (num_draws, ...) for each chain."""
    return {str(name): list(each.to_numpy()) for name, each in group.data_vars.items()}


def _step_along(variable: xr.DataArray) -> int:
    """Return the thinning of the draws of a variable."""
    numbers = variable[variable.dims[1]].to_numpy()
    return int(numbers[1]) if len(numbers) > 1 else 1


def _chains(groups: Mapping[str, xr.Dataset], record: Record) -> list[Chain]:
    """Return draws and statistics of each chain, as stored in files."""
    every = {}
    for name, variable in groups["posterior"].data_vars.items():
        if (step := _step_along(variable)) > 1:
            every[name] = step
    kinds = {"draws": "posterior", "stats": "sample_stats", "warmup_stats": "warmup_sample_stats"}
    times = record.model_dump(include=_OF_CHAINS)
    chains = []
    for chain in range(groups["posterior"].sizes["chain"]):
        parts = {
            kind: {str(name): values.to_numpy()[chain] for name, values in groups[group].items()}
            for kind, group in kinds.items()
        }
        parts |= {name: each[chain] if each else None for name, each in times.items()}
        chains.append(Chain(every=every, **parts))
    return chains
