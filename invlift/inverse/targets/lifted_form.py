"""What lifted forms that problems bring themselves have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from invlift.inverse.targets.manifold import ManifoldPoint, ManifoldTarget
from invlift.targets import Described

if TYPE_CHECKING:
    from invlift.inverse.problem import InverseProblem


class LiftedForm(ManifoldTarget):
    """A problem's own lifted form, in place of the general one: a subclass writes what it saves.

    Points on the lifted manifold are (theta, eta), (h + m + d,), as of the general form
    (:class:`~invlift.inverse.targets.lifted.LiftedPosterior`).  A position is the same, without eta
    where readings are exact; a subclass with another order writes `from_lifted` and `to_lifted`.

    Attributes
    ----------
    problem : InverseProblem
        With h + m unknowns and d readings.
    """

    problem: InverseProblem

    @property
    def num_eta(self) -> int:
        """Number of noise variables: d, or 0 where readings are exact."""
        return 0 if self.problem.noise.is_exact else self.problem.num_observations

    @property
    def dimension(self) -> int:
        """Dimension Q of the ambient space: all unknowns, and the noise variables."""
        return self.problem.num_unknowns + self.num_eta

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (Q,), of a point (theta, eta) on the lifted manifold."""
        return lifted[: self.dimension]

    def to_lifted(self, position: jax.Array) -> jax.Array:
        """Point (theta, eta) on the lifted manifold of a position; eta is 0 of exact readings."""
        return jnp.pad(position, (0, self.problem.num_observations - self.num_eta))

    def unknowns(self, point: ManifoldPoint) -> jax.Array:
        """All unknowns theta, (h + m,), at a point."""
        return self.to_lifted(point.position)[: self.problem.num_unknowns]

    def rough_position(self, drawn: jax.Array) -> jax.Array:
        """A position, (Q,), from which the manifold is to be reached: a standard normal draw."""
        return drawn

    def describe(self, point: ManifoldPoint) -> Described:
        """What is kept of a draw, by name, as of the problem; and no moments."""
        return self.problem.described(self.unknowns(point)), {}
