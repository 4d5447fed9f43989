"""Posterior statistics of fields and of the predictions at the sensors.

All functions take one array per chain and treat the chains as one sample; whether that is right is
for the diagnostics to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, log_ndtr, logsumexp, ndtri_exp

from invlift.errors import InputError
from invlift.posterior.blocks import check_draws, coefficient_blocks, pooled

PROBABILITIES = {"q05": 0.05, "q50": 0.50, "q95": 0.95}


def field_statistics(draws: Sequence[np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Pointwise mean, standard deviation and quantiles of a field.

    Parameters
    ----------
    draws : sequence of (num_draws, N) arrays
        One array per chain.
    name : str
        Prefix of the names returned.

    Returns
    -------
    dict
        `{name}_mean`, `_sd` (divisor S - 1 for S draws in all; NaN for one draw), `_q05`, `_q50`
        and `_q95` (linear interpolation between order statistics); each (N,), in the field's unit.
    """
    _, _, shape = check_draws(draws, name)
    result = {f"{name}_{key}": np.full(shape, np.nan) for key in ("mean", "sd", *PROBABILITIES)}
    for block, values in coefficient_blocks(draws, name):
        flat = values.reshape(values.shape[0], -1)
        result[f"{name}_mean"][block] = flat.mean(axis=1)
        if flat.shape[1] > 1:
            with np.errstate(invalid="ignore"):  # infinite draws have no deviation
                result[f"{name}_sd"][block] = flat.std(axis=1, ddof=1)
        quantiles = np.quantile(flat, list(PROBABILITIES.values()), axis=1, overwrite_input=True)
        for key, quantile in zip(PROBABILITIES, quantiles, strict=True):
            result[f"{name}_{key}"][block] = quantile
    return result


