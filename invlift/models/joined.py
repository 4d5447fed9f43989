"""Models whose readings are weighted sums of those of other models of the same coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.models.base import AroundModel, ForwardModel, first_of_same
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import PyTree


class Expansions(NamedTuple):
    """Expansions of joined models at one point.

    Attributes
    ----------
    parts : pytree
        Expansions of the models.
    jacobian : (d, N) or None
        Jacobian of the joined readings, if it was computed.
    byproducts : dict of str to Array
    values : tuple of arrays
        Readings of the models.
    """

    parts: PyTree
    jacobian: jax.Array | None
    byproducts: dict[str, jax.Array]
    values: tuple[jax.Array, ...]


class Joined(ForwardModel):
    """Readings that depend linearly on those of models of the same coefficients.

    A subclass implements :meth:`_join`, :meth:`_weights` and :attr:`_models` or :meth:`_each`.
    ``pull_back`` of the models must take the directions themselves as ``pushed``, as in
    :class:`ForwardModel` and :class:`invlift.fem.equations.equation.LinearEquation`.
    """

    @property
    def coefficients_name(self) -> str | None:
        """As of the first model."""
        return self._models[0].coefficients_name

    @property
    def num_coefficients(self) -> int:
        """Number N of coefficients, the same of all models."""
        return self._models[0].num_coefficients

    @property
    def max_derivative(self) -> int:
        """Smallest value of all models."""
        return min(model.max_derivative for model in self._models)

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free readings, (d,)."""
        (values,) = self._each(lambda model: (model(coefficients),))
        return self._join(values)

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N)."""
        return self.linearise(coefficients)[0]

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Expansions]:
        """As :meth:`ForwardModel.linearise`."""

        def linearised(model):
            (value, jacobian), expansion = model.linearise(coefficients)
            return value, jacobian, self._kept(expansion)

        values, jacobians, parts = self._each(linearised)
        jacobian = self._join(jacobians)
        expansion = Expansions(parts, jacobian, self._byproducts(parts), values)
        return (self._join(values), jacobian), expansion

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, Expansions]:
        """As :meth:`ForwardModel.expand`."""
        values, parts = self._each(lambda model: model.expand(coefficients))
        return self._join(values), Expansions(parts, None, self._byproducts(parts), values)

    def combined(self, matrix: jax.Array) -> CombinedReadings:
        """As :meth:`ForwardModel.combined`, from the derivatives of all readings."""
        return CombinedReadings(self, matrix)

    def pull_back(
        self,
        expansion: Expansions,
        pushed: PyTree,
        weigh: Callable[[jax.Array], jax.Array],
        *by_readings: jax.Array,
    ) -> jax.Array:
        """As :meth:`ForwardModel.pull_back`: the sum of those of the models.

        Weights `by_readings` are those of :meth:`ForwardModel.combined`, if the models have them.
        """

        def pulled(model, tangent, weighed, *by_own):
            return (model.pull_back(tangent, pushed, lambda _: weighed, *by_own),)

        weights = map(self._weights, (weigh(pushed), *by_readings))
        (gradients,) = self._each(pulled, expansion.parts, *weights)
        return jnp.stack(gradients).sum(axis=0)

    def derivative(self, expansion: Expansions, direction: jax.Array) -> jax.Array:
        """As :meth:`ForwardModel.derivative`."""
        if expansion.jacobian is not None:
            return expansion.jacobian @ direction
        (along,) = self._each(
            lambda model, part: (model.derivative(part, direction),), expansion.parts
        )
        return self._join(along)

    def higher_derivative(
        self, expansion: Expansions, path: tuple[jax.Array, ...], lower: PyTree = ()
    ) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.higher_derivative`."""
        higher, lower = self._each(
            lambda model, part, low: model.higher_derivative(part, path, low),
            expansion.parts,
            lower,
        )
        return self._join(higher), lower

    def of_equations(
        self, fn: Callable, coefficients: jax.Array, weights: jax.Array, *parts: PyTree
    ) -> PyTree:
        """As :meth:`ForwardModel.of_equations`, of each model in turn."""

        def of_model(model, *own):
            return (model.of_equations(fn, coefficients, *own),)

        return self._each(of_model, self._weights(weights), *parts)[0]

    def _each(self, fn, *parts):
        """Return tuples of the values of a function of each model and its parts."""
        num = len(self._models)
        parts = (part or ((),) * num for part in parts)
        pairs = [fn(*arguments) for arguments in zip(self._models, *parts, strict=True)]
        return tuple(zip(*pairs, strict=True))

    def _kept(self, expansion):
        """Return the part of a linearised model's expansion that is stored."""
        return expansion

    def _byproducts(self, parts):
        """Return the by-products of all models."""
        return {name: field for part in parts for name, field in part.byproducts.items()}


class CombinedReadings(Joined):
    """Combinations A F(x), (k,), of the readings of a model, from the derivatives of all readings.

    Attributes
    ----------
    model : ForwardModel
        A model whose ``pull_back`` takes the directions themselves.
    matrix : (k, r)
        A.
    whole : (d, r) or None
        Matrix from the model's values to all readings; None if the values are the readings.
    """

    model: ForwardModel
    matrix: jax.Array
    whole: jax.Array | None = field(default=None, kw_only=True)

    @property
    def _models(self):
        return (self.model,)

    def _join(self, parts):
        return self.matrix @ parts[0]

    def _weights(self, weighed):
        """<W, A J D> = <1, J D W A>, with W symmetric."""
        return (weighed @ self.matrix,)

    def readings_at(self, expansion: Expansions) -> jax.Array:
        """All readings F, (d,), where the model was linearised."""
        values = expansion.values[0]
        return values if self.whole is None else self.whole @ values

    def pull_back(self, expansion, pushed, weigh, by_readings: jax.Array | None = None):
        """As :meth:`ForwardModel.pull_back`, with the gradient of <by_readings, F> added."""
        gradient = super().pull_back(expansion, pushed, weigh)
        if by_readings is None:
            return gradient
        by_values = by_readings if self.whole is None else by_readings @ self.whole
        return gradient + by_values @ expansion.parts[0].jacobian


class Combinations(AroundModel, CombinedReadings):
    """Readings A F(x), (d,), that are weighted sums of the values of a model, F(x), (r,).

    With more readings than values, some readings are combinations of others.  Only informative
    combinations are lifted: see :func:`invlift.problems.choice.lift_choice.choose`.
    """

    @property
    def on_mesh(self) -> OnMesh:
        """As of the model."""
        known = self.model.on_mesh
        again = known.refined
        refined = again and (lambda times=1: replace(self, model=again(times)))
        return known._replace(refined=refined)

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """As of the model."""
        return self.model.describe(coefficients)

    def alike(self) -> np.ndarray:
        """As :meth:`ForwardModel.alike`: readings with the same weights."""
        return first_of_same(self.matrix)[1]

    def of_readings(self, rows: np.ndarray) -> Combinations:
        """As :meth:`ForwardModel.of_readings`; the values of the model stay the same."""
        return replace(self, matrix=self.matrix[rows])

    def combined(self, matrix: jax.Array) -> CombinedReadings:
        """As :meth:`ForwardModel.combined`, from the derivatives of the r values."""
        return CombinedReadings(self.model, matrix @ self.matrix, whole=self.matrix)
