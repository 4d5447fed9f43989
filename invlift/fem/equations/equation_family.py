"""Equations that differ in numbers alone: one program for all of them."""

from __future__ import annotations

import jax

from invlift.fem.equations.equation import LinearEquation
from invlift.models.joined import Joined
from invlift.programs.pytrees import PyTree


class EquationFamily(Joined):
    """Readings that depend linearly on those of K equations of one structure.

    A subclass has an ``equation``, and writes :attr:`_parameters`, :meth:`_member` and what
    :class:`~invlift.models.joined.Joined` asks for: what belongs to the equations comes as
    arrays (K, ...).
    """

    @property
    def _parameters(self) -> PyTree:
        """What tells the equations apart: arrays (K, ...)."""
        raise NotImplementedError

    def _member(self, parameters: PyTree) -> LinearEquation:
        """The equation of one entry of the parameters."""
        raise NotImplementedError

    @property
    def _models(self):
        return (self.equation,)

    def _each(self, fn, *parts):
        """Results of the equations, (K, ...): fn of each and its parts, one after the other."""

        def one(given):
            parameters, *own = given
            return fn(self._member(parameters), *own)

        return jax.lax.map(one, (self._parameters, *parts))
