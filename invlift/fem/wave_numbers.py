"""Fields that vary in three dimensions over a conductivity that does not along one: 2.5-D.

The conductivity is the same all along y, a current enters at a point of y = 0.  Its cosine
transform across turns the equation of the potential into one for each wave number k, in the plane
of x and z, -div(exp(phi) grad u_k) + k^2 exp(phi) u_k = (I/2) delta, and in this plane the
potential is (2/pi) times the integral of u_k over k (Dey & Morrison 1979, "Resistivity modelling
for arbitrarily shaped two-dimensional structures", Geophys. Prospect. 27, eqs 7 to 13).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from scipy.optimize import least_squares
from scipy.special import k0

from invlift.fem.equation import Expansion, LinearEquation
from invlift.fem.sensors import Sensors
from invlift.fem.terms import Element
from invlift.inverse.models.base import ForwardModel
from invlift.programs.pytrees import aside

#: Largest relative error of the potential of uniform ground that comes from the wave numbers.
TOLERANCE = 1e-4


def wave_numbers(nearest: float, farthest: float) -> tuple[np.ndarray, np.ndarray]:
    """Wave numbers k and weights w, (K,) each, with which integrals over k become sums.

    The integral of K0(k r), the transform of the potential of uniform ground, is pi / (2 r).  The
    fewest k are taken whose sums w K0(k r) are this within a share of :data:`TOLERANCE`, by
    nonlinear least squares for k with w eliminated (as Xu, Duan & Zhang 2000, "Selection of the
    wavenumbers k using an optimization method for the inverse Fourier transform in 2.5D electrical
    modelling", Geophys. Prospect. 48, do for both).

    Parameters
    ----------
    nearest, farthest : float
        Distances r between which this holds, in L, the second 2 to 5,000 times the first.
    """
    distances = np.geomspace(nearest, farthest, 200)

    def fitted(log_wave_numbers):
        terms = 2.0 / np.pi * k0(np.outer(distances, np.exp(log_wave_numbers)))
        terms *= distances[:, None]
        weights = np.linalg.lstsq(terms, np.ones(len(terms)))[0]
        return weights, terms @ weights - 1.0

    for num in itertools.count(2):
        first = np.linspace(np.log(0.3 / farthest), np.log(2.0 / nearest), num)
        best = least_squares(lambda x: fitted(x)[1], first, max_nfev=50).x
        weights, errors = fitted(best)
        if np.abs(errors).max() < TOLERANCE and weights.min() > 0.0:
            return np.exp(best), weights


class WaveNumbers(ForwardModel):
    """Readings summed over K equations that differ in their elements alone.

    Attributes
    ----------
    equation : LinearEquation
        Its readings are summed, for ``elements`` in the place of those of its terms.
    elements : tuple of Element
        Those of each term, with the K equations first.
    solutions : tuple
        Empty: none is kept.
    sensors : Sensors or None
        Those that are read.
    """

    equation: LinearEquation
    elements: tuple[Element, ...]
    sensors: Sensors | None = aside()

    coefficients_name = LinearEquation.coefficients_name
    max_derivative = LinearEquation.max_derivative
    # It asks for the Jacobian alone.
    push_forward = LinearEquation.push_forward

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Readings, (d,), for coefficients (N,)."""
        return self._map(lambda each: each(coefficients)).sum(axis=0)

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N)."""
        return self.linearise(coefficients)[0]

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Expansions]:
        """:meth:`value_and_jacobian`, and what each equation's further derivatives need."""

        def linearised(each):
            linear, expansion = each.linearise(coefficients)
            return linear, expansion._replace(jacobian=None)

        (values, jacobians), parts = self._map(linearised)
        jacobian = jacobians.sum(axis=0)
        return (values.sum(axis=0), jacobian), Expansions(parts, jacobian)

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, Expansions]:
        """Readings, (d,), and what directional derivatives need."""
        values, parts = self._map(lambda each: each.expand(coefficients))
        return values.sum(axis=0), Expansions(parts)

    def pull_back(
        self,
        expansion: Expansions,
        pushed: jax.Array,
        weigh: Callable[[jax.Array], jax.Array],
    ) -> jax.Array:
        """Gradient of <W, J D> by the coefficients, (N,): the sum of those of the equations."""
        weighed = weigh(pushed)
        gradients = self._map(
            lambda each, own: each.pull_back(own, pushed, lambda _: weighed), expansion.parts
        )
        return gradients.sum(axis=0)

    def derivative(self, expansion: Expansions, direction: jax.Array) -> jax.Array:
        """Derivative of the readings, (d,), along a direction, (N,)."""
        found = self._map(lambda each, own: each.derivative(own, direction), expansion.parts)
        return found.sum(axis=0)

    def higher_derivative(
        self, expansion: Expansions, path: tuple[jax.Array, ...], lower: tuple = ()
    ) -> tuple[jax.Array, tuple]:
        """Derivative of the readings along a curve: see :class:`LinearEquation`."""
        found, lower = self._map(
            lambda each, own, low: each.higher_derivative(own, path, low), expansion.parts, lower
        )
        return found.sum(axis=0), lower

    def _map(self, fn, *parts):
        """Results of the equations, (K, ...), by one program for all: fn of each and its parts."""

        def one(given):
            elements, *own = given
            pairs = zip(self.equation.terms, elements, strict=True)
            terms = tuple(replace(term, element=element) for term, element in pairs)
            return fn(replace(self.equation, terms=terms), *own)

        return jax.lax.map(one, (self.elements, *parts))


class Expansions(NamedTuple):
    """Where the equations were solved.

    Attributes
    ----------
    parts : Expansion
        Of all equations, (K, ...) each, without Jacobians.
    jacobian : (d, N) or None
        Of the sums.
    """

    parts: Expansion
    jacobian: jax.Array | None = None

    @property
    def byproducts(self) -> dict[str, jax.Array]:
        """None."""
        return {}
