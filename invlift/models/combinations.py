"""Readings that are combinations of fewer numbers, as voltages are of resistances."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from invlift.models.base import AroundModel, first_of_same
from invlift.models.joined import CombinedReadings
from invlift.models.on_mesh import OnMesh


class Combinations(AroundModel, CombinedReadings):
    """Weighted sums of what a model gives, as readings: A F(x), (d,), of F(x), (r,).

    Of more readings than numbers some are combinations of others; those alone that tell anything
    are lifted: see :func:`invlift.problems.choice.lift_choice.choose`.
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
        """As :meth:`ForwardModel.alike`: of the same weights."""
        return first_of_same(self.matrix)[1]

    def of_readings(self, rows: np.ndarray) -> Combinations:
        """As :meth:`ForwardModel.of_readings`; the numbers behind them are the same."""
        return replace(self, matrix=self.matrix[rows])

    def combined(self, matrix: jax.Array) -> CombinedReadings:
        """As :meth:`ForwardModel.combined`, through the derivatives of the r numbers."""
        return CombinedReadings(self.model, matrix @ self.matrix, whole=self.matrix)
