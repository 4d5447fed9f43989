"""Runs of several models of the same readings, compared by leave-one-out predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from invlift.errors import InputError, printable
from invlift.posterior.labelled import read_group
from invlift.posterior.leave_one_out import (
    MIN_DRAWS,
    LeaveOneOut,
    leave_one_out,
    standard_error,
)
from invlift.posterior.record import read_json_record


@dataclass(frozen=True, eq=False)
class SavedRun:
    """What a run's results folder says of its fit to the readings.

    Attributes
    ----------
    name : str
        The folder, as it was given.
    observed : (d,) array
        Readings, in the unit of the solution.
    log_likelihood : list of (num_draws, d) arrays
        Log density of each reading given each draw, one array per chain.
    is_converged : bool
        By its verdict.
    """

    name: str
    observed: np.ndarray
    log_likelihood: list[np.ndarray]
    is_converged: bool


@dataclass(frozen=True)
class ComparedRun:
    """A run among others of the same readings.

    Attributes
    ----------
    name : str
    elpd, elpd_error : float
        Sum over the readings of log p(y_i | y_-i), and its standard error.
    difference, difference_error : float
        How far that is below the best run's (0 for itself), and the standard error of this.
    num_effective : float
        Effective number of parameters (p_loo).
    num_unreliable, num_sensors : int
        At how many sensors, of how many, the estimate is not reliable.
    max_pareto_k : float
        Largest Pareto k.
    weight : float
        In the mixture of all runs that predicts best: see `stacking_weights`.
    is_converged : bool
        By its verdict.
    """

    name: str
    elpd: float
    elpd_error: float
    difference: float
    difference_error: float
    num_effective: float
    num_unreliable: int
    num_sensors: int
    max_pareto_k: float
    weight: float
    is_converged: bool


def read_saved_run(directory: str | os.PathLike) -> SavedRun:
    """Read the log likelihood of a run from the folder of its results.

    Parameters
    ----------
    directory : path-like
        With `posterior.nc` and `run.json`, as `Posterior.write` leaves it.

    Returns
    -------
    SavedRun

    Raises
    ------
    InputError
        If it is no such folder, was written without log likelihood, or holds fewer than `MIN_DRAWS`
        draws or values that are not finite.
    """
    name, directory = printable(os.fspath(directory)), Path(directory)
    if not directory.is_dir():
        raise InputError(
            name,
            "the results folder of a run",
            "a file" if directory.exists() else "no such folder",
            "give the folder that invlift run has written",
        )
    draws = directory / "posterior.nc"
    if not draws.is_file():
        raise InputError(
            name,
            "the results folder of a run",
            "no posterior.nc in it",
            "give the folder that invlift run has written; a run that was stopped before its first "
            "draw goes on with --resume",
        )
    logs, observed = read_group(draws, "log_likelihood"), read_group(draws, "observed_data")
    if logs is None or observed is None:
        raise InputError(
            f"{name}, posterior.nc",
            "the groups observed_data and log_likelihood",
            "a file without" + (" log_likelihood" if logs is None else " observed_data"),
            "write the results again, which takes no new draws: invlift run "
            f"{name}/problem.toml --out {name} --resume",
        )
    values = np.asarray(logs.get("observed", np.nan), dtype=float)
    readings = np.asarray(observed.get("observed", np.nan), dtype=float)
    if values.ndim != 3 or not values.size or readings.shape != values.shape[2:]:
        raise InputError(
            f"{name}, posterior.nc",
            "log_likelihood (chain, draw, sensor) of each reading",
            f"shape {values.shape} for readings of shape {readings.shape}",
            "give the folder of a run as it was written",
        )
    if not np.isfinite(values).all():
        bad = ~np.isfinite(values).all(axis=(0, 1))
        raise InputError(
            f"{name}, posterior.nc",
            "log likelihoods that are finite",
            f"others at {bad.sum()} of {bad.size} sensors, the first sensor {np.argmax(bad)}",
            "see the verdict on that run",
        )
    if values.shape[0] * values.shape[1] < MIN_DRAWS:
        raise InputError(
            f"{name}, posterior.nc",
            f"at least {MIN_DRAWS} draws",
            f"{values.shape[0] * values.shape[1]}",
            "run longer: --resume --draws N",
        )
    return SavedRun(name, readings, list(values), _is_converged(directory / "run.json", name))


def _is_converged(path: Path, name: str) -> bool:
    file = f"{name}, run.json"
    try:
        return read_json_record(path, file)["verdict"]["is_converged"] is True
    except (TypeError, KeyError):
        raise InputError(
            file,
            "the record of a run, with its verdict",
            "something else",
            "give the folder of a run as it was written",
        ) from None


def compare_runs(runs: Sequence[SavedRun]) -> list[ComparedRun]:
    """Compare runs by how well each predicts every reading from all others.

    Parameters
    ----------
    runs : sequence of SavedRun
        Two or more, of the same readings in the same order.

    Returns
    -------
    list of ComparedRun
        Best first. The standard errors are those of Vehtari, Gelman & Gabry (2017), eqs 23 and 24.

    Raises
    ------
    InputError
        If there are fewer than two, two of one name, or the readings differ.
    """
    names = [run.name for run in runs]
    if len(runs) < 2 or len(set(names)) < len(names):
        raise InputError(
            "runs to compare",
            "two or more different folders",
            ", ".join(names) or "none",
            "add one",
        )
    for run in runs[1:]:
        _check_same_readings(runs[0], run)
    found = [leave_one_out(run.log_likelihood) for run in runs]
    weights = stacking_weights(np.array([loo.elpd for loo in found]))
    best = max(found, key=lambda loo: loo.elpd.sum())
    rows = [
        _row(run, loo, best, float(weight))
        for run, loo, weight in zip(runs, found, weights, strict=True)
    ]
    return sorted(rows, key=lambda row: row.difference)


def stacking_weights(elpd: np.ndarray) -> np.ndarray:
    """Weights of several models in the mixture that predicts the readings best.

    Yao, Vehtari, Simpson & Gelman (2018), "Using stacking to average Bayesian predictive
    distributions", Bayesian Analysis 13(3), eq. 4; by the optimiser that ArviZ takes.

    Parameters
    ----------
    elpd : (K, d) array
        Log density of each of d readings given all others, by each of K models.

    Returns
    -------
    (K,) array
        Not negative, of sum 1.
    """
    num_models = len(elpd)
    density = np.exp(elpd - elpd.max(axis=0))

    def loss(weights):
        mixture = weights @ density
        return -np.log(mixture).sum(), -(density / mixture).sum(axis=1)

    result = minimize(
        loss,
        np.full(num_models, 1.0 / num_models),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * num_models,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1.0},
    )
    weights = np.maximum(result.x, 0.0)
    return weights / weights.sum()


def _row(run: SavedRun, loo: LeaveOneOut, best: LeaveOneOut, weight: float) -> ComparedRun:
    (elpd, elpd_error), (num_effective, _) = loo.totals().values()
    below = best.elpd - loo.elpd
    return ComparedRun(
        run.name,
        elpd,
        elpd_error,
        float(below.sum()),
        standard_error(below),
        num_effective,
        int((~loo.is_reliable).sum()),
        loo.elpd.size,
        float(loo.pareto_k.max()),
        weight,
        run.is_converged,
    )


def _check_same_readings(first: SavedRun, other: SavedRun) -> None:
    if np.array_equal(first.observed, other.observed):
        return
    if first.observed.size != other.observed.size:
        found = f"{other.observed.size} readings"
    else:
        differ = np.flatnonzero(first.observed != other.observed)
        found = f"others at {differ.size} sensors, the first sensor {differ[0]}"
    raise InputError(
        other.name,
        f"the {first.observed.size} readings of {first.name}",
        found,
        "compare runs of one sensor table, with the same sensors in use",
    )
