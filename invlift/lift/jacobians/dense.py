"""Dense Jacobians, for few constraints, and factorised dense matrices.

Matrices of few rows, such as the blocks of large structured matrices, are factorised by JAX's own
operations, many at once or within a loop: a LAPACK call for each takes many times as long.  Larger
matrices are factorised by LAPACK.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, lu_factor, lu_solve, solve_triangular

from invlift.lift.jacobians.base import (
    ConstraintJacobian,
    GramFactor,
    JacobianStructure,
    sweeps,
    transposed_sweeps,
)
from invlift.programs.pytrees import static

#: Largest number of rows of a matrix that is factorised without LAPACK: up to 11 rows this takes no
#: longer, with 25 twice as long.
FEW_ROWS = 32
#: Largest number of rows for which its loop is unrolled: this takes a half to a third of the time
#: within a loop, but multiplies the compilation time by the number of rows.
MAX_WRITTEN_OUT = 6


class Inverted(GramFactor):
    """Factor of a matrix of few rows: its inverse, computed without pivoting.

    This suits products J K^T of nearby positions, which are close to symmetric and positive
    definite.  If a symmetric matrix is not positive definite numerically, it has NaN among its
    pivots.

    Attributes
    ----------
    inverse : (d, d)
    pivots : (d,)
        D of the factorisation L D U, where L and U^T have unit diagonals.
    """

    inverse: jax.Array
    pivots: jax.Array

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        return self.inverse @ rhs

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return jnp.sum(jnp.log(jnp.abs(self.pivots)))

    def solve_right(self, columns: jax.Array) -> jax.Array:
        """columns A^-1, (N, d)."""
        return columns @ self.inverse

    def inverse_diagonal(self) -> jax.Array:
        """Diagonal of A^-1, (d,)."""
        return jnp.diagonal(self.inverse)


class Cholesky(GramFactor):
    """Cholesky factor of a symmetric positive definite matrix; NaN if it is not, numerically.

    Attributes
    ----------
    lower : (d, d)
    """

    lower: jax.Array

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        return cho_solve((self.lower, True), rhs)

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.lower)))

    def solve_right(self, columns: jax.Array) -> jax.Array:
        """columns A^-1, (N, d), by the inverse of A, as N is larger than d."""
        half = self._half()
        return columns @ (half.T @ half)

    def inverse_diagonal(self) -> jax.Array:
        """Diagonal of A^-1, (d,)."""
        return jnp.sum(self._half() ** 2, axis=0)

    def _half(self):
        """L^-1, (d, d)."""
        return solve_triangular(self.lower, jnp.eye(self.lower.shape[0]), lower=True)


class LU(GramFactor):
    """LU factors of any regular matrix.

    Attributes
    ----------
    transposed : (d, d)
        Factors of the transpose, as LAPACK returns them: its arrays are those of JAX transposed.
    pivots : (d,) int
    """

    transposed: jax.Array
    pivots: jax.Array

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        return lu_solve((self.transposed, self.pivots), rhs, trans=1)

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(self.transposed))))


def factorise(matrix: jax.Array, *, is_symmetric: bool) -> GramFactor:
    """Factorise a matrix, (d, d); a symmetric one must also be positive definite."""
    if matrix.shape[0] <= FEW_ROWS:
        is_least = matrix.shape[0] <= MAX_WRITTEN_OUT
        inverse, pivots = (_sweep_written_out if is_least else _sweep)(matrix)
        if is_symmetric:
            pivots = jnp.where(pivots > 0.0, pivots, jnp.nan)
        return Inverted(inverse, pivots)
    if is_symmetric:
        return Cholesky(jnp.linalg.cholesky(matrix))
    return LU(*lu_factor(matrix.T))


def _sweep(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return inverse, (d, d), and pivots, (d,), by sweeps over the rows (Goodnight 1979).

    The pivots are a last column of the matrix, so that a sweep is a single loop over one array.
    """
    size = matrix.shape[0]
    number = jnp.arange(size + 1)

    def sweep(index, both):
        is_column, is_row = number == index, (number[:size] == index)[:, None]
        pivot = both[index, index]
        row = jnp.where(is_column, 1.0, both[index]) / pivot
        others = jnp.where(is_column, 0.0, both) - both[:, index, None] * row
        return jnp.where(is_row, jnp.where(number == size, pivot, row), others)

    both = jnp.concatenate([matrix, jnp.zeros((size, 1))], axis=1)
    both = jax.lax.fori_loop(0, size, sweep, both)
    return both[:, :size], both[:, size]


@jax.jit  # traced once for all programs
def _sweep_written_out(matrix):
    """As :func:`_sweep`, with the loop unrolled for very few rows."""
    pivots = []
    for each in range(matrix.shape[0]):
        pivot, column, row = matrix[each, each], matrix[:, each], matrix[each]
        pivots.append(pivot)
        matrix = matrix - jnp.outer(column, row / pivot)
        matrix = matrix.at[each].set(row / pivot).at[:, each].set(-column / pivot)
        matrix = matrix.at[each, each].set(1.0 / pivot)
    return matrix, jnp.stack(pivots)


def for_each(fn: Callable, over, num_rows: int):
    """Apply a function to each of B blocks of r rows: to all at once if small, else in turn.

    LAPACK calls for all at once can make chains in threads wait for each other on JAX 0.10.
    """
    return jax.vmap(fn)(over) if num_rows <= MAX_WRITTEN_OUT else jax.lax.map(fn, over)


class DenseJacobian(ConstraintJacobian):
    """J as a dense matrix.

    Attributes
    ----------
    entries : (d, n)
    """

    entries: jax.Array

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (d,)."""
        return self.entries @ vector

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (n,)."""
        return multiplier @ self.entries

    def _times(self, right: DenseJacobian, is_symmetric: bool) -> GramFactor:
        """J K^T."""
        return factorise(self.entries @ right.entries.T, is_symmetric=is_symmetric)


class Dense(JacobianStructure, settings=True):
    """Every constraint may depend on every variable.

    Attributes
    ----------
    size : int
        Number n of variables.
    """

    size: int = static()

    def num_variables(self, num_constraints: int) -> int:
        """Return ``size``."""
        return self.size

    def differentiate(self, fn, at):
        """Value and Jacobian in the mode that needs fewer sweeps."""
        num_constraints = jax.eval_shape(fn, at).shape[0]
        if num_constraints < at.size:
            value, entries = transposed_sweeps(fn, at, jnp.eye(num_constraints))
        else:
            value, entries = sweeps(fn, at, jnp.eye(at.size))
        return value, DenseJacobian(entries)
