"""Triangular Jacobians: constraint i depends on variables 1 to i, as with autoregressive noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from invlift.lift.jacobians.base import GramFactor, JacobianStructure, transposed_sweeps
from invlift.lift.jacobians.dense import DenseJacobian


class TriangularFactor(GramFactor):
    """left right^T, a product of triangular matrices that needs no factorisation.

    Attributes
    ----------
    left, right : (d, d)
        Lower triangular.
    """

    left: jax.Array
    right: jax.Array

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        half = solve_triangular(self.left, rhs, lower=True)
        return solve_triangular(self.right, half, lower=True, trans=1)

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(self.left) * jnp.diagonal(self.right))))


class TriangularJacobian(DenseJacobian):
    """J, lower triangular.

    Attributes
    ----------
    entries : (d, d)
    """

    def _times(self, right: TriangularJacobian, is_symmetric: bool) -> TriangularFactor:
        """J K^T, without a factorisation: O(d^2)."""
        return TriangularFactor(self.entries, right.entries)


class Triangular(JacobianStructure, settings=True):
    """Constraint i depends on variables 1 to i (Graham & Storkey 2017, appendix C, autoregressive).

    Values on the diagonal may not be 0.
    """

    def num_variables(self, num_constraints: int) -> int:
        """Return the number of constraints."""
        return num_constraints

    def differentiate(self, fn, at):
        """Value and Jacobian by d sweeps."""
        value, entries = transposed_sweeps(fn, at, jnp.eye(at.size))
        return value, TriangularJacobian(jnp.tril(entries))
