"""Statistics of the fit between predictions and readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from scipy.special import chdtrc, log_ndtr, logsumexp, ndtri_exp

from invlift.posterior.statistics.blocks import check_draws, coefficient_blocks


@dataclass(frozen=True, eq=False)
class SensorStatistics:
    """Fit at d sensors; each attribute is (d,), or None if the noise is unknown.

    The readings y, and posterior mean and sd of the noise-free forward map F, are in the unit of
    the readings.

    The standardised residual is Phi^-1 of the predictive p-value: the misfit in standard deviations
    of a normal variable with this probability. For normal noise of known scale it is (y - E[F | y])
    / sqrt(Var[F | y] + sigma^2), if F is normal out to the reading. The prediction depends on the
    reading, so a sound model gives values that scatter *less* than a standard normal variable.

    The predictive p-value is P(new reading <= y | y) for a new reading at this sensor, averaged
    over the draws. It is close to 0 or 1 where the model cannot reproduce the reading.

    The sd of the noise is the root of the mean over the draws of ((y - F) / eta)^2, with the noise
    variable eta. For normal noise this is its sd; for other noise it is the nearest equivalent.

    The limit is "<" or ">" for a censored reading, which is only known to be below or above a
    value. Its residual is that of the median of such readings, and its p-value is P(new reading <=
    limit | y).
    """

    observed: np.ndarray
    predicted_mean: np.ndarray
    predicted_sd: np.ndarray
    standardised_residual: np.ndarray | None = None
    predictive_p_value: np.ndarray | None = None
    noise_sd: np.ndarray | None = None
    limit: np.ndarray | None = None

    @property
    def is_plain(self) -> np.ndarray:
        """Whether each reading is known, and not only a limit, (d,)."""
        return np.ones(self.observed.shape, bool) if self.limit is None else self.limit == ""


def sensor_statistics(
    predicted: Sequence[np.ndarray],
    observed: np.ndarray,
    scores: Sequence[np.ndarray] | None = None,
    limits: np.ndarray | None = None,
) -> SensorStatistics:
    """Compare readings (d,) with the posterior predictions, (num_draws, d) for each chain.

    Given a draw, new readings are below y with probability Phi(eta), where eta is the standard
    normal variable that the noise transforms into y - F; for normal noise it is (y - F) / sigma.
    `scores` are these eta, with the shape of the predictions, or None if the noise is unknown.
    """
    _, _, shape = check_draws(predicted, "predicted")
    observed = np.asarray(observed, dtype=float)
    mean, sd, *fit = np.full((5, *shape), np.nan)
    etas = repeat((None, None)) if scores is None else coefficient_blocks(scores, "noise_score")
    blocks = coefficient_blocks(predicted, "predicted")
    for (block, values), (_, eta) in zip(blocks, etas, strict=False):
        every = values.reshape(len(values), -1)
        mean[block] = every.mean(axis=1)
        if every.shape[1] > 1:
            sd[block] = every.std(axis=1, ddof=1)
        if eta is not None:
            own = None if limits is None else limits[block]
            found = _fit(observed[block], every, eta.reshape(len(eta), -1), own)
            for statistic, part in zip(fit, found, strict=True):
                statistic[block] = part
    return SensorStatistics(observed, mean, sd, *(() if scores is None else fit), limit=limits)


def within_limits(eta: np.ndarray, limits: np.ndarray | None) -> np.ndarray:
    """Return noise variables, (..., d), with those of censored readings at the median.

    Let eta be the noise variable of the limit. Given that the reading is below its limit, the
    median of its noise variable is Phi^-1(Phi(eta) / 2).
    """
    if limits is None:
        return eta
    sign = np.where(limits == "<", 1.0, -1.0)
    inside = sign * ndtri_exp(log_ndtr(sign * eta) - np.log(2.0))
    return np.where(limits == "", eta, inside)


def _fit(
    observed: np.ndarray, predicted: np.ndarray, eta: np.ndarray, limits: np.ndarray | None
) -> np.ndarray:
    """Return residuals, predictive p-values and noise scales of k readings, (3, k).

    The draws of predictions and eta are (k, num_draws).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = ((observed[:, None] - predicted) / eta) ** 2
        log_num = np.log(eta.shape[1])
        inside = within_limits(eta.T, limits).T
        p_value = np.exp(logsumexp(log_ndtr(eta), axis=1) - log_num)
        below, above = (logsumexp(log_ndtr(z), axis=1) - log_num for z in (inside, -inside))
        # the quantile of the smaller one is accurate even for tiny probabilities
        smaller = np.minimum(below, above)
        size = np.where(smaller == -np.inf, np.inf, -ndtri_exp(smaller))
        residual = np.where(below < above, -size, size)
    # Where a draw is equal to the reading, numerator and denominator are 0.
    is_known = np.isfinite(squares)
    sums = np.sum(squares, axis=1, where=is_known)
    noise_sd = np.sqrt(sums / np.maximum(is_known.sum(axis=1), 1))
    return np.stack([residual, p_value, noise_sd])


def misfit_p_value(scores: Sequence[np.ndarray], limits: np.ndarray | None = None) -> float:
    """Return the posterior predictive p-value of the misfit of all readings together.

    The discrepancy is the sum of squares of the noise variables eta, (num_draws, d) for each chain,
    as in Gelman, Meng & Stern (1996), "Posterior predictive assessment of model fitness via
    realized discrepancies", Statistica Sinica 6, section 3. For new readings, given any draw, it is
    chi-squared with d degrees of freedom. So the p-value is the mean over the draws of the
    probability that this distribution exceeds the misfit of the readings.

    It is near 0 if the readings are further from the predictions than the noise explains. For a
    true model it is *not* uniform but closer to 1/2, as the predictions depend on the readings.
    NaN if a noise variable is not finite.
    """
    eta = np.concatenate(scores).astype(float)
    eta = eta if limits is None else eta[:, limits == ""]  # censored readings have no misfit
    return float(chdtrc(eta.shape[1], np.sum(eta**2, axis=1)).mean())
