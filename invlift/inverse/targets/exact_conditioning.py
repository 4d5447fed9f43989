"""Generators conditioned on their exact output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

from invlift.inverse.jacobians import Factor, Structure
from invlift.inverse.targets.lifted_form import LiftedForm

if TYPE_CHECKING:
    from invlift.inverse.problem import ExactProblem


class ExactConditioning(LiftedForm):
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

    def constraint(self, position: jax.Array) -> jax.Array:
        """F(X(w)) - y, (d,)."""
        return self.problem.predict(position) - self.problem.observed

    def logdensity(self, position: jax.Array, gram: Factor) -> jax.Array:
        """r(w) - (1/2) log det J J^T, ()."""
        return self.problem.prior.log_reference(position) - 0.5 * gram.log_determinant()
