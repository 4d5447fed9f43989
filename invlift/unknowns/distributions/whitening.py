"""Maps from standard normal z to latent values of NumPyro's distributions, traced or not.

Parameters may be traced.  The map is exact if there is a simple one.  Otherwise it is NumPyro's map
from the real numbers to the support, and the density relative to the standard normal one remains to
be added.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import ndtr
from numpyro.distributions import transforms

from invlift.unknowns.distributions import families
from invlift.unknowns.distributions.base import Distribution

Shape = tuple[int, ...]
#: NumPyro's classes with an equal family in invlift.  A subclass may be another distribution.
FAMILIES: dict[type[dist.Distribution], Callable[[Any], Distribution]] = {
    dist.Normal: lambda given: families.Normal(given.loc, given.scale),
    dist.LogNormal: lambda given: families.Lognormal(given.loc, given.scale),
    dist.HalfNormal: lambda given: families.HalfNormal(given.scale),
    dist.HalfCauchy: lambda given: families.HalfCauchy(given.scale),
    dist.Exponential: lambda given: families.Exponential(1.0 / given.rate),
    dist.Uniform: lambda given: families.Uniform(given.low, given.high),
}
_WRAPPERS = (dist.Independent, dist.ExpandedDistribution, dist.MaskedDistribution)


def has_law_of(given: dist.Distribution, *classes: type[dist.Distribution]) -> bool:
    """Return whether a distribution is of some classes and has their density, draws and quantiles.

    A subclass that overrides a method has another density, which must not be ignored.
    """
    methods = ("log_prob", "sample", "icdf")
    return any(
        isinstance(given, each)
        and all(getattr(type(given), name) is getattr(each, name) for name in methods)
        for each in classes
    )


def unwrapped(given: dist.Distribution) -> dist.Distribution:
    """Return the distribution without wrappers that only reshape or mask it."""
    while has_law_of(given, *_WRAPPERS):
        given = given.base_dist
    return given


def mask_of(given: dist.Distribution) -> jax.Array | bool:
    """Return the mask of the values in use: an array that broadcasts with them, or one bool."""
    while has_law_of(given, *_WRAPPERS):
        if isinstance(given, dist.MaskedDistribution):
            mask, after = given._mask, (None,) * given.event_dim
            return mask if isinstance(mask, bool) else mask[(..., *after)]
        given = given.base_dist
    return True


class Whitening(NamedTuple):
    """A map from standard normal variables to values of a shape.

    Attributes
    ----------
    shape : tuple of int
        Shape of the variables.
    transform : callable
        Map from variables of that shape to the value.
    """

    shape: Shape
    transform: Callable[[jax.Array], jax.Array]


def exact_whitening(
    given: dist.Distribution, shape: Shape, *, by_quantiles: bool = False
) -> Whitening | None:
    """Return an exact map from standard normal variables to values; None if none is simple.

    Parameters
    ----------
    given : numpyro.distributions.Distribution
        Parameters may be traced.
    shape : tuple of int
        Shape of the values; the batches to which it is expanded come first.
    by_quantiles : bool
        True if ``icdf`` may be used for independent numbers; it is inaccurate in far tails.
    """
    given = unwrapped(given)
    if type(given) in FAMILIES:
        quantile = FAMILIES[type(given)](given).quantile
        return Whitening(shape, lambda z: jnp.broadcast_to(quantile(z), shape))
    if type(given) in _EXACT:
        return Whitening(shape, lambda z: _EXACT[type(given)](given, z))
    if has_law_of(given, dist.EulerMaruyama) and len(shape) == len(given.event_shape):
        return _euler_maruyama(given, shape)
    if has_law_of(given, dist.TransformedDistribution, dist.FoldedDistribution):
        onward = transforms.ComposeTransform(given.transforms)
        at = tuple(onward.inverse_shape(shape))
        base = exact_whitening(given.base_dist, at, by_quantiles=by_quantiles)
        return base and Whitening(base.shape, lambda z: onward(base.transform(z)))
    has_quantiles = by_quantiles and not given.event_shape
    if has_quantiles and has(given.icdf, jnp.full(given.shape(), 0.5)):
        return Whitening(shape, lambda z: jnp.broadcast_to(given.icdf(ndtr(z)), shape))
    return None


def has(method: Callable, *arguments: Any) -> bool:
    """Return whether a method is implemented: NumPyro's base class has all of them."""
    try:
        jax.eval_shape(method, *arguments)
    except NotImplementedError:
        return False
    return True


def coordinate_shape(given: dist.Distribution, shape: Shape) -> Shape:
    """Return the shape of the real numbers that NumPyro maps to values of a shape."""
    return tuple(dist.biject_to(given.support).inverse_shape(shape))


def _cauchy(given, z):
    """Map z by the quantile of Phi(z), accurate in both tails."""
    is_below = z < 0.0
    below = -1.0 / jnp.tan(np.pi * ndtr(jnp.where(is_below, z, -1.0)))
    above = 1.0 / jnp.tan(np.pi * ndtr(-jnp.where(is_below, 1.0, z)))
    return given.loc + given.scale * jnp.where(is_below, below, above)


def _multivariate(given, z):
    return given.loc + _times(lower_of(given), z)


def _matrix_normal(given, z):
    rows, columns = given.scale_tril_row, given.scale_tril_column
    return given.loc + rows @ z @ jnp.swapaxes(columns, -1, -2)


def _of_precision(given, z):
    upper = jnp.swapaxes(jnp.linalg.cholesky(given.precision_matrix), -1, -2)
    return given.loc + solved(upper, z, lower=False)


def _random_walk(given, z):
    return jnp.cumsum(jnp.asarray(given.scale)[..., None] * z, axis=-1)


def _projected(given, z):
    moved = given.concentration + z
    return moved / jnp.linalg.norm(moved, axis=-1, keepdims=True)


_EXACT = {
    dist.CAR: _of_precision,
    dist.Cauchy: _cauchy,
    dist.GaussianRandomWalk: _random_walk,
    dist.LowRankMultivariateNormal: _multivariate,
    dist.MatrixNormal: _matrix_normal,
    dist.MultivariateNormal: _multivariate,
    dist.ProjectedNormal: _projected,
}


def lower_of(given: dist.Distribution) -> jax.Array:
    """Return the lower triangular L of a distribution with covariance proportional to L L^T."""
    if isinstance(given, dist.LowRankMultivariateNormal):
        return jnp.linalg.cholesky(given.covariance_matrix)
    return given.scale_tril


def solved(matrix: jax.Array, vectors: jax.Array, *, lower: bool) -> jax.Array:
    """Multiply vectors along the last axis by the inverse of a triangular matrix."""
    solve = partial(solve_triangular, lower=lower)
    return jnp.vectorize(solve, signature="(n,n),(n)->(n)")(matrix, vectors)


def _times(lower, z):
    return jnp.einsum("...ij,...j->...i", lower, z)


def _euler_maruyama(given, shape):
    """Return the map from increments to one path; None if its start has no map."""
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
