"""Scales of the noise: known, or unknown with a prior of their own, for all readings or by groups.

An unknown scale is a smooth, increasing function of a variable zeta, which is standard normal or
has a density relative to the standard normal one (Au, Graham & Thiery 2023, sections 3 and 5.1).
"""

from __future__ import annotations

import functools
from dataclasses import field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfinv, log_ndtr, ndtr, ndtri

from invlift.errors import InputError
from invlift.pytrees import Module, static

#: Below this argument log softplus is its argument to double precision.
_LOWEST = -36.0


class Scale(Module):
    """A positive number for all readings, or one for each, from zeta of shape (h,).

    Besides the scale of the noise this may be another positive parameter of it, such as degrees of
    freedom; ``sigma`` below is whatever it is.
    """

    @property
    def num_parameters(self) -> int:
        """Number h of unknowns zeta; none where the scale is known."""
        return 0

    def value(self, zeta: jax.Array) -> jax.Array:
        """Sigma, () or (d,), from zeta (h,)."""
        raise NotImplementedError

    def log_reference(self, zeta: jax.Array) -> jax.Array:
        """Log density of zeta (h,) relative to the standard normal one, ()."""
        del zeta
        return jnp.zeros(())

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Exact draw of zeta, (h,), from its prior."""
        return rng.standard_normal(self.num_parameters)

    def near(self, sigma: jax.Array) -> Scale:
        """The same scale in a coordinate for values near sigma, () or (d,)."""
        del sigma
        return self

    def check(self, num_readings: int) -> None:
        """Refuse another number of readings than the scale is for.

        Raises
        ------
        InputError
            If it has one value or one group index for each of another number of readings.
        """


class KnownScale(Scale):
    """A scale that is known.

    Attributes
    ----------
    known : () or (d,)
        In units of the readings; one for all or one for each.
    """

    known: jax.Array

    def value(self, zeta: jax.Array) -> jax.Array:
        """Sigma, () or (d,); zeta is empty."""
        del zeta
        return self.known

    def check(self, num_readings: int) -> None:
        """As :meth:`Scale.check`."""
        if self.known.shape not in ((), (num_readings,)):
            raise InputError(
                "noise sigma",
                f"one number or {num_readings} numbers",
                f"{self.known.shape[0]}",
                "give one value per observation",
            )


class UnknownScale(Scale):
    """An unknown scale: what the priors below have in common.

    Without a knee the coordinate is the quantile one, sigma = Q(Phi(zeta)) with Q the prior's
    quantile function: zeta is standard normal.  With a knee c it is

        sigma = c softplus(location + slope zeta - log c),

    exponential below c and linear above, with location and slope the log of the prior's median and
    the standard deviation of log sigma.  An exponential coordinate is so curved where sigma is
    large that it holds the step of a whole chain down; this one is not, and its log density
    relative to the standard normal one keeps the prior what it was.

    Attributes
    ----------
    groups : None or (d,) int
        Index of each reading's scale; None: one scale for all readings.
    num_parameters : int
        Number h of scales.
    knee : None, () or (h,)
        In units of sigma.
    """

    groups: jax.Array | None = field(default=None, kw_only=True)
    num_parameters: int = static(default=1, kw_only=True)
    knee: jax.Array | None = field(default=None, kw_only=True)

    # What a prior is made of ---------------------------------------------------------------------

    @property
    def location(self) -> jax.Array:
        """Log of the median, ()."""
        raise NotImplementedError

    @property
    def slope(self) -> jax.Array:
        """Standard deviation of log sigma, ()."""
        raise NotImplementedError

    def quantile(self, zeta: jax.Array) -> jax.Array:
        """Q(Phi(zeta)) elementwise: sigma of prior probability Phi(zeta)."""
        raise NotImplementedError

    def log_density(self, log_sigma: jax.Array) -> jax.Array:
        """Log density of sigma (not of its log) elementwise, normalised."""
        raise NotImplementedError

    # What follows --------------------------------------------------------------------------------

    def value(self, zeta: jax.Array) -> jax.Array:
        """Sigma, (), or (d,) with groups, from zeta (h,)."""
        if self.knee is None:
            values = self.quantile(zeta)
        else:
            values = self.knee * jax.nn.softplus(self._argument(zeta))
        return values[0] if self.groups is None else values[self.groups]

    def log_reference(self, zeta: jax.Array) -> jax.Array:
        """As :meth:`Scale.log_reference`, normalised; 0 without a knee."""
        if self.knee is None:
            return jnp.zeros(())
        argument = self._argument(zeta)
        is_low = argument < _LOWEST
        log_softplus = jnp.log(jax.nn.softplus(jnp.where(is_low, _LOWEST, argument)))
        log_knee = jnp.log(self.knee)
        log_sigma = log_knee + jnp.where(is_low, argument, log_softplus)
        log_derivative = log_knee + jnp.log(self.slope) + jax.nn.log_sigmoid(argument)
        log_prior = self.log_density(log_sigma) + log_derivative
        return jnp.sum(log_prior + 0.5 * zeta**2 + 0.5 * np.log(2.0 * np.pi))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Scale.sample`."""
        zeta = rng.standard_normal(self.num_parameters)
        if self.knee is None:
            return zeta
        knee, location, slope = map(np.asarray, (self.knee, self.location, self.slope))
        above = np.asarray(self.quantile(jax.device_put(zeta))) / knee
        argument = above + np.log(-np.expm1(-above))  # softplus backwards
        return (argument + np.log(knee) - location) / slope

    def near(self, sigma: jax.Array) -> UnknownScale:
        """With the knee at sigma: () for all, or (d,), of which each group takes its mean.

        Raises
        ------
        InputError
            If a value is not finite and positive, or there are not d of them.
        """
        if not isinstance(sigma, jax.core.Tracer):
            sigma = jax.device_put(_all_positive("noise sigma", sigma))
        if jnp.ndim(sigma):
            size = 1 if self.groups is None else self.groups.size
            if sigma.shape != (size,):
                raise InputError(
                    "noise sigma", f"one number or {size}", f"shape {sigma.shape}", "correct it"
                )
            groups = jnp.zeros(1, int) if self.groups is None else self.groups
            counts = jnp.bincount(groups, length=self.num_parameters)
            sigma = jnp.bincount(groups, sigma, length=self.num_parameters) / counts
        return replace(self, knee=sigma)

    def check(self, num_readings: int) -> None:
        """As :meth:`Scale.check`."""
        if self.groups is not None and self.groups.shape != (num_readings,):
            raise InputError(
                "noise groups",
                f"{num_readings} indices",
                f"{self.groups.size}",
                "give the index of each reading's scale",
            )

    def _argument(self, zeta):
        return self.location + self.slope * zeta - jnp.log(self.knee)


