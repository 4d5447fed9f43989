"""Constrained HMC on a diffusion read exactly, conditioned on its states at some times in turn.

Graham, Thiery & Beskos (2022, section 5.1).  Of T intervals, blocks of R are independent given the
unknowns and the states between them, so that the Jacobian has a block for each beside few columns.
Two partitions, of which one is shifted by half a block, take turns.
"""

from __future__ import annotations

from dataclasses import field, fields, replace

import jax
import jax.numpy as jnp
import numpy as np

from invlift.inverse.diffusion_problem import DiffusionProblem
from invlift.inverse.jacobians import Beside, Factor
from invlift.inverse.jacobians.base import ConstraintJacobian
from invlift.inverse.jacobians.block_diagonal import BlockDiagonalFactor
from invlift.inverse.jacobians.small import factorise_block, for_each
from invlift.inverse.models.diffusion import _path
from invlift.inverse.targets.diffusion import DiffusionPosterior
from invlift.inverse.targets.manifold import ManifoldTarget
from invlift.pytrees import Module, static


class Partition(Module):
    """Which intervals and constraints are in which of B blocks, of R intervals at most.

    A block that is shorter is filled up at its end by intervals that nothing is read after.  Its
    constraints are R - 1 readings and the n numbers of the state at its end, or of the last block
    the reading there; some places are empty.

    Attributes
    ----------
    intervals, is_real : (B, R)
    last : (B,)
        The last of the real ones.
    back : (T,)
        Where each interval is among the B R.
    places : (d,)
        Where constraints are among B (R - 1 + n).
    num_states : int
        n.
    """

    intervals: jax.Array
    is_real: jax.Array
    last: jax.Array
    back: jax.Array
    places: jax.Array
    num_states: int = static()

    @classmethod
    def of_lengths(cls, lengths, size, num_states):
        """Of blocks of these lengths, at most ``size`` each."""
        starts = np.cumsum([0, *lengths[:-1]])[:, None]
        within = np.arange(size)
        last = np.array(lengths) - 1
        is_real = within <= last[:, None]
        readings = np.arange(size - 1) < last[:, None]
        ends = np.ones((len(lengths), num_states), bool)
        ends[-1, 1:] = False  # the reading alone, which is the first number
        arrays = (
            starts + np.minimum(within, last[:, None]),
            is_real,
            last,
            np.flatnonzero(is_real),
            np.flatnonzero(np.concatenate([readings, ends], axis=1)),
        )
        return cls(*map(jax.device_put, arrays), num_states)

    @property
    def shape(self):
        """B and the number of places for constraints in a block."""
        blocks, size = self.intervals.shape
        return blocks, size - 1 + self.num_states

    def spread(self, values):
        """(d,) or (d, k) to (B, r) or (B, r, k), zero at empty places."""
        further = values.shape[1:]
        full = jnp.zeros((np.prod(self.shape), *further)).at[self.places].set(values)
        return full.reshape(*self.shape, *further)

    def gather(self, values):
        """(B, r) or (B, r, k) to (d,) or (d, k)."""
        return values.reshape(-1, *values.shape[2:])[self.places]

    def in_blocks(self, values):
        """(T, ...) to (B, R, ...), zero in what is filled up."""
        is_real = self.is_real.reshape(*self.is_real.shape, *(1,) * (values.ndim - 1))
        return jnp.where(is_real, values[self.intervals], 0.0)

    def constrained(self, of_readings, of_states):
        """(B, R, ...) of readings and (B, R, n, ...) of states to the constraints, (B, r, ...)."""
        blocks = jnp.arange(self.shape[0])
        ends = of_states[blocks, self.last]
        return jnp.concatenate([of_readings[:, :-1], ends], axis=1)


class SpreadFactor(Factor):
    """Of blocks with empty places."""

    core: BlockDiagonalFactor
    partition: Partition

    def solve(self, rhs):
        spread = self.partition.spread(rhs)
        found = self.core.solve(spread.reshape(-1, *rhs.shape[1:]))
        return self.partition.gather(found.reshape(spread.shape))

    def log_determinant(self):
        return self.core.log_determinant()


class BlockedJacobian(ConstraintJacobian):
    """Blocks, (B, r, R w), zero at what is empty or filled up."""

    blocks: jax.Array
    partition: Partition

    def apply(self, vector):
        intervals = vector.reshape(self.partition.back.size, -1)
        moves = self.partition.in_blocks(intervals).reshape(self.blocks.shape[0], -1)
        return self.partition.gather(jnp.einsum("brc,bc->br", self.blocks, moves))

    def apply_transpose(self, multiplier):
        found = jnp.einsum("brc,br->bc", self.blocks, self.partition.spread(multiplier))
        num_intervals = self.partition.intervals.size
        return found.reshape(num_intervals, -1)[self.partition.back].ravel()

    def inner(self, other=None):
        right = self if other is None else other
        products = jnp.einsum("brc,bsc->brs", self.blocks, right.blocks)
        is_empty = 1.0 - self.partition.spread(jnp.ones(self.partition.places.size))
        products += is_empty[:, :, None] * jnp.eye(products.shape[1])
        core = for_each(factorise_block, products, products.shape[1])
        factor = BlockDiagonalFactor(core, products.shape[1])
        return SpreadFactor(factor, self.partition)


