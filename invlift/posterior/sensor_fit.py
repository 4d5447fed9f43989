"""How well the predictions fit the readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, log_ndtr, logsumexp, ndtri_exp

from invlift.posterior.blocks import check_draws, pooled


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
    of other noise.
    """

    observed: np.ndarray
    predicted_mean: np.ndarray
    predicted_sd: np.ndarray
    standardised_residual: np.ndarray | None = None
    predictive_p_value: np.ndarray | None = None
    noise_sd: np.ndarray | None = None


def sensor_statistics(
    predicted: Sequence[np.ndarray],
    observed: np.ndarray,
    scores: Sequence[np.ndarray] | None = None,
) -> SensorStatistics:
    """Compare readings (d,) with the posterior predictions, (num_draws, d) for each chain.

    Given a draw, new readings are below y with probability Phi(eta), where eta is the standard
    normal variable that the noise transforms into y - F, whatever the noise: (y - F) / sigma for
    normal noise. These are the scores, as many as predictions, or None if the noise is unknown.
    """
    _, _, shape = check_draws(predicted, "predicted")
    observed = np.asarray(observed, dtype=float)
    mean, sd = np.full((2, *shape), np.nan)
    for index, values in enumerate(pooled(predicted, "predicted")):
        mean[index] = values.mean()
        if values.size > 1:
            sd[index] = values.std(ddof=1)
    if scores is None:
        return SensorStatistics(observed, mean, sd)
    pairs = zip(pooled(predicted, "predicted"), pooled(scores, "noise_score"), strict=True)
    fits = [_fit(reading, *draws) for reading, draws in zip(observed, pairs, strict=True)]
    return SensorStatistics(observed, mean, sd, *np.array(fits).T)


def _fit(reading: float, predicted: np.ndarray, eta: np.ndarray) -> tuple[float, float, float]:
    """Residual, probability below and scale of the noise of a reading, from (num_draws,) draws."""
    with np.errstate(divide="ignore", invalid="ignore"):
        square = ((reading - predicted) / eta) ** 2
        log_below, log_above = (logsumexp(log_ndtr(z)) - np.log(z.size) for z in (eta, -eta))
        # the quantile of the smaller of the two is exact however small it is
        smaller = min(log_below, log_above)
        size = np.inf if smaller == -np.inf else -ndtri_exp(smaller)
        residual = -size if log_below < log_above else size
    # Where a draw meets the reading, both are 0.
    is_known = np.isfinite(square)
    noise_sd = np.sqrt(np.sum(square[is_known]) / max(is_known.sum(), 1))
    return residual, np.exp(log_below), noise_sd


def misfit_p_value(scores: Sequence[np.ndarray]) -> float:
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
    return float(chdtrc(eta.shape[1], np.sum(eta**2, axis=1)).mean())
