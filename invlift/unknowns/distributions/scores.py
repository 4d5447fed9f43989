"""Scores of observed values: smooth functions of them that are about standard normal.

The caller adds the density of a value relative to the standard normal one of its score, so that any
smooth function is exact.  A score that is nearly standard normal allows long steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtri
from numpyro.distributions import transforms

from invlift.unknowns.distributions import student_t
from invlift.unknowns.distributions.whitening import lower_of, solved, unwrapped


class _Score(NamedTuple):
    """Score and centre for a class of distributions, as functions."""

    of: Callable[[dist.Distribution, jax.Array], jax.Array]
    centre: Callable[[dist.Distribution], jax.Array]


def score_of(given: dist.Distribution, value: jax.Array) -> jax.Array | None:
    """Return scores of observed values, in their shape; None if the distribution has none.

    Parameters
    ----------
    given : numpyro.distributions.Distribution
        Parameters may be traced.
    value : array
    """
    given = unwrapped(given)
    if given.support is None or given.support.is_discrete:
        return None
    if isinstance(given, dist.TransformedDistribution) and type(given) not in _SCORES:
        shape = jnp.shape(value)
        for each in reversed(given.transforms):
            value = each.inv(value)
        score = score_of(given.base_dist, value)
        return None if score is None or score.shape != shape else score
    kind = _kind(given)
    return None if kind is None else kind.of(given, value)


def normal_score_of(given: dist.Distribution, value: jax.Array) -> jax.Array | None:
    """Return standard normal variables with the probabilities of values, in their shape.

    None if the scores of :func:`score_of` are normal already, or the distribution function is not
    known.
    """
    given = unwrapped(given)
    if given.event_shape or type(given) in _ARE_NORMAL:
        return None
    if type(given) in _NORMAL_SCORES:
        return _NORMAL_SCORES[type(given)](given, value)
    try:
        probability = given.cdf(value)
    except NotImplementedError:
        return None
    return ndtri(jnp.clip(probability, 1e-300, 1.0 - 1e-16))


def log_rest_of(given: dist.Distribution, value: jax.Array) -> jax.Array | None:
    """Return the log density of observed values relative to that of their scores, in their shape.

    None if it has no simpler form than the difference.  A simpler form does not depend on the
    location, so that a model of the location, a differential equation say, is not solved again.
    """
    given = unwrapped(given)
    rest = _LOG_RESTS.get(type(given))
    return None if rest is None else jnp.broadcast_to(rest(given, value), jnp.shape(value))


def centre_of(given: dist.Distribution, shape: tuple[int, ...]) -> jax.Array:
    """Return the middle of a distribution with scores, in a shape: location, median or mean."""
    given = unwrapped(given)
    if isinstance(given, dist.TransformedDistribution) and type(given) not in _SCORES:
        onward = transforms.ComposeTransform(given.transforms)
        return onward(centre_of(given.base_dist, tuple(onward.inverse_shape(shape))))
    return jnp.broadcast_to(_kind(given).centre(given), shape).astype(float)


def _kind(given) -> _Score | None:
    """Return the score functions of a distribution: those of its class, or by its moments."""
    kind = _SCORES.get(type(given))
    if kind is not None or given.event_shape or isinstance(given, WITH_ATOMS):
        return kind
    try:
        _by_moments(given, given.mean)
    except NotImplementedError:
        return None
    return _Score(_by_moments, lambda given: given.mean)


def _by_moments(given, value):
    return (value - given.mean) / jnp.sqrt(given.variance)


def _by_quantiles(given, value):
    """Score by median and spread of the value as a real number, as moments may be infinite."""
    free = dist.biject_to(given.support).inv
    low, middle, high = (free(given.icdf(each)) for each in (0.1587, 0.5, 0.8413))
    return 2.0 * (free(value) - middle) / (high - low)


def _located(given, value):
    return (value - given.loc) / given.scale


def _student_t(given, value):
    return student_t.inverse_transform(_located(given, value), jnp.asarray(given.df))


def _lognormal(given, value):
    return (jnp.log(value) - given.loc) / given.scale


def _inverse_gamma(given, value):
    """Score by the moments of the reciprocal, as those of the value may be infinite."""
    return (given.concentration - given.rate / value) / jnp.sqrt(given.concentration)


def _von_mises(given, value):
    return jnp.sqrt(given.concentration) * jnp.sin(value - given.loc)


def _normal_of_von_mises(given, value):
    """By quadrature of the density between the value and the point opposite to the location."""
    away = jnp.mod(value - given.loc + jnp.pi, 2.0 * jnp.pi) - jnp.pi
    away, concentration = jnp.broadcast_arrays(away, given.concentration)
    nodes, weights = np.polynomial.legendre.leggauss(100)

    def beyond(begin):
        width = jnp.minimum(jnp.pi - begin, 10.0 / jnp.sqrt(concentration))[..., None]
        at = begin[..., None] + 0.5 * width * (nodes + 1.0)
        return jnp.exp(concentration[..., None] * (jnp.cos(at) - 1.0)) * width @ weights

    tail = 0.5 * beyond(jnp.abs(away)) / beyond(jnp.zeros_like(away))
    return jnp.where(away < 0.0, 1.0, -1.0) * ndtri(jnp.maximum(tail, 1e-300))


def _normal_of_student_t(given, value):
    eta, freedom = jnp.broadcast_arrays(_student_t(given, value), jnp.asarray(given.df, float))
    return student_t.normal_score(eta, freedom[..., None])


def _normal_of_kumaraswamy(given, value):
    above = given.concentration0 * jnp.log1p(-(value**given.concentration1))
    return jnp.where(
        above < -0.7, -ndtri(jnp.exp(jnp.maximum(above, -690.0))), ndtri(-jnp.expm1(above))
    )


def _whitened(given, value):
    return solved(lower_of(given), value - given.loc, lower=True)


def _of_matrix(given, value):
    half = solved(given.scale_tril_column, value - given.loc, lower=True)
    turned = solved(given.scale_tril_row, jnp.swapaxes(half, -1, -2), lower=True)
    return jnp.swapaxes(turned, -1, -2)


def _steps(given, value):
    before = jnp.concatenate([jnp.zeros_like(value[..., :1]), value[..., :-1]], axis=-1)
    return (value - before) / jnp.asarray(given.scale)[..., None]


def _location(given):
    return given.loc


def _median(given):
    return given.icdf(0.5)


_SCORES = (
    {
        kind: _Score(_located, _location)
        for kind in (dist.Cauchy, dist.Laplace, dist.Logistic, dist.Normal)
    }
    | {
        kind: _Score(_by_quantiles, _median)
        for kind in (
            dist.Dagum,
            dist.DoublyTruncatedPowerLaw,
            dist.Gompertz,
            dist.LeftTruncatedDistribution,
            dist.Levy,
            dist.LowerTruncatedPowerLaw,
            dist.RightTruncatedDistribution,
            dist.TwoSidedTruncatedDistribution,
        )
    }
    | {
        kind: _Score(_whitened, _location)
        for kind in (
            dist.LowRankMultivariateNormal,
            dist.MultivariateNormal,
            dist.MultivariateStudentT,
        )
    }
    | {
        dist.GaussianRandomWalk: _Score(_steps, lambda given: 0.0),
        dist.InverseGamma: _Score(_inverse_gamma, lambda given: given.rate / given.concentration),
        dist.LogNormal: _Score(_lognormal, lambda given: jnp.exp(given.loc)),
        dist.MatrixNormal: _Score(_of_matrix, _location),
        dist.StudentT: _Score(_student_t, _location),
        dist.VonMises: _Score(_von_mises, _location),
    }
)
#: Distributions of single values whose scores are standard normal.
_ARE_NORMAL = (dist.Normal, dist.LogNormal)
#: Normal scores of distributions whose distribution function NumPyro does not have, or slowly.
_NORMAL_SCORES = {
    dist.Kumaraswamy: _normal_of_kumaraswamy,
    dist.StudentT: _normal_of_student_t,
    dist.VonMises: _normal_of_von_mises,
}
#: Distributions in which single values have a positive probability.
WITH_ATOMS = (dist.Delta, dist.HurdleProbs)
_LOG_RESTS = {
    dist.GaussianRandomWalk: lambda given, value: -jnp.log(given.scale)[..., None],
    dist.LogNormal: lambda given, value: -jnp.log(given.scale) - jnp.log(value),
    dist.MultivariateNormal: lambda given, value: (
        -jnp.log(jnp.diagonal(given.scale_tril, axis1=-2, axis2=-1))
    ),
    dist.Normal: lambda given, value: -jnp.log(given.scale),
}
