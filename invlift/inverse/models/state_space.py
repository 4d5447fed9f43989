"""A state that moves at random, followed forward in time, and what is read of it without noise."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from invlift.inverse.unknowns import NamedModel, NamedPrior, Shapes, pack, unpack
from invlift.pytrees import static


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


class StateSpaceModel(NamedModel):
    """Unknowns and the variables nu, (T, k), to what is read without noise.

    ``fn`` is the transition of :func:`~invlift.inverse.state_space.state_space`, ``readings`` have
    the time as their first axis.  States and what is read at one time are rows, (n,): their parts
    one after the other, of states as ``state_shapes`` and of readings as ``readings`` have them.

    Attributes
    ----------
    initial, observe, recover : callable
        See :func:`~invlift.inverse.state_space.state_space`.
    state_shapes : tuple of (str, tuple of int)
        Parts of the state.
    num_noise : int
        Number k of the variables nu_t.
    """

    initial: Callable = static(kw_only=True)
    observe: Callable = static(kw_only=True)
    recover: Callable = static(kw_only=True)
    state_shapes: Shapes = static(kw_only=True)
    num_noise: int = static(kw_only=True)

    @property
    def num_times(self) -> int:
        """T."""
        return self.readings[0].shape[0]

    @property
    def reading_shapes(self) -> Shapes:
        """What is read at one time."""
        return tuple((each.name, each.shape[1:]) for each in self.readings)

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """The unknowns by their names, and the paths of the states."""
        given, moves = self.split(coefficients)
        return given | self.paths(self.states(given, moves))

    def split(self, coefficients: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        """The unknowns by name, and nu, (T, k)."""
        start = coefficients.shape[0] - self.num_times * self.num_noise
        moves = coefficients[start:].reshape(self.num_times, self.num_noise)
        return unpack(coefficients[:start], self.shapes), moves

    def states(self, given: dict[str, jax.Array], moves: jax.Array) -> jax.Array:
        """States at all times, (T, n), by their moves, (T, k)."""

        def follow(state, each):
            later = self.step(*each, state, given)
            return later, later

        first = self.first(moves[0], given)
        steps = jnp.arange(1, self.num_times), moves[1:]
        later = jax.lax.scan(follow, first, steps)[1]
        return jnp.concatenate([first[None], later])

    def first(self, move: jax.Array, given: dict[str, jax.Array]) -> jax.Array:
        """State 0, (n,)."""
        return pack(self.initial(move, **given), self.state_shapes)

    def step(
        self, time: jax.Array, move: jax.Array, state: jax.Array, given: dict[str, jax.Array]
    ) -> jax.Array:
        """State t, (n,), of state t - 1, (n,), and nu_t, (k,)."""
        found = self.fn(time, unpack(state, self.state_shapes), move, **given)
        return pack(found, self.state_shapes)

    def read(self, state: jax.Array, given: dict[str, jax.Array]) -> jax.Array:
        """What is read of a state, (n,) both."""
        found = self.observe(unpack(state, self.state_shapes), **given)
        return pack(found, self.reading_shapes)

    def recovered(self, reading: jax.Array, given: dict[str, jax.Array]) -> jax.Array:
        """The state that this is read of without noise, (n,) both."""
        found = self.recover(unpack(reading, self.reading_shapes), **given)
        return pack(found, self.state_shapes)

    def paths(self, states: jax.Array) -> dict[str, jax.Array]:
        """Parts of the states, (T, n), by name: `level_path` of `level`, (T, ...)."""
        parts = jax.vmap(lambda state: unpack(state, self.state_shapes))(states)
        return {f"{name}_path": values for name, values in parts.items()}

    def in_time(self, values: jax.Array) -> jax.Array:
        """A row for each time, (T, n), of values of all readings, (T n,)."""
        whole = unpack(values, tuple((each.name, each.shape) for each in self.readings))
        rows = [each.reshape(self.num_times, -1) for each in whole.values()]
        return jnp.concatenate(rows, axis=1)

    def by_name(self, rows: jax.Array) -> jax.Array:
        """Values of all readings, (T n,), those of one name after the other's, of (T, n)."""
        parts = jax.vmap(lambda row: unpack(row, self.reading_shapes))(rows)
        return pack(parts, self.reading_shapes)

    def _evaluate(self, coefficients):
        given, moves = self.split(coefficients)
        states = self.states(given, moves)
        read = jax.vmap(lambda state: self.read(state, given))(states)
        return self.by_name(read), self.paths(states)
