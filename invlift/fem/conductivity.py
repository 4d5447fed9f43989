"""From log-conductivity to the conductivity of each cell, with its derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import add

import jax
import jax.numpy as jnp

from invlift.fem import sparse
from invlift.programs.pytrees import Module


class Conductivity(Module):
    """Element mean of exp(phi) for phi given at the nodes or in the cells.

    Attributes
    ----------
    nodes : (k, num_cells) int32
        Coefficients of phi that live on each cell: k = dim + 1 nodes, or k = 1 the cell itself.
    basis : (num_points, k)
        Values of the basis functions at the quadrature points of the reference simplex.
    weights : (num_points,)
        Quadrature weights, summing to one.
    """

    nodes: jax.Array
    basis: jax.Array
    weights: jax.Array

    def __call__(self, log_conductivity: jax.Array) -> jax.Array:
        """Conductivity per cell, (num_cells,), from phi of shape (N,)."""
        return self.weights @ self._at_points(log_conductivity)

    def derivative(self, log_conductivity: jax.Array) -> jax.Array:
        """Derivative of each cell's conductivity by each of its coefficients, (k, num_cells)."""
        at_points = self._at_points(log_conductivity)
        return (self.weights[:, None] * self.basis).T @ at_points

    def along(
        self, log_conductivity: jax.Array, path: Sequence[jax.Array], order: int
    ) -> list[jax.Array]:
        """Derivatives of orders 1 to ``order`` of each cell's conductivity, (num_cells,) each.

        Along the curve phi + t path[0] + t^2 path[1] / 2 + ..., at t = 0; (exp phi)' = phi' exp phi
        is differentiated by Leibniz' rule.
        """
        moves = [self._interpolate(each) for each in path]
        found = [self._at_points(log_conductivity)]
        for n in range(order):
            terms = [math.comb(n, k) * move * found[n - k] for k, move in enumerate(moves[: n + 1])]
            found.append(reduce(add, terms))
        return [self.weights @ each for each in found[1:]]

    def pull_back_derivative(self, log_conductivity: jax.Array, cotangent: jax.Array) -> jax.Array:
        """Gradient of <X, derivative> by each cell's coefficients, for X of (k, num_cells)."""
        at_points = self._at_points(log_conductivity) * (self.basis @ cotangent)
        return (self.weights[:, None] * self.basis).T @ at_points

    def _at_points(self, log_conductivity):
        """exp(phi) at the quadrature points, (num_points, num_cells)."""
        return jnp.exp(self._interpolate(log_conductivity))

    def _interpolate(self, coefficients):
        """A field of coefficients (N,) at the quadrature points, (num_points, num_cells)."""
        return self.basis @ sparse.gather(coefficients, self.nodes)
