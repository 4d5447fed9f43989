"""What is computed from the draws of a run: scalars to diagnose, fields to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from invlift.errors import InputError
from invlift.moments import BatchMeans, Moments, merged
from invlift.posterior.batches import ess_of_batches
from invlift.posterior.diagnostics import diagnose_field
from invlift.posterior.names import FIELD, FIELDS, NOISE_SCORE, PARAMETERS, PREDICTED, SOLUTION
from invlift.posterior.statistics import (
    conductivity_statistics,
    field_statistics,
    variance_reduction,
)

#: Longer vectors are not looked at entry by entry.
MAX_ENTRIES = 1000


def scalar_draws(
    draws: Mapping[str, Sequence[np.ndarray]], names: Sequence[str] | None = None
) -> dict[str, list[np.ndarray]]:
    """Scalars of a run: those stored, those taken from its field or parameters, short vectors.

    Parameters
    ----------
    draws : mapping of str to sequence of (num_draws, ...) arrays
        Draws of each quantity, one array per chain.
    names : sequence of str or None
        Names of the parameters; without them `parameters[i]`.

    Returns
    -------
    dict of str to list of (num_draws,) arrays
        One array per chain. Of any other vector, such as the noise's scale if there are several,
        `sigma[i]`; not of the predictions and noise variables at the sensors.
    """
    result = {
        name: [np.asarray(chain, dtype=float) for chain in chains]
        for name, chains in draws.items()
        if np.ndim(chains[0]) == 1
    }
    if FIELD in draws and f"{FIELD}_field_mean" not in draws:
        fields = draws[FIELD]
        result[f"{FIELD}_field_mean"] = [np.mean(field, axis=1) for field in fields]
        with np.errstate(invalid="ignore"):  # the verdict tells of draws that are not finite
            result[f"{FIELD}_field_std"] = [np.std(field, axis=1) for field in fields]
    if PARAMETERS in draws:
        result |= _entries(draws[PARAMETERS], names or _numbered(PARAMETERS, draws[PARAMETERS]))
    for name, chains in draws.items():
        is_vector = np.ndim(chains[0]) == 2 and np.shape(chains[0])[1] <= MAX_ENTRIES
        if is_vector and name not in (*FIELDS, PARAMETERS, PREDICTED, NOISE_SCORE):
            result |= _entries(chains, _numbered(name, chains))
    return result


def _numbered(name, chains):
    return [f"{name}[{i}]" for i in range(np.shape(chains[0])[1])]


def _entries(chains, names):
    columns = [np.asarray(chain, dtype=float).T for chain in chains]
    return {name: [column[i] for column in columns] for i, name in enumerate(names)}


def coefficient_fields(
    draws: Sequence[np.ndarray],
    name: str,
    prior_sd: np.ndarray | float | None = None,
    sums: tuple[Sequence[Moments], Sequence[BatchMeans]] | None = None,
) -> dict[str, np.ndarray]:
    """Statistics and diagnostics of each coefficient.

    Parameters
    ----------
    draws : sequence of (num_draws, N) arrays
        One array per chain.
    name : str
        What they are of; "log_conductivity" brings the conductivity with it.
    prior_sd : (N,) array, number or None
        Prior standard deviation of the coefficients.
    sums : moments and batch means of each chain, or None
        Of all draws, where those above are only some of them: mean with its standard
        error, standard deviation and effective sample size are then taken from these.

    Returns
    -------
    dict
        By name, (N,) each: see `Posterior.fields`.

    Raises
    ------
    InputError
        If the prior standard deviation is not positive or has another size.
    """
    result = field_statistics(draws, name)
    if name == FIELD:
        result |= conductivity_statistics(draws, result)
    result |= {f"{name}_{key}": value for key, value in diagnose_field(draws, name).items()}
    if sums is not None:
        both = merged(sums[0])
        ess = ess_of_batches(both, sums[1])
        result |= {f"{name}_mean": both.mean, f"{name}_sd": both.sd}
        result |= {f"{name}_ess_bulk": ess, f"{name}_mcse_mean": both.sd / np.sqrt(ess)}
    if prior_sd is not None:
        result["variance_reduction"] = variance_reduction(result[f"{name}_sd"], prior_sd)
        prior_sd = np.asarray(prior_sd, dtype=float)
        result[f"{name}_prior_sd"] = np.broadcast_to(prior_sd, np.shape(draws[0])[1:])
    return result


def solution_fields(
    moments: Sequence[Mapping[str, Moments]], draws: Sequence[np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """`solution_mean` and `solution_sd`, (num_nodes,) each; nothing if no chain has seen any.

    Parameters
    ----------
    moments : sequence of mappings of str to Moments
        One per chain. Chains that have seen nothing are passed over.
    draws : sequence of (num_draws, num_nodes) arrays or None
        One array per chain, for quantiles `solution_q05`, `_q50`, `_q95` as well.

    Raises
    ------
    InputError
        If the solutions differ in size.
    """
    parts = [part[SOLUTION] for part in moments if SOLUTION in part]
    filled = [part for part in parts if part.count > 0]
    if not filled:
        return {}
    shapes = {np.shape(part.mean) for part in filled}
    if len(shapes) > 1:
        raise InputError(
            "moments of solution",
            "one size in every chain",
            str(sorted(shapes)),
            "combine chains of one mesh only",
        )
    both = merged(filled)
    quantiles = {} if draws is None else field_statistics(draws, SOLUTION)
    return quantiles | {f"{SOLUTION}_mean": both.mean, f"{SOLUTION}_sd": both.sd}
