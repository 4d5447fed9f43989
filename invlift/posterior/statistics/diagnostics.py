"""Rank-normalised split R-hat and effective sample sizes, for thousands of coefficients at once.

The definitions are those of Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), "Rank-
normalization, folding, and localization: an improved R-hat for assessing convergence of MCMC",
Bayesian Analysis 16(2), and agree with ArviZ to round-off. ArviZ loops over coefficients in Python
and ranks the draws once for R-hat and again for the effective sample size; here whole blocks are
ranked once and transformed together.

Two differences from ArviZ: a quantity that never changes has no diagnostics, and a single chain has
the R-hat of its halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from invlift.posterior.statistics.blocks import coefficient_blocks

MIN_DRAWS = 4  # two per half chain, for a variance within it
TAIL_PROBABILITIES = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Convergence diagnostics of N quantities; each attribute is (N,) and without unit.

    `r_hat` is the rank-normalised split R-hat, the larger of the plain and the folded one.
    `ess_bulk` is the effective sample size of the rank-normalised draws, `ess_tail` the smaller of
    those of the 5 % and 95 % quantiles, `ess_mean` that for the mean. NaN means "cannot be
    computed": fewer than four draws per chain, draws that are not finite, or all draws equal.
    """

    r_hat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    ess_mean: np.ndarray


def diagnose(draws: Sequence[np.ndarray], name: str = "field") -> Diagnostics:
    """Return all diagnostics of N quantities from draws (num_draws, N) for each chain.

    `name` is used in messages of errors.
    """
    return Diagnostics(**_diagnose(draws, name, tuple(Diagnostics.__annotations__)))


def diagnose_field(draws: Sequence[np.ndarray], name: str = "field") -> dict[str, np.ndarray]:
    """Return the diagnostics of a field by name, each (N,).

    They are `r_hat`, `ess_bulk` and `ess_tail`, without unit, and the Monte Carlo standard errors
    `mcse_mean` and `mcse_sd`, in the unit of the draws. NaN where they cannot be computed: see
    `Diagnostics`.
    """
    return _diagnose(draws, name, ("r_hat", "ess_bulk", "ess_tail", "mcse_mean", "mcse_sd"))


def _diagnose(draws, name: str, keys: Sequence[str]) -> dict[str, np.ndarray]:
    blocks = [diagnose_block(values, keys) for _, values in coefficient_blocks(draws, name)]
    return {key: np.concatenate([block[key] for block in blocks]) for key in keys}


def diagnose_block(
    values: np.ndarray, keys: Sequence[str] = ("r_hat", "ess_bulk")
) -> dict[str, np.ndarray]:
    """Return diagnostics by name, (N,) each, of a block (N, chains, num_draws).

    The block is contiguous along its draws. The standard error of the mean is sd / sqrt(ESS of the
    mean). That of the standard deviation follows from the effective sample size of the squared
    deviations, to first order (Kenney & Keeping 1951, Mathematics of statistics, part two, p. 141).
    Both agree with ArviZ.
    """
    result = {key: np.full(len(values), np.nan) for key in keys}
    is_usable = _is_usable(values)
    if not is_usable.any():
        return result
    usable = values if is_usable.all() else values[is_usable]
    halves = split_chains(usable)
    scores = rank_normalise(halves)
    median = np.median(halves, axis=(1, 2), keepdims=True)
    folded_scores = rank_normalise(np.abs(halves - median))
    # fmax ignores NaN: folding can make distinct stuck chains identical
    columns = {"r_hat": np.fmax(_plain_r_hat(scores), _plain_r_hat(folded_scores))}
    columns["ess_bulk"] = _plain_ess(scores)
    if "ess_tail" in keys:
        columns["ess_tail"] = _tail_ess(usable)
    if "ess_mean" in keys or "mcse_mean" in keys:
        columns["ess_mean"] = _plain_ess(halves)
    if "mcse_mean" in keys:
        square = (usable - usable.mean(axis=(1, 2), keepdims=True)) ** 2
        variance, size = square.mean(axis=(1, 2)), usable[0].size
        columns["mcse_mean"] = np.sqrt(variance * size / (size - 1) / columns["ess_mean"])
        with np.errstate(divide="ignore", invalid="ignore"):
            of_square = square.var(axis=(1, 2)) / _plain_ess(split_chains(square))
            columns["mcse_sd"] = np.sqrt(of_square / variance) / 2.0
    for key in keys:
        result[key][is_usable] = columns[key]
    return result


