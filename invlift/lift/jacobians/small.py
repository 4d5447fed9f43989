"""Factors of the small blocks of large structured matrices.

Blocks of a few rows are inverted by JAX's own operations, all of them at once or within a loop: a
call of LAPACK for each takes many times as long.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from invlift.lift.jacobians.base import Factor
from invlift.lift.jacobians.dense import Inverted, factorise

#: Rows up to which a block is inverted by :func:`sweep`.
MAX_ROWS = 6


def factorise_block(block: jax.Array) -> Factor:
    """Factor of a block, (r, r)."""
    if block.shape[0] > MAX_ROWS:
        return factorise(block, is_symmetric=False)
    return Inverted(*sweep(block))


def for_each(fn: Callable, over, num_rows: int):
    """A function of each of B blocks of r rows: of all at once if they are small, else in turn.

    LAPACK called for all at once can make chains in threads wait for each other on JAX 0.10.
    """
    return jax.vmap(fn)(over) if num_rows <= MAX_ROWS else jax.lax.map(fn, over)


def sweep(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Inverse, (r, r), and pivots, (r,), by sweeps without pivoting (Goodnight 1979).

    Products J K^T are close to symmetric positive definite ones, which need no pivoting.
    """
    pivots = []
    for each in range(matrix.shape[0]):
        pivot, column, row = matrix[each, each], matrix[:, each], matrix[each]
        pivots.append(pivot)
        matrix = matrix - jnp.outer(column, row / pivot)
        matrix = matrix.at[each].set(row / pivot).at[:, each].set(-column / pivot)
        matrix = matrix.at[each, each].set(1.0 / pivot)
    return matrix, jnp.stack(pivots)
