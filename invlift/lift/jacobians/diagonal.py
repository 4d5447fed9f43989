"""Diagonal Jacobians: constraint i depends on variable i alone, as with element-wise noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.lift.jacobians.base import ConstraintJacobian, GramFactor, JacobianStructure


class DiagonalFactor(GramFactor):
    """diag(entries).

    Attributes
    ----------
    entries : (d,)
        Entries of any sign, but not 0.
    """

    entries: jax.Array

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        return (rhs.T / self.entries).T

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return jnp.sum(jnp.log(jnp.abs(self.entries)))

    def inverse_diagonal(self) -> jax.Array:
        """Diagonal of A^-1, (d,)."""
        return 1.0 / self.entries


class DiagonalJacobian(ConstraintJacobian):
    """J = diag(entries).

    Attributes
    ----------
    entries : (d,)
    """

    entries: jax.Array

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (d,)."""
        return self.entries * vector

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (d,)."""
        return self.entries * multiplier

    def _times(self, right: DiagonalJacobian, is_symmetric: bool) -> DiagonalFactor:
        """J K^T."""
        return DiagonalFactor(self.entries * right.entries)

    def product(self, other: DiagonalJacobian, num_constraints: int) -> jax.Array:
        """J K^T, (d, d), as a dense matrix."""
        return jnp.diag(self.entries * other.entries)


class Diagonal(JacobianStructure, settings=True):
    """Constraint i depends on variable i alone (Graham & Storkey 2017, appendix C)."""

    def num_variables(self, num_constraints: int) -> int:
        """Return the number of constraints."""
        return num_constraints

    def differentiate(self, fn, at):
        """Value and Jacobian by one sweep."""
        value, entries = jax.jvp(fn, (at,), (jnp.ones_like(at),))
        return value, DiagonalJacobian(entries)