def conductivity_statistics(
    draws: Sequence[np.ndarray], log_statistics: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Statistics of the conductivity exp(phi) from draws of phi.

    The exponential is increasing, so the quantiles are the exponentials of those of phi; the mean
    is not, and is taken over the draws.

    Parameters
    ----------
    draws : sequence of (num_draws, N) arrays
        Log-conductivity, one array per chain.
    log_statistics : dict
        What `field_statistics(draws, "log_conductivity")` returned.

    Returns
    -------
    dict
        `conductivity_mean`, `_q05`, `_q50`, `_q95`; each (N,), in the unit of conductivity.
    """
    mean = np.concatenate(
        [
            np.exp(values).mean(axis=(1, 2))
            for _, values in coefficient_blocks(draws, "log_conductivity")
        ]
    )
    result = {"conductivity_mean": mean}
    for key in PROBABILITIES:
        result[f"conductivity_{key}"] = np.exp(log_statistics[f"log_conductivity_{key}"])
    return result


def variance_reduction(posterior_sd: np.ndarray, prior_sd: np.ndarray | float) -> np.ndarray:
    """How much of the prior variance the data have removed: 1 - sd_posterior^2 / sd_prior^2.

    Parameters
    ----------
    posterior_sd : (N,) array
        Standard deviation of the draws.
    prior_sd : (N,) array or number
        Standard deviation before the data, in the same unit; positive.

    Returns
    -------
    (N,) array
        1 where the field is known exactly, 0 where the data say nothing. Slightly negative values
        are Monte Carlo error; clearly negative ones say that the data widened the marginal, which
        a nonlinear model may do. They are not clipped.

    Raises
    ------
    InputError
        If the prior standard deviation is not positive or has another size.
    """
    prior_sd = np.asarray(prior_sd, dtype=float)
    if prior_sd.ndim and prior_sd.shape != np.shape(posterior_sd):
        raise InputError(
            "prior standard deviation",
            f"shape {np.shape(posterior_sd)}",
            f"{prior_sd.shape}",
            "give one value per coefficient, or one number",
        )
    is_bad = ~(np.isfinite(prior_sd) & (prior_sd > 0))
    if is_bad.any():
        raise InputError(
            "prior standard deviation",
            "positive numbers",
            f"{prior_sd[is_bad].flat[0]}",
            "check the prior",
        )
    return 1.0 - (posterior_sd / prior_sd) ** 2


@dataclass(frozen=True, eq=False)
class SensorStatistics:
    """Fit at d sensors; each attribute is (d,).

    Attributes
    ----------
    observed : np.ndarray
        The readings y, in the unit of the solution.
    predicted_mean, predicted_sd : np.ndarray
        Posterior of the noise-free forward map F at the sensor, in the same unit.
    standardised_residual : np.ndarray or None
        Phi^-1 of the predictive p-value: the misfit in standard deviations that a normal variable
        as improbable would have. (y - E[F | y]) / sqrt(Var[F | y] + sigma^2) for normal noise of
        known scale, as long as F is normal as far out as the reading lies. The reading has itself
        informed the prediction, so a sound model gives values that scatter *less* than a standard
        normal. None if the noise is unknown here.
    predictive_p_value : np.ndarray or None
        P(new reading <= y | y) for a new reading at this sensor, averaged over the draws; close to
        0 or 1 where the model cannot reproduce the reading.
    noise_sd : np.ndarray or None
        Root of the mean over the draws of ((y - F) / eta)^2 with the noise variable eta: the
        standard deviation of normal noise, and what comes closest to one of other noise.
    """

    observed: np.ndarray
    predicted_mean: np.ndarray
    predicted_sd: np.ndarray
    standardised_residual: np.ndarray | None
    predictive_p_value: np.ndarray | None
    noise_sd: np.ndarray | None


def sensor_statistics(
    predicted: Sequence[np.ndarray],
    observed: np.ndarray,
    scores: Sequence[np.ndarray] | None = None,
) -> SensorStatistics:
    """Compare readings with the posterior predictions.

    Given a draw, new readings are below y with probability Phi(eta), where eta is the standard
    normal variable that the noise transforms into y - F, whatever the noise.

    Parameters
    ----------
    predicted : sequence of (num_draws, d) arrays
        Noise-free forward map at the sensors, one array per chain.
    observed : (d,) array
        Readings.
    scores : sequence of (num_draws, d) arrays or None
        The noise variables eta of each draw, standard normal before the readings, (y - F) / sigma
        for normal noise; None if the noise is unknown.

    Returns
    -------
    SensorStatistics

    Raises
    ------
    InputError
        If the numbers of sensors or of draws differ.
    """
    _, _, shape = check_draws(predicted, "predicted")
    observed = np.asarray(observed, dtype=float)
    if shape != observed.shape:
        raise InputError(
            "draws of predicted",
            f"one value for each of the {observed.size} sensors",
            f"shape {shape}",
            "pass the sensors that were used in the run",
        )
    mean, sd = np.full((2, *shape), np.nan)
    for index, values in enumerate(pooled(predicted, "predicted")):
        mean[index] = values.mean()
        if values.size > 1:
            sd[index] = values.std(ddof=1)
    if scores is None:
        return SensorStatistics(observed, mean, sd, None, None, None)
    if [np.shape(chain) for chain in scores] != [np.shape(chain) for chain in predicted]:
        raise InputError(
            "draws of noise_score",
            "one value for each draw of predicted",
            ", ".join(str(np.shape(chain)) for chain in scores),
            "pass the draws of one run",
        )
    pairs = zip(pooled(predicted, "predicted"), pooled(scores, "noise_score"), strict=True)
    fits = [_fit(reading, *draws) for reading, draws in zip(observed, pairs, strict=True)]
    return SensorStatistics(observed, mean, sd, *np.array(fits).T)


def _fit(reading: float, predicted: np.ndarray, eta: np.ndarray) -> tuple[float, float, float]:
    """Residual, probability below and scale of the noise of a reading, from (num_draws,) draws."""
    with np.errstate(divide="ignore", invalid="ignore"):
        square = ((reading - predicted) / eta) ** 2
        log_below, log_above = _log_mean(log_ndtr(eta)), _log_mean(log_ndtr(-eta))
        residual = _quantile(log_below) if log_below < log_above else -_quantile(log_above)
    # Where a draw meets the reading, both are 0.
    is_known = np.isfinite(square)
    noise_sd = np.sqrt(np.sum(square[is_known]) / max(is_known.sum(), 1))
    return residual, np.exp(log_below), noise_sd


def misfit_p_value(scores: Sequence[np.ndarray]) -> float:
    """Posterior predictive p-value of the misfit of all readings together.

    The discrepancy is the sum of squares of the noise variables eta, as in Gelman, Meng & Stern
    (1996), "Posterior predictive assessment of model fitness via realized discrepancies",
    Statistica Sinica 6, section 3. Of new readings it is chi-squared with d degrees of freedom,
    given any draw, so the p-value is the mean over the draws of what that distribution has beyond
    the misfit of the readings.

    Parameters
    ----------
    scores : sequence of (num_draws, d) arrays
        Noise variables that explain the readings, one array per chain.

    Returns
    -------
    float
        Near 0 where the readings are further from the predictions than the noise explains. Under a
        true model it is *not* uniform, but closer to 1/2: the readings have shaped the predictions.
        NaN where a noise variable is not finite.
    """
    eta = _pooled(scores)
    return float(chdtrc(eta.shape[1], np.sum(eta**2, axis=1)).mean())


def _pooled(chains: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(chain, dtype=float) for chain in chains])


def _quantile(log_probability: float) -> float:
    """Standard normal quantile of the probability, however small."""
    return -np.inf if log_probability == -np.inf else ndtri_exp(log_probability)


def _log_mean(logs: np.ndarray) -> float:
    """Log of the mean of what the logs, (num,), are of."""
    return logsumexp(logs) - np.log(logs.size)
