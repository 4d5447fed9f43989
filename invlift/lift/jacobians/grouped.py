"""Jacobians of grouped readings: unknowns for each group, and noise for each reading.

J = [C | D] with D diagonal; the row of a reading has entries of C only in the columns of its group.
J J^T is then a diagonal matrix plus few columns for each group.  Systems are solved by the Woodbury
identity within the groups, at a cost linear in the number of readings.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.jacobians.base import ConstraintJacobian, GramFactor, JacobianStructure
from invlift.lift.jacobians.dense import factorise, for_each
from invlift.programs.pytrees import static


class GroupedFactor(GramFactor):
    """diag(core) + C' C^T.

    Attributes
    ----------
    core : (d,)
    left, right : (d, c)
        Entries of C' and C.
    groups : (d,) int
    capacitance : GramFactor
        Factors of I + C^T diag(core)^-1 C' for each group, stacked along a first axis of size B.
    num_groups : int
        B.
    """

    core: jax.Array
    left: jax.Array
    right: jax.Array
    groups: jax.Array
    capacitance: GramFactor
    num_groups: int = static()

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        columns = rhs.reshape(rhs.shape[0], -1)
        alone = columns / self.core[:, None]
        along = self._within(self._sums(alone))
        solution = alone - self._spread(along)
        # A correction as in :class:`~invlift.lift.jacobians.bordered.LowRankFactor`.
        solution += self._spread(self._within(along - self._sums(solution)))
        return solution.reshape(rhs.shape)

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        within = jax.vmap(lambda each: each.log_determinant())(self.capacitance)
        return jnp.sum(jnp.log(jnp.abs(self.core))) + jnp.sum(within)

    def _sums(self, columns):
        """C^T x, (B, c, k), of columns (d, k)."""
        products = self.right[:, :, None] * columns[:, None, :]
        return jax.ops.segment_sum(products, self.groups, self.num_groups)

    def _spread(self, along):
        """diag(core)^-1 C' a, (d, k), of a (B, c, k)."""
        return jnp.einsum("dc,dck->dk", self.left / self.core[:, None], along[self.groups])

    def _within(self, along):
        """Solve with the capacitance of each group, (B, c, k)."""
        pairs = self.capacitance, along
        return for_each(lambda pair: pair[0].solve(pair[1]), pairs, along.shape[1])


class GroupedJacobian(ConstraintJacobian):
    """J = [C | D], with columns C of each group beside a diagonal D.

    Attributes
    ----------
    columns : (d, c)
        Entries of C: derivatives of each reading by the unknowns of its group.
    diagonal : (d,)
        D.
    groups : (d,) int
        The group of each reading.
    num_groups : int
        B.
    """

    columns: jax.Array
    diagonal: jax.Array
    groups: jax.Array
    num_groups: int = static()

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (d,), for v of (B c + d,)."""
        width = self.columns.shape[1]
        shared, noise = jnp.split(vector, [self.num_groups * width])
        shared = shared.reshape(self.num_groups, width)[self.groups]
        return jnp.sum(self.columns * shared, axis=1) + self.diagonal * noise

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (B c + d,)."""
        products = self.columns * multiplier[:, None]
        shared = jax.ops.segment_sum(products, self.groups, self.num_groups)
        return jnp.concatenate([shared.ravel(), self.diagonal * multiplier])

    def _times(self, right: GroupedJacobian, is_symmetric: bool) -> GroupedFactor:
        """J K^T: O(d c^2 + B c^3)."""
        core, width = self.diagonal * right.diagonal, self.columns.shape[1]
        products = right.columns[:, :, None] * (self.columns / core[:, None])[:, None, :]
        sums = jax.ops.segment_sum(products, self.groups, self.num_groups)
        inverted = partial(factorise, is_symmetric=is_symmetric)
        capacitance = for_each(inverted, jnp.eye(width) + sums, width)
        return GroupedFactor(
            core, self.columns, right.columns, self.groups, capacitance, self.num_groups
        )

    def product(self, other: GroupedJacobian, num_constraints: int) -> jax.Array:
        """J K^T, (d, d), as a dense matrix."""
        is_same = self.groups[:, None] == self.groups
        return jnp.where(is_same, self.columns @ other.columns.T, 0.0) + jnp.diag(
            self.diagonal * other.diagonal
        )


class Grouped(JacobianStructure, settings=True):
    """Readings in groups of any sizes, with unknowns for each group and noise for each reading.

    Hierarchical models of many similar objects have this structure.  The variables are those of the
    groups, one group after the other, and then those of the readings.

    Attributes
    ----------
    groups : tuple of int
        The group of each reading, from 0 to B - 1.
    num_groups : int
        B.
    width : int
        Number c of unknowns of a group.
    """

    groups: tuple[int, ...] = static()
    num_groups: int = static()
    width: int = static()

    def num_variables(self, num_constraints: int) -> int:
        """Number B c + d of variables."""
        return self.num_groups * self.width + num_constraints

    def differentiate(self, fn, at):
        """Value and Jacobian by c + 1 sweeps."""
        value, along = jax.linearize(fn, at)
        num_shared = self.num_groups * self.width
        units = jnp.tile(jnp.eye(self.width), (1, self.num_groups))
        units = jnp.pad(units, ((0, 0), (0, at.size - num_shared)))
        is_noise = jnp.pad(jnp.ones(at.size - num_shared), (num_shared, 0))
        columns = jax.vmap(along, out_axes=-1)(units)
        groups = jnp.asarray(np.asarray(self.groups))
        return value, GroupedJacobian(columns, along(is_noise), groups, self.num_groups)


class Grouping(NamedTuple):
    """Assignment of unknowns to groups of readings.

    Attributes
    ----------
    order : tuple of int
        Indices of the m unknowns: first those that all groups share, then those of one group after
        the other.
    structure : Grouped
    """

    order: tuple[int, ...]
    structure: Grouped
