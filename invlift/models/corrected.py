"""Models with an affine function added, such as a correction to agree with a better model."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from invlift.models.base import AroundModel, ForwardModel, first_of_same
from invlift.models.joined import Joined
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import aside


class AffineModel(ForwardModel):
    """The readings o + C (x - x0).

    Attributes
    ----------
    offset : (d,)
        o.
    slope : (d, N) or (d, 1)
        C, or one number for each row.
    centre : (N,) or ()
        x0.
    """

    offset: jax.Array
    slope: jax.Array
    centre: jax.Array

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Readings, (d,)."""
        return self.value_and_jacobian(coefficients)[0]

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and C, (d, N)."""
        # A sum in place of a product of matrices, for which one number a row would become (d, N).
        value = self.offset + jnp.sum(self.slope * (coefficients - self.centre), axis=1)
        return value, jnp.broadcast_to(self.slope, (self.offset.size, coefficients.size))

    def of_equations(self, fn, coefficients, weights, *parts):
        """As :meth:`ForwardModel.of_equations`: there are none."""
        return ()

    def alike(self) -> np.ndarray:
        """As :meth:`ForwardModel.alike`: readings with the same numbers."""
        return first_of_same(self.offset, self.slope)[1]

    def of_readings(self, rows: np.ndarray) -> Self:
        """As :meth:`ForwardModel.of_readings`."""
        return replace(self, offset=self.offset[rows], slope=self.slope[rows])


class Shifted(AroundModel, Joined):
    """F(x) + o + C (x - x0): a model with an affine function added.

    Attributes
    ----------
    model : ForwardModel
        F.
    added : AffineModel
        The other terms.
    on_mesh : OnMesh
    """

    model: ForwardModel
    added: AffineModel
    on_mesh: OnMesh = aside(OnMesh())
    # By solves for the combinations alone, not for all readings.
    combined = ForwardModel.combined

    def alike(self) -> np.ndarray | None:
        """As :meth:`ForwardModel.alike`: readings with the same terms added."""
        values = self.model.alike()
        return None if values is None else first_of_same(values, self.added.alike())[1]

    def of_readings(self, rows: np.ndarray) -> Self:
        """As :meth:`ForwardModel.of_readings`."""
        model, added = (each.of_readings(rows) for each in self._models)
        return replace(self, model=model, added=added, on_mesh=self.on_mesh._replace(sensors=None))

    @property
    def _models(self):
        return self.model, self.added

    def _join(self, parts):
        return sum(parts)

    def _weights(self, weighed):
        return weighed, weighed


class Corrected(Shifted):
    """A model with a correction of its error near x0."""

    is_corrected = True

    def of_equations(self, fn, coefficients, weights, *parts):
        """As :meth:`ForwardModel.of_equations`, of the model without the correction."""
        return self.model.of_equations(fn, coefficients, weights, *parts)


def corrected(
    model: ForwardModel,
    offset: jax.Array,
    slope: jax.Array,
    centre: jax.Array,
) -> Corrected:
    """Return the model with a correction of readings, (d,), and derivatives, (d, N), at x0, (N,).

    Its record of refined models is that of the model: these need no correction.
    """
    return Corrected(model, AffineModel(*jax.device_put((offset, slope, centre))), model.on_mesh)
