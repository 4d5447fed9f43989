"""A posterior read back from the files that it has written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from invlift.errors import InputError, printable
from invlift.posterior.labelled import quantity_of, read_group
from invlift.posterior.names import prior_sd_name
from invlift.posterior.posterior import Posterior
from invlift.posterior.quantity import Quantity
from invlift.posterior.readings import Draws, Readings
from invlift.posterior.record import read_json_record
from invlift.posterior.standards import Standards


@dataclass(frozen=True, eq=False)
class SavedChain:
    """Draws and statistics of a chain, as files have them: see `Chain`."""

    draws: Mapping[str, np.ndarray]
    stats: Mapping[str, np.ndarray]
    warmup_stats: Mapping[str, np.ndarray]
    every: Mapping[str, int]
    step_size: float | None = None
    warmup_seconds: float | None = None
    sampling_seconds: float | None = None


class SavedMesh(NamedTuple):
    """Nodes and cells of a run's mesh, which knows of no groups."""

    points: np.ndarray
    cells: np.ndarray


@dataclass(frozen=True, eq=False)
class SavedNoise:
    """New readings and likelihoods as files have them, (num_draws, d) for each chain."""

    replicated: list[np.ndarray]
    likelihoods: list[np.ndarray]

    def new_readings(self, rng: np.random.Generator, chains: Draws) -> list[np.ndarray]:
        """As :meth:`ReadingNoise.new_readings`."""
        return self.replicated

    def log_likelihood(self, chains: Draws) -> list[np.ndarray]:
        """As :meth:`ReadingNoise.log_likelihood`."""
        return self.likelihoods


def read_posterior(
    directory: str | os.PathLike, standards_of: Callable[[str], Standards | None] | None = None
) -> Posterior:
    """Read the posterior that a run has written.

    Parameters
    ----------
    directory : path-like
        With ``posterior.nc`` and ``run.json``.
    standards_of : callable, optional
        From the name of a method to its `Standards`.

    Returns
    -------
    Posterior
        With all draws in memory. Of a field of which not all draws were stored, all statistics are
        those of the stored draws.

    Raises
    ------
    InputError
        If the folder is not that of a run with draws, or a file is damaged.
    """
    directory = Path(directory)
    file = directory / "posterior.nc"
    if not file.is_file():
        raise InputError(
            str(directory),
            "the results folder of a run",
            "no posterior.nc in it" if directory.is_dir() else "no such folder",
            "give the folder that invlift run has written; a run that was stopped before its first "
            "draw goes on with --resume",
        )
    groups = ("posterior", "sample_stats", "warmup_sample_stats", "posterior_predictive")
    groups += ("log_likelihood", "observed_data", "constant_data")
    found = {name: read_group(file, name) or xr.Dataset() for name in groups}
    file_of_record = directory / "run.json"
    record = read_json_record(file_of_record, str(file_of_record))
    try:
        return _posterior(found, record, standards_of)
    except (KeyError, ValueError, TypeError) as reason:
        raise InputError(
            str(file),
            "the draws of a run, as invlift run writes them",
            f"others ({printable(str(reason))[:80]})",
            "take the file from a copy of the run, or run again",
        ) from None


def _posterior(
    found: Mapping[str, xr.Dataset],
    record: Mapping[str, Any],
    standards_of: Callable[[str], Standards | None] | None,
) -> Posterior:
    draws, constants = found["posterior"], found["constant_data"]
    quantities = [_quantity(variable, constants) for variable in draws.data_vars.values()]
    mesh = sensors = noise = None
    if "cells" in constants:
        mesh = SavedMesh(constants["points"].to_numpy(), constants["cells"].to_numpy())
    if "observed" in found["observed_data"]:
        observed = found["observed_data"]["observed"]
        labels = observed["sensor"].to_numpy().tolist() if "sensor" in observed.coords else None
        known = [constants.get(f"sensor_{name}") for name in ("sigma", "points")]
        known = [None if values is None else values.to_numpy() for values in known]
        others = {
            str(name).removeprefix("sensor_"): values.to_numpy().tolist()
            for name, values in constants.data_vars.items()
            if values.dims == ("sensor",) and name != "sensor_sigma"
        }
        sensors = Readings(observed.to_numpy(), *known, labels, others)
    if "observed" in found["log_likelihood"] and "observed" in found["posterior_predictive"]:
        both = (found[name]["observed"] for name in ("posterior_predictive", "log_likelihood"))
        noise = SavedNoise(*(list(values.to_numpy()) for values in both))
    method = record.get("method")
    return Posterior(
        [_chain(found, record, index) for index in range(draws.sizes["chain"])],
        quantities,
        mesh,
        sensors,
        noise,
        standards=standards_of(method) if standards_of and method else None,
        num_draws_requested=record.get("num_draws_requested"),
        compile_seconds=record.get("compile_seconds"),
        is_interrupted=record.get("is_interrupted"),
        objections=tuple(record.get("objections") or ()),
    )


def _quantity(variable: xr.DataArray, constants: xr.Dataset) -> Quantity:
    prior_sd = constants.get(prior_sd_name(str(variable.name)))
    found = quantity_of(variable)
    return found if prior_sd is None else replace(found, prior_sd=prior_sd.to_numpy())


def _chain(found: Mapping[str, xr.Dataset], record: Mapping[str, Any], index: int) -> SavedChain:
    draws = found["posterior"].isel(chain=index)
    every = {}
    for name, variable in draws.data_vars.items():
        numbers = variable[variable.dims[0]].to_numpy()
        if len(numbers) > 1 and numbers[1] > 1:
            every[name] = int(numbers[1])
    stats = [found[name] for name in ("sample_stats", "warmup_sample_stats")]
    stats = [each.isel(chain=index) if "chain" in each.dims else each for each in stats]
    values = [
        {str(name): variable.to_numpy() for name, variable in part.data_vars.items()}
        for part in (draws, *stats)
    ]
    numbers = [
        (record.get(name) or [None] * (index + 1))[index]
        for name in ("step_size", "warmup_seconds", "sampling_seconds")
    ]
    return SavedChain(*values, every, *numbers)
