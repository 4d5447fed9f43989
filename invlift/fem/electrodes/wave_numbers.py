"""Potentials in three dimensions where the conductivity does not change along y: 2.5-D.

A current I enters at a point of the plane y = 0.  The cosine transform along y gives one equation
for each wave number k in the plane of x and z, -div(exp(phi) grad u_k) + k^2 exp(phi) u_k =
(I/2) delta.  In this plane the potential is (2/pi) times the integral of u_k over k (Dey & Morrison
1979, "Resistivity modelling for arbitrarily shaped two-dimensional structures", Geophys. Prospect.
27, eqs 7 to 13).
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares
from scipy.special import k0

from invlift.fem.equations.equation import EquationFamily, LinearEquation
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import aside

#: Largest relative error of the potential of uniform ground due to the quadrature over k.
TOLERANCE = 1e-4
#: Largest ratio of distances for which there is a rule.
MAX_RATIO = 5e3


def wave_numbers(nearest: float, farthest: float) -> tuple[np.ndarray, np.ndarray]:
    """Return wave numbers k and weights w, (K,) each, of a quadrature rule for integrals over k.

    The integral of K0(k r), the transform of the potential of uniform ground, is pi / (2 r).  The
    rule has the fewest k whose sum of w K0(k r) has this value within the relative error
    :data:`TOLERANCE`.  It is found by nonlinear least squares for k with w eliminated (as Xu, Duan
    & Zhang 2000, "Selection of the wavenumbers k using an optimization method for the inverse
    Fourier transform in 2.5D electrical modelling", Geophys. Prospect. 48, do for both).

    Parameters
    ----------
    nearest, farthest : float
        Range of distances r of the rule, in L; the second is 2 to MAX_RATIO times the first.
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


class WaveNumbers(EquationFamily):
    """Readings summed over K equations that differ only in their element matrices.

    Attributes
    ----------
    equation : LinearEquation
        The equation; ``integrals`` replace those of its terms.
    integrals : tuple of dict
        ``integrals`` and ``shares`` of each
        :class:`~invlift.fem.equations.terms.WeightedTerm`, with the K equations first.
    solutions : tuple
        Empty: no solution is kept.
    on_mesh : OnMesh
    """

    equation: LinearEquation
    integrals: tuple[dict[str, jax.Array], ...]
    on_mesh: OnMesh = aside(OnMesh())

    @property
    def _parameters(self):
        return self.integrals

    def _member(self, parameters):
        pairs = zip(self.equation.terms, parameters, strict=True)
        terms = tuple(replace(term, **of_member) for term, of_member in pairs)
        return replace(self.equation, terms=terms)

    def _join(self, parts):
        return parts.sum(axis=0)

    def _weights(self, weighed):
        num = len(jax.tree.leaves(self.integrals)[0])
        return jnp.broadcast_to(weighed, (num, *weighed.shape))

    def _byproducts(self, parts):
        return {}
