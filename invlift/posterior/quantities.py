"""What is computed from the draws of a run: scalars to diagnose, fields to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from invlift.errors import InputError
from invlift.moments import BatchMeans, Moments, merged
from invlift.posterior.along_axis import axis_of
from invlift.posterior.batches import ess_of_batches
from invlift.posterior.chains import Chain, every_of, kept
from invlift.posterior.diagnostics import diagnose_field
from invlift.posterior.exceedance import exceedance_fields
from invlift.posterior.names import FIELD, vector_of
from invlift.posterior.quantity import PLACES, Quantity
from invlift.posterior.statistics import (
    conductivity_statistics,
    field_statistics,
    variance_reduction,
)

#: Longer vectors are not looked at entry by entry, nor longer series along an axis of numbers, of
#: which pictures tell more.
MAX_ENTRIES, MAX_ALONG = 1000, 50
#: Spread of an entry, relative to the largest, up to which it is known but for rounding.
ROUNDING = 1e-9


def scalar_draws(
    draws: Mapping[str, Sequence[np.ndarray]], quantities: Mapping[str, Quantity]
) -> dict[str, list[np.ndarray]]:
    """Scalars of a run: those drawn, and those taken from vectors and fields.

    Parameters
    ----------
    draws : mapping of str to sequence of (num_draws, ...) arrays
        Draws of each quantity, one array per chain.
    quantities : mapping of str to Quantity
        What each is.

    Returns
    -------
    dict of str to list of (num_draws,) arrays
        One array per chain: scalars, then mean and standard deviation of fields and of vectors of
        more than `MAX_ENTRIES` or `MAX_ALONG` entries, then the entries of the other vectors.
        Nothing of what is derived.
    """
    own = {name: chains for name, chains in draws.items() if not quantities[name].is_derived}
    result = {
        name: [np.asarray(chain, dtype=float) for chain in chains]
        for name, chains in own.items()
        if np.ndim(chains[0]) == 1
    }
    vectors = {name: chains for name, chains in own.items() if np.ndim(chains[0]) == 2}
    for name, chains in vectors.items():
        if _is_long(quantities[name], chains) and f"{name}_field_mean" not in draws:
            result[f"{name}_field_mean"] = [np.mean(values, axis=1) for values in chains]
            with np.errstate(invalid="ignore"):  # the verdict tells of draws that are not finite
                result[f"{name}_field_std"] = [np.std(values, axis=1) for values in chains]
    for name, chains in vectors.items():
        if not _is_long(quantities[name], chains):
            columns = [np.asarray(chain, dtype=float).T for chain in chains]
            for index, entry in enumerate(quantities[name].entries(np.shape(chains[0])[1:])):
                result[entry] = [column[index] for column in columns]
    return result


def without_known(chains: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Draws of the entries of a vector, (num_draws, N), that differ between draws or chains.

    By more than rounding; if all are the same they are all kept, as no chain has moved then.
    """
    low = np.min([chain.min(axis=0) for chain in chains], axis=0)
    high = np.max([chain.max(axis=0) for chain in chains], axis=0)
    size = np.max(np.maximum(np.abs(low), np.abs(high)), initial=0.0)
    is_known = high - low <= ROUNDING * size
    return list(chains) if is_known.all() else [chain[:, ~is_known] for chain in chains]


def vector_draws(
    draws: Mapping[str, Sequence[np.ndarray]], quantities: Mapping[str, Quantity]
) -> dict[str, list[np.ndarray]]:
    """What is recorded of a run and not looked at entry by entry, flattened.

    Parameters
    ----------
    draws : mapping of str to sequence of (num_draws, ...) arrays
        Draws of each quantity, one array per chain.
    quantities : mapping of str to Quantity
        What each is.

    Returns
    -------
    dict of str to list of (num_draws, N) arrays
        Fields, long vectors and matrices; what is derived only where nothing
        that it could be derived from is recorded.
    """
    has_own = any(not quantities[name].is_derived for name in draws)
    return {
        name: [np.reshape(values, (len(values), -1)) for values in chains]
        for name, chains in draws.items()
        if (not has_own if quantities[name].is_derived else _is_long(quantities[name], chains))
    }


def _is_long(quantity: Quantity, chains: Sequence[np.ndarray]) -> bool:
    shape = np.shape(chains[0])
    if len(shape) != 2:
        return len(shape) > 2
    return bool(quantity.place) or shape[1] > (MAX_ALONG if axis_of(quantity) else MAX_ENTRIES)


