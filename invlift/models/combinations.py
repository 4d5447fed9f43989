"""Readings that are combinations of fewer numbers, as voltages are of resistances."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from invlift.models.base import AroundModel, first_of_same
from invlift.models.joined import CombinedReadings
from invlift.models.on_mesh import OnMesh


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
