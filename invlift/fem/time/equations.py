"""Models of readings in time: linear combinations of the readings of shifted equations."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from invlift.fem.equations.equation import EquationFamily, LinearEquation
from invlift.models.joined import Joined
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import aside, static


class ShiftedEquations(EquationFamily):
    """Readings of one equation for each of K shifts, (K r,), shift by shift.

    Attributes
    ----------
    equation : LinearEquation
        An equation with r readings; its last term is the storage.
    shifts : (K,)
        Factors of the storage term, in one over time.
    """

    equation: LinearEquation
    shifts: jax.Array

    @property
    def solutions(self) -> tuple[str, ...]:
        """Names of the solutions of the equation; each solution is (K, num_nodes)."""
        return self.equation.solutions

    @property
    def _parameters(self):
        return self.shifts

    def _member(self, parameters):
        *others, last = self.equation.terms
        return replace(self.equation, terms=(*others, last.scaled(parameters)))

    def _join(self, parts):
        return parts.reshape(-1, *parts.shape[2:])

    def _weights(self, weighed):
        split = weighed.reshape(*weighed.shape[:-1], self.shifts.size, -1)
        return jnp.moveaxis(split, -2, 0)

    def _byproducts(self, parts):
        return parts.byproducts


class SteadyAndShifted(Joined):
    """Readings of the initial steady state, followed by the readings of the shifted equations.

    Readings at times are linear combinations of these:
    :class:`~invlift.models.joined.Combinations`.

    Attributes
    ----------
    steady : LinearEquation
        An equation with p readings and a load for each of X experiments.
    shifted : ShiftedEquations
        Equations with L loads, one for a unit of each value that changes.
    weights : (X, T, L, K)
        Weights of the shifted solutions in the solution of each experiment at each of T times.
    solutions : tuple of X T str
        Names of the solutions at these times.
    on_mesh : OnMesh
        Its fields are those of the equation with the storage, which may be an additional field.
    error : float or None
        Largest relative error of the response of any mode.
    """

    steady: LinearEquation
    shifted: ShiftedEquations
    weights: jax.Array
    solutions: tuple[str, ...] = static()
    on_mesh: OnMesh = aside(OnMesh())
    error: float | None = aside()

    @property
    def _models(self):
        return self.steady, self.shifted

    def _join(self, parts):
        return jnp.concatenate(parts)

    def _weights(self, weighed):
        return jnp.split(weighed, [self.steady.loads.size], axis=-1)

    def _byproducts(self, parts):
        steady, shifted = (
            jnp.stack([part.byproducts[name] for name in model.solutions])
            for model, part in zip(self._models, parts, strict=True)
        )
        fields = steady[:, None] + jnp.einsum("xtlk,lkn->xtn", self.weights, shifted)
        return dict(zip(self.solutions, fields.reshape(-1, fields.shape[-1]), strict=True))
