"""Families of equations that differ only in numbers, with one compiled program for all."""

from __future__ import annotations

import jax

from invlift.fem.equations.equation import LinearEquation
from invlift.models.joined import Joined
from invlift.programs.pytrees import PyTree


class EquationFamily(Joined):
    """Readings that depend linearly on the readings of K equations of one structure.

    A subclass has an ``equation``, and defines :attr:`_parameters`, :meth:`_member` and the
    abstract methods of :class:`~invlift.models.joined.Joined`.  Data of the equations are arrays
    (K, ...).
    """

    @property
    def _parameters(self) -> PyTree:
        """Parameters in which the equations differ: arrays (K, ...)."""
        raise NotImplementedError

    def _member(self, parameters: PyTree) -> LinearEquation:
        """Return the equation of one entry of the parameters."""
        raise NotImplementedError

    @property
    def _models(self):
        return (self.equation,)

    def _each(self, fn, *parts):
        """Apply fn to each equation and its parts, one after another; return results (K, ...)."""

        def one(given):
            parameters, *own = given
            return fn(self._member(parameters), *own)

        return jax.lax.map(one, (self._parameters, *parts))
