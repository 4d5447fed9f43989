"""Solutions of linear differential equations at several times at once, by products alone.

JAX's matrix exponential solves a linear system and chooses between five degrees by the norm.  A
batch of matrices computes all five, and its systems are divided among threads in which chains can
wait for each other (docs/design.md, executors).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

#: Number of terms of the Taylor series, 3 2^k, and the largest norm at which it is used.  The
#: remainder is 2^24 / 25!, and 2^22 / 23! for second derivatives.
NUM_TERMS, LARGEST_NORM = 24, 2.0
#: Maximum number of doublings, for a norm of 8e9, and doublings in a group.
MAX_DOUBLINGS, DOUBLINGS = 32, 4
#: Largest size for which a product is a sum of elementwise products, over all times at once.
FEW = 8


def linear_moves(
    matrix: jax.Array, derivatives: Sequence[jax.Array], times: jax.Array
) -> jax.Array:
    """x(t) - x(0) at T times, (n, T), of x' = A x + b + c t, from its derivatives at 0.

    It is t phi_1(t A) x'(0) + t^2 phi_2(t A) c with phi_1(z) = (e^z - 1) / z and phi_2(z) = (e^z -
    1 - z) / z^2 (Hochbruck & Ostermann 2010, section 2), of Taylor series at times divided by 2^s
    and s doublings: exp(2 z) = exp(z)^2, phi_1(2 z) = (exp(z) phi_1(z) + phi_1(z)) / 2 and
    phi_2(2 z) = (exp(z) phi_2(z) + phi_1(z) + phi_2(z)) / 4 (Skaflestad & Wright 2009, section 2).

    Parameters
    ----------
    matrix : (n, n) float64
        A.
    derivatives : one or two of (n,)
        x'(0), and c unless it is zero.
    times : (T,)

    Notes
    -----
    Rounding grows with s: the relative error is about 1e-16 times the norm of t A, and where that
    is above 8e9 the result is NaN.  Derivatives of all orders and in both modes are by automatic
    differentiation, with s held.
    """
    norm = jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(matrix), axis=0))) * times
    number = jnp.maximum(jnp.ceil(jnp.log2(norm / LARGEST_NORM)), 0.0)
    most = jnp.max(number)
    after = jnp.where(number <= MAX_DOUBLINGS, times, jnp.nan) * 2.0**-number
    orders, powers = np.arange(NUM_TERMS), _powers(matrix)
    terms = _powers_of(after)

    def phi(which, powers):
        return powers @ (terms / _factorials(orders + which)[:, None])

    # phi_1(z) x'(0), and of c both phi_1 and phi_2, side by side: (n, 1 or 3, T).
    parts = [(1, derivatives[0]), *((which, each) for each in derivatives[1:] for which in (1, 2))]
    vectors = [phi(which, jnp.sum(powers * each[:, None], axis=1)) for which, each in parts]

    def double(value, index):
        exponential, vectors = value
        twice = product(exponential, vectors) + vectors
        of_order = [0.5 * twice[:, :2], 0.25 * (twice[:, 2:] + vectors[:, 1:2])]
        doubled = jnp.concatenate(of_order[: len(derivatives)], axis=1)
        new = product(exponential, exponential), doubled
        return tuple(jnp.where(index < number, *pair) for pair in zip(new, value, strict=True))

    def step(value, index):
        return jax.lax.cond(_any_of_batch(index < most), double, _stay, value, index), None

    def steps(value, first):
        def go(value, first):
            return jax.lax.scan(step, value, first + jnp.arange(DOUBLINGS))[0]

        return jax.lax.cond(_any_of_batch(first < most), go, _stay, value, first), None

    begun = phi(0, powers), jnp.stack(vectors, axis=1)
    (_, moments), _ = jax.lax.scan(steps, begun, jnp.arange(0, MAX_DOUBLINGS, DOUBLINGS))
    moves = times * moments[:, 0]
    return moves if len(derivatives) == 1 else moves + times**2 * moments[:, 2]


@jax.custom_batching.custom_vmap
def _any_of_batch(flag: jax.Array) -> jax.Array:
    """Return whether a flag, (), is true in any system of a batch, so that it takes one branch."""
    return flag


@_any_of_batch.def_vmap
def _(axis_size, in_batched, flag):
    return jnp.any(flag), False


def _stay(value, index):
    return value


def _powers(matrix: jax.Array) -> jax.Array:
    """I, A, A^2, ..., (n, n, NUM_TERMS)."""

    def multiply(power, _):
        return product(power, matrix), power

    _, powers = jax.lax.scan(multiply, jnp.eye(matrix.shape[0]), length=NUM_TERMS)
    return jnp.moveaxis(powers, 0, -1)


def _powers_of(times: jax.Array) -> jax.Array:
    """1, t, t^2, ..., (NUM_TERMS, T)."""
    powers = jnp.stack([jnp.ones_like(times), times, times**2])
    while len(powers) < NUM_TERMS:
        powers = jnp.concatenate([powers, powers[-1] * times * powers])
    return powers


def _factorials(orders: np.ndarray) -> np.ndarray:
    return np.array([math.factorial(order) for order in orders], float)


def product(left: jax.Array, right: jax.Array) -> jax.Array:
    """Multiply matrices (n, n) and (n, m), or T pairs of them, (n, n, T) and (n, m, T)."""
    size = left.shape[0]
    if size > FEW:
        return jnp.einsum("ik...,kj...->ij...", left, right)
    return sum(left[:, each, None] * right[None, each] for each in range(size))
