"""Base classes of Jacobians, their structures, and factorised products of two Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import jax
import jax.numpy as jnp

from invlift.programs.pytrees import Module


class GramFactor(Module):
    """A factorised square matrix A, (d, d).

    A subclass implements ``solve`` and ``log_determinant``.
    """

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        raise NotImplementedError

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        raise NotImplementedError

    def solve_right(self, columns: jax.Array) -> jax.Array:
        """columns A^-1, (N, d), for a symmetric A."""
        return self.solve(columns.T).T

    def inverse_diagonal(self) -> jax.Array:
        """Diagonal of A^-1, (d,), for a symmetric A; not every subclass implements it."""
        raise NotImplementedError


class ConstraintJacobian(Module):
    """Jacobian J, (d, n), at one position, as a pytree of its blocks.

    A subclass implements the first three methods.

    The Gram term of a density is ``-0.5 * jacobian.inner().log_determinant()``; its gradient
    follows by differentiation through the blocks.
    """

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (d,), for v of (n,)."""
        raise NotImplementedError

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (n,), for lambda of (d,)."""
        raise NotImplementedError

    def inner(self, other: Self | None = None) -> GramFactor:
        """J K^T, (d, d), factorised: K is another Jacobian of the same structure, or J itself.

        With K of another position it is the matrix of Newton's method along a normal space (Au,
        Graham & Thiery 2023, section 4.2).
        """
        return self._times(self if other is None else other, is_symmetric=other is None)

    def _times(self, right: Self, is_symmetric: bool) -> GramFactor:
        """J K^T, (d, d), factorised; it is symmetric if K is J itself."""
        raise NotImplementedError

    def product(self, other: Self, num_constraints: int) -> jax.Array:
        """J K^T as a dense matrix.

        Parameters
        ----------
        other : ConstraintJacobian
            K, of the same structure.
        num_constraints : int
            Number d of constraints.

        Returns
        -------
        (d, d)
        """

        def column(unit):
            return self.apply(other.apply_transpose(unit))

        return jax.vmap(column, in_axes=1, out_axes=1)(jnp.eye(num_constraints))


class JacobianStructure(Module, settings=True):
    """Structure of a Jacobian: the entries that may differ from zero.

    A subclass implements both methods.
    """

    def num_variables(self, num_constraints: int) -> int:
        """Number n of variables that d constraints of this structure have."""
        raise NotImplementedError

    def differentiate(
        self, fn: Callable[[jax.Array], jax.Array], at: jax.Array
    ) -> tuple[jax.Array, ConstraintJacobian]:
        """Value and Jacobian of a function in few sweeps of differentiation.

        Parameters
        ----------
        fn : callable
            (n,) to (d,).
        at : (n,)

        Returns
        -------
        (d,)
        ConstraintJacobian
            Entries outside the structure are assumed to be zero, without a check.
        """
        raise NotImplementedError


def transposed_sweeps(fn: Callable, at: jax.Array, rows: jax.Array):
    """Return value, (d,), and R J, (k, n), for rows R (k, d), by k sweeps in reverse mode."""
    value, pull_back = jax.vjp(fn, at)
    return value, jax.vmap(lambda row: pull_back(row)[0])(rows)


def sweeps(fn: Callable, at: jax.Array, directions: jax.Array):
    """Return value, (d,), and J D^T, (d, k), for rows D (k, n), by k sweeps in forward mode."""
    value, along = jax.linearize(fn, at)
    return value, jax.vmap(along, out_axes=-1)(directions)


def repeated_unit(size: int, repeats: int) -> jax.Array:
    """Return ``repeats`` identity matrices side by side, (size, size * repeats)."""
    return jnp.tile(jnp.eye(size), (1, repeats))
