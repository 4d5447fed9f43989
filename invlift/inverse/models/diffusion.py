"""A stochastic differential equation, followed in small steps, and what is read without noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp

from invlift.inverse.jacobians.markov import Grid
from invlift.inverse.models.sde_schemes import SCHEMES
from invlift.inverse.unknowns import NamedModel, Shapes, pack, unpack
from invlift.pytrees import static


class DiffusionModel(NamedModel):
    """Unknowns and the variables v of all steps to what is read without noise.

    ``fn`` is the drift of :func:`~invlift.inverse.diffusion_problem.diffusion_problem`.  There are
    L intervals of S steps each, and T readings times: the start, if something was read there, and
    the ends of the intervals.  States are rows, (n,), their parts one after the other, and values
    of all unknowns one vector, (N,).

    Attributes
    ----------
    diffusion, initial, observe : callable
        See :func:`~invlift.inverse.diffusion_problem.diffusion_problem`; observe may be None.
    scheme : str
        Of :data:`~invlift.inverse.models.sde_schemes.SCHEMES`.
    state_shapes : tuple of (str, tuple of int)
        Parts of the state.
    num_wiener : int
        Number k of Wiener processes.
    num_steps : int
        S.
    is_read_at_start : bool
    at, lengths : (L S,)
        Times at which steps begin, and their lengths.
    grid : Grid
        Where readings, one name after the other, are among all names at all times.
    """

    diffusion: Callable = static(kw_only=True)
    initial: Callable = static(kw_only=True)
    observe: Callable | None = static(kw_only=True)
    scheme: str = static(kw_only=True)
    state_shapes: Shapes = static(kw_only=True)
    num_wiener: int = static(kw_only=True)
    num_steps: int = static(kw_only=True)
    is_read_at_start: bool = static(kw_only=True)
    at: jax.Array = field(kw_only=True)
    lengths: jax.Array = field(kw_only=True)
    grid: Grid = field(kw_only=True)

    @property
    def move_shape(self) -> tuple[int, int]:
        """L S, and the number of variables of a step."""
        return self.at.size, SCHEMES[self.scheme].num_noise * self.num_wiener

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """The unknowns by their names, and the paths of the states and of what is read."""
        values, moves = self.split(coefficients)
        return unpack(values, self.shapes) | self.paths(self.states(values, moves), values)

    def split(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Values of the unknowns, (N,), and v, (L S, q)."""
        rows, width = self.move_shape
        values, moves = jnp.split(coefficients, [coefficients.size - rows * width])
        return values, moves.reshape(rows, width)

    def states(self, values: jax.Array, moves: jax.Array) -> jax.Array:
        """States at the start and after each step, (1 + L S, n), by v, (L S, q)."""
        return _path(self, self.first(values), values, moves)

    def first(self, values: jax.Array) -> jax.Array:
        """State at the start, (n,)."""
        found = self.initial(**unpack(values, self.shapes))
        return pack(found, self.state_shapes).astype(float)

    def step(
        self,
        time: jax.Array,
        length: jax.Array,
        move: jax.Array,
        state: jax.Array,
        values: jax.Array,
    ) -> jax.Array:
        """State, (n,), a step later, by its variables, (q,)."""
        drift, diffusion = self.coefficients_of(values)
        return SCHEMES[self.scheme].step(drift, diffusion, time, length, state, move)

    def coefficients_of(self, values: jax.Array) -> tuple[Callable, Callable]:
        """Drift, (n,), and matrix of the noise, (n, k), as functions of time and state, (n,)."""
        given = unpack(values, self.shapes)

        def drift(time, state):
            return pack(self.fn(time, unpack(state, self.state_shapes), **given), self.state_shapes)

        def diffusion(time, state):
            found = self.diffusion(time, unpack(state, self.state_shapes), **given)
            return matrix_of(found, self.state_shapes, self.num_wiener)

        return drift, diffusion

    def when_read(self, states: jax.Array) -> jax.Array:
        """Of states at all steps, (1 + L S, n), those at the T times of readings."""
        return states[0 if self.is_read_at_start else self.num_steps :: self.num_steps]

    def read(self, state: jax.Array, values: jax.Array) -> jax.Array:
        """What is read of a state, (n,), under each name, (r,)."""
        found = unpack(state, self.state_shapes)
        if self.observe is not None:
            found = self.observe(found, **unpack(values, self.shapes))
        return jnp.stack([jnp.asarray(found[each.name], float) for each in self.readings])

    def paths(self, states: jax.Array, values: jax.Array) -> dict[str, jax.Array]:
        """Parts of the states, (1 + L S, n), by name, and what would be read: `level_path`."""
        parts = jax.vmap(lambda state: unpack(state, self.state_shapes))(states)
        read = jax.vmap(lambda state: self.read(state, values))(states)
        for index, each in enumerate(self.readings):
            parts.setdefault(each.name, read[:, index])
        return {f"{name}_path": path for name, path in parts.items()}

    def _evaluate(self, coefficients):
        values, moves = self.split(coefficients)
        states = self.states(values, moves)
        read = jax.vmap(lambda state: self.read(state, values))(self.when_read(states))
        return self.grid.gather(read), self.paths(states, values)


@jax.custom_jvp
def _path(model, first, values, moves):
    """States, (1 + L S, n), from the first."""

    def follow(state, each):
        later = model.step(*each, state, values)
        return later, later

    _, later = jax.lax.scan(follow, first, (model.at, model.lengths, moves))
    return jnp.concatenate([first[None], later])


@_path.defjvp
def _path_along(primals, tangents):
    """Derivatives of all steps at once, so that only their products are one after the other."""
    model, _, values, moves = primals
    along_model, along, along_values, along_moves = tangents
    states = _path(*primals)

    def steps(at, lengths, moves, values):
        return jax.vmap(model.step, in_axes=(0, 0, 0, 0, None))(
            at, lengths, moves, states[:-1], values
        )

    _, pushes = jax.jvp(
        steps,
        (model.at, model.lengths, moves, values),
        (along_model.at, along_model.lengths, along_moves, along_values),
    )
    carry = jax.vmap(jax.jacrev(model.step, 3), in_axes=(0, 0, 0, 0, None))(
        model.at, model.lengths, moves, states[:-1], values
    )

    def follow(along, each):
        carry, push = each
        along = carry @ along + push
        return along, along

    _, later = jax.lax.scan(follow, along, (carry, pushes))
    return states, jnp.concatenate([along[None], later])


def matrix_of(found: Mapping[str, Any], state_shapes: Shapes, num_wiener: int) -> jax.Array:
    """The matrix B, (n, k), of its rows by name.

    A value of the shape of its part of the state is that of Wiener processes of its own.
    """
    rows, used = [], 0
    for name, shape in state_shapes:
        size = int(jnp.zeros(shape).size)
        if name not in found:
            rows.append(jnp.zeros((size, num_wiener)))
        elif jnp.ndim(found[name]) > len(shape):
            rows.append(jnp.reshape(found[name], (size, num_wiener)))
        else:
            own = jnp.diag(jnp.ravel(found[name]))
            rows.append(jnp.pad(own, ((0, 0), (used, num_wiener - used - size))))
            used += size
    return jnp.concatenate(rows)
