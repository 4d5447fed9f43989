"""Conjugate gradients, for matrices whose factor would take too much memory or compilation.

Hestenes & Stiefel (1952), "Methods of conjugate gradients for solving linear systems", J. Res. Nat.
Bur. Stand. 49, eq. 3:1.  It is for a few solves with a matrix of a refined mesh, needs no memory
beyond the entries, and compiles quickly.  The preconditioner has two levels: the diagonal, and the
matrix of sums over groups of close unknowns (Nicolaides 1987, "Deflation of conjugate gradients
with applications to boundary value problems", SIAM J. Numer. Anal. 24).
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

#: Tolerance of a solve, the residual relative to the right-hand side in the norm of the
#: preconditioner; and largest number of iterations.
TOLERANCE, MAX_ITERATIONS = 1e-6, 5_000
#: Least number of unknowns in a group, and largest number of groups, a power of two.
GROUP, MAX_GROUPS = 16, 512

_IS_ITERATIVE = ContextVar("is_iterative", default=False)


class Groups(Module):
    """Groups of close unknowns.

    Attributes
    ----------
    numbers : (n,) int32
        Group of each unknown.
    members : (num_groups, size) int32
        Unknowns of each group; n for padding.
    """

    numbers: jax.Array
    members: jax.Array

    def sums(self, values: jax.Array) -> jax.Array:
        """Return the sums over groups, (n, k) to (num_groups, k)."""
        return sparse.gather_or_zero(values, self.members).sum(axis=1)


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
    groups : Groups
    """

    pattern: sparse.Pattern
    assembly: jax.Array
    mirrored: jax.Array
    diagonal: jax.Array
    groups: Groups


class Iterations(Module):
    """A matrix with values, for iterative solves.

    Attributes
    ----------
    pattern : sparse.Pattern
    values : (num_entries,)
    scale : (n,)
        The inverse of the diagonal.
    groups : Groups
    coarse : (num_groups, num_groups)
        Lower Cholesky factor of the sums of the matrix over pairs of groups.
    """

    pattern: sparse.Pattern
    values: jax.Array
    scale: jax.Array
    groups: Groups
    coarse: jax.Array

    def preconditioned(self, columns: jax.Array) -> jax.Array:
        """Return an approximation of A^-1 times columns, (n, k)."""
        smooth = jax.scipy.linalg.cho_solve((self.coarse, True), self.groups.sums(columns))
        return self.scale[:, None] * columns + sparse.gather(smooth, self.groups.numbers)


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


def entries_of(rows: np.ndarray, cols: np.ndarray, num_unknowns: int, coordinates) -> Entries:
    """Return the pattern of a matrix; arguments as of :func:`invlift.fem.linalg.analyse`."""
    each = np.arange(num_unknowns)
    every = [np.concatenate(pair) for pair in ((rows, cols, each), (cols, rows, each))]
    pattern, entries = sparse.pattern(*every, num_unknowns, num_unknowns)
    lower, mirrored, diagonal = np.split(entries, [len(rows), 2 * len(rows)])
    mirrored = np.where(rows == cols, pattern.rows.shape[0], mirrored)
    groups = _groups(np.asarray(coordinates, dtype=float))
    return Entries(pattern, *map(sparse.as_index, (lower, mirrored, diagonal)), groups)


def _groups(coordinates: np.ndarray) -> Groups:
    """Divide unknowns at coordinates, (n, dim), again and again into halves by the longer side."""
    parts, size = [np.arange(len(coordinates))], len(coordinates)
    while len(parts) < MAX_GROUPS and size >= 2 * GROUP * len(parts):
        halves = []
        for part in parts:
            places = coordinates[part]
            along = places[:, np.ptp(places, axis=0).argmax()]
            halves += np.array_split(part[np.argsort(along, kind="stable")], 2)
        parts = halves
    numbers = np.empty(size, dtype=int)
    members = np.full((len(parts), max(map(len, parts))), size)
    for number, part in enumerate(parts):
        numbers[part], members[number, : len(part)] = number, part
    return Groups(*map(sparse.as_index, (numbers, members)))


def with_values(structure: Entries, values: jax.Array) -> Iterations:
    """Assemble the matrix of contributions, (num_values,)."""
    size = structure.pattern.rows.shape[0]
    total = sparse.scatter_add(size, structure.assembly, values)
    total = total + sparse.scatter_add_or_drop(size, structure.mirrored, values)
    numbers, num = structure.groups.numbers, structure.groups.members.shape[0]
    row, col = (
        sparse.gather(numbers, each) for each in (structure.pattern.rows, structure.pattern.cols)
    )
    coarse = sparse.scatter_add(num * num, row * num + col, total).reshape(num, num)
    scale = 1.0 / sparse.gather(total, structure.diagonal)
    factor = jnp.linalg.cholesky(coarse)
    return Iterations(structure.pattern, total, scale, structure.groups, factor)


@jax.jit
def iterate(matrix: Iterations, rhs: jax.Array) -> jax.Array:
    """Return A^-1 rhs, (n,) or (n, k), by conjugate gradients; NaN without convergence."""
    columns = rhs.reshape(rhs.shape[0], -1)

    def norms(left, right):
        return jnp.sum(left * right, axis=0)

    first = matrix.preconditioned(columns)
    bound = TOLERANCE**2 * norms(columns, first)

    def step(state):
        count, solution, residual, direction, size = state
        image = matrix.pattern.product(matrix.values, direction)
        length = _ratio(size, norms(direction, image))
        solution = solution + length * direction
        residual = residual - length * image
        scaled = matrix.preconditioned(residual)
        new = norms(residual, scaled)
        # A converged column does not change.
        turned = jnp.where(new > bound, scaled + _ratio(new, size) * direction, 0.0)
        return count + 1, solution, residual, turned, jnp.where(new > bound, new, 0.0)

    def is_open(state):
        return (state[0] < MAX_ITERATIONS) & jnp.any(state[4] > 0.0)

    start = 0, jnp.zeros_like(columns), columns, first, norms(columns, first)
    _, solution, _, _, size = jax.lax.while_loop(is_open, step, start)
    return jnp.where(size > 0.0, jnp.nan, solution).reshape(rhs.shape)


def _ratio(over, under):
    return jnp.where(under > 0.0, over / jnp.where(under > 0.0, under, 1.0), 0.0)