def chosen(
    scalars: Mapping[str, list[np.ndarray]], names: Sequence[str] | None
) -> Mapping[str, list[np.ndarray]]:
    """Scalars by name, all of them without names; that of a vector stands for its entries.

    Raises
    ------
    InputError
        If there is no scalar of a name.
    """
    if not names:
        return scalars
    for name in names:
        if name not in scalars.keys() | set(map(vector_of, scalars)):
            known = ", ".join(scalars)
            raise InputError("plot of scalars", f"some of {known}", repr(name), "choose one")
    return {
        key: chains for key, chains in scalars.items() if key in names or vector_of(key) in names
    }


def movement(
    draws: Mapping[str, Sequence[np.ndarray]], field: str | None = None
) -> list[np.ndarray]:
    """A scalar of each chain, (num_draws,), that changes where anything recorded does.

    It counts the changes; not a number where something recorded is not.

    Parameters
    ----------
    draws : mapping of str to sequence of (num_draws, ...) arrays
        One array per chain.
    field : str or None
        Name of a field that changes whenever anything does, which then is all that is looked at.
    """
    if field is not None:
        means = f"{field}_field_mean"
        name = means if means in draws else field  # of which all draws are stored
        draws = {name: draws[name]}
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


def fields_of(
    chains: Sequence[Chain],
    described: Mapping[str, Quantity],
    further: Iterable[Quantity],
    exceedance: Sequence[float],
) -> dict[str, dict[str, np.ndarray]]:
    """Statistics of all fields: see `Posterior.fields`.

    Parameters
    ----------
    chains : sequence of Chain
    described : mapping of str to Quantity
        What the draws are of.
    further : iterable of Quantity
        Some of which there may be moments alone.
    exceedance : sequence of float
        Thresholds of the conductivity.

    Returns
    -------
    dict of str to dict of str to array
        Those on nodes and those on cells, by "node" and "cell".
    """
    found = {place: {} for place in PLACES}
    moments = kept(chains, "moments")
    for name, quantity in (described | {each.name: each for each in further}).items():
        has_draws = name in described
        if quantity.place is None or not (has_draws or any(name in part for part in moments)):
            continue
        draws = [chain.draws[name] for chain in chains] if has_draws else None
        here = found[quantity.place]
        if quantity.is_derived:
            here |= derived_statistics(name, [p[name] for p in moments if name in p], draws)
            continue
        sums = None
        if every_of(chains, name) > 1 and all(name in part for part in moments):
            batches = [part[name] for part in kept(chains, "batches")]
            sums = [part[name] for part in moments], batches
        here |= field_statistics_of(draws, quantity, sums)
        if name == FIELD:
            here |= exceedance_fields(draws, exceedance)
    return found


def field_statistics_of(
    draws: Sequence[np.ndarray],
    quantity: Quantity,
    sums: tuple[Sequence[Moments], Sequence[BatchMeans]] | None = None,
) -> dict[str, np.ndarray]:
    """Statistics and diagnostics of a field, value by value.

    Parameters
    ----------
    draws : sequence of (num_draws, N) arrays
        One array per chain.
    quantity : Quantity
        What they are of; "log_conductivity" brings the conductivity with it.
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
    name, prior_sd = quantity.name, quantity.prior_sd
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
        reduction = variance_reduction(result[f"{name}_sd"], prior_sd)
        result["variance_reduction" if name == FIELD else f"{name}_variance_reduction"] = reduction
        result[f"{name}_prior_sd"] = np.broadcast_to(np.asarray(prior_sd, float), reduction.shape)
    return result


def derived_statistics(
    name: str, moments: Sequence[Moments], draws: Sequence[np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Statistics of a field of which a chain keeps moments, and perhaps draws.

    Parameters
    ----------
    name : str
    moments : sequence of Moments
        One per chain. Chains that have seen nothing are passed over.
    draws : sequence of (num_draws, N) arrays or None
        One array per chain, for quantiles.

    Returns
    -------
    dict
        `{name}_mean`, `_sd`, and of draws `_q05`, `_q50`, `_q95`; without moments all from the
        draws, and nothing if there are none either.

    Raises
    ------
    InputError
        If the chains differ in size.
    """
    filled = [part for part in moments if part.count > 0]
    if not filled:
        return {} if draws is None else field_statistics(draws, name)
    shapes = {np.shape(part.mean) for part in filled}
    if len(shapes) > 1:
        raise InputError(
            f"moments of {name}",
            "one size in every chain",
            str(sorted(shapes)),
            "combine chains of one mesh only",
        )
    both = merged(filled)
    quantiles = {} if draws is None else field_statistics(draws, name)
    return quantiles | {f"{name}_mean": both.mean, f"{name}_sd": both.sd}
