"""Effective sample sizes from means of batches, for fields of which not all draws are stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtri

from invlift.moments import BatchMeans, Moments

#: Batches below which their spread says nothing.
MIN_BATCHES = 8
#: Share of runs in which chains that agree are to look as if they do.
CONFIDENCE = 0.99


def ess_of_batches(moments: Moments, batches: Sequence[BatchMeans]) -> np.ndarray:
    """Effective sample size for the mean, from means of batches (Flegal & Jones 2010).

    With batches of b draws much longer than the correlation, b Var(batch mean) is the asymptotic
    variance of sqrt(num) times a chain's mean of num draws.  Where the means of the chains differ
    by more than that allows in 99 of 100 runs, their variance takes its place.

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
    num = sum(map(len, joined))
    if num < MIN_BATCHES or not all(map(len, joined)):
        return np.full(moments.mean.shape, np.nan)
    within = [np.sum((means - means.mean(axis=0)) ** 2, axis=0) for means in joined]
    variance_of_mean = sum(within) / (num - len(joined)) / num
    if len(joined) > 1:
        freedom = len(joined) - 1
        between = np.var([means.mean(axis=0) for means in joined], axis=0, ddof=1) / len(joined)
        variance_of_mean = np.maximum(
            variance_of_mean, between * freedom / chdtri(freedom, 1.0 - CONFIDENCE)
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = moments.sd**2 / variance_of_mean
    return np.where(np.isfinite(ess), ess, np.nan)


def _joined(batches: BatchMeans, size: int) -> np.ndarray:
    """Means over batches of the given size, a multiple of their own."""
    number = size // batches.size
    whole = len(batches.means) // number * number
    return batches.means[:whole].reshape(-1, number, batches.means.shape[1]).mean(axis=1)
