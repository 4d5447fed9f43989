"""Block diagonal Jacobians, as of independent blocks of a path."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from invlift.lift.jacobians.base import (
    ConstraintJacobian,
    GramFactor,
    JacobianStructure,
    repeated_unit,
    sweeps,
    transposed_sweeps,
)
from invlift.lift.jacobians.dense import factorise, for_each
from invlift.programs.pytrees import static


class BlockDiagonalFactor(GramFactor):
    """A block diagonal matrix of B factorised blocks, (r, r) each.

    Attributes
    ----------
    blocks : GramFactor
        Factors of all blocks, stacked along a first axis of size B.
    num_rows : int
        r.
    """

    blocks: GramFactor
    num_rows: int = static()

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (B r,) or (B r, k)."""
        parts = rhs.reshape(-1, self.num_rows, *rhs.shape[1:])
        pairs = self.blocks, parts
        return for_each(lambda each: each[0].solve(each[1]), pairs, self.num_rows).reshape(
            rhs.shape
        )

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return jnp.sum(jax.vmap(lambda each: each.log_determinant())(self.blocks))


class BlockDiagonalJacobian(ConstraintJacobian):
    """J with B blocks, (r, c) each, on the diagonal.

    Attributes
    ----------
    blocks : (B, r, c)
    """

    blocks: jax.Array

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (B r,)."""
        num_blocks, _, width = self.blocks.shape
        return jnp.einsum("brc,bc->br", self.blocks, vector.reshape(num_blocks, width)).ravel()

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (B c,)."""
        num_blocks, height, _ = self.blocks.shape
        parts = multiplier.reshape(num_blocks, height)
        return jnp.einsum("brc,br->bc", self.blocks, parts).ravel()

    def _times(self, right: BlockDiagonalJacobian, is_symmetric: bool) -> BlockDiagonalFactor:
        """J K^T: O(B r^2 (r + c))."""
        products = jnp.einsum("brc,bsc->brs", self.blocks, right.blocks)
        num_rows = products.shape[1]
        inverted = partial(factorise, is_symmetric=is_symmetric)
        return BlockDiagonalFactor(for_each(inverted, products, num_rows), num_rows)


class BlockDiagonal(JacobianStructure, settings=True):
    """Constraints in equal groups, each of which depends on its own variables alone.

    Diffusions that are conditioned on their states at some times have this structure (Graham,
    Thiery & Beskos 2022, section 5.1).

    Attributes
    ----------
    num_blocks : int
        B.
    width : int
        Number c of variables of a group.
    """

    num_blocks: int = static()
    width: int = static()

    def num_variables(self, num_constraints: int) -> int:
        """Number B c of variables."""
        return self.num_blocks * self.width

    def differentiate(self, fn, at):
        """Value and Jacobian by min(r, c) sweeps, for blocks of r rows and c columns."""
        num_constraints = jax.eval_shape(fn, at).shape[0]
        height = num_constraints // self.num_blocks
        shape = (self.num_blocks, height, self.width)
        if height <= self.width:
            value, rows = transposed_sweeps(fn, at, repeated_unit(height, self.num_blocks))
            blocks = rows.reshape(height, self.num_blocks, self.width).swapaxes(0, 1)
        else:
            value, columns = sweeps(fn, at, repeated_unit(self.width, self.num_blocks))
            blocks = columns.reshape(shape)
        return value, BlockDiagonalJacobian(blocks)
