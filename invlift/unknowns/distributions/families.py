"""Distributions whose quantile function has a closed form, to full accuracy in both tails.

The value is Q(Phi(z)) with Q the quantile function and Phi the standard normal distribution
function, so that z is standard normal.
"""

from __future__ import annotations

import functools
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfinv, log_ndtr, ndtr, ndtri

from invlift.errors import InputError
from invlift.unknowns.distributions.base import Distribution, Positive

_HALF_LOG_2_PI = 0.5 * np.log(2.0 * np.pi)


class _Elementwise(Distribution):
    """Independent entries; the parameters are numbers or arrays of the shape of a value."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Common shape of the parameters."""
        return np.broadcast_shapes(*(leaf.shape for leaf in jax.tree.leaves(self)))

    @property
    def is_elementwise(self) -> bool:
        """Always true."""
        return True

    def transform(self, white: jax.Array) -> jax.Array:
        """Q(Phi(z)), of :attr:`shape`, for z of (k,)."""
        return self.quantile(white.reshape(self.shape))

    def quantile(self, score: jax.Array) -> jax.Array:
        """Q(Phi(score)) elementwise: the value of probability Phi(score)."""
        raise NotImplementedError


class Normal(_Elementwise):
    """Normal(mean, sd^2).

    Attributes
    ----------
    mean, sd : () or array
        In the unit of the value.
    """

    is_affine: ClassVar[bool] = True

    mean: jax.Array
    sd: jax.Array

    def quantile(self, score: jax.Array) -> jax.Array:
        """Mean + sd score."""
        return self.mean + self.sd * score

    def log_density(self, value: jax.Array) -> jax.Array:
        """As :meth:`Distribution.log_density`."""
        score = (value - self.mean) / self.sd
        return jnp.sum(-0.5 * score**2 - jnp.log(self.sd) - _HALF_LOG_2_PI)


