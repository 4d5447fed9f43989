"""What is computed from the draws of a run: scalars to diagnose, fields to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from invlift.errors import InputError
from invlift.moments import BatchMeans, Moments, merged
from invlift.posterior.batches import ess_of_batches
from invlift.posterior.diagnostics import diagnose_field
from invlift.posterior.names import DERIVED, FIELD, PARAMETERS, SOLUTION
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
        `sigma[i]`; of vectors of more than 1,000 entries mean and standard deviation alone. Not of
        the solution, nor of predictions and noise variables at the sensors.
    """
    result = {
        name: [np.asarray(chain, dtype=float) for chain in chains]
        for name, chains in draws.items()
        if np.ndim(chains[0]) == 1
    }
    vectors = {
        name: chains
        for name, chains in draws.items()
        if np.ndim(chains[0]) == 2 and name not in DERIVED
    }
    for name, chains in vectors.items():
        if _is_long(name, chains) and f"{name}_field_mean" not in draws:
            result[f"{name}_field_mean"] = [np.mean(values, axis=1) for values in chains]
            with np.errstate(invalid="ignore"):  # the verdict tells of draws that are not finite
                result[f"{name}_field_std"] = [np.std(values, axis=1) for values in chains]
    # The parameters first, as a table of the scalars has them.
    for name in sorted(vectors, key=lambda name: name != PARAMETERS):
        if not _is_long(name, vectors[name]):
            numbered = [f"{name}[{i}]" for i in range(np.shape(vectors[name][0])[1])]
            is_named = name == PARAMETERS and names
            result |= _entries(vectors[name], names if is_named else numbered)
    return result


def vector_draws(
    draws: Mapping[str, Sequence[np.ndarray]],
) -> dict[str, list[np.ndarray]]:
    """What is recorded of a run beside its field and not looked at entry by entry, flattened.

    Parameters
    ----------
    draws : mapping of str to sequence of (num_draws, ...) arrays
        Draws of each quantity, one array per chain.

    Returns
    -------
    dict of str to list of (num_draws, N) arrays
        Vectors of more than 1,000 entries and matrices; what follows from the coefficients
        (`names.DERIVED`) only where these are not recorded.
    """
    has_coefficients = FIELD in draws or PARAMETERS in draws
    return {
        name: [np.reshape(values, (len(values), -1)) for values in chains]
        for name, chains in draws.items()
        if name != FIELD and (not has_coefficients if name in DERIVED else _is_long(name, chains))
    }


def _is_long(name: str, chains: Sequence[np.ndarray]) -> bool:
    shape = np.shape(chains[0])
    return len(shape) > 2 or (len(shape) == 2 and (name == FIELD or shape[1] > MAX_ENTRIES))


def movement(draws: Mapping[str, Sequence[np.ndarray]]) -> list[np.ndarray]:
    """A scalar of each chain, (num_draws,), that changes where anything recorded does.

    It counts the changes; not a number where something recorded is not.

    Parameters
    ----------
    draws : mapping of str to sequence of (num_draws, ...) arrays
        One array per chain.
    """
    return [_num_changes(list(chains)) for chains in zip(*draws.values(), strict=True)]


def _num_changes(quantities: list[np.ndarray]) -> np.ndarray:
    num_draws = max(map(len, quantities))
    has_moved, is_finite = np.zeros(num_draws, bool), np.ones(num_draws, bool)
    for values in quantities:
        if len(values) == num_draws:  # of a field perhaps not all draws are stored
            rows = np.reshape(np.asarray(values, dtype=float), (num_draws, -1))
            has_moved[1:] |= np.any(rows[1:] != rows[:-1], axis=1)
            is_finite &= np.isfinite(rows).all(axis=1)
    return np.where(is_finite, np.cumsum(has_moved), np.nan)


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
