"""Linear combinations of an equation's readings, with one solve per combination and load."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from invlift.fem.equations.system import Solved
from invlift.models.base import AroundModel, ForwardModel


def combined_equation(equation: ForwardModel, matrix: jax.Array) -> CombinedEquation:
    """Return the model of the combinations A F(x) of readings, for A of (k, d)."""
    num, num_loads = len(matrix), equation.num_loads
    observation, of_reactions = _weights_of(equation, matrix)
    inputs, total = equation.inputs, num_loads * num
    readings, coefficients, weights = equation.own
    places = equation.loads[readings] * num + jnp.arange(num)[:, None]
    of_coefficients = (
        places,
        jnp.broadcast_to(coefficients, places.shape),
        matrix[:, readings] * weights,
    )
    offsets = jnp.zeros((num_loads, len(inputs.offsets), num))
    offsets = offsets.at[equation.loads].add(inputs.offsets.T[:, :, None] * matrix.T[:, None])
    offsets = offsets.swapaxes(0, 1).reshape(-1, total)
    each = replace(
        equation,
        observation=observation.reshape(-1, total),
        of_reactions=of_reactions.reshape(-1, total),
        inputs=replace(inputs, offsets=offsets),
        own=tuple(each.ravel() for each in of_coefficients),
        loads=jnp.repeat(jnp.arange(num_loads), num),
        columns=jnp.arange(total),
        by_load=jnp.arange(total).reshape(num_loads, num),
    )
    return CombinedEquation(equation, each)


def _weights_of(equation: ForwardModel, matrix: jax.Array) -> list[jax.Array]:
    """Return weights of unknowns, (n, L, k), and reactions, (p, L, k), in combinations, (k, d)."""
    shares = jnp.zeros((equation.observation.shape[1], equation.num_loads, len(matrix)))
    shares = shares.at[equation.columns, equation.loads].add(matrix.T)
    parts = equation.observation, equation.of_reactions
    products = (part @ shares.reshape(len(shares), -1) for part in parts)
    return [each.reshape(-1, *shares.shape[1:]) for each in products]


class CombinedEquation(AroundModel):
    """Combinations A F(x), (k,), of the readings of an equation.

    Attributes
    ----------
    model : LinearEquation
        The equation with all readings.
    each : LinearEquation
        The equation whose readings, (L k,), are the contributions of each load to the combinations.
    """

    model: ForwardModel
    each: ForwardModel

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Return A F(x), (k,)."""
        return self._sum(self.each(coefficients))

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return A F(x), (k,), and its derivatives, (k, N)."""
        return self.linearise(coefficients)[0]

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Solved]:
        """As :meth:`LinearEquation.linearise`."""
        (value, jacobian), expansion = self.each.linearise(coefficients)
        jacobian = self._sum(jacobian)
        return (self._sum(value), jacobian), expansion._replace(jacobian=jacobian)

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, Solved]:
        """As :meth:`LinearEquation.expand`."""
        value, expansion = self.each.expand(coefficients)
        return self._sum(value), expansion

    def readings_at(self, expansion: Solved) -> jax.Array:
        """Return all readings F, (d,), at the point of linearisation."""
        return self.model.readings_at(expansion)

    def pull_back(self, expansion, pushed, weigh, by_readings: jax.Array | None = None):
        """As :meth:`ForwardModel.pull_back`, with the gradient of <by_readings, F> added."""
        model, weighed = self.model, weigh(pushed)
        repeated = jnp.tile(weighed, (1, model.num_loads))
        if by_readings is None:
            return self.each.pull_back(expansion, pushed, lambda _: repeated)
        weights = [part[..., 0] for part in _weights_of(model, by_readings[None])]
        on_unknowns, directly = model.pull_back_reactions(expansion, *weights)
        gradient = self.each.pull_back(expansion, pushed, lambda _: repeated, on_unknowns)
        readings, coefficients, shares = model.own
        gradient = (gradient + directly).at[coefficients].add(shares * by_readings[readings])
        inputs = model.inputs
        return gradient.at[inputs.coefficients].add(inputs.offsets[1:] @ by_readings)

    def derivative(self, expansion: Solved, direction: jax.Array) -> jax.Array:
        """As :meth:`LinearEquation.derivative`."""
        return self._sum(self.each.derivative(expansion, direction))

    def higher_derivative(
        self, expansion: Solved, path: tuple[jax.Array, ...], lower: tuple[jax.Array, ...] = ()
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """As :meth:`LinearEquation.higher_derivative`."""
        higher, lower = self.each.higher_derivative(expansion, path, lower)
        return self._sum(higher), lower

    def _sum(self, by_load):
        """Sum the contributions of the loads, (L k, ...) to (k, ...)."""
        return by_load.reshape(self.model.num_loads, -1, *by_load.shape[1:]).sum(axis=0)