class GivenStates(ManifoldTarget):
    """The posterior given the states between the blocks of a partition.

    Attributes
    ----------
    whole : DiffusionPosterior
        Of exact readings, at all ends of intervals, of the first number of the state.
    partition : Partition
    states : (T, n)
        At the ends of intervals; those between blocks are held.
    """

    whole: DiffusionPosterior
    partition: Partition
    states: jax.Array

    @property
    def dimension(self):
        """Q."""
        return self.whole.dimension

    def _starts(self, values):
        """States that blocks begin with, (B, n)."""
        before = self.partition.intervals[1:, 0] - 1
        return jnp.concatenate([self.whole._model.first(values)[None], self.states[before]])

    def _goals(self):
        """What the constraints are to be, (B, r)."""
        observed = self.whole.problem.observed[self.partition.intervals]
        states = self.states.at[-1, 0].set(self.whole.problem.observed[-1])
        return self.partition.constrained(observed, states[self.partition.intervals])

    def _paths(self, values, moves):
        """States, (B, 1 + R S, n), and times, lengths and moves of their steps."""
        model, partition = self.whole._model, self.partition

        def in_blocks(each):
            parts = each.reshape(-1, model.num_steps, *each.shape[1:])[partition.intervals]
            return parts.reshape(parts.shape[0], -1, *parts.shape[3:])

        of_intervals = moves.reshape(-1, model.num_steps, moves.shape[1])
        moves = partition.in_blocks(of_intervals).reshape(len(partition.last), -1, moves.shape[1])
        at, lengths = in_blocks(model.at), in_blocks(model.lengths)

        def path(at, lengths, first, moves):
            return _path(replace(model, at=at, lengths=lengths), first, values, moves)

        return jax.vmap(path)(at, lengths, self._starts(values), moves), (at, lengths, moves)

    def constraint(self, position):
        found = self.whole._meaning(position)
        paths, _ = self._paths(found.values, found.moves)
        ends = paths[:, self.whole._model.num_steps :: self.whole._model.num_steps]
        value = self.partition.constrained(ends[..., 0], ends) - self._goals()
        return self.partition.gather(value)

    def linearise(self, position):
        found, model, partition = self.whole._meaning(position), self.whole._model, self.partition
        paths, steps = self._paths(found.values, found.moves)
        blocks, size = partition.intervals.shape
        flat = [each.reshape(-1, *each.shape[2:]) for each in (*steps, paths[:, :-1])]
        derivatives = jax.vmap(jax.jacrev(model.step, (2, 3, 4)), in_axes=(0, 0, 0, 0, None))
        by_steps = derivatives(*flat, found.values)
        carry, push, drag = (
            each.reshape(blocks, size, *each.shape[1:])
            for each in self.whole._over_intervals(*by_steps)
        )
        width = push.shape[-1]
        first = jnp.zeros((blocks, *drag.shape[2:]))
        first = first.at[0].set(jax.jacrev(model.first)(found.values))
        none = jnp.zeros((blocks, carry.shape[-1], size, width))

        def follow(state, each):
            by_move, by_values = state
            number, carry, push, drag = each
            by_move = jnp.einsum("bnm,bmrw->bnrw", carry, by_move).at[:, :, number].set(push)
            by_values = carry @ by_values + drag
            return (by_move, by_values), (by_move, by_values)

        along = (jnp.arange(size), *(each.swapaxes(0, 1) for each in (carry, push, drag)))
        _, (by_move, by_values) = jax.lax.scan(follow, (none, first), along)
        by_move, by_values = by_move.swapaxes(0, 1), by_values.swapaxes(0, 1)
        by_move = partition.constrained(by_move[:, :, 0], by_move)
        by_move = by_move * partition.is_real[:, None, :, None]
        by_move = partition.spread(partition.gather(by_move.reshape(*by_move.shape[:2], -1)))
        by_values = partition.gather(partition.constrained(by_values[:, :, 0], by_values))
        by_white = by_values @ jax.jacfwd(self.whole._values)(found.white)
        ends = paths[:, model.num_steps :: model.num_steps]
        value = partition.constrained(ends[..., 0], ends) - self._goals()
        core = BlockedJacobian(by_move, partition)
        return partition.gather(value), Beside((by_white.T,), core)

    def logdensity(self, position, gram):
        return self.whole.logdensity(position, gram)


class InBlocks(DiffusionPosterior):
    """The posterior in two parts.

    Attributes
    ----------
    partitions : tuple of Partition
    """

    partitions: tuple[Partition, ...] = field(kw_only=True)

    def parts(self, position):
        found = self._meaning(position)
        states = self._model.when_read(self._model.states(found.values, found.moves))
        whole = DiffusionPosterior(self.problem)
        return tuple(GivenStates(whole, each, states) for each in self.partitions)

    def describe_position(self, position):
        return self.describe(self.point(position))


class BlockedProblem(DiffusionProblem):
    """A problem of exact readings whose lifted form is in parts, of R intervals each.

    Attributes
    ----------
    block : int
        R, of which T is a multiple.
    """

    block: int = static(default=5)

    def own_lifted(self):
        num_times, size = self.observed.size, self.block
        half = size // 2
        lengths = (
            [size] * (num_times // size),
            [half, *[size] * (num_times // size - 1), size - half],
        )
        num_states = self.model.first(jnp.zeros(self.prior.num_white)).size
        made = (Partition.of_lengths(each, size, num_states) for each in lengths)
        return InBlocks(self, partitions=tuple(made))


def blocked(problem, block):
    """The same problem, for :class:`~invlift.Alternate`."""
    given = (getattr(problem, each.name) for each in fields(DiffusionProblem))
    return BlockedProblem(*given, block=block)
