"""Posterior statistics of fields and of the predictions at the sensors.

All functions take one array per chain and treat the chains as one sample; whether that is right is
for the diagnostics to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from invlift.errors import InputError
from invlift.posterior.blocks import check_draws, coefficient_blocks

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


@dataclass(frozen=True, eq=False)
class MergedMoments:
    """First two moments of a field over all chains.

    Attributes
    ----------
    count : int
        Number of draws.
    mean : (N,) array
        In the field's unit.
    m2 : (N,) array
        Sum of squared deviations from the mean, in its square.
    """

    count: int
    mean: np.ndarray
    m2: np.ndarray

    @property
    def sd(self) -> np.ndarray:
        """(N,) standard deviation with divisor count - 1; NaN for fewer than two draws."""
        if self.count < 2:
            return np.full_like(self.mean, np.nan)
        return np.sqrt(np.maximum(self.m2, 0.0) / (self.count - 1))


def merge_moments(moments: Sequence) -> MergedMoments:
    """Pool the running moments of several chains (Chan, Golub & LeVeque 1983, eq. 2.1).

    Parameters
    ----------
    moments : sequence
        Objects with `count`, `mean` (N,) and `m2` (N,), one per chain. Chains that have seen
        nothing are passed over.

    Returns
    -------
    MergedMoments

    Raises
    ------
    InputError
        If no chain has seen a draw, or the fields differ in size.
    """
    filled = [part for part in moments if int(part.count) > 0]
    if not filled:
        raise InputError(
            "moments", "at least one chain with draws", "none", "run the sampler for longer"
        )
    shapes = {np.shape(part.mean) for part in filled}
    if len(shapes) > 1:
        raise InputError(
            "moments", "one field size in every chain", str(sorted(shapes)), "use one mesh"
        )
    count, mean, m2 = 0, np.zeros(shapes.pop()), 0.0
    for part in filled:
        total = count + int(part.count)
        delta = np.asarray(part.mean, dtype=float) - mean
        m2 = m2 + np.asarray(part.m2, dtype=float) + delta**2 * (count * int(part.count) / total)
        mean = mean + delta * (int(part.count) / total)
        count = total
    return MergedMoments(count, mean, m2)


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
        (y - E[F | y]) / sqrt(Var[F | y] + E[sigma^2 | y]): the misfit in standard deviations of
        the posterior predictive distribution. The reading has itself informed the prediction, so a
        sound model gives values that scatter *less* than a standard normal. None if the noise
        scale is unknown here.
    predictive_p_value : np.ndarray or None
        P(new reading <= y | y) for a new reading at this sensor with normal noise, averaged over
        the draws; close to 0 or 1 where the model cannot reproduce the reading.
    """

    observed: np.ndarray
    predicted_mean: np.ndarray
    predicted_sd: np.ndarray
    standardised_residual: np.ndarray | None
    predictive_p_value: np.ndarray | None


def sensor_statistics(
    predicted: Sequence[np.ndarray],
    observed: np.ndarray,
    sigma: Sequence[np.ndarray] | np.ndarray | float | None,
) -> SensorStatistics:
    """Compare readings with the posterior predictions.

    Parameters
    ----------
    predicted : sequence of (num_draws, d) arrays
        Noise-free forward map at the sensors, one array per chain.
    observed : (d,) array
        Readings.
    sigma : list of (num_draws,) or (num_draws, d) arrays, (d,) array, number or None
        Standard deviation of the noise: draws of it (one array per chain, in a list or tuple),
        known values, or None if there is none to speak of.

    Returns
    -------
    SensorStatistics

    Raises
    ------
    InputError
        If the numbers of sensors differ.
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
    values = np.concatenate([np.asarray(chain, dtype=float) for chain in predicted])
    mean = values.mean(axis=0)
    variance = values.var(axis=0, ddof=1) if len(values) > 1 else np.full(shape, np.nan)
    residual = p_value = None
    if sigma is not None:
        if isinstance(sigma, list | tuple):
            noise = np.concatenate(sigma)
            noise = noise.reshape(len(noise), -1)
        else:
            noise = np.broadcast_to(np.asarray(sigma, dtype=float), shape)[None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = (observed - mean) / np.sqrt(variance + (noise**2).mean(axis=0))
            p_value = ndtr((observed - values) / noise).mean(axis=0)
    return SensorStatistics(observed, mean, np.sqrt(variance), residual, p_value)
