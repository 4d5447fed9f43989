"""State-space model with random transitions and noise-free readings, and its prior."""

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
    """Prior of named unknowns, and of the standard normal variables that move the state.

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
        """Build the prior from that of named unknowns and the number of moves."""
        return cls(named.parts, named.shapes, named.units, named.axes, num_moves=num_moves)

    @property
    def num_white(self) -> int:
        """Number m + T k of standard normal variables."""
        return super().num_white + self.num_moves

    @property
    def _has_tangents(self) -> bool:
        """False: the derivatives are those of the whole map, with the moves."""
        return False

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients, (N,), for w of (m + T k,)."""
        start = white.shape[0] - self.num_moves
        return jnp.concatenate([self.of_unknowns(white), white[start:]])

    def of_unknowns(self, white: jax.Array) -> jax.Array:
        """Coefficients of the unknowns alone, (N - T k,), for w of (m,) or (m + T k,)."""
        return super().transform(white)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Exact draw of w, (m + T k,)."""
        return np.concatenate([super().sample(rng), rng.standard_normal(self.num_moves)])


class StateSpaceModel(PathModel):
    """The path of a state-space model, with a step to each of T times.

    ``fn`` is the transition of :func:`~invlift.problems.time.state_space.state_space`.  The first
    step leads to the initial state, from a placeholder before it that is no part of the path.

    Attributes
    ----------
    recover : callable or None
        See :func:`~invlift.problems.time.state_space.state_space`: the inverse of ``observe``, if
        no reading is missing and a state follows from its readings.
    num_noise : int
        Number k of the variables nu_t.
    """

    recover: Callable | None = static(kw_only=True)
    num_noise: int = static(kw_only=True)

    num_steps: ClassVar[int] = 1
    is_read_at_start: ClassVar[bool] = False

    @property
    def num_times(self) -> int:
        """Number T of times."""
        return self.grid.shape[0]

    @property
    def move_shape(self) -> tuple[int, int]:
        """Numbers T of times and k of variables of a step."""
        return self.num_times, self.num_noise

    @property
    def at(self) -> jax.Array:
        """Indices t of the steps, (T,) int."""
        return jnp.arange(self.num_times)

    @property
    def lengths(self) -> jax.Array:
        """Lengths of the steps, (T,), all 1."""
        return jnp.ones(self.num_times)

    def first(self, values: jax.Array) -> jax.Array:
        """Return the placeholder before the path, (n,), which is not used."""
        return self._begin(jnp.zeros(self.num_noise), values)

    def step(
        self,
        time: jax.Array,
        length: jax.Array,
        move: jax.Array,
        state: jax.Array,
        values: jax.Array,
    ) -> jax.Array:
        """Return state t, (n,), from state t - 1, (n,), and nu_t, (k,)."""
        # Both functions are evaluated at all times, as derivatives of all steps are taken at once.
        # The transition at time 0 is not used, but its derivatives must be finite.  It therefore
        # starts from the initial state at time 1.
        begun = self._begin(move, values)
        before = unpack(jnp.where(time == 0, begun, state), self.state_shapes)
        later = self.fn(jnp.maximum(time, 1), before, move, **unpack(values, self.shapes))
        return jnp.where(time == 0, begun, pack(later, self.state_shapes))

    def recovered(self, reading: jax.Array, values: jax.Array) -> jax.Array:
        """Return the state, (n,), from its noise-free reading, (n,)."""
        state = self.recover(unpack(reading, self.reading_shapes), **unpack(values, self.shapes))
        return pack(state, self.state_shapes)

    def on_path(self, states: jax.Array) -> jax.Array:
        """Return the states, (T, n), without the placeholder before them."""
        return states[1:]

    def _begin(self, move, values):
        state = self.initial(move, **unpack(values, self.shapes))
        return pack(state, self.state_shapes).astype(float)
