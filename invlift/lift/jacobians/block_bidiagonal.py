"""Block bidiagonal Jacobians: group t depends on the variables of groups t and t - 1.

State-space models have this structure.  Its Gram matrix is block tridiagonal, and a system with it
takes a time linear in the number of groups.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from invlift.lift.jacobians.base import (
    ConstraintJacobian,
    GramFactor,
    repeated_unit,
    sweeps,
    transposed_sweeps,
)
from invlift.lift.jacobians.block_diagonal import BlockDiagonal
from invlift.lift.jacobians.dense import factorise


class BlockTridiagonalFactor(GramFactor):
    """A block tridiagonal matrix of B blocks, (r, r) each, factorised by block elimination.

    Attributes
    ----------
    pivots : GramFactor
        S_1 = A_11 and S_t = A_tt - A_t,t-1 S_t-1^-1 A_t-1,t, stacked along a first axis of size B.
    below, above : (B, r, r)
        A_t,t-1 and A_t,t+1; the first block of ``below`` and the last of ``above`` are zero.
    """

    pivots: GramFactor
    below: jax.Array
    above: jax.Array

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (B r,) or (B r, k)."""
        parts = rhs.reshape(*self.below.shape[:2], *rhs.shape[1:])

        def down(last, each):
            pivot, below, part = each
            half = pivot.solve(part - below @ last)
            return half, half

        def up(following, each):
            pivot, above, part = each
            block = part - pivot.solve(above @ following)
            return block, block

        none = jnp.zeros_like(parts[0])
        _, halves = jax.lax.scan(down, none, (self.pivots, self.below, parts))
        _, solution = jax.lax.scan(up, none, (self.pivots, self.above, halves), reverse=True)
        return solution.reshape(rhs.shape)

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return jnp.sum(jax.vmap(lambda each: each.log_determinant())(self.pivots))


def _factorise_tridiagonal(diagonal, below, above, is_symmetric) -> BlockTridiagonalFactor:
    """Factorise a block tridiagonal matrix from its blocks, (B, r, r) each."""

    def eliminate(last, each):
        pivot, above_last = last
        here, below, above = each
        new = inverted(here - below @ pivot.solve(above_last))
        return (new, above), new

    inverted, size = partial(factorise, is_symmetric=is_symmetric), diagonal.shape[-1]
    nothing = inverted(jnp.eye(size)), jnp.zeros((size, size))
    _, pivots = jax.lax.scan(eliminate, nothing, (diagonal, below, above))
    return BlockTridiagonalFactor(pivots, below, above)


class BlockBidiagonalJacobian(ConstraintJacobian):
    """J with B blocks, (r, c) each, on the diagonal, and as many blocks to their left.

    Attributes
    ----------
    here, before : (B, r, c)
        Derivatives of each group by its own variables, and by those of the group before; the first
        block of ``before`` is zero.
    """

    here: jax.Array
    before: jax.Array

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (B r,)."""
        parts = vector.reshape(self.here.shape[0], -1)
        moved = jnp.einsum("trc,tc->tr", self.here, parts)
        return (moved + jnp.einsum("trc,tc->tr", self.before, _before(parts))).ravel()

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (B c,)."""
        parts = multiplier.reshape(self.here.shape[0], -1)
        by_group = jnp.einsum("trc,tr->tc", self.here, parts)
        return (by_group + _after(jnp.einsum("trc,tr->tc", self.before, parts))).ravel()

    def _times(self, right: BlockBidiagonalJacobian, is_symmetric: bool) -> BlockTridiagonalFactor:
        """J K^T: O(B r^2 (r + c))."""
        diagonal = _products(self.here, right.here) + _products(self.before, right.before)
        below = _products(self.before, _before(right.here))
        above = _products(self.here, _after(right.before))
        return _factorise_tridiagonal(diagonal, below, above, is_symmetric)


class BlockBidiagonal(BlockDiagonal, settings=True):
    """Constraints in equal groups; group t depends on the variables of groups t and t - 1.

    State-space models with an invertible observation have this structure (Au, Graham & Thiery 2023,
    supplement 4).
    """

    def differentiate(self, fn, at):
        """Value and Jacobian by 2 min(r, c) sweeps, for blocks of r rows and c columns.

        A sweep takes every other group: the rows of these groups share no variable, and their
        columns share no constraint.
        """
        num_constraints = jax.eval_shape(fn, at).shape[0]
        height = num_constraints // self.num_blocks
        is_even = (jnp.arange(self.num_blocks) % 2 == 0)[:, None, None]
        if height <= self.width:
            value, rows = transposed_sweeps(fn, at, self._units_of_halves(height))
            # (parity, r, B, c) -> (parity, B, r, c)
            even, odd = rows.reshape(2, height, self.num_blocks, self.width).swapaxes(1, 2)
            here = jnp.where(is_even, even, odd)
            # Derivatives of the group after, from the other sweep.
            before = _before(jnp.where(is_even, odd, even))
        else:
            value, columns = sweeps(fn, at, self._units_of_halves(self.width))
            # (B, r, parity, c) -> (parity, B, r, c)
            columns = columns.reshape(self.num_blocks, height, 2, self.width)
            even, odd = jnp.moveaxis(columns, 2, 0)
            here = jnp.where(is_even, even, odd)
            before = jnp.where(is_even, odd, even).at[0].set(0.0)
        return value, BlockBidiagonalJacobian(here, before)

    def _units_of_halves(self, size):
        """Return rows of the identity, (2 size, B size), repeated in even, then in odd groups."""
        is_even = jnp.repeat(jnp.arange(self.num_blocks) % 2 == 0, size).astype(float)
        units = repeated_unit(size, self.num_blocks)
        return jnp.concatenate([units * is_even, units * (1.0 - is_even)])


def _products(left, right):
    return jnp.einsum("trc,tsc->trs", left, right)


def _before(parts):
    """Return the values of the group before; zero for the first group."""
    return jnp.roll(parts, 1, axis=0).at[0].set(0.0)


def _after(parts):
    """Return the values of the group after; zero for the last group."""
    return jnp.roll(parts, -1, axis=0).at[-1].set(0.0)
