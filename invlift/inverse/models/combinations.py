"""Readings that are combinations of fewer numbers, as voltages are of resistances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from invlift.inverse.distributions import Distribution
from invlift.inverse.models.base import ForwardModel
from invlift.inverse.models.joined import Joined


class Combinations(Joined):
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
    def further(self) -> Mapping[str, Distribution] | None:
        """Distributions of what the model has beside a field, by name."""
        return getattr(self.model, "further", None)

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """As of the model."""
        return self.model.describe(coefficients)

    @property
    def _models(self):
        return (self.model,)

    def _join(self, parts):
        return self.matrix @ parts[0]

    def _weights(self, weighed):
        """<W, A J D> = <1, J D W A>, with W symmetric."""
        return (weighed @ self.matrix,)
