"""A state that moves at random, followed forward in time, and what is read of it without noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.models.path import PathModel
from invlift.programs.pytrees import static
from invlift.unknowns.named import pack, unpack
from invlift.unknowns.priors.named import NamedPrior


class StateSpacePrior(NamedPrior):
    """Unknowns by name, and the variables by which the state moves, which are standard normal.

    Coefficients, (N,), are those of the unknowns, and then the T k variables nu_t, one time after
    the other.

    Attributes
    ----------
    num_moves : int
        T k.
    """

    num_moves: int = static(kw_only=True)

    @classmethod
    def of(cls, named: NamedPrior, num_moves: int) -> StateSpacePrior:
        """The prior of unknowns by name and of moves."""
        return cls(named.parts, named.shapes, named.units, named.axes, num_moves=num_moves)

    @property
    def num_white(self) -> int:
        """Number m + T k of standard normal variables."""
        return super().num_white + self.num_moves

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients, (N,), for w of (m + T k,)."""
        start = white.shape[0] - self.num_moves
        return jnp.concatenate([self.of_unknowns(white[:start]), white[start:]])

    def of_unknowns(self, white: jax.Array) -> jax.Array:
        """Those of the unknowns alone, (N - T k,), for their own w, (m,)."""
        return super().transform(white)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Exact draw of w, (m + T k,)."""
        return np.concatenate([super().sample(rng), rng.standard_normal(self.num_moves)])


class StateSpaceModel(PathModel):
    """The path of a state-space model, with a step to each of T times.

    ``fn`` is the transition of :func:`~invlift.problems.time.state_space.state_space`.  The first
    step leads to the initial state, from one that stands before it and is no part of the path.

    Attributes
    ----------
    recover : callable or None
        See :func:`~invlift.problems.time.state_space.state_space`: the inverse of ``observe``, if
        all of the readings are there and a state follows from them.
    num_noise : int
        Number k of the variables nu_t.
    """

    recover: Callable | None = static(kw_only=True)
    num_noise: int = static(kw_only=True)

    num_steps: ClassVar[int] = 1
    is_read_at_start: ClassVar[bool] = False

    @property
    def num_times(self) -> int:
        """T."""
        return self.grid.shape[0]

    @property
    def move_shape(self) -> tuple[int, int]:
        """T and k."""
        return self.num_times, self.num_noise

    @property
    def at(self) -> jax.Array:
        """Numbers t of the steps, (T,) int."""
        return jnp.arange(self.num_times)

    @property
    def lengths(self) -> jax.Array:
        """1 of each, (T,)."""
        return jnp.ones(self.num_times)

    def first(self, values: jax.Array) -> jax.Array:
        """What stands before the path, (n,), and is not used."""
        return self._begin(jnp.zeros(self.num_noise), values)

    def step(
        self,
        time: jax.Array,
        length: jax.Array,
        move: jax.Array,
        state: jax.Array,
        values: jax.Array,
    ) -> jax.Array:
        """State t, (n,), of state t - 1, (n,), and nu_t, (k,)."""
        # Both functions for all times, as derivatives of all steps are taken at once.  Of the
        # transition at time 0 nothing is kept, but its slopes must be finite: so from a state
        # that occurs, at the time at which it does.
        begun = self._begin(move, values)
        before = unpack(jnp.where(time == 0, begun, state), self.state_shapes)
        later = self.fn(jnp.maximum(time, 1), before, move, **unpack(values, self.shapes))
        return jnp.where(time == 0, begun, pack(later, self.state_shapes))

    def recovered(self, reading: jax.Array, values: jax.Array) -> jax.Array:
        """The state that this is read of without noise, (n,) both."""
        state = self.recover(unpack(reading, self.reading_shapes), **unpack(values, self.shapes))
        return pack(state, self.state_shapes)

    def on_path(self, states: jax.Array) -> jax.Array:
        """The states themselves, (T, n), without what stands before them."""
        return states[1:]

    def _begin(self, move, values):
        state = self.initial(move, **unpack(values, self.shapes))
        return pack(state, self.state_shapes).astype(float)
