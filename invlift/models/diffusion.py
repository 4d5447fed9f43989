"""Model of a discretised stochastic differential equation and its noise-free readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp

from invlift.lift.jacobians.markov import followed
from invlift.models.path import PathModel
from invlift.models.sde_schemes import SCHEMES
from invlift.programs.pytrees import static
from invlift.unknowns.named import pack, unpack
from invlift.unknowns.priors.named import Shapes


class DiffusionModel(PathModel):
    """The path of a diffusion, of L S steps.

    ``fn`` is the drift of :func:`~invlift.problems.time.diffusion_problem.diffusion_problem`.

    Attributes
    ----------
    diffusion : callable
        See :func:`~invlift.problems.time.diffusion_problem.diffusion_problem`.
    scheme : str
        Name among :data:`~invlift.models.sde_schemes.SCHEMES`.
    num_wiener : int
        Number k of Wiener processes.
    num_steps : int
        S.
    is_read_at_start : bool
    at, lengths : (L S,)
        Times at which steps begin, and their lengths.
    """

    diffusion: Callable = static(kw_only=True)
    scheme: str = static(kw_only=True)
    num_wiener: int = static(kw_only=True)
    num_steps: int = static(kw_only=True)
    is_read_at_start: bool = static(kw_only=True)
    at: jax.Array = field(kw_only=True)
    lengths: jax.Array = field(kw_only=True)

    @property
    def move_shape(self) -> tuple[int, int]:
        """Number L S of steps, and number of variables of a step."""
        return self.at.size, SCHEMES[self.scheme].num_noise * self.num_wiener

    def states_from(self, first: jax.Array, values: jax.Array, moves: jax.Array) -> jax.Array:
        """States at the start and after each step, (1 + L S, n), by v, (L S, q)."""
        return _path(self, first, values, moves)

    def first(self, values: jax.Array) -> jax.Array:
        """State at the start, (n,)."""
        state = self.initial(**unpack(values, self.shapes))
        return pack(state, self.state_shapes).astype(float)

    def step(
        self,
        time: jax.Array,
        length: jax.Array,
        move: jax.Array,
        state: jax.Array,
        values: jax.Array,
    ) -> jax.Array:
        """Return the state, (n,), after a step with variables (q,)."""
        drift, diffusion = self.coefficients_of(values)
        return SCHEMES[self.scheme].step(drift, diffusion, time, length, state, move)

    def coefficients_of(self, values: jax.Array) -> tuple[Callable, Callable]:
        """Return drift, (n,), and noise matrix, (n, k), as functions of time and state, (n,)."""
        given = unpack(values, self.shapes)

        def drift(time, state):
            return pack(self.fn(time, unpack(state, self.state_shapes), **given), self.state_shapes)

        def diffusion(time, state):
            strengths = self.diffusion(time, unpack(state, self.state_shapes), **given)
            return matrix_of(strengths, self.state_shapes, self.num_wiener)

        return drift, diffusion


@jax.custom_jvp
def _path(model, first, values, moves):
    """States, (1 + L S, n), from the first."""
    return PathModel.states_from(model, first, values, moves)


@_path.defjvp
def _path_along(primals, tangents):
    """Differentiate all steps at once, so that only their products are sequential."""
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
    return states, jnp.concatenate([along[None], followed(carry, pushes, along)])


def matrix_of(strengths: Mapping[str, Any], state_shapes: Shapes, num_wiener: int) -> jax.Array:
    """Return the matrix B, (n, k), from its rows by name.

    A value of the shape of its part of the state has an independent Wiener process for each entry.
    """
    rows, used = [], 0
    for name, shape in state_shapes:
        size = int(jnp.zeros(shape).size)
        if name not in strengths:
            rows.append(jnp.zeros((size, num_wiener)))
            continue
        strength = jnp.asarray(strengths[name])
        if strength.ndim > len(shape):
            rows.append(strength.reshape(size, num_wiener))
        else:
            block = jnp.diag(strength.ravel())
            rows.append(jnp.pad(block, ((0, 0), (used, num_wiener - used - size))))
            used += size
    return jnp.concatenate(rows)
