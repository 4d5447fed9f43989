"""NumPyro's distributions as transformations of standard normal variables.

A distribution with an equal family in invlift becomes that family.  Others are transformed by an
exact map if there is a simple one.  Any other has a coordinate: NumPyro's map from the real numbers
to the support, after a shift and a scaling that make z approximately standard normal.
``log_reference`` is then the density relative to the standard normal one.  Classes of a user are
treated in the same way, and those without draws or density are transformed by their quantiles.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, KeyPath, as_input_error, errors_at
from invlift.unknowns.distributions.base import (
    NUM_HALVINGS,
    WIDEST,
    Distribution,
    Positive,
    log_normal,
)

_NUMPYRO = "numpyro.distributions"
#: Number of draws that determine shift and scale of the coordinate.
NUM_DRAWS = 2000


class _OfNumpyro(Distribution):
    """A distribution of NumPyro.

    Attributes
    ----------
    given : numpyro.distributions.Distribution
    """

    given: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batches, followed by that of an event."""
        return self.given.batch_shape + self.given.event_shape

    @property
    def is_elementwise(self) -> bool:
        """True if entries are independent."""
        return not self.given.event_shape

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of all entries, if NumPyro has them."""
        support = self.given.support
        low = getattr(support, "lower_bound", -math.inf)
        return float(np.min(low)), float(np.max(getattr(support, "upper_bound", math.inf)))

    def log_density(self, value: jax.Array) -> jax.Array:
        """As :meth:`Distribution.log_density`."""
        return jnp.sum(self.given.log_prob(value))


class Exact(_OfNumpyro):
    """A distribution of NumPyro with an exact map from standard normal variables to values."""

    @property
    def num_white(self) -> int:
        """Number k of variables."""
        return math.prod(self._whitening.shape)

    def transform(self, white: jax.Array) -> jax.Array:
        """As :meth:`Distribution.transform`."""
        return self._whitening.transform(white.reshape(self._whitening.shape))

    def whiten(self, value: np.ndarray) -> np.ndarray:
        """As :meth:`Distribution.whiten`, also where T is affine and mixes entries."""
        if not self.given.event_shape:
            return super().whiten(value)
        at = jnp.zeros(self.num_white)
        slope = jax.jacfwd(lambda white: jnp.ravel(self.transform(white)))(at)
        scores, *_ = jnp.linalg.lstsq(slope, jnp.ravel(value - self.transform(at)))
        is_found = jnp.allclose(self.transform(scores), value, rtol=1e-9, atol=0.0)
        return np.where(is_found, scores, np.nan)

    @property
    def _whitening(self):
        from invlift.unknowns.distributions.whitening import exact_whitening

        return exact_whitening(self.given, self.shape)


class Quantiles(Exact):
    """A distribution of independent numbers for which only quantiles are known.

    The value is Q(Phi(z)), for z up to 8: beyond, Phi(z) is 1 to all digits.
    """

    def log_density(self, value: jax.Array) -> jax.Array:
        """As :meth:`Distribution.log_density`: by the slope of the quantiles at the value's z."""
        whitening = self._whitening
        value = jnp.reshape(value, whitening.shape)
        low, high = (jnp.full(whitening.shape, end) for end in (-WIDEST, WIDEST))
        ends = (whitening.transform(jnp.full(whitening.shape, z)) for z in (-1.0, 1.0))
        is_falling = jnp.greater(*ends)

        def halve(_, ends):
            low, high = ends
            middle = 0.5 * (low + high)
            is_low = (whitening.transform(middle) < value) != is_falling
            return jnp.where(is_low, middle, low), jnp.where(is_low, high, middle)

        score, _ = jax.lax.fori_loop(0, NUM_HALVINGS, halve, (low, high))
        quantile, slope = jax.jvp(whitening.transform, (score,), (jnp.ones_like(score),))
        is_there = jnp.isclose(quantile, value, rtol=1e-6, atol=0.0).all()
        density = log_normal(score) - jnp.sum(jnp.log(jnp.abs(slope)))
        return jnp.where(is_there, density, -jnp.inf)

    @property
    def _whitening(self):
        from invlift.unknowns.distributions.whitening import exact_whitening

        return exact_whitening(self.given, self.shape, by_quantiles=True)


