"""Effective sample sizes from means of batches, for fields of which not all draws are stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invlift.moments import BatchMeans, Moments

#: Batches below which their spread says nothing.
MIN_BATCHES = 8


def ess_of_batches(moments: Moments, batches: Sequence[BatchMeans]) -> np.ndarray:
    """Effective sample size for the mean (Flegal & Jones 2010, eq. 6, over several chains).

    With batches of b draws much longer than the correlation, b Var(batch mean) is the asymptotic
    variance sigma^2 of sqrt(num) times the mean, and the effective size is num s^2 / sigma^2.
    Deviations are taken from the mean of all chains: chains that disagree lower it.

    Parameters
    ----------
    moments : Moments
        Of all draws of all chains, (N,).
    batches : sequence of BatchMeans
        One per chain.

    Returns
    -------
    (N,) array
        NaN where there are fewer than 8 batches, or nothing varies.
    """
    size = max(each.size for each in batches)
    joined = [_joined(each, size) for each in batches]
    means = np.concatenate(joined)
    if len(means) < MIN_BATCHES:
        return np.full(moments.mean.shape, np.nan)
    spread = np.sum((means - moments.mean) ** 2, axis=0) / (len(means) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = moments.count * moments.sd**2 / (size * spread)
    return np.where(np.isfinite(ess), ess, np.nan)


def _joined(batches: BatchMeans, size: int) -> np.ndarray:
    """Means over batches of the given size, a multiple of their own."""
    number = size // batches.size
    whole = len(batches.means) // number * number
    return batches.means[:whole].reshape(-1, number, batches.means.shape[1]).mean(axis=1)
