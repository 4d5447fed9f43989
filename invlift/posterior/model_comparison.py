"""Runs of several models of the same readings, compared by leave-one-out predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from invlift.errors import InputError, printable
from invlift.posterior.leave_one_out import MIN_DRAWS, LeaveOneOut, leave_one_out
from invlift.posterior.names import OBSERVED
from invlift.posterior.run_folder import DRAWS, read_groups, read_record


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A run's folder, as it was given, its readings, (d,), their prediction and its verdict."""

    name: str
    observed: np.ndarray
    loo: LeaveOneOut
    is_converged: bool


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A run among others of the same readings.

    `below`, (d,), is how far the log density of each reading given all others is below the best
    run's; `weight` is that in the mixture of all runs that predicts best: see `stacking_weights`.
    """

    run: SavedRun
    below: np.ndarray
    weight: float


def read_saved_run(directory: str | os.PathLike) -> SavedRun:
    """Read the leave-one-out predictions of a run from the folder of its results.

    An InputError if it is no such folder, was written without log likelihood, or holds fewer than
    `MIN_DRAWS` draws or values that are not finite.
    """
    name = printable(os.fspath(directory))
    groups = read_groups(Path(directory), ("log_likelihood", "observed_data"))
    logs, readings = groups.values()

    def refuse(expected: str, found: str, remedy: str) -> InputError:
        return InputError(f"{name}, {DRAWS}", expected, found, remedy)

    if not (logs and readings):
        missing = " and ".join(key for key, each in groups.items() if not each)
        again = f"write the results again: invlift run {name}/problem.toml --out {name} --resume"
        expected = "the groups observed_data and log_likelihood"
        raise refuse(expected, f"a file without {missing}", again)
    names = [OBSERVED] if OBSERVED in readings else list(readings)
    observed = np.concatenate([np.ravel(readings[name]) for name in names]).astype(float)
    parts = [np.asarray(logs[name], dtype=float) for name in names]
    values = np.concatenate([each.reshape(*each.shape[:2], -1) for each in parts], axis=2)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=(0, 1)))
    if bad.size:
        found = f"others at {bad.size} of {observed.size} sensors, the first sensor {bad[0]}"
        raise refuse("log likelihoods that are finite", found, "see the verdict on that run")
    loo = leave_one_out(list(values))
    if loo is None:
        num = values.shape[0] * values.shape[1]
        raise refuse(f"at least {MIN_DRAWS} draws", f"{num}", "run longer: --resume --draws N")
    return SavedRun(name, observed, loo, read_record(Path(directory)).verdict.is_converged)


def compare_runs(runs: Sequence[SavedRun]) -> list[ComparedRun]:
    """Compare runs, best first; an InputError if they are not of the same readings in one order."""
    first = runs[0]
    for run in runs[1:]:
        if not np.array_equal(first.observed, run.observed):
            expected = f"the {first.observed.size} readings of {first.name}"
            found = f"{run.observed.size} readings, not the same"
            remedy = "compare runs of one sensor table, with the same sensors in use"
            raise InputError(run.name, expected, found, remedy)
        if run.loo.elpd.shape != first.loo.elpd.shape:
            expected = f"{first.loo.elpd.size} densities of these readings, as {first.name} has"
            found = f"{run.loo.elpd.size}, of vectors of other lengths"
            remedy = "compare models with vectors of the same lengths, or independent readings"
            raise InputError(run.name, expected, found, remedy)
    elpd = np.array([run.loo.elpd for run in runs])
    best = elpd[elpd.sum(axis=1).argmax()]
    rows = map(ComparedRun, runs, best - elpd, stacking_weights(elpd).tolist())
    return sorted(rows, key=lambda row: row.below.sum())


def stacking_weights(elpd: np.ndarray) -> np.ndarray:
    """Weights (K,) of models in the mixture that predicts readings best; not negative, of sum 1.

    `elpd` (K, d) are log densities of each reading given all others. Yao, Vehtari, Simpson & Gelman
    (2018), "Using stacking to average Bayesian predictive distributions", Bayesian Analysis 13(3),
    eq. 4; by the optimiser that ArviZ takes.
    """
    density = np.exp(elpd - elpd.max(axis=0))

    def loss(weights):
        mixture = weights @ density
        return -np.log(mixture).sum(), -(density / mixture).sum(axis=1)

    num, sum_is_one = len(elpd), {"type": "eq", "fun": lambda weights: weights.sum() - 1.0}
    options = {"jac": True, "method": "SLSQP", "bounds": [(0.0, 1.0)] * num}
    result = minimize(loss, np.full(num, 1.0 / num), constraints=sum_is_one, **options)
    weights = np.maximum(result.x, 0.0)
    return weights / weights.sum()
