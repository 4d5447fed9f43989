"""Base classes of distributions: transformations of standard normal variables with a density."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from invlift.unknowns.transformation import Transformation

#: Largest standard normal value in a bisection, and number of halvings.
WIDEST, NUM_HALVINGS = 37.0, 60


def log_normal(values: jax.Array) -> jax.Array:
    """Log density of standard normal values of any shape, ()."""
    return jnp.sum(-0.5 * values**2 - 0.5 * np.log(2.0 * np.pi))


class Distribution(Transformation):
    """A continuous distribution of values of some shape, in their own unit.

    A subclass defines ``shape``, ``transform`` and ``log_density``; ``log_reference`` and
    ``sample`` as well where z is not standard normal.

    Attributes
    ----------
    shape : tuple of int
        Shape of a value.
    num_white : int
        Number k of variables z of a value.
    support : (float, float)
        Bounds of all entries of a value, in its unit.
    distributions : mapping of str to Distribution
        The distribution itself if a value is one number, else empty.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a value."""
        raise NotImplementedError

    @property
    def num_white(self) -> int:
        """Number k of variables z of a value."""
        return math.prod(self.shape)

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of all entries of a value."""
        return -math.inf, math.inf

    def transform(self, white: jax.Array) -> jax.Array:
        """Return T(z) for z of (k,): smooth, and increasing or decreasing if it is one number."""
        raise NotImplementedError

    def whiten(self, value: np.ndarray) -> np.ndarray:
        """Return the variables z, (k,), that give a value, by bisection of each entry.

        NaN where there are none.  A subclass whose T mixes entries overrides this.
        """
        value = np.ravel(np.asarray(value, dtype=float))
        if value.size != self.num_white:
            return np.full(self.num_white, np.nan)
        low, high = np.full((2, value.size), [[-WIDEST], [WIDEST]])
        ends = (np.ravel(self.transform(jnp.full(value.size, z))) for z in (-1.0, 1.0))
        is_falling = np.greater(*ends)
        for _ in range(NUM_HALVINGS):
            middle = 0.5 * (low + high)
            values = np.ravel(self.transform(jnp.asarray(middle)))
            is_low = (values < value) != is_falling
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        width = np.ravel(self.transform(jnp.asarray(middle + 1e-6))) - values
        return np.where(np.abs(values - value) <= np.abs(width), middle, np.nan)

    def log_density(self, value: jax.Array) -> jax.Array:
        """Log density of a value, (), normalised, in the logarithm of one over its unit."""
        raise NotImplementedError

    @property
    def distributions(self) -> dict[str, Distribution]:
        """The distribution itself, if a value is one number."""
        return {"": self} if self.shape == () else {}


class Positive(Distribution):
    """A distribution of a number from 0 to infinity, as scales of the noise require.

    A subclass defines ``log_density_of_log``, ``log_median`` and ``log_sd`` as well.

    Attributes
    ----------
    log_median : ()
        Logarithm of the approximate median, which is in the unit of the value.
    log_sd : ()
        Standard deviation of the logarithm, without unit.
    support : (float, float)
        0 and infinity.
    """

    @property
    def support(self) -> tuple[float, float]:
        """From 0 to infinity."""
        return 0.0, math.inf

    @property
    def log_median(self) -> jax.Array:
        """Logarithm of the approximate median, ()."""
        raise NotImplementedError

    @property
    def log_sd(self) -> jax.Array:
        """Standard deviation of the logarithm, ()."""
        raise NotImplementedError

    def log_density_of_log(self, log_value: jax.Array) -> jax.Array:
        """Log density of the value (not of its log) elementwise, from its logarithm.

        It is exact also for values beyond the range of floating-point numbers.
        """
        raise NotImplementedError

    def log_density(self, value: jax.Array) -> jax.Array:
        """As :meth:`Distribution.log_density`."""
        return jnp.sum(self.log_density_of_log(jnp.log(value)))
