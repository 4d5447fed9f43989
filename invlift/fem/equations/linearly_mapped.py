"""Models whose coefficients are a linear map of the unknown coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Self

import jax
import numpy as np

from invlift.fem.linalg import sparse
from invlift.models.base import AroundModel, ForwardModel
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import PyTree, aside


class MappedExpansion(NamedTuple):
    """Expansion of a linearly mapped model at a point.

    Attributes
    ----------
    inner : pytree
        Expansion of the inner model.
    jacobian : (d, N) or None
        Jacobian with respect to the unknown coefficients, if it was computed.
    byproducts : dict of str to Array
    """

    inner: PyTree
    jacobian: jax.Array | None
    byproducts: dict[str, jax.Array]


class LinearlyMapped(AroundModel):
    """A model as a function of coefficients x, (N,), where its coefficients are P x.

    Attributes
    ----------
    model : ForwardModel
        The inner model, with M coefficients.
    matrix : sparse.SparseMatrix
        P, (M, N).
    on_mesh : OnMesh
    """

    model: ForwardModel
    matrix: sparse.SparseMatrix
    on_mesh: OnMesh = aside(OnMesh())

    @property
    def num_coefficients(self) -> int:
        """Number N of coefficients."""
        return self.matrix.shape[1]

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Return noise-free readings, (d,)."""
        return self.model(self.at(coefficients))

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return readings, (d,), and their derivatives, (d, N)."""
        return self.linearise(coefficients)[0]

    def linearise(
        self, coefficients: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], MappedExpansion]:
        """As :meth:`ForwardModel.linearise`."""
        (value, by_own), inner = self.model.linearise(self.at(coefficients))
        jacobian = (self.matrix.T @ by_own.T).T
        return (value, jacobian), MappedExpansion(inner, jacobian, self._byproducts(inner))

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, MappedExpansion]:
        """As :meth:`ForwardModel.expand`."""
        value, inner = self.model.expand(self.at(coefficients))
        return value, MappedExpansion(inner, None, self._byproducts(inner))

    def pull_back(
        self,
        expansion: MappedExpansion,
        pushed: jax.Array,
        weigh: Callable[[jax.Array], jax.Array],
        *by_readings: jax.Array,
    ) -> jax.Array:
        """As :meth:`ForwardModel.pull_back`; `by_readings` as of :meth:`ForwardModel.combined`."""
        directions = self.matrix @ pushed
        _, inner = self.model.push_forward(expansion.inner, directions)

        def weigh_own(columns):
            # A model that pulls back from the directions themselves weighs these.  Joined models
            # pass weighed columns of the unknown coefficients.
            if columns is directions:
                return self.matrix @ weigh(pushed)
            return weigh(columns)

        gradient = self.model.pull_back(expansion.inner, inner, weigh_own, *by_readings)
        return (self.matrix.T @ gradient[:, None])[:, 0]

    def derivative(self, expansion: MappedExpansion, direction: jax.Array) -> jax.Array:
        """As :meth:`ForwardModel.derivative`."""
        if expansion.jacobian is not None:
            return expansion.jacobian @ direction
        return self.model.derivative(expansion.inner, self._mapped(direction))

    def higher_derivative(
        self, expansion: MappedExpansion, path: tuple[jax.Array, ...], lower: PyTree = ()
    ) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.higher_derivative`."""
        path = tuple(self._mapped(each) for each in path)
        return self.model.higher_derivative(expansion.inner, path, lower)

    def alike(self) -> np.ndarray | None:
        """As :meth:`ForwardModel.alike` of the inner model."""
        return self.model.alike()

    def of_readings(self, rows: np.ndarray) -> Self:
        """As :meth:`ForwardModel.of_readings`, applied to the inner model."""
        return self._around(self.model.of_readings(rows))

    def combined(self, matrix: jax.Array) -> Self:
        """As :meth:`ForwardModel.combined`, applied to the inner model."""
        return self._around(self.model.combined(matrix))

    def readings_at(self, expansion: MappedExpansion) -> jax.Array:
        """Return all readings, (d,), of a combined model at the point of linearisation."""
        return self.model.readings_at(expansion.inner)

    def _around(self, model: ForwardModel) -> Self:
        """Return the same map of the coefficients of another model, without the sensors."""
        return replace(self, model=model, on_mesh=self.on_mesh._replace(sensors=None))

    def of_equations(self, fn, coefficients, weights, *parts):
        """As :meth:`ForwardModel.of_equations`, applied to the inner model."""
        return self.model.of_equations(fn, self.at(coefficients), weights, *parts)

    def at(self, coefficients):
        """Return the coefficients of the inner model, (M,)."""
        return self._mapped(coefficients)

    def _mapped(self, direction):
        """Return P x, (M,)."""
        return (self.matrix @ direction[:, None])[:, 0]

    def _byproducts(self, inner: PyTree) -> dict[str, jax.Array]:
        """Return the byproducts of this model from the expansion of the inner model: none here."""
        return {}
