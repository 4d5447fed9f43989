"""The posterior with combinations of its readings lifted, in variables with a reference.

Positions are (xi, v, eta): unknowns in a reference that has what is not lifted, and the noise
variables of the k combinations: see :mod:`invlift.inverse.partly_lifted`.
"""

from __future__ import annotations

from typing import ClassVar

import jax

from invlift.inverse.partly_lifted import Lift, partly_lifted_problem
from invlift.inverse.problem import InverseProblem
from invlift.inverse.targets.lifted import LiftedPosterior, NormalSpace, Point
from invlift.programs.pytrees import Module
from invlift.targets import Described, Slopes


class PartlyLiftedPosterior(Module):
    """The target that constrained samplers walk on.  Build it with :func:`partly_lifted`.

    Attributes
    ----------
    problem : InverseProblem
        Of whose lifted points positions are made.
    lift : Lift
    inner : LiftedPosterior
        Of the combinations: its positions are those of this target.
    """

    differentiated: ClassVar[str] = LiftedPosterior.differentiated

    problem: InverseProblem
    lift: Lift
    inner: LiftedPosterior

    @property
    def dimension(self) -> int:
        """Dimension h + m + k of the ambient space."""
        return self.inner.dimension

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (h + m + k,), of a point on the lifted manifold of the problem."""
        return self.inner.lift(self.lift.whiten(lifted[: self.problem.num_unknowns]))

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (k,), in standard deviations of known noise, or units of the readings."""
        return self.inner.constraint(position)

    def point(self, position: jax.Array) -> Point:
        """As :meth:`LiftedPosterior.point`."""
        return self.inner.point(position)

    def apply_jacobian(self, point: Point, vector: jax.Array) -> jax.Array:
        """J v, (k,)."""
        return self.inner.apply_jacobian(point, vector)

    def apply_jacobian_transpose(self, point: Point, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (h + m + k,)."""
        return self.inner.apply_jacobian_transpose(point, multiplier)

    def solve_gram(self, point: Point, rhs: jax.Array) -> jax.Array:
        """G^-1 rhs, (k,)."""
        return self.inner.solve_gram(point, rhs)

    def on_normal_space(self, point: Point, origin: jax.Array) -> NormalSpace:
        """As :meth:`LiftedPosterior.on_normal_space`."""
        return self.inner.on_normal_space(point, origin)

    def slopes(self, position: jax.Array, direction: jax.Array) -> Slopes:
        """As :meth:`LiftedPosterior.slopes`, of the combinations."""
        return self.inner.slopes(position, direction)

    def unknowns(self, point: Point) -> jax.Array:
        """Theta = (zeta, w), (h + m,), at a point."""
        return self.lift.colour(self.inner.unknowns(point))

    def describe(self, point: Point) -> Described:
        """What is kept of a draw, with all readings, and that of which only moments are."""
        asked = self.inner.problem.asked
        kept = asked.describe(self.unknowns(point), point.coefficients, point.predicted)
        return kept, point.byproducts


def partly_lifted(
    problem: InverseProblem, lift: Lift, condensed: InverseProblem
) -> PartlyLiftedPosterior:
    """The target with combinations of a problem's readings lifted.

    Parameters
    ----------
    problem : InverseProblem
    lift : Lift
    condensed : InverseProblem
        With which starts are looked for: the problem itself, or one of fewer numbers.
    """
    inner = LiftedPosterior(partly_lifted_problem(problem, lift))
    return PartlyLiftedPosterior(condensed, lift, inner)
