"""Metrics of a density: a positive definite matrix at each position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

from invlift.targets import Density

Metric = Callable[[jax.Array], jax.Array]

METRICS = Literal["fisher", "softabs"]
#: Relative distance of two eigenvalues below which a derivative replaces the divided difference.
CLOSE = 1e-6


def metric_of(target: Density, name: METRICS) -> Metric:
    """Return a metric of a target, a function from (Q,) to (Q, Q).

    Parameters
    ----------
    target
        A density.
    name : {"fisher", "softabs"}
        "fisher": the target's ``metric``.  For an inverse problem with Gaussian noise of known
        scale this is the Fisher information plus the prior's precision (Girolami & Calderhead
        2011, section 6).  "softabs": :func:`softabs` of minus the Hessian of the log density
        (Betancourt 2013).
    """
    if name == "fisher":
        return target.metric
    return lambda position: softabs(-jax.hessian(target.logdensity)(position))


def _soft(value: jax.Array) -> jax.Array:
    """Return x coth x, which is about |x| for large |x|, and 1 at 0."""
    small = jnp.abs(value) < 1e-3
    safe = jnp.where(small, 1.0, value)
    return jnp.where(small, 1.0 + value**2 / 3.0, safe / jnp.tanh(safe))


def _soft_slope(value: jax.Array) -> jax.Array:
    """Return the derivative of x coth x, an odd function, near +-1 for large |x|."""
    small = jnp.abs(value) < 1e-3
    safe = jnp.where(small, 1.0, jnp.clip(value, -300.0, 300.0))
    return jnp.where(small, 2.0 * value / 3.0, 1.0 / jnp.tanh(safe) - safe / jnp.sinh(safe) ** 2)


@jax.custom_jvp
def softabs(matrix: jax.Array) -> jax.Array:
    """Replace the eigenvalues x of a symmetric matrix, (Q, Q), by x coth x (Betancourt 2013).

    This function is a smooth |x| with the value 1 at 0, the precision of a standard normal prior.
    Its derivatives are also correct for equal eigenvalues.
    """
    values, vectors = jnp.linalg.eigh(matrix)
    return (vectors * _soft(values)) @ vectors.T


@softabs.defjvp
def _softabs_jvp(primals, tangents):
    """Differentiate by divided differences of x coth x (Betancourt 2013, appendix)."""
    (matrix,), (change,) = primals, tangents
    values, vectors = jnp.linalg.eigh(matrix)
    first, second = values[:, None], values[None, :]
    gap = first - second
    is_close = jnp.abs(gap) <= CLOSE * (1.0 + jnp.abs(first) + jnp.abs(second))
    quotient = (_soft(first) - _soft(second)) / jnp.where(is_close, 1.0, gap)
    slopes = jnp.where(is_close, _soft_slope(0.5 * (first + second)), quotient)
    moved = vectors.T @ (0.5 * (change + change.T)) @ vectors
    return (vectors * _soft(values)) @ vectors.T, vectors @ (slopes * moved) @ vectors.T
