"""How well posterior draws cover a truth that is known, as that of simulated readings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from invlift.posterior.blocks import coefficient_blocks


def share_inside(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    """Share of coefficients whose truth lies in a band; all (N,).

    Close to the band's probability on average over simulations; of a single field it varies much,
    as neighbouring coefficients are inside or outside together.
    """
    return float(np.mean((low <= truth) & (truth <= high)))


def crps(draws: Sequence[np.ndarray], truth: np.ndarray, name: str = "field") -> np.ndarray:
    """Continuous ranked probability score of each coefficient, (N,), from draws.

    E|X - y| - E|X - X'| / 2 with independent draws X, X' and the truth y (Gneiting & Raftery 2007,
    eq. 21): in the unit of the field, 0 for certainty of the truth, smaller is better. Draws are
    (num_draws, N) for each chain; `name` says what they are of in error messages.
    """
    found = np.empty(len(truth))
    for block, values in coefficient_blocks(draws, name):
        ordered = np.sort(values.reshape(len(values), -1), axis=1)
        num = ordered.shape[1]
        distance = np.abs(ordered - truth[block, None]).mean(axis=1)
        weights = (2 * np.arange(1, num + 1) - num - 1) / num**2
        found[block] = distance - ordered @ weights
    return found


def normal_crps(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The same score of normal distributions, (N,) (Gneiting & Raftery 2007, eq. 20 f.)."""
    score = (truth - mean) / sd
    density = np.exp(-0.5 * score**2) / np.sqrt(2.0 * np.pi)
    return sd * (score * (2.0 * ndtr(score) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))


def quantile_of(draws: Sequence[np.ndarray], truth: float) -> float:
    """Share of the draws of a scalar, (num_draws,) per chain, that lie below a truth."""
    pooled = np.concatenate([np.asarray(chain, dtype=float) for chain in draws])
    return float(np.mean(pooled < truth) + 0.5 * np.mean(pooled == truth))
