"""Comparison of runs of several models of the same readings, by leave-one-out predictions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from invlift.errors import InputError, errors_at
from invlift.posterior.statistics.leave_one_out import MAX_PARETO_K, standard_error
from invlift.posterior.statistics.of_draws import PosteriorStatistics

SAME_TABLE = "compare runs of one sensor table, with the same sensors in use"


def compare_runs(
    runs: Mapping[str, PosteriorStatistics],
    refits: Mapping[str, Mapping[int, float]] | None = None,
) -> pd.DataFrame:
    """Compare runs by name, best first.

    Parameters
    ----------
    runs : mapping of str to Posterior
    refits : mapping of str to mapping of int to float, optional
        Log densities of readings by number, from runs without this reading, for runs by name.

    Returns
    -------
    pandas.DataFrame
        Columns ``elpd``, ``se`` (its standard error), ``below`` (the ``elpd`` of the best run less
        that of this run), ``below_se`` (standard error of this difference, reading by reading:
        Vehtari, Gelman & Gabry 2017, eqs 23 and 24), ``p_loo``, ``num_unreliable`` (number of
        sensors with Pareto k above 0.7), ``max_pareto_k`` and ``weight`` (see `stacking_weights`).

    Raises
    ------
    InputError
        If the runs do not have the same readings in the same order, other readings are
        censored, or a run has no log likelihoods or some that are not finite.
    """
    first, loos, readings = next(iter(runs)), {}, {}
    for name, run in runs.items():
        with errors_at(name):
            loos[name] = run.fit.leave_one_out().refitted((refits or {}).get(name, {}))
        values = [np.ravel(values) for _, values in run.fit.arrays.values()]
        readings[name] = np.concatenate(values).astype(float)
        if not np.array_equal(readings[first], readings[name]):
            expected = f"the {readings[first].size} readings of {first}"
            is_moved = np.array_equal(*map(np.sort, (readings[first], readings[name])))
            how = "in another order" if is_moved else "not the same"
            found = f"{readings[name].size} readings, {how}"
            raise InputError(name, expected, found, SAME_TABLE)
        # A censored reading has a probability, which has no ratio to a density.
        limits = (each.readings.limits for each in (runs[first], run))
        if np.any(np.not_equal(*("" if each is None else each for each in limits))):
            raise InputError(name, f"the censored readings of {first}", "others", SAME_TABLE)
        if loos[first].elpd.shape != loos[name].elpd.shape:
            expected = f"{loos[first].elpd.size} densities of these readings, as {first} has"
            found = f"{loos[name].elpd.size}, of vectors of other lengths"
            remedy = "compare models with vectors of the same lengths, or independent readings"
            raise InputError(name, expected, found, remedy)
        bad = np.flatnonzero(np.isnan(loos[name].elpd))
        if bad.size:
            labels = run.readings.labels
            is_named = labels is not None and run.fit.is_loo_of_sensors
            first_bad = labels[bad[0]] if is_named else f"index {bad[0]}"
            found = f"others at {bad.size} of {loos[name].elpd.size} readings, the first "
            found += f"is {first_bad}"
            remedy = "see the verdict on that run"
            raise InputError(name, "log likelihoods that are finite", found, remedy)
    elpd = {name: loo.elpd for name, loo in loos.items()}
    best = max(elpd.values(), key=np.sum)
    weights = stacking_weights(np.array(list(elpd.values())))
    rows = {}
    for (name, loo), weight in zip(loos.items(), weights, strict=True):
        (total, error), (num_effective, _) = loo.totals().values()
        rows[name] = {
            "elpd": total, "se": error,
            "below": np.sum(best - loo.elpd), "below_se": standard_error(best - loo.elpd),
            "p_loo": num_effective, "num_unreliable": int(np.sum(loo.pareto_k > MAX_PARETO_K)),
            "max_pareto_k": loo.pareto_k.max(), "weight": weight,
        }  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").sort_values("below")


def stacking_weights(elpd: np.ndarray) -> np.ndarray:
    """Return the weights (K,) of models in the mixture that predicts the readings best.

    The weights are not negative and their sum is 1. `elpd` (K, d) are log densities of each reading
    given all others. Yao, Vehtari, Simpson & Gelman (2018), "Using stacking to average Bayesian
    predictive distributions", Bayesian Analysis 13(3), eq. 4; with the optimiser that ArviZ uses.
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