class Uniform(_Elementwise):
    """Uniform between two bounds.

    Attributes
    ----------
    low, high : () or array
        In the unit of the value.
    """

    low: jax.Array
    high: jax.Array

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest of the bounds."""
        return float(np.min(self.low)), float(np.max(self.high))

    def quantile(self, score: jax.Array) -> jax.Array:
        """Low + (high - low) Phi(score)."""
        return self.low + (self.high - self.low) * ndtr(score)

    def log_density(self, value: jax.Array) -> jax.Array:
        """As :meth:`Distribution.log_density`."""
        is_inside = (value >= self.low) & (value <= self.high)
        return jnp.sum(jnp.where(is_inside, -jnp.log(self.high - self.low), -jnp.inf))


class Lognormal(_Elementwise, Positive):
    """The logarithm is Normal(location, scale^2).

    Attributes
    ----------
    location, scale : () or array
        Mean and standard deviation of the logarithm.
    """

    location: jax.Array
    scale: jax.Array

    @property
    def log_median(self) -> jax.Array:
        """The location."""
        return self.location

    @property
    def log_sd(self) -> jax.Array:
        """The scale."""
        return self.scale

    def quantile(self, score: jax.Array) -> jax.Array:
        """Exp(location + scale score)."""
        return jnp.exp(self.location + self.scale * score)

    def log_density_of_log(self, log_value: jax.Array) -> jax.Array:
        """As :meth:`Positive.log_density_of_log`."""
        score = (log_value - self.location) / self.scale
        return -0.5 * score**2 - log_value - jnp.log(self.scale) - _HALF_LOG_2_PI


class _Scaled(_Elementwise, Positive):
    """A fixed distribution times ``scale``; a subclass defines the one of scale 1.

    Attributes
    ----------
    scale : () or array
        In the unit of the value.
    """

    scale: jax.Array

    #: Median of the distribution of scale 1, and standard deviation of its log.
    unit_median: ClassVar[float]
    unit_log_sd: ClassVar[float]

    @staticmethod
    def unit_quantile(score: jax.Array) -> jax.Array:
        """:meth:`quantile` of scale 1; its derivative is taken from the density."""
        raise NotImplementedError

    @staticmethod
    def unit_log_density(log_value: jax.Array) -> jax.Array:
        """:meth:`log_density_of_log` of scale 1."""
        raise NotImplementedError

    @property
    def log_median(self) -> jax.Array:
        """Logarithm of the median."""
        return jnp.log(self.scale) + np.log(self.unit_median)

    @property
    def log_sd(self) -> jax.Array:
        """Standard deviation of the logarithm."""
        return jnp.asarray(self.unit_log_sd)

    def quantile(self, score: jax.Array) -> jax.Array:
        """The value of probability Phi(score), elementwise."""
        return self.scale * _unit_quantile(type(self), score)

    def log_density_of_log(self, log_value: jax.Array) -> jax.Array:
        """As :meth:`Positive.log_density_of_log`."""
        log_scale = jnp.log(self.scale)
        return self.unit_log_density(log_value - log_scale) - log_scale


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _unit_quantile(family, score):
    """The quantile function of a :class:`_Scaled` of scale 1, elementwise."""
    return family.unit_quantile(score)


@_unit_quantile.defjvp
def _unit_quantile_jvp(family, primals, tangents):
    """Derivative as a ratio of densities, by their logs: no overflow in the tails at any order."""
    (score,), (tangent,) = primals, tangents
    value = _unit_quantile(family, score)
    log_normal = -0.5 * score**2 - _HALF_LOG_2_PI
    return value, tangent * jnp.exp(log_normal - family.unit_log_density(jnp.log(value)))


class HalfNormal(_Scaled):
    """|Normal(0, scale^2)|."""

    unit_median, unit_log_sd = 0.6744897501960817, np.pi / np.sqrt(8.0)

    @staticmethod
    def unit_quantile(score: jax.Array) -> jax.Array:
        """Quantile function for scale 1."""
        is_below = score < 0.0
        # Each branch keeps full relative accuracy in its own tail.
        below = jnp.sqrt(2.0) * erfinv(ndtr(jnp.where(is_below, score, 0.0)))
        above = -ndtri(0.5 * ndtr(-jnp.where(is_below, 0.0, score)))
        return jnp.where(is_below, below, above)

    @staticmethod
    def unit_log_density(log_value: jax.Array) -> jax.Array:
        """Log density for scale 1."""
        return 0.5 * np.log(2.0 / np.pi) - 0.5 * jnp.exp(2.0 * log_value)


class HalfCauchy(_Scaled):
    """The scale times |Cauchy|."""

    unit_median, unit_log_sd = 1.0, np.pi / 2.0

    @staticmethod
    def unit_quantile(score: jax.Array) -> jax.Array:
        """Quantile function for scale 1."""
        is_below = score < 0.0
        below = jnp.tan(0.5 * np.pi * ndtr(jnp.where(is_below, score, 0.0)))
        above = 1.0 / jnp.tan(0.5 * np.pi * ndtr(-jnp.where(is_below, 0.0, score)))
        return jnp.where(is_below, below, above)

    @staticmethod
    def unit_log_density(log_value: jax.Array) -> jax.Array:
        """Log density for scale 1."""
        return np.log(2.0 / np.pi) - jax.nn.softplus(2.0 * log_value)


class Exponential(_Scaled):
    """Exponentially distributed with mean ``scale``."""

    unit_median, unit_log_sd = np.log(2.0), np.pi / np.sqrt(6.0)

    @staticmethod
    def unit_quantile(score: jax.Array) -> jax.Array:
        """Quantile function for scale 1."""
        return -log_ndtr(-score)

    @staticmethod
    def unit_log_density(log_value: jax.Array) -> jax.Array:
        """Log density for scale 1."""
        return -jnp.exp(log_value)


# Public functions ---------------------------------------------------------------------------------


def normal(mean: float | np.ndarray, sd: float | np.ndarray) -> Normal:
    """Normal distribution of a number, or of independent entries of an array.

    Parameters
    ----------
    mean, sd : float or array
        In the unit of the value; arrays give the shape of the value.

    Returns
    -------
    Normal
        Of a number, or of an array of the shape of its arguments.

    Raises
    ------
    InputError
        If the mean is not finite or sd not positive.
    """
    return _of_one_shape(Normal(_finite("normal, mean", mean), _positive("normal, sd", sd)))


def uniform(low: float | np.ndarray, high: float | np.ndarray) -> Uniform:
    """Uniform distribution between two bounds.

    Parameters
    ----------
    low, high : float or array
        In the unit of the value; arrays give the shape of the value.

    Returns
    -------
    Uniform

    Raises
    ------
    InputError
        If a bound is not finite, or high not above low.
    """
    low, high = _finite("uniform, low", low), _finite("uniform, high", high)
    made = _of_one_shape(Uniform(low, high))
    if not np.all(np.asarray(high) > np.asarray(low)):
        raise InputError("uniform, high", f"a number above low, {low}", f"{high}", "correct it")
    return made


def lognormal(
    location: float | np.ndarray | None = None,
    scale: float | np.ndarray | None = None,
    *,
    median: float | np.ndarray | None = None,
    factor: float | np.ndarray | None = None,
) -> Lognormal:
    """Lognormal distribution: of a positive number that is known up to a factor.

    Parameters
    ----------
    location, scale : float or array
        Mean and standard deviation of the logarithm of the value.
    median, factor : float or array
        In place of these: the median, in the unit of the value, and a factor above 1.  Two in three
        values are between median / factor and median * factor.

    Returns
    -------
    Lognormal
        Of a number, or of an array of the shape of its arguments.

    Raises
    ------
    InputError
        If not exactly one of the two pairs is given, or a number is invalid.

    Examples
    --------
    >>> rate = invlift.lognormal(median=0.1, factor=2.0)
    >>> np.round(rate.transform(np.array([1.0])), 3)  # one standard deviation above the median
    Array(0.2, dtype=float64)
    """
    parts = {"location": location, "scale": scale, "median": median, "factor": factor}
    given = [name for name, part in parts.items() if part is not None]
    if given not in (["location", "scale"], ["median", "factor"]):
        raise InputError(
            "lognormal",
            "location and scale, or median and factor",
            ", ".join(given) or "none of them",
            "give one of the two pairs, lognormal(median=0.1, factor=2) say",
        )
    if median is not None:
        location = np.log(_positive("lognormal, median", median))
        scale = np.log(_above(1.0, "lognormal, factor", factor, "a number above 1"))
    location, scale = _finite("lognormal, location", location), _positive("lognormal, scale", scale)
    return _of_one_shape(Lognormal(location, scale))


def half_normal(scale: float | np.ndarray) -> HalfNormal:
    """|Normal(0, scale^2)|.

    Parameters
    ----------
    scale : float or array
        In the unit of the value; an array gives the shape of the value.

    Returns
    -------
    HalfNormal

    Raises
    ------
    InputError
        If the scale is not positive.
    """
    return HalfNormal(_positive("half_normal, scale", scale))


def half_cauchy(scale: float | np.ndarray) -> HalfCauchy:
    """|Cauchy(0, scale)|, whose median is the scale.

    Parameters
    ----------
    scale : float or array
        In the unit of the value; an array gives the shape of the value.

    Returns
    -------
    HalfCauchy

    Raises
    ------
    InputError
        If the scale is not positive.
    """
    return HalfCauchy(_positive("half_cauchy, scale", scale))


def exponential(mean: float | np.ndarray) -> Exponential:
    """Exponential distribution.

    Parameters
    ----------
    mean : float or array
        In the unit of the value; an array gives the shape of the value.

    Returns
    -------
    Exponential

    Raises
    ------
    InputError
        If the mean is not positive.
    """
    return Exponential(_positive("exponential, mean", mean))


def _of_one_shape(distribution: _Elementwise) -> _Elementwise:
    """Return the distribution, if its parameters are numbers or arrays of one shape."""
    try:
        distribution.shape  # noqa: B018
    except ValueError:
        where = type(distribution).__name__.lower()
        found = f"{[leaf.shape for leaf in jax.tree.leaves(distribution)]}"
        expected = "numbers, or arrays of one shape"
        raise InputError(where, expected, found, "correct one") from None
    return distribution


def _finite(where: str, values) -> jax.Array:
    return _above(-np.inf, where, values, "a finite number")


def _positive(where: str, values) -> jax.Array:
    return _above(0.0, where, values, "a positive number")


def _above(least: float, where: str, values, expected: str) -> jax.Array:
    """Return finite numbers above the least one."""
    try:
        values = np.array(values, dtype=float)  # a copy, which no other code changes
    except (TypeError, ValueError):
        values = np.asarray(math.nan)
    bad = values[~(np.isfinite(values) & (values > least))]
    if bad.size:
        raise InputError(where, expected, f"{bad.flat[0]:g}", "correct it")
    return jax.device_put(values)
