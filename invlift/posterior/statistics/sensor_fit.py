"""How well the predictions fit the readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, log_ndtr, logsumexp, ndtri_exp

from invlift.posterior.statistics.blocks import check_draws, coefficient_blocks


@dataclass(frozen=True, eq=False)
class SensorStatistics:
    """Fit at d sensors; each attribute is (d,), or None if the noise is unknown here.

    The readings y, and mean and sd of the posterior of the noise-free forward map F there, are in
    their unit. The standardised residual is Phi^-1 of the predictive p-value: the misfit in
    standard deviations that a normal variable as improbable would have. It is (y - E[F | y]) /
    sqrt(Var[F | y] + sigma^2) for normal noise of known scale, as long as F is normal as far out as
    the reading lies. The reading has itself informed the prediction, so a sound model gives values
    that scatter *less* than a standard normal. The predictive p-value is P(new reading <= y | y)
    for a new reading at this sensor, averaged over the draws; close to 0 or 1 where the model
    cannot reproduce the reading. The sd of the noise is the root of the mean over the draws of ((y
    - F) / eta)^2 with the noise variable eta: that of normal noise, and what comes closest to one
    of other noise. The limit is "<" or ">" of a censored reading, of which only a value is known
    that it is below or above: its residual is that of the median of such readings, and its p-value
    is P(new reading <= limit | y).
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
        """Whether a reading is known, and not only a limit of it, (d,)."""
        return np.ones(self.observed.shape, bool) if self.limit is None else self.limit == ""


def sensor_statistics(
    predicted: Sequence[np.ndarray],
    observed: np.ndarray,
    scores: Sequence[np.ndarray] | None = None,
    limits: np.ndarray | None = None,
) -> SensorStatistics:
    """Compare readings (d,) with the posterior predictions, (num_draws, d) for each chain.

    Given a draw, new readings are below y with probability Phi(eta), where eta is the standard
    normal variable that the noise transforms into y - F, whatever the noise: (y - F) / sigma for
    normal noise. These are the scores, as many as predictions, or None if the noise is unknown.
    """
    _, _, shape = check_draws(predicted, "predicted")
    observed = np.asarray(observed, dtype=float)
    mean, sd = np.full((2, *shape), np.nan)
    for block, values in coefficient_blocks(predicted, "predicted"):
        every = values.reshape(len(values), -1)
        mean[block] = every.mean(axis=1)
        if every.shape[1] > 1:
            sd[block] = every.std(axis=1, ddof=1)
    if scores is None:
        return SensorStatistics(observed, mean, sd, limit=limits)
    blocks = zip(
        coefficient_blocks(predicted, "predicted"),
        coefficient_blocks(scores, "noise_score"),
        strict=True,
    )
    fits = [
        _fit(
            observed[block],
            draws.reshape(len(draws), -1),
            eta.reshape(len(eta), -1),
            None if limits is None else limits[block],
        )
        for (block, draws), (_, eta) in blocks
    ]
    return SensorStatistics(observed, mean, sd, *np.concatenate(fits, axis=1), limit=limits)


def within_limits(eta: np.ndarray, limits: np.ndarray | None) -> np.ndarray:
    """Noise variables, (..., d), of censored readings those of the median within their limit.

    Given that a reading is below its limit, whose noise variable is eta, the median of its own is
    Phi^-1(Phi(eta) / 2).
    """
    if limits is None:
        return eta
    sign = np.where(limits == "<", 1.0, -1.0)
    inside = sign * ndtri_exp(log_ndtr(sign * eta) - np.log(2.0))
    return np.where(limits == "", eta, inside)


def _fit(
    observed: np.ndarray, predicted: np.ndarray, eta: np.ndarray, limits: np.ndarray | None
) -> np.ndarray:
    """Residuals, probabilities below and scales of the noise of k readings, (3, k).

    From (k, num_draws) draws.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = ((observed[:, None] - predicted) / eta) ** 2
        log_num = np.log(eta.shape[1])
        inside = within_limits(eta.T, limits).T
        p_value = np.exp(logsumexp(log_ndtr(eta), axis=1) - log_num)
        below, above = (logsumexp(log_ndtr(z), axis=1) - log_num for z in (inside, -inside))
        # the quantile of the smaller of the two is exact however small it is
        smaller = np.minimum(below, above)
        size = np.where(smaller == -np.inf, np.inf, -ndtri_exp(smaller))
        residual = np.where(below < above, -size, size)
    # Where a draw meets the reading, both are 0.
    is_known = np.isfinite(squares)
    sums = np.sum(squares, axis=1, where=is_known)
    noise_sd = np.sqrt(sums / np.maximum(is_known.sum(axis=1), 1))
    return np.stack([residual, p_value, noise_sd])


def misfit_p_value(scores: Sequence[np.ndarray], limits: np.ndarray | None = None) -> float:
    """Posterior predictive p-value of the misfit of all readings together.

    The discrepancy is the sum of squares of the noise variables eta, (num_draws, d) for each chain,
    as in Gelman, Meng & Stern (1996), "Posterior predictive assessment of model fitness via
    realized discrepancies", Statistica Sinica 6, section 3. Of new readings it is chi-squared with
    d degrees of freedom, given any draw, so the p-value is the mean over the draws of what that
    distribution has beyond the misfit of the readings.

    Near 0 where the readings are further from the predictions than the noise explains. Under a true
    model it is *not* uniform, but closer to 1/2: the readings have shaped the predictions. NaN
    where a noise variable is not finite.
    """
    eta = np.concatenate(scores).astype(float)
    eta = eta if limits is None else eta[:, limits == ""]  # of the others there is no misfit
    return float(chdtrc(eta.shape[1], np.sum(eta**2, axis=1)).mean())
