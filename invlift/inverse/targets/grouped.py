"""The lifted posterior of readings in groups, of which each has unknowns of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from invlift.inverse.jacobians import Factor
from invlift.inverse.jacobians.grouped import Grouped, Grouping
from invlift.inverse.targets.lifted_form import LiftedForm
from invlift.programs.pytrees import static


class GroupedPosterior(LiftedForm):
    """The lifted posterior, at a cost linear in the number of readings and of groups.

    Positions are those of the general lift
    (:class:`~invlift.inverse.targets.lifted.LiftedPosterior`) with the unknowns in the order of the
    grouping; constraint and density are its as well.  The noise has no unknowns of its own.

    Attributes
    ----------
    grouping : Grouping
    """

    grouping: Grouping = static()

    @property
    def structure(self) -> Grouped:
        """That of the grouping."""
        return self.grouping.structure

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (m + d,), of a point (w, eta) on the lifted manifold."""
        return lifted[self._order]

    def to_lifted(self, position: jax.Array) -> jax.Array:
        """Point (w, eta) on the lifted manifold, (m + d,), of a position."""
        return position[np.argsort(self._order)]

    def rough_position(self, drawn: jax.Array) -> jax.Array:
        """The one position, (m + d,), on the manifold above the unknowns of a draw."""
        white, _ = self._split(drawn)
        problem = self.problem
        eta = problem.noise.invert(problem.predict(white), white[:0], problem.observed)
        return self.from_lifted(jnp.concatenate([white, eta]))

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,), in units of the observations."""
        white, eta = self._split(position)
        problem = self.problem
        return problem.predict(white) - problem.noise.predicted(problem.observed, white[:0], eta)

    def logdensity(self, position: jax.Array, gram: Factor) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        white, eta = self._split(position)
        return self.problem.log_reference(white[:0], white, eta) - 0.5 * gram.log_determinant()

    @property
    def _order(self):
        order = np.asarray(self.grouping.order)
        return np.concatenate([order, np.arange(order.size, self.dimension)])

    def _split(self, position):
        return jnp.split(self.to_lifted(position), [self.problem.num_unknowns])
