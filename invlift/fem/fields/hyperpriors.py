"""Distributions of a prior's range or standard deviation: logarithm, moments and checks."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.programs.compilation import program
from invlift.unknowns.distributions import Distribution, Lognormal, is_distribution, one_number

#: Largest standard deviation of a logarithm; it is a factor of 7 of the value.
MAX_LOG_SD = 2.0
#: Values of z for the quadrature of moments, as far as Phi(-z) does not underflow.
_GRID = np.linspace(-37.0, 37.0, 7401)
#: Ratio of the last to the largest term of a sum above which the sum counts as divergent.
_NOT_NEGLIGIBLE = 1e-6


def log_value(part: Distribution, z: jax.Array) -> jax.Array:
    """Return the logarithm of the value T(z), (), for z of ()."""
    if isinstance(part, Lognormal):
        return part.location + part.scale * z
    return jnp.log(part.transform(jnp.reshape(z, (1,))))


def log_at_zero(part: Distribution) -> float:
    """Return the logarithm of T(0), the median, or nearly the median if z is not exactly normal."""
    return float(_log_value(part, np.zeros(())))


def checked(name: str, value: float | Distribution) -> float | Distribution:
    """Return a number unchanged, or a distribution as one of invlift, after checks.

    Parameters
    ----------
    name : str
        Name of the parameter in error messages, for example "range" or "std".
    value : float or distribution of invlift or NumPyro

    Raises
    ------
    InputError
        If it is not a distribution of one positive number, or the standard deviation of the
        logarithm is above 2.
    """
    if not is_distribution(value):
        return value
    where = ("prior", name)
    part = one_number(where, value, is_positive=True)
    log_sd = log_moments(part).log_sd
    if not log_sd <= MAX_LOG_SD:
        raise InputError(
            where,
            f"a distribution whose logarithm has a standard deviation of at most {MAX_LOG_SD:g}",
            f"{log_sd:.3g}",
            "give a narrower one: lognormal(median=..., factor=1.6), a factor of at most 7",
        )
    return part


class LogMoments(NamedTuple):
    """Mean, standard deviation and median of the logarithm, and mean of the square.

    The mean square is infinite for a distribution such as a half-Cauchy.  It is also reported as
    infinite if it is finite but converges so slowly that draws would never show it.
    """

    log_mean: float
    log_sd: float
    log_median: float
    mean_square: float


def log_moments(part: Distribution) -> LogMoments:
    """Return the log moments of the distribution of a positive number."""
    if isinstance(part, Lognormal):
        location, scale = float(part.location), float(part.scale)
        square = math.exp(min(2.0 * location + 2.0 * scale**2, 700.0))
        return LogMoments(location, scale, location, square)
    logs, log_weights = map(np.asarray, _on_grid(part))
    is_number = np.isfinite(logs) & np.isfinite(log_weights)
    logs, log_weights = logs[is_number], log_weights[is_number]
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    log_mean = float(weights @ logs)
    log_sd = math.sqrt(weights @ (logs - log_mean) ** 2)
    median = float(np.interp(0.5, np.cumsum(weights) - 0.5 * weights, logs))
    log_squares = np.log(np.maximum(weights, 1e-300)) + 2.0 * logs
    exponents = log_weights + 2.0 * logs
    is_infinite = exponents[-1] > exponents.max() + math.log(_NOT_NEGLIGIBLE)
    square = math.inf if is_infinite else float(np.exp(np.logaddexp.reduce(log_squares)))
    return LogMoments(log_mean, log_sd, median, square)


@program
def _on_grid(part: Distribution):
    """Return log T(z) and the log density of z up to a constant, on the grid, (k,) each."""
    grid = jnp.asarray(_GRID)
    log_reference = jax.vmap(lambda z: part.log_reference(z[None]))(grid)
    return jax.vmap(lambda z: log_value(part, z))(grid), log_reference - 0.5 * grid**2


_log_value = program(log_value)
