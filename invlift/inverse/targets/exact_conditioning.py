"""Generators conditioned on their exact output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from invlift.inverse.jacobians import Factor, Structure
from invlift.inverse.targets.manifold import ManifoldPoint, ManifoldTarget
from invlift.targets import Described

if TYPE_CHECKING:
    from invlift.inverse.problem import ExactProblem


class ExactConditioning(ManifoldTarget):
    """A generator's inputs, conditioned on its output: data without noise.

    c(w) = F(X(w)) - y, density exp(-|w|^2/2 + r(w)) det(J J^T)^(-1/2) with respect to the
    manifold's own measure (Graham & Storkey 2017, section 4), r for inputs that are not quite
    standard normal.

    Attributes
    ----------
    problem : ExactProblem
        With m inputs and d readings, m > d.
    """

    problem: ExactProblem

    @property
    def structure(self) -> Structure | None:
        """That of the problem."""
        return self.problem.structure

    @property
    def dimension(self) -> int:
        """Number m of inputs."""
        return self.problem.num_unknowns

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (m,), of a point (w, 0) on the lifted manifold."""
        return lifted[: self.dimension]

    def to_lifted(self, position: jax.Array) -> jax.Array:
        """Point (w, 0) on the lifted manifold, (m + d,), of a position."""
        return jnp.pad(position, (0, self.problem.num_observations))

    def unknowns(self, point: ManifoldPoint) -> jax.Array:
        """The inputs w, (m,), at a point."""
        return point.position

    def rough_position(self, drawn: jax.Array) -> jax.Array:
        """A standard normal draw, (m,), from which the manifold is to be reached: itself."""
        return drawn

    def constraint(self, position: jax.Array) -> jax.Array:
        """F(X(w)) - y, (d,)."""
        return self.problem.predict(position) - self.problem.observed

    def logdensity(self, position: jax.Array, gram: Factor) -> jax.Array:
        """r(w) - (1/2) log det J J^T, ()."""
        return self.problem.prior.log_reference(position) - 0.5 * gram.log_determinant()

    def describe(self, point: ManifoldPoint) -> Described:
        """What is kept of a draw, by name, as of the problem; and no moments."""
        return self.problem.described(point.position), {}
