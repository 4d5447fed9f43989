"""Observation noise: a scale that is known, or unknown with a prior of its own.

Every unknown scale is written as a smooth function of a standard normal variable zeta, so that the
prior of the whole lifted state is standard normal (Au, Graham & Thiery 2023, sections 3 and 5.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfinv, ndtr, ndtri

from invlift.errors import InputError
from invlift.pytrees import pytree


@pytree
@dataclass(frozen=True)
class KnownNoise:
    """Independent Normal noise of known scale.

    Attributes
    ----------
    scale : () or (d,)
        Standard deviation, in units of the observations; one for all sensors or one for each.
    """

    scale: jax.Array

    @property
    def num_parameters(self) -> int:
        """No unknown scale: 0."""
        return 0

    def sigma(self, zeta: jax.Array) -> jax.Array:
        """Standard deviation, () or (d,); zeta is empty."""
        del zeta
        return self.scale


@pytree
@dataclass(frozen=True)
class LognormalNoise:
    """Independent Normal noise of unknown, lognormal scale sigma = exp(location + scale zeta).

    Attributes
    ----------
    location, scale : ()
        Mean and standard deviation of log sigma, sigma in units of the observations.
    """

    location: jax.Array
    scale: jax.Array

    @property
    def num_parameters(self) -> int:
        """One unknown scale."""
        return 1

    def sigma(self, zeta: jax.Array) -> jax.Array:
        """Standard deviation, (), from zeta of shape (1,)."""
        return jnp.exp(self.location + self.scale * zeta[0])


@pytree
@dataclass(frozen=True)
class HalfNormalNoise:
    """Independent Normal noise whose unknown scale is half-normal.

    sigma = scale * Q(Phi(zeta)) with Q the half-normal quantile function: smooth and positive.

    Attributes
    ----------
    scale : ()
        Scale of the half-normal distribution, in units of the observations.
    """

    scale: jax.Array

    @property
    def num_parameters(self) -> int:
        """One unknown scale."""
        return 1

    def sigma(self, zeta: jax.Array) -> jax.Array:
        """Standard deviation, (), from zeta of shape (1,)."""
        value = zeta[0]
        is_below = value < 0.0
        # Each branch keeps full relative accuracy in its own tail; the clip keeps the unused
        # branch's derivative finite (by where: minimum and maximum halve the derivative at 0).
        below = jnp.sqrt(2.0) * erfinv(ndtr(jnp.where(is_below, value, 0.0)))
        above = -ndtri(0.5 * ndtr(-jnp.where(is_below, 0.0, value)))
        return self.scale * jnp.where(is_below, below, above)


Noise = KnownNoise | LognormalNoise | HalfNormalNoise


def known_noise(sigma: float | np.ndarray) -> KnownNoise:
    """Known noise scale, one number or (d,), in units of the observations.

    Raises
    ------
    InputError
        If a value is not finite and positive.
    """
    sigma = np.asarray(sigma, dtype=float)
    bad = np.flatnonzero(~(np.isfinite(sigma) & (sigma > 0)))
    if bad.size:
        raise InputError(
            "noise sigma" + (f", sensor {bad[0]}" if sigma.ndim else ""),
            "a positive number",
            f"{sigma.flat[bad[0]]:g}",
            "give the standard deviation of the measurement error",
        )
    return KnownNoise(jax.device_put(sigma))


def lognormal_noise(location: float, scale: float) -> LognormalNoise:
    """Unknown noise scale with log sigma ~ Normal(location, scale^2).

    Raises
    ------
    InputError
        If location is not finite or scale not positive.
    """
    if not np.isfinite(location):
        raise InputError("noise location", "a finite number", f"{location}", "correct it")
    return LognormalNoise(jax.device_put(np.float64(location)), _positive("noise scale", scale))


def half_normal_noise(scale: float) -> HalfNormalNoise:
    """Unknown noise scale sigma = |Normal(0, scale^2)|.

    Raises
    ------
    InputError
        If scale is not positive.
    """
    return HalfNormalNoise(_positive("noise scale", scale))


def _positive(where: str, value: float) -> jax.Array:
    if not (np.isfinite(value) and value > 0):
        raise InputError(where, "a positive number", f"{value}", "correct it")
    return jax.device_put(np.float64(value))
