"""Models with added constants, or corrected to agree with a better model at one point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Self

import jax
import numpy as np

from invlift.models.base import AroundModel, ForwardModel, first_of_same
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import PyTree, aside


class Shifted(AroundModel):
    """F(x) + o: a model with a constant added to each reading.

    Attributes
    ----------
    model : ForwardModel
        F.
    offset : (d,)
        o.
    on_mesh : OnMesh
    """

    model: ForwardModel
    offset: jax.Array
    on_mesh: OnMesh = aside(OnMesh())

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """As of the model."""
        return self.model.describe(coefficients)

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free readings, (d,)."""
        return self._shifted(self.model(coefficients), coefficients)

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N)."""
        value, jacobian = self.model.value_and_jacobian(coefficients)
        return self._shifted(value, coefficients), jacobian

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], PyTree]:
        """As :meth:`ForwardModel.linearise`."""
        (value, jacobian), expansion = self.model.linearise(coefficients)
        return (self._shifted(value, coefficients), jacobian), expansion

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.expand`."""
        value, expansion = self.model.expand(coefficients)
        return self._shifted(value, coefficients), expansion

    def push_forward(self, expansion: PyTree, directions: jax.Array) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.push_forward`."""
        return self.model.push_forward(expansion, directions)

    def pull_back(
        self, expansion: PyTree, pushed: PyTree, weigh: Callable[[jax.Array], jax.Array]
    ) -> jax.Array:
        """As :meth:`ForwardModel.pull_back`: the added term has no second derivative."""
        return self.model.pull_back(expansion, pushed, weigh)

    def derivative(self, expansion: PyTree, direction: jax.Array) -> jax.Array:
        """As :meth:`ForwardModel.derivative`."""
        return self.model.derivative(expansion, direction)

    def higher_derivative(
        self, expansion: PyTree, path: tuple[jax.Array, ...], lower: PyTree = ()
    ) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.higher_derivative`: that of the added term is zero."""
        return self.model.higher_derivative(expansion, path, lower)

    def alike(self) -> np.ndarray | None:
        """As :meth:`ForwardModel.alike`: readings with the same constant added."""
        values = self.model.alike()
        return None if values is None else first_of_same(values, self.offset)[1]

    def of_readings(self, rows: np.ndarray) -> Self:
        """As :meth:`ForwardModel.of_readings`."""
        model, known = self.model.of_readings(rows), self.on_mesh._replace(sensors=None)
        return replace(self, model=model, offset=self.offset[rows], on_mesh=known)

    def _shifted(self, value, coefficients):
        return value + self.offset


class Corrected(Shifted):
    """F(x) + o + C (x - x0): a model with a correction of its error near x0.

    Attributes
    ----------
    model : ForwardModel
        F.
    offset : (d,)
        o, the correction of readings at x0.
    slope : (d, N)
        C, the correction of their derivatives there.
    centre : (N,)
        x0.
    on_mesh : OnMesh
        As of the model, without ``refined``.
    """

    slope: jax.Array = field(kw_only=True)
    centre: jax.Array = field(kw_only=True)
    is_corrected = True

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N)."""
        value, jacobian = super().value_and_jacobian(coefficients)
        return value, jacobian + self.slope

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], PyTree]:
        """As :meth:`ForwardModel.linearise`."""
        (value, jacobian), expansion = super().linearise(coefficients)
        return (value, jacobian + self.slope), expansion

    def push_forward(self, expansion: PyTree, directions: jax.Array) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.push_forward`."""
        products, pushed = super().push_forward(expansion, directions)
        return products + self.slope @ directions, pushed

    def derivative(self, expansion: PyTree, direction: jax.Array) -> jax.Array:
        """As :meth:`ForwardModel.derivative`."""
        return super().derivative(expansion, direction) + self.slope @ direction

    def alike(self) -> np.ndarray | None:
        """As :meth:`ForwardModel.alike`: readings with the same correction."""
        values = super().alike()
        return None if values is None else first_of_same(values, self.slope)[1]

    def of_readings(self, rows: np.ndarray) -> Self:
        """As :meth:`ForwardModel.of_readings`."""
        return replace(super().of_readings(rows), slope=self.slope[rows])

    def _shifted(self, value, coefficients):
        return super()._shifted(value, coefficients) + self.slope @ (coefficients - self.centre)


def corrected(
    model: ForwardModel,
    offset: jax.Array,
    slope: jax.Array,
    centre: jax.Array,
) -> Corrected:
    """Return the model with a correction; it keeps all records but that of refined models."""
    known = model.on_mesh._replace(refined=None)
    offset, slope, centre = jax.device_put((offset, slope, centre))
    return Corrected(model, offset, slope=slope, centre=centre, on_mesh=known)
