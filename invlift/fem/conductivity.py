"""From log-conductivity to the conductivity of each cell, with its derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from invlift.fem import sparse
from invlift.pytrees import pytree


@pytree
@dataclass(frozen=True)
class Conductivity:
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

    def directional(
        self, log_conductivity: jax.Array, direction: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """First and second derivative of each cell's conductivity along a direction (N,)."""
        along = self._interpolate(direction)
        first = self._at_points(log_conductivity) * along
        return self.weights @ first, self.weights @ (first * along)

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