class LognormalScale(UnknownScale):
    """Log sigma ~ Normal(mean, sd^2); without a knee sigma = exp(mean + sd zeta).

    Attributes
    ----------
    mean, sd : ()
        Of log sigma.
    """

    mean: jax.Array
    sd: jax.Array

    @property
    def location(self) -> jax.Array:
        """Log of the median, ()."""
        return self.mean

    @property
    def slope(self) -> jax.Array:
        """Standard deviation of log sigma, ()."""
        return self.sd

    def quantile(self, zeta: jax.Array) -> jax.Array:
        """Sigma of prior probability Phi(zeta), elementwise."""
        return jnp.exp(self.mean + self.sd * zeta)

    def log_density(self, log_sigma: jax.Array) -> jax.Array:
        """Log density of sigma, elementwise."""
        score = (log_sigma - self.mean) / self.sd
        return -0.5 * score**2 - log_sigma - jnp.log(self.sd) - 0.5 * np.log(2.0 * np.pi)


class _UnitScale(UnknownScale):
    """A prior that is ``unit`` times a fixed distribution: three functions and two numbers of it.

    Attributes
    ----------
    unit : ()
        In units of sigma.
    """

    unit: jax.Array

    #: Median of the distribution of unit 1, and standard deviation of its log.
    median: ClassVar[float]
    log_sd: ClassVar[float]

    @staticmethod
    def unit_quantile(zeta: jax.Array) -> jax.Array:
        """:meth:`quantile` of unit 1; its derivative is taken from the density."""
        raise NotImplementedError

    @staticmethod
    def unit_log_density(log_sigma: jax.Array) -> jax.Array:
        """:meth:`log_density` of unit 1."""
        raise NotImplementedError

    @property
    def location(self) -> jax.Array:
        """Log of the median, ()."""
        return jnp.log(self.unit) + np.log(self.median)

    @property
    def slope(self) -> jax.Array:
        """Standard deviation of log sigma, ()."""
        return jnp.asarray(self.log_sd)

    def quantile(self, zeta: jax.Array) -> jax.Array:
        """Sigma of prior probability Phi(zeta), elementwise."""
        return self.unit * _unit_quantile(type(self), zeta)

    def log_density(self, log_sigma: jax.Array) -> jax.Array:
        """Log density of sigma, elementwise."""
        log_unit = jnp.log(self.unit)
        return self.unit_log_density(log_sigma - log_unit) - log_unit


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _unit_quantile(prior, zeta):
    """The quantile function of a :class:`_UnitScale` of unit 1, elementwise."""
    return prior.unit_quantile(zeta)


