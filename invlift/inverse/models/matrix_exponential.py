"""The exponential of a small matrix, by products alone.

JAX's own solves a linear system and chooses between five degrees by the norm: a batch of matrices
computes all five, and its systems are divided among threads in which chains can wait for each other
(docs/design.md, executors).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

#: Degree of Taylor's polynomial, and the norm up to which it is taken: what is left out is
#: 0.5^17 / 17!, and 0.5^15 / 15! of second derivatives.
DEGREE, LARGEST_NORM = 16, 0.5
#: Most squarings, of a norm of 2e9.
MAX_SQUARINGS = 32
#: Size up to which a product is a sum that XLA fuses with what is around it: six of size 4 at once
#: take a third of the time of ``@``, six of size 10 five times as long.
FEW = 8


def matrix_exponential(matrix: jax.Array) -> jax.Array:
    """Exp(A), (n, n), of a float64 matrix A, (n, n), by scaling and squaring.

    Higham 2008, section 10.3, with the polynomial evaluated as by Paterson & Stockmeyer (1973).
    Rounding grows with the squarings: the relative error is about 1e-16 times the norm, and where
    that is above 2e9 the result is NaN.  Derivatives of all orders and in both modes are by
    automatic differentiation, with the number of squarings held.
    """
    norm = jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(matrix), axis=0)))
    number = jnp.maximum(jnp.ceil(jnp.log2(norm / LARGEST_NORM)), 0.0)
    scaled = jnp.where(number <= MAX_SQUARINGS, matrix * 2.0**-number, jnp.nan)
    powers = [jnp.eye(matrix.shape[0]), scaled, _product(scaled, scaled)]
    powers += [_product(powers[2], scaled), _product(powers[2], powers[2])]
    value = powers[4] / math.factorial(DEGREE)
    for low in range(DEGREE - 4, -1, -4):
        value += sum(powers[k] / math.factorial(low + k) for k in range(4))
        value = _product(value, powers[4]) if low else value

    def square(value, index):
        squared = jax.lax.cond(index < number, lambda x: _product(x, x), lambda x: x, value)
        return squared, None

    return jax.lax.scan(square, value, jnp.arange(MAX_SQUARINGS))[0]


def _product(left, right):
    if left.shape[0] > FEW:
        return left @ right
    return jnp.sum(left[:, :, None] * right[None], axis=1)
