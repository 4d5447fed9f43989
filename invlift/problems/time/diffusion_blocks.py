"""Lifted posterior of a diffusion, conditioned also on its states at some times.

The path then consists of blocks, each from a given state to the next.  A block depends on its given
states and on the unknowns that all blocks share (Graham, Thiery & Beskos 2022, section 5.1).
"""

from __future__ import annotations

import math
from dataclasses import field, replace

import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.jacobians.markov import Grid
from invlift.lift.targets.diffusion import DiffusionPosterior
from invlift.problems.problem import InverseProblem
from invlift.programs.pytrees import Module, static
from invlift.programs.traced import depends
from invlift.targets import Described

#: Times of readings in a block: with 5 chains mix best in the paper (section 7.1).
NUM_READINGS = 5


class Blocks(Module):
    """Partition of the L intervals of a path into B blocks.

    Attributes
    ----------
    num_first, size : int
        Numbers of intervals in the first block, and R in all others.  The first has at most R, and
        the last may have fewer.
    kept : (k,) int
        Indices of readings that do not follow from given states.  Exact readings at the times of
        given states follow from them.
    grid : Grid
        Places of these readings, then of the parts of the given states, among the r readings and n
        parts of each time.
    """

    num_first: int = static()
    size: int = static()
    kept: jax.Array
    grid: Grid

    def begins(self, num_intervals: int) -> np.ndarray:
        """Return the first intervals of all blocks but the first block, (B - 1,)."""
        return np.arange(self.num_first, num_intervals, self.size)

    def split(self, values: jax.Array) -> jax.Array:
        """Split (L, ...) into (B, R, ...); shorter blocks repeat their last row."""

        def filled(rows, num):
            return jnp.pad(rows, [(0, num)] + [(0, 0)] * (rows.ndim - 1), mode="edge")

        first, rest = values[: self.num_first], values[self.num_first :]
        rest = filled(rest, -len(rest) % self.size).reshape(-1, self.size, *rest.shape[1:])
        return jnp.concatenate([filled(first, self.size - self.num_first)[None], rest])

    def join(self, values: jax.Array, num_intervals: int) -> jax.Array:
        """Join (B, R, ...) to (L, ...); the inverse of :meth:`split`."""
        rest = values[1:].reshape(-1, *values.shape[2:])
        return jnp.concatenate([values[0, : self.num_first], rest])[:num_intervals]


def blocks_of(problem: InverseProblem, num_first: int, size: int) -> Blocks:
    """Return the blocks of a path from the numbers of intervals in the first and other blocks."""
    model, num_parts = problem.model, _num_parts(problem)
    num_times, num_read = model.grid.shape
    width, start = num_read + num_parts, int(model.is_read_at_start)
    num_first = min(num_first, num_times - start)
    given = start + np.arange(num_first, num_times - start, size) - 1
    times, columns = np.divmod(np.asarray(model.grid.places), num_read)
    kept = np.flatnonzero(~(np.isin(times, given) & problem.noise.is_exact))
    states = given[:, None] * width + num_read + np.arange(num_parts)
    places = np.concatenate([(times * width + columns)[kept], states.ravel()])
    return Blocks(num_first, size, jnp.asarray(kept), Grid(jnp.asarray(places), (num_times, width)))


def in_blocks(problem: InverseProblem) -> DiffusionPosterior:
    """Return the lifted posterior of a diffusion, in blocks if states may be given.

    They may not if exact readings depend on unknowns beside the state: with a given state, such a
    reading would be a condition on these unknowns alone.
    """
    model, prior = problem.model, problem.prior
    state, white = jnp.zeros(_num_parts(problem)), jnp.zeros(prior.num_white - prior.num_moves)
    by_unknowns = depends(lambda white: model.read(state, prior.of_unknowns(white)), white)
    if problem.noise.is_exact and any(by_unknowns):
        return DiffusionPosterior(problem)
    ways = (blocks_of(problem, first, NUM_READINGS) for first in (NUM_READINGS, NUM_READINGS // 2))
    return DiffusionInBlocks(problem, ways=tuple(ways))


def _num_parts(problem) -> int:
    """Number n of parts of a state."""
    return sum(math.prod(shape) for _, shape in problem.model.state_shapes)


class DiffusionInBlocks(DiffusionPosterior):
    """The lifted posterior of a diffusion in parts, for the kernel ``Alternate``.

    Attributes
    ----------
    ways : tuple of Blocks
        Partitions of the path, used in turn.  No state may be given in all of them.
    """

    ways: tuple[Blocks, ...] = ()

    def parts(self, position: jax.Array) -> tuple[DiffusionGivenStates, ...]:
        """Return the posterior given the states at the ends of blocks, for each partition."""
        variables, model = self._variables_of(position), self._model
        states = model.states(variables.values, variables.moves)[:: model.num_steps]
        return tuple(
            DiffusionGivenStates(
                self.problem,
                self.holds_noise,
                blocks=way,
                states=states[way.begins(states.shape[0] - 1)],
            )
            for way in self.ways
        )

    def describe_position(self, position: jax.Array) -> Described:
        """Return the values stored with a draw, by name, and no moments."""
        return self.problem.described(position[: self.problem.num_unknowns]), {}


class DiffusionGivenStates(DiffusionPosterior):
    """Lifted posterior of a diffusion given the states at which blocks of the path begin.

    The constraints are the kept readings, and the condition that each block but the last ends at
    the state at which the next one begins.

    Attributes
    ----------
    blocks : Blocks
    states : (B - 1, n)
    """

    blocks: Blocks = field(kw_only=True)
    states: jax.Array = field(kw_only=True)

    @property
    def _grid(self):
        return self.blocks.grid

    def _read(self, state, values):
        return jnp.concatenate([super()._read(state, values), state])

    def _noise_free(self, zeta, eta):
        return jnp.concatenate(
            [super()._noise_free(zeta, eta)[self.blocks.kept], self.states.ravel()]
        )

    def _by_noise(self, zeta, eta):
        by_eta, by_zeta = super()._by_noise(zeta, eta)
        return None if by_eta is None else by_eta[: eta.size], by_zeta

    def _states(self, variables):
        """Compute each block from its given state."""
        model, blocks = self._model, self.blocks
        first = model.first(variables.values)
        num_intervals = model.at.size // model.num_steps

        def in_blocks(values):
            by_interval = values.reshape(num_intervals, model.num_steps, *values.shape[1:])
            each = blocks.split(by_interval)
            return each.reshape(each.shape[0], -1, *values.shape[1:])

        def follow(first, at, lengths, moves):
            own = replace(model, at=at, lengths=lengths)
            return own.states_from(first, variables.values, moves)

        each = (in_blocks(values) for values in (model.at, model.lengths, variables.moves))
        states = jax.vmap(follow)(jnp.concatenate([first[None], self.states]), *each)
        before = states[:, :-1].reshape(-1, blocks.size, model.num_steps, first.size)
        before = blocks.join(before, num_intervals).reshape(-1, first.size)
        ends = blocks.join(states[:, model.num_steps :: model.num_steps], num_intervals)
        return before, jnp.concatenate([first[None], ends]) if model.is_read_at_start else ends

    def _cut(self, carry):
        return carry.at[self.blocks.begins(carry.shape[0])].set(0.0)
