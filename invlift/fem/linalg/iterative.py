"""Conjugate gradients, for matrices whose factor would take too much memory or compilation.

Hestenes & Stiefel (1952), "Methods of conjugate gradients for solving linear systems", J. Res. Nat.
Bur. Stand. 49, eq. 3:1, with the diagonal as a preconditioner.  It is for a few solves with a
matrix of a refined mesh, needs no memory beyond the entries, and compiles quickly.
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

#: Tolerance of a solve, the residual relative to the right-hand side in the norm of the inverse
#: diagonal; and largest number of iterations.
TOLERANCE, MAX_ITERATIONS = 1e-6, 5_000

_IS_ITERATIVE = ContextVar("is_iterative", default=False)


class Entries(Module):
    """The pattern of a matrix for iterative solves.

    Attributes
    ----------
    pattern : sparse.Pattern
        Pattern of the symmetric matrix, (n, n).
    assembly, mirrored : (num_values,) int32
        Indices of the entries to which each contribution is added: its entry and the transposed
        one.  For a contribution on the diagonal, ``mirrored`` is the number of entries.
    diagonal : (n,) int32
        Indices of the diagonal entries.
    """

    pattern: sparse.Pattern
    assembly: jax.Array
    mirrored: jax.Array
    diagonal: jax.Array


class Iterations(Module):
    """A matrix with values, for iterative solves.

    Attributes
    ----------
    pattern : sparse.Pattern
    values : (num_entries,)
    scale : (n,)
        The inverse of the diagonal.
    """

    pattern: sparse.Pattern
    values: jax.Array
    scale: jax.Array


@contextmanager
def iteratively() -> Iterator[None]:
    """Context in which matrices are analysed for iterative solves, and not for a factor."""
    token = _IS_ITERATIVE.set(True)
    try:
        yield
    finally:
        _IS_ITERATIVE.reset(token)


def is_iterative() -> bool:
    """Return whether the caller is within :func:`iteratively`."""
    return _IS_ITERATIVE.get()


def entries_of(rows: np.ndarray, cols: np.ndarray, num_unknowns: int) -> Entries:
    """Return the pattern of a matrix; contributions as in :func:`invlift.fem.linalg.analyse`."""
    each = np.arange(num_unknowns)
    every = [np.concatenate(pair) for pair in ((rows, cols, each), (cols, rows, each))]
    pattern, entries = sparse.pattern(*every, num_unknowns, num_unknowns)
    lower, mirrored, diagonal = np.split(entries, [len(rows), 2 * len(rows)])
    mirrored = np.where(rows == cols, pattern.rows.shape[0], mirrored)
    return Entries(pattern, *map(sparse.as_index, (lower, mirrored, diagonal)))


def with_values(structure: Entries, values: jax.Array) -> Iterations:
    """Assemble the matrix of contributions, (num_values,)."""
    size = structure.pattern.rows.shape[0]
    total = sparse.scatter_add(size, structure.assembly, values)
    total = total + sparse.scatter_add_or_drop(size, structure.mirrored, values)
    return Iterations(structure.pattern, total, 1.0 / sparse.gather(total, structure.diagonal))


@jax.jit
def iterate(matrix: Iterations, rhs: jax.Array) -> jax.Array:
    """Return A^-1 rhs, (n,) or (n, k), by conjugate gradients; NaN without convergence."""
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
        # A converged column does not change.
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
