"""Readings that are combinations of fewer numbers, as voltages are of resistances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from invlift.inverse.models.base import ForwardModel
from invlift.programs.pytrees import PyTree


class Combinations(ForwardModel):
    """Weighted sums of what a model gives: A F(x), (d,), of F(x), (r,).

    Where d is larger than r and the noise Gaussian, problems are sampled with r numbers or fewer in
    the place of the d readings: see :func:`invlift.inverse.reduced.reduced`.

    Attributes
    ----------
    model : ForwardModel
        One that pulls back from directions as they are, as :class:`ForwardModel` does and
        :class:`invlift.fem.equation.LinearEquation`.
    matrix : (d, r)
        A.
    """

    model: ForwardModel
    matrix: jax.Array

    @property
    def coefficients_name(self) -> str | None:
        """As of the model."""
        return self.model.coefficients_name

    @property
    def max_derivative(self) -> int:
        """As of the model."""
        return self.model.max_derivative

    @property
    def solutions(self) -> tuple[str, ...]:
        """As of the model."""
        return self.model.solutions

    @property
    def sensors(self) -> Any:
        """As of the model."""
        return self.model.sensors

    @property
    def further(self) -> Any:
        """Distributions of what the model has beside a field, by name."""
        return getattr(self.model, "further", None)

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free readings, (d,)."""
        return self.matrix @ self.model(coefficients)

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """As of the model."""
        return self.model.describe(coefficients)

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N)."""
        value, jacobian = self.model.value_and_jacobian(coefficients)
        return self.matrix @ value, self.matrix @ jacobian

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], PyTree]:
        """As :meth:`ForwardModel.linearise`."""
        (value, jacobian), expansion = self.model.linearise(coefficients)
        return (self.matrix @ value, self.matrix @ jacobian), expansion

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.expand`."""
        value, expansion = self.model.expand(coefficients)
        return self.matrix @ value, expansion

    def push_forward(self, expansion: PyTree, directions: jax.Array) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.push_forward`."""
        products, pushed = self.model.push_forward(expansion, directions)
        return self.matrix @ products, pushed

    def pull_back(
        self, expansion: PyTree, pushed: PyTree, weigh: Callable[[jax.Array], jax.Array]
    ) -> jax.Array:
        """As :meth:`ForwardModel.pull_back`: <W, A J D> = <1, J D W A>, with W symmetric."""
        return self.model.pull_back(expansion, pushed, lambda rows: weigh(rows) @ self.matrix)

    def derivative(self, expansion: PyTree, direction: jax.Array) -> jax.Array:
        """As :meth:`ForwardModel.derivative`."""
        return self.matrix @ self.model.derivative(expansion, direction)

    def higher_derivative(
        self, expansion: PyTree, path: tuple[jax.Array, ...], lower: PyTree = ()
    ) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.higher_derivative`."""
        found, lower = self.model.higher_derivative(expansion, path, lower)
        return self.matrix @ found, lower