@_unit_quantile.defjvp
def _unit_quantile_jvp(prior, primals, tangents):
    """The ratio of the two densities, by their logs: of any order without overflow in the tails."""
    (zeta,), (tangent,) = primals, tangents
    value = _unit_quantile(prior, zeta)
    log_normal = -0.5 * zeta**2 - 0.5 * np.log(2.0 * np.pi)
    return value, tangent * jnp.exp(log_normal - prior.unit_log_density(jnp.log(value)))


class HalfNormalScale(_UnitScale):
    """Sigma = |Normal(0, unit^2)|."""

    median, log_sd = 0.6744897501960817, np.pi / np.sqrt(8.0)

    @staticmethod
    def unit_quantile(zeta: jax.Array) -> jax.Array:
        """Of unit 1."""
        is_below = zeta < 0.0
        # Each branch keeps full relative accuracy in its own tail.
        below = jnp.sqrt(2.0) * erfinv(ndtr(jnp.where(is_below, zeta, 0.0)))
        above = -ndtri(0.5 * ndtr(-jnp.where(is_below, 0.0, zeta)))
        return jnp.where(is_below, below, above)

    @staticmethod
    def unit_log_density(log_sigma: jax.Array) -> jax.Array:
        """Of unit 1."""
        return 0.5 * np.log(2.0 / np.pi) - 0.5 * jnp.exp(2.0 * log_sigma)


class HalfCauchyScale(_UnitScale):
    """Sigma = unit |Cauchy|."""

    median, log_sd = 1.0, np.pi / 2.0

    @staticmethod
    def unit_quantile(zeta: jax.Array) -> jax.Array:
        """Of unit 1."""
        is_below = zeta < 0.0
        below = jnp.tan(0.5 * np.pi * ndtr(jnp.where(is_below, zeta, 0.0)))
        above = 1.0 / jnp.tan(0.5 * np.pi * ndtr(-jnp.where(is_below, 0.0, zeta)))
        return jnp.where(is_below, below, above)

    @staticmethod
    def unit_log_density(log_sigma: jax.Array) -> jax.Array:
        """Of unit 1."""
        return np.log(2.0 / np.pi) - jax.nn.softplus(2.0 * log_sigma)


class ExponentialScale(_UnitScale):
    """Sigma exponentially distributed, of mean ``unit``."""

    median, log_sd = np.log(2.0), np.pi / np.sqrt(6.0)

    @staticmethod
    def unit_quantile(zeta: jax.Array) -> jax.Array:
        """Of unit 1."""
        return -log_ndtr(-zeta)

    @staticmethod
    def unit_log_density(log_sigma: jax.Array) -> jax.Array:
        """Of unit 1."""
        return -jnp.exp(log_sigma)