def _is_usable(values: np.ndarray) -> np.ndarray:
    """Return which quantities of a block (N, chains, num_draws) have diagnostics, (N,)."""
    if values.shape[-1] < MIN_DRAWS or not values.size:
        return np.zeros(len(values), dtype=bool)
    low, high = values.min(axis=(1, 2)), values.max(axis=(1, 2))
    return np.isfinite(low) & np.isfinite(high) & (low < high)


def _tail_ess(values: np.ndarray) -> np.ndarray:
    """Return the tail effective sample size of draws (N, chains, num_draws), not yet split.

    If one tail contains all draws, as for a quantity with two values, the other tail counts.
    """
    ends = np.quantile(values, TAIL_PROBABILITIES, axis=(1, 2))[..., None, None]
    return np.fmin(*(_plain_ess(split_chains((values <= end).astype(float))) for end in ends))


def split_chains(values: np.ndarray) -> np.ndarray:
    """Split each chain of (N, chains, num_draws) draws in half, without the middle draw if odd."""
    half = values.shape[-1] // 2
    return np.concatenate([values[..., :half], values[..., -half:]], axis=1)


def rank_normalise(values: np.ndarray) -> np.ndarray:
    """Replace (N, chains, num_draws) draws by the normal scores of their ranks; NaN is largest.

    z = Phi^-1((rank - 3/8) / (size + 1/4)) (Vehtari et al. 2021, eq. 14). Ranks run over all chains
    together. Equal draws get the mean of their ranks, so that repeated draws after a rejection stay
    equal.
    """
    flat = np.nan_to_num(values.reshape(len(values), -1), nan=np.inf)
    size = flat.shape[1]
    # a mean rank is a multiple of 1/2: twice a rank indexes a table of normal scores
    table = ndtri((np.arange(2 * size + 1) / 2 - 0.375) / (size + 0.25))
    return table[(2 * rankdata(flat, axis=1)).astype(int)].reshape(values.shape)


def _plain_r_hat(values: np.ndarray) -> np.ndarray:
    """Return the R-hat of draws (N, chains, num_draws) (Vehtari et al. 2021, eqs 1-4)."""
    num_draws = values.shape[-1]
    between = num_draws * values.mean(axis=-1).var(axis=-1, ddof=1)
    within = values.var(axis=-1, ddof=1).mean(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((between / within + num_draws - 1) / num_draws)


def _plain_ess(values: np.ndarray) -> np.ndarray:
    """Return the effective sample size of draws (N, chains, num_draws).

    It uses Geyer's initial positive and monotone sequences (Vehtari et al. 2021, eqs 10-13). NaN
    for a quantity that never changes.
    """
    _, num_chains, num_draws = values.shape
    centre = values.mean(axis=-1, keepdims=True)
    length = next_fast_len(2 * num_draws, real=True)
    spectrum = rfft(values - centre, n=length, axis=-1)
    # the transform is linear, so averaging over chains first saves all but one inverse
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    covariance = irfft(power, n=length, axis=-1)[:, :num_draws] / num_draws

    within = covariance[:, :1] * num_draws / (num_draws - 1.0)
    total = covariance[:, :1].copy()
    if num_chains > 1:
        total += centre[..., 0].var(axis=-1, ddof=1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1.0 - (within - covariance) / total
    correlation[:, 0] = 1.0

    # pairs considered: always the first, later ones while two lags remain beyond them
    num_pairs = max(1, (num_draws - 1) // 2)
    even = correlation[:, 0 : 2 * num_pairs : 2]
    pairs = even + correlation[:, 1 : 2 * num_pairs : 2]
    is_end = pairs <= 0
    last = np.where(is_end.any(axis=1), is_end.argmax(axis=1), num_pairs - 1)[:, None]
    falling = np.minimum.accumulate(pairs, axis=1)
    summed = np.where(np.arange(num_pairs) < last, falling, 0.0).sum(axis=1)
    last_even = np.take_along_axis(even, last, axis=1)[:, 0]
    last_pair = np.take_along_axis(pairs, last, axis=1)[:, 0]
    remainder = np.where((last_pair >= 0) | (last_even > 0), last_even, 0.0)

    size = num_chains * num_draws
    # antithetic chains may have more effective draws than draws, up to a limit
    time = np.maximum(-1.0 + 2.0 * summed + remainder, 1.0 / np.log10(size))
    spread = values.max(axis=(1, 2)) - values.min(axis=(1, 2))
    return np.where((spread > 0) & np.isfinite(total[:, 0]), size / time, np.nan)
