"""No structure: for few constraints."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, lu_factor, lu_solve, solve_triangular

from invlift.inverse.jacobians.base import (
    ConstraintJacobian,
    Factor,
    Structure,
    sweeps,
    transposed_sweeps,
)
from invlift.pytrees import static


class Cholesky(Factor):
    """Of a symmetric positive definite matrix; NaN where it is not, numerically.

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
        """columns A^-1, (N, d): through the inverse, as N is the larger number."""
        return columns @ self.solve(jnp.eye(self.lower.shape[0]))

    def inverse_diagonal(self) -> jax.Array:
        """Diagonal of A^-1, (d,)."""
        half = solve_triangular(self.lower, jnp.eye(self.lower.shape[0]), lower=True)
        return jnp.sum(half**2, axis=0)


class LU(Factor):
    """Of any regular matrix.

    Attributes
    ----------
    transposed : (d, d)
        The transpose's, as LAPACK returns it: its arrays are those of JAX transposed.
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


def factorise(matrix: jax.Array, *, is_symmetric: bool) -> Factor:
    """Factor of a matrix, (d, d): Cholesky's if it is symmetric, and so positive definite."""
    if is_symmetric:
        return Cholesky(jnp.linalg.cholesky(matrix))
    return LU(*lu_factor(matrix.T))


class DenseJacobian(ConstraintJacobian):
    """J as it stands.

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

    def inner(self, other: DenseJacobian | None = None) -> Factor:
        """J K^T."""
        right = self if other is None else other
        return factorise(self.entries @ right.entries.T, is_symmetric=other is None)


class Dense(Structure, settings=True):
    """Every constraint may depend on every variable.

    Attributes
    ----------
    size : int
        Number n of variables.
    """

    size: int = static()

    def num_variables(self, num_constraints: int) -> int:
        """As many as were named."""
        return self.size

    def differentiate(self, fn, at):
        """Value and Jacobian in the mode that needs fewer sweeps."""
        num_constraints = jax.eval_shape(fn, at).shape[0]
        if num_constraints < at.size:
            value, entries = transposed_sweeps(fn, at, jnp.eye(num_constraints))
        else:
            value, entries = sweeps(fn, at, jnp.eye(at.size))
        return value, DenseJacobian(entries)
