"""NumPyro's distributions with traced parameters, as maps of standard normal variables.

A latent value is a map of standard normal z: exact for those with a simple one, else NumPyro's map
from the real numbers to the support, of which the density relative to the standard normal one is
left over.  An observed value has a *score*: a smooth increasing function of it that is about
standard normal; the density left over makes any such function exact.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import ndtr
from numpyro.distributions import transforms

from invlift.inverse.distributions.of_numpyro import FAMILIES
from invlift.inverse.noise.student_t import StudentTNoise

Shape = tuple[int, ...]
_WRAPPERS = (dist.Independent, dist.ExpandedDistribution, dist.MaskedDistribution)


def unwrapped(given: dist.Distribution) -> dist.Distribution:
    """The distribution without what only reshapes or masks it."""
    while isinstance(given, _WRAPPERS):
        given = given.base_dist
    return given


def mask_of(given: dist.Distribution) -> jax.Array | bool:
    """Which of a batch of values count."""
    while isinstance(given, _WRAPPERS):
        if isinstance(given, dist.MaskedDistribution):
            return given._mask
        given = given.base_dist
    return True


# Latent values ------------------------------------------------------------------------------------


class Whitening(NamedTuple):
    """A map of standard normal variables to values of a shape.

    Attributes
    ----------
    shape : tuple of int
        Of the variables.
    transform : callable
        Variables of that shape to the value.
    """

    shape: Shape
    transform: Callable[[jax.Array], jax.Array]


def exact_whitening(given: dist.Distribution, shape: Shape) -> Whitening | None:
    """A map that gives values of the distribution exactly; None if there is no simple one.

    Parameters
    ----------
    given : numpyro.distributions.Distribution
        Parameters may be traced.
    shape : tuple of int
        Of the values, batches that it is expanded to first.
    """
    given = unwrapped(given)
    family = FAMILIES.get(type(given).__name__)
    if family is not None:
        quantile = family(given).quantile
        return Whitening(shape, lambda z: jnp.broadcast_to(quantile(z), shape))
    if isinstance(given, dist.Cauchy):
        return Whitening(shape, lambda z: given.loc + given.scale * _cauchy(z))
    if isinstance(given, dist.MultivariateNormal):
        return Whitening(shape, lambda z: given.loc + _times(given.scale_tril, z))
    if isinstance(given, dist.GaussianRandomWalk):
        scale = jnp.asarray(given.scale)[..., None]
        return Whitening(shape, lambda z: jnp.cumsum(scale * z, axis=-1))
    if isinstance(given, dist.EulerMaruyama) and len(shape) == len(given.event_shape):
        return _euler_maruyama(given, shape)
    if isinstance(given, dist.TransformedDistribution):
        onward = transforms.ComposeTransform(given.transforms)
        base = exact_whitening(given.base_dist, tuple(onward.inverse_shape(shape)))
        return base and Whitening(base.shape, lambda z: onward(base.transform(z)))
    return None


def coordinate_shape(given: dist.Distribution, shape: Shape) -> Shape:
    """Shape of the real numbers that NumPyro maps to values of a shape."""
    return tuple(dist.biject_to(given.support).inverse_shape(shape))


def _cauchy(z):
    """The standard Cauchy quantile of Phi(z), accurate in both tails."""
    is_below = z < 0.0
    below = -1.0 / jnp.tan(np.pi * ndtr(jnp.where(is_below, z, -1.0)))
    above = 1.0 / jnp.tan(np.pi * ndtr(-jnp.where(is_below, 1.0, z)))
    return jnp.where(is_below, below, above)


def _times(lower, z):
    return jnp.einsum("...ij,...j->...i", lower, z)


def _euler_maruyama(given, shape):
    """By its increments, for one path."""
    first = exact_whitening(given.init_dist, shape[1:])
    if first is None:
        return None
    times = jnp.asarray(given.t)

    def transform(z):
        def step(state, now):
            noise, time, length = now
            drift, diffusion = given.sde_fn(state, time)
            new = state + length * drift + jnp.sqrt(length) * diffusion * noise
            return new, new

        start = first.transform(z[0])
        _, path = jax.lax.scan(step, start, (z[1:], times[:-1], jnp.diff(times)))
        return jnp.concatenate([start[None], path])

    return Whitening(shape, transform) if first.shape == shape[1:] else None


# Observed values ----------------------------------------------------------------------------------


def score_of(given: dist.Distribution, value: jax.Array) -> jax.Array | None:
    """Scores of observed values, of their shape; None where the distribution has none.

    Parameters
    ----------
    given : numpyro.distributions.Distribution
        Parameters may be traced.
    value : array
    """
    given = unwrapped(given)
    if given.support is None or given.support.is_discrete:
        return None
    special = _SCORES.get(type(given))
    if special is not None:
        return special(given, value)
    if isinstance(given, dist.TransformedDistribution):
        for each in reversed(given.transforms):
            value = each.inv(value)
        return score_of(given.base_dist, value)
    if given.event_shape:
        return None
    try:
        return (value - given.mean) / jnp.sqrt(given.variance)
    except NotImplementedError:
        return None


def centre_of(given: dist.Distribution, shape: Shape) -> jax.Array:
    """The middle of a distribution with scores, of a shape: its location, else its mean."""
    given = unwrapped(given)
    if isinstance(given, dist.TransformedDistribution) and type(given) not in _SCORES:
        onward = transforms.ComposeTransform(given.transforms)
        return onward(centre_of(given.base_dist, tuple(onward.inverse_shape(shape))))
    is_located = _SCORES.get(type(given)) in (_located, _student_t, _whitened)
    return jnp.broadcast_to(given.loc if is_located else given.mean, shape).astype(float)


def _located(given, value):
    return (value - given.loc) / given.scale


def _student_t(given, value):
    return StudentTNoise.inverse_transform(None, _located(given, value), jnp.asarray(given.df))


def _whitened(given, value):
    difference = jnp.broadcast_to(value - given.loc, jnp.shape(value))
    solve = functools.partial(solve_triangular, lower=True)
    return jnp.vectorize(solve, signature="(n,n),(n)->(n)")(given.scale_tril, difference)


def _steps(given, value):
    before = jnp.concatenate([jnp.zeros_like(value[..., :1]), value[..., :-1]], axis=-1)
    return (value - before) / jnp.asarray(given.scale)[..., None]


_SCORES = {
    dist.Normal: _located,
    dist.Laplace: _located,
    dist.Logistic: _located,
    dist.Cauchy: _located,
    dist.StudentT: _student_t,
    dist.LogNormal: lambda given, value: (jnp.log(value) - given.loc) / given.scale,
    dist.MultivariateNormal: _whitened,
    dist.GaussianRandomWalk: _steps,
}
