"""Scalars of a run: drawn scalars, entries of vectors, moments of fields; and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.posterior.names import vector_of
from invlift.posterior.statistics.diagnostics import Diagnostics
from invlift.posterior.statistics.fields import PROBABILITIES
from invlift.posterior.statistics.quantity import MAX_ENTRIES, Quantity
from invlift.posterior.statistics.series import axis_of

#: Longer series along an axis of numbers, and larger matrices, have no statistics of single
#: entries. Figures show series better.
MAX_ALONG = 50
#: Relative spread up to which an entry is constant but for rounding.
ROUNDING = 1e-9
SUMMARY_COLUMNS = (
    "mean", "sd", *PROBABILITIES, "mcse_mean", "ess_bulk", "ess_tail", "r_hat",
)  # fmt: skip


def scalar_draws(
    draws: Mapping[str, Sequence[np.ndarray]], quantities: Mapping[str, Quantity]
) -> dict[str, list[np.ndarray]]:
    """Return the scalars of a run, (num_draws,) for each chain: see `Posterior.scalars`.

    `draws` are arrays (num_draws, ...) for each chain by name, `quantities` their descriptions.
    Derived quantities give no scalars, nor do known entries, such as the zeros of a triangular
    matrix.
    """
    unknowns = {name: chains for name, chains in draws.items() if not quantities[name].is_derived}
    numbers, moments, entries = {}, {}, {}
    # Series come last: they are long, and depend on the other unknowns.
    for name, chains in sorted(
        unknowns.items(), key=lambda each: bool(axis_of(quantities[each[0]]))
    ):
        if np.ndim(chains[0]) == 1:
            numbers[name] = [np.asarray(chain, dtype=float) for chain in chains]
        elif not _is_long(quantities[name], chains):
            shape = np.shape(chains[0])[1:]
            rows = [np.reshape(chain, (len(chain), -1)).astype(float) for chain in chains]
            names = np.array(quantities[name].entries(shape))
            for index in np.flatnonzero(~_is_known(rows, is_alike=False)):
                entries[str(names[index])] = [row[:, index] for row in rows]
        elif np.ndim(chains[0]) == 2 and f"{name}_field_mean" not in draws:
            moments[f"{name}_field_mean"] = [np.mean(values, axis=1) for values in chains]
            with np.errstate(invalid="ignore"):  # the verdict reports draws that are not finite
                moments[f"{name}_field_std"] = [np.std(values, axis=1) for values in chains]
    return numbers | moments | entries


def unknown_entries(chains: Sequence[np.ndarray]) -> np.ndarray:
    """Return which entries, (N,), of draws (num_draws, N) differ between draws or chains."""
    return ~_is_known(chains, is_alike=True)


def _is_known(chains: Sequence[np.ndarray], *, is_alike: bool) -> np.ndarray:
    """Return which entries, (N,), of draws (num_draws, N) are constant over all chains.

    Differences up to rounding are ignored: rounding of the entry, or with `is_alike` of the largest
    entry. If all are constant, no chain has moved, and none is marked as known.
    """
    low = np.min([chain.min(axis=0, initial=np.inf) for chain in chains], axis=0)
    high = np.max([chain.max(axis=0, initial=-np.inf) for chain in chains], axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):  # the verdict reports draws that are not finite
        is_known = high - low <= ROUNDING * (np.max(size, initial=0.0) if is_alike else size)
    return is_known & ~is_known.all()


def vector_draws(
    draws: Mapping[str, Sequence[np.ndarray]], quantities: Mapping[str, Quantity]
) -> dict[str, list[np.ndarray]]:
    """Return draws of fields, long vectors and large matrices, (num_draws, N) for each chain.

    Matrices are flattened. Derived quantities are included only if all recorded quantities are
    derived.
    """
    has_own = any(not quantities[name].is_derived for name in draws)
    return {
        name: [np.reshape(values, (len(values), -1)) for values in chains]
        for name, chains in draws.items()
        if (not has_own if quantities[name].is_derived else _is_long(quantities[name], chains))
    }


def _is_long(quantity: Quantity, chains: Sequence[np.ndarray]) -> bool:
    shape = np.shape(chains[0])[1:]
    is_vector = len(shape) == 1 and not axis_of(quantity)
    return bool(quantity.place) or np.prod(shape) > (MAX_ENTRIES if is_vector else MAX_ALONG)


def chosen(
    scalars: Mapping[str, list[np.ndarray]], names: Sequence[str] | None
) -> Mapping[str, list[np.ndarray]]:
    """Select scalars by name, or all; the name of a vector selects its entries.

    Raises an InputError if a name is unknown.
    """
    known = scalars.keys() | set(map(vector_of, scalars))
    for name in names or ():
        if name not in known:
            expected = f"some of {', '.join(scalars)}"
            raise InputError("plot of scalars", expected, repr(name), "choose one")
    return {
        name: scalars[name] for name in scalars if not names or {name, vector_of(name)} & {*names}
    }


def movement(
    draws: Mapping[str, Sequence[np.ndarray]], field: str | None = None
) -> list[np.ndarray]:
    """Count the moves of each chain up to each draw, (num_draws,); NaN if a draw is not finite.

    Draws are (num_draws, ...) for each chain by name. If the name of a field is given, only this
    field is examined, as it changes with every move.
    """
    if field is not None:
        means = f"{field}_field_mean"
        name = means if means in draws else field  # all draws of the means are stored
        draws = {name: draws[name]}
    return [_num_changes(chains) for chains in zip(*draws.values(), strict=True)]


def _num_changes(quantities: Sequence[np.ndarray]) -> np.ndarray:
    num_draws = max(map(len, quantities))
    has_moved, is_finite = np.zeros(num_draws, bool), np.ones(num_draws, bool)
    for values in quantities:
        if len(values) == num_draws:  # a field may have fewer stored draws
            rows = np.reshape(np.asarray(values, dtype=float), (num_draws, -1))
            has_moved[1:] |= np.any(rows[1:] != rows[:-1], axis=1)
            is_finite &= np.isfinite(rows).all(axis=1)
    return np.where(is_finite, np.cumsum(has_moved), np.nan)


def summarise(
    scalars: Mapping[str, Sequence[np.ndarray]], diagnostics: Mapping[str, Diagnostics]
) -> pd.DataFrame:
    """Return a table of scalars, one row each, with index `name`.

    The columns are `mean`, `sd`, quantiles `q05`, `q50`, `q95` (an equal-tailed 90 % interval), the
    Monte Carlo standard error of the mean `mcse_mean`, `ess_bulk`, `ess_tail` and `r_hat`.
    """
    rows = {}
    for name, chains in scalars.items():
        values = np.concatenate([np.asarray(chain, dtype=float) for chain in chains])
        each = diagnostics[name]
        sd = values.std(ddof=1) if values.size > 1 else np.nan
        quantiles = np.quantile(values, list(PROBABILITIES.values()))
        mcse = sd / np.sqrt(each.ess_mean[0])
        reliability = mcse, each.ess_bulk[0], each.ess_tail[0], each.r_hat[0]
        rows[name] = values.mean(), sd, *quantiles, *reliability
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(SUMMARY_COLUMNS), dtype=float)
    return table.rename_axis("name")