class Coordinate(_OfNumpyro):
    """A distribution of NumPyro in a coordinate z, with the value T(centre + spread z).

    Attributes
    ----------
    given : numpyro.distributions.Distribution
    centre, spread : array
        Approximate median and standard deviation of the value mapped to the real numbers.
    """

    centre: jax.Array
    spread: jax.Array

    @property
    def num_white(self) -> int:
        """Number k of variables; for a simplex it is less than the number of entries."""
        return math.prod(self.centre.shape)

    def transform(self, white: jax.Array) -> jax.Array:
        """As :meth:`Distribution.transform`."""
        return _bijection(self.given)(self._unbounded(white))

    def log_reference(self, white: jax.Array) -> jax.Array:
        """As :meth:`Distribution.log_reference`."""
        bijection, at = _bijection(self.given), self._unbounded(white)
        value = bijection(at)
        log_volume = jnp.sum(bijection.log_abs_det_jacobian(at, value))
        log_volume += jnp.sum(jnp.log(self.spread))
        return self.log_density(value) + log_volume - log_normal(white)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Distribution.sample`."""
        value = self.given.sample(jax.random.key(rng.integers(2**32)))
        return np.asarray(self.whiten(value))

    def whiten(self, value: jax.Array) -> jax.Array:
        """Return the variables z, (k,), that give a value."""
        return jnp.ravel((_bijection(self.given).inv(value) - self.centre) / self.spread)

    def _unbounded(self, white):
        return self.centre + self.spread * white.reshape(self.centre.shape)


class PositiveCoordinate(Coordinate, Positive):
    """A :class:`Coordinate` of a positive number, which is that of its logarithm."""

    @property
    def log_median(self) -> jax.Array:
        """The centre."""
        return self.centre

    @property
    def log_sd(self) -> jax.Array:
        """The spread."""
        return self.spread

    def log_density_of_log(self, log_value: jax.Array) -> jax.Array:
        """As :meth:`Positive.log_density_of_log`."""
        return self.given.log_prob(jnp.exp(log_value))


def from_numpyro(name: str, **names: str) -> Callable[..., Distribution]:
    """Return a maker of a NumPyro distribution; ``names`` are NumPyro's names of other keys."""

    def make(**keys: float) -> Distribution:
        from numpyro import distributions

        keys = {names.get(key, key): value for key, value in keys.items()}
        return as_distribution(getattr(distributions, name)(**keys))

    return make


def is_distribution(thing: Any) -> bool:
    """Return whether it is a distribution of invlift, of NumPyro, or of a subclass of these."""
    numpyro = sys.modules.get(_NUMPYRO)  # before it is imported, it has no objects
    is_numpyro = numpyro is not None and isinstance(thing, numpyro.Distribution)
    return isinstance(thing, Distribution) or is_numpyro


def as_distribution(given: Any) -> Distribution:
    """Return a distribution of invlift as given, and one of NumPyro converted.

    Raises
    ------
    InputError
        If it is neither, a distribution of NumPyro that is not continuous, or of a class that has
        neither ``sample`` and ``log_prob`` nor ``icdf``.
    """
    if isinstance(given, Distribution):
        return given
    kind = type(given)
    if not is_distribution(given):
        raise InputError(
            "distribution",
            "a distribution of invlift or of NumPyro",
            f"{given!r}"[:80],
            "give one, invlift.normal(0.0, 1.0) say",
        )
    import numpyro.distributions as dist

    from invlift.unknowns.distributions.whitening import FAMILIES, mask_of

    if not np.all(mask_of(given)):
        expected, remedy = "one without mask", "leave out the mask: it would have no effect"
        raise InputError("distribution", expected, "a masked one", remedy)
    if kind is dist.Independent:
        return as_distribution(given.base_dist)
    if kind is dist.ExpandedDistribution and type(given.base_dist) in FAMILIES:
        family = as_distribution(given.base_dist)
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, given.batch_shape), family)
    remedy = "write it in JAX, and name its attributes in arg_constraints or pytree_data_fields"
    with as_input_error(f"distribution {kind.__name__}", "one that JAX can evaluate", remedy):
        _check_bounds(given)
        if kind not in FAMILIES:
            return _exact_or_in_a_coordinate(given)
        family = FAMILIES[kind](given)
        return jax.device_put(jax.tree.map(lambda leaf: np.array(leaf, float), family))


def one_number(where: str | KeyPath, value, *, is_positive: bool = False) -> Distribution:
    """Return the distribution of one number, and check its shape and, if required, its support.

    Raises
    ------
    InputError
        If the value is not such a distribution.
    """
    with errors_at(where):
        found = as_distribution(value)
    if found.shape != () or (is_positive and not found.support[0] >= 0.0):
        expected = f"a distribution of {'a positive' if is_positive else 'one'} number"
        given = f"one of shape {found.shape}" if found.shape else f"{value!r}"[:80]
        raise InputError(where, expected, given, "give lognormal(median=..., factor=2), say")
    return found


def _check_bounds(given: Any) -> None:
    bounds = (getattr(given.support, f"{end}_bound", None) for end in ("lower", "upper"))
    low, high = (None if bound is None else np.asarray(bound) for bound in bounds)
    if low is not None and high is not None and not np.all(low < high):
        raise InputError(
            f"NumPyro's {type(given).__name__}",
            "a support with a lower bound below the upper one",
            f"from {low.max():g} to {high.min():g}",
            "correct the bounds",
        )


def repeated(given: Any, num: int) -> Distribution:
    """Return the distribution of independent values, (num,), of a distribution of one number.

    Raises
    ------
    InputError
        As :func:`as_distribution`; if it is not of one number.
    """
    found = one_number("distribution", given)
    if isinstance(found, _OfNumpyro):
        return as_distribution(found.given.expand((num,)))
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num,)), found)


def _exact_or_in_a_coordinate(given: Any) -> Exact | Quantiles | Coordinate:
    import numpyro.distributions as dist

    from invlift.unknowns.distributions.whitening import exact_whitening, has

    name = type(given).__name__
    if given.support is None:
        expected, remedy = "a support", "give the class one: support = dist.constraints.real, say"
        raise InputError(f"distribution {name}", expected, "none", remedy)
    if given.support.is_discrete:
        raise InputError(
            "distribution",
            "a continuous distribution",
            f"NumPyro's {name}",
            "sum over what is discrete, or give it a continuous distribution",
        )
    if isinstance(given, dist.ImproperUniform):
        expected, remedy = "a proper distribution", "give a wide normal or uniform one"
        raise InputError("distribution", expected, f"NumPyro's {name}", remedy)
    given = jax.device_put(jax.tree.map(lambda leaf: np.array(leaf, float), given))
    is_positive = given.support is dist.constraints.positive and given.shape() == ()
    if not is_positive and exact_whitening(given, given.shape()) is not None:
        return Exact(given)
    value = jax.ShapeDtypeStruct(given.shape(), float)
    if not (has(given.sample, jax.random.key(0)) and has(given.log_prob, value)):
        if given.event_shape or exact_whitening(given, given.shape(), by_quantiles=True) is None:
            expected = "sample and log_prob; or of independent numbers icdf, the quantiles"
            remedy = "write these methods, or transform a distribution that has them"
            raise InputError(f"distribution {name}", expected, "neither of both", remedy)
        return Quantiles(given)
    try:
        free = np.asarray(_free_draws(given))
    except NotImplementedError:
        expected = "a distribution with a support that NumPyro maps the real numbers to"
        raise InputError("distribution", expected, f"{name}", "give another one") from None
    if not np.all(np.isfinite(free)):
        raise InputError(
            "distribution", "draws within its support", f"others, of NumPyro's {name}", "correct it"
        )
    kind = PositiveCoordinate if is_positive else Coordinate
    return kind(given, *jax.device_put(centre_and_spread(free)))


def centre_and_spread(free: np.ndarray) -> list[np.ndarray]:
    """Return shift and scale, (...) each, that make draws (n, ...) about standard normal.

    They are from quantiles, which long tails do not affect.  The quantiles are far out, as a scale
    that is too small costs more than one that is too large.  Two digits are kept: the last ones may
    differ between machines.
    """
    low, centre, high = np.quantile(free, [0.0228, 0.5, 0.9772], axis=0)
    rounded = np.vectorize(lambda value: float(f"{value:.1e}"), otypes=[float])
    return [rounded(centre), rounded(0.25 * (high - low))]


@jax.jit  # as one program: one for each of its operations takes many times as long
def _free_draws(given):
    return jax.vmap(_bijection(given).inv)(given.sample(jax.random.key(0), (NUM_DRAWS,)))


def _bijection(given):
    from numpyro.distributions import biject_to

    return biject_to(given.support)