# What the user calls ------------------------------------------------------------------------------


def known_scale(sigma: float | np.ndarray) -> KnownScale:
    """Known scale, one number or (d,), in units of the readings.

    Raises
    ------
    InputError
        If a value is not finite and positive.
    """
    return KnownScale(jax.device_put(_all_positive("noise sigma", sigma)))


def lognormal_scale(location: float, scale: float, groups=None) -> LognormalScale:
    """Unknown scale with log sigma ~ Normal(location, scale^2).

    Parameters
    ----------
    location, scale : float
        Mean and standard deviation of log sigma, sigma in units of the readings.
    groups : (d,) of int, optional
        Index, from 0, of each reading's scale; ``numpy.arange(d)``: one for each.

    Raises
    ------
    InputError
        If location is not finite, scale not positive, or an index is missing among the groups.
    """
    if not np.isfinite(location):
        raise InputError("noise location", "a finite number", f"{location}", "correct it")
    mean = jax.device_put(np.float64(location))
    return LognormalScale(mean, _positive("noise scale", scale), **_grouping(groups))


def half_normal_scale(scale: float, groups=None) -> HalfNormalScale:
    """Unknown scale sigma = |Normal(0, scale^2)|; the rest as :func:`lognormal_scale`."""
    return HalfNormalScale(_positive("noise scale", scale), **_grouping(groups))


def half_cauchy_scale(scale: float, groups=None) -> HalfCauchyScale:
    """Unknown scale sigma = scale |Cauchy|; the rest as :func:`lognormal_scale`."""
    return HalfCauchyScale(_positive("noise scale", scale), **_grouping(groups))


def exponential_scale(mean: float, groups=None) -> ExponentialScale:
    """Exponentially distributed unknown scale; the rest as :func:`lognormal_scale`."""
    return ExponentialScale(_positive("noise mean", mean), **_grouping(groups))


def as_scale(scale: Scale | float | np.ndarray) -> Scale:
    """A scale as it is, and numbers as a known one.

    Raises
    ------
    InputError
        As :func:`known_scale`.
    """
    return scale if isinstance(scale, Scale) else known_scale(scale)


def _positive(where: str, value: float) -> jax.Array:
    if not (np.ndim(value) == 0 and np.isfinite(value) and value > 0):
        raise InputError(where, "a positive number", f"{value}", "correct it")
    return jax.device_put(np.float64(value))


def _all_positive(where: str, values) -> np.ndarray:
    try:
        values = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        values = np.asarray(values, dtype=object)
    if values.dtype == object or values.ndim > 1:
        raise InputError(
            where, "a positive number, or one for each reading", f"{values!r}", "correct it"
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        raise InputError(
            where + (f", sensor {bad[0]}" if values.ndim else ""),
            "a positive number",
            f"{values.flat[bad[0]]:g}",
            "give the standard deviation of the measurement error",
        )
    return values


def _grouping(groups) -> dict:
    """Arguments of :class:`UnknownScale` for groups, of which every index must occur."""
    if groups is None:
        return {}
    groups = np.asarray(groups)
    is_whole = groups.ndim == 1 and groups.size > 0 and np.issubdtype(groups.dtype, np.integer)
    if not is_whole:
        raise InputError(
            "noise groups",
            "an integer for each reading",
            f"{groups.dtype} of shape {groups.shape}",
            "give the index of each reading's scale, from 0",
        )
    found = np.unique(groups)
    if not np.array_equal(found, np.arange(found.size)):
        wrong = found[found != np.arange(found.size)][0]
        raise InputError(
            "noise groups",
            f"every index from 0 to {found.size - 1}",
            f"{wrong}",
            "number the groups from 0 without gaps",
        )
    return {"groups": jax.device_put(groups.astype(int)), "num_parameters": int(found.size)}
