"""Conjugate gradients: solves of a matrix whose factor is not worth its memory or its compilation.

Hestenes & Stiefel (1952), "Methods of conjugate gradients for solving linear systems", J. Res. Nat.
Bur. Stand. 49, eq. 3:1, with the diagonal as a preconditioner.  For a few solves with a matrix of
a refined mesh: no memory beyond its entries, and a program of a few lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.fem.linalg import sparse
from invlift.programs.pytrees import Module

#: Residual, relative to the right-hand side in the norm of the inverse diagonal, at which a solve
#: ends; and most iterations before it is given up.
TOLERANCE, MAX_ITERATIONS = 1e-6, 5_000

_IS_ITERATIVE = ContextVar("is_iterative", default=False)


class Entries(Module):
    """A matrix that is solved with by iterations.

    Attributes
    ----------
    pattern : sparse.Pattern
        Of the symmetric matrix, (n, n).
    assembly, mirrored : (num_values,) int32
        The entries that each contribution is added to: its own, and the one across the diagonal,
        which of one on the diagonal is the number of entries.
    diagonal : (n,) int32
        The entries on the diagonal.
    """

    pattern: sparse.Pattern
    assembly: jax.Array
    mirrored: jax.Array
    diagonal: jax.Array


class Iterations(Module):
    """The matrix with its values.

    Attributes
    ----------
    pattern : sparse.Pattern
    values : (num_entries,)
    scale : (n,)
        The inverse of its diagonal.
    """

    pattern: sparse.Pattern
    values: jax.Array
    scale: jax.Array


@contextmanager
def iteratively() -> Iterator[None]:
    """Matrices analysed within are solved with by iterations, and not factorised."""
    token = _IS_ITERATIVE.set(True)
    try:
        yield
    finally:
        _IS_ITERATIVE.reset(token)


def is_iterative() -> bool:
    """Whether it is within :func:`iteratively`."""
    return _IS_ITERATIVE.get()


def entries_of(rows: np.ndarray, cols: np.ndarray, num_unknowns: int) -> Entries:
    """The pattern of a matrix, of contributions as for :func:`invlift.fem.linalg.analyse`."""
    each = np.arange(num_unknowns)
    every = [np.concatenate(pair) for pair in ((rows, cols, each), (cols, rows, each))]
    pattern, entries = sparse.pattern(*every, num_unknowns, num_unknowns)
    lower, mirrored, diagonal = np.split(entries, [len(rows), 2 * len(rows)])
    mirrored = np.where(rows == cols, pattern.rows.shape[0], mirrored)
    return Entries(pattern, *map(sparse.as_index, (lower, mirrored, diagonal)))


def with_values(structure: Entries, values: jax.Array) -> Iterations:
    """The matrix of contributions, (num_values,)."""
    size = structure.pattern.rows.shape[0]
    total = sparse.scatter_add(size, structure.assembly, values)
    total = total + sparse.scatter_add_or_drop(size, structure.mirrored, values)
    return Iterations(structure.pattern, total, 1.0 / sparse.gather(total, structure.diagonal))


@jax.jit
def iterate(matrix: Iterations, rhs: jax.Array) -> jax.Array:
    """A^-1 rhs, (n,) or (n, k), column by column; NaN where iterations do not converge."""
    columns = rhs.reshape(rhs.shape[0], -1)
    scale = matrix.scale[:, None]

    def norms(left, right):
        return jnp.sum(left * right, axis=0)

    bound = TOLERANCE**2 * norms(columns, scale * columns)

    def step(state):
        count, solution, residual, direction, size = state
        image = matrix.pattern.product(matrix.values, direction)
        length = _ratio(size, norms(direction, image))
        solution = solution + length * direction
        residual = residual - length * image
        scaled = scale * residual
        new = norms(residual, scaled)
        # A column that has converged stays as it is.
        turned = jnp.where(new > bound, scaled + _ratio(new, size) * direction, 0.0)
        return count + 1, solution, residual, turned, jnp.where(new > bound, new, 0.0)

    def is_open(state):
        return (state[0] < MAX_ITERATIONS) & jnp.any(state[4] > 0.0)

    first = scale * columns
    start = 0, jnp.zeros_like(columns), columns, first, norms(columns, first)
    _, solution, _, _, size = jax.lax.while_loop(is_open, step, start)
    return jnp.where(size > 0.0, jnp.nan, solution).reshape(rhs.shape)


def _ratio(over, under):
    return jnp.where(under > 0.0, over / jnp.where(under > 0.0, under, 1.0), 0.0)
