"""The lifted posterior of an inverse problem, by automatic differentiation."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.jacobians import GramFactor, JacobianStructure
from invlift.lift.targets.manifold import ManifoldPoint, ManifoldTarget
from invlift.targets import Described


class Lifted(ManifoldTarget):
    """Target of constrained samplers for an inverse problem.

    Points on the lifted manifold are (zeta, w, eta), (h + m + d,), at which the data hold exactly.
    Positions have the same entries in the order of the problem's structure.  They have no eta if
    readings are exact: the unknowns are then conditioned on the readings themselves (Graham &
    Storkey 2017, section 4).

    Here derivatives are automatic, and in the structure of the problem.  A subclass overrides what
    it can compute at less cost.

    Attributes
    ----------
    problem : InverseProblem
        With h + m unknowns and d readings.
    """

    #: True if derivatives by all unknowns are dense arrays, as the search for modes needs.
    is_dense: ClassVar[bool] = False

    problem: Any  # of a higher layer, so no type: only its methods are used here

    @property
    def structure(self) -> JacobianStructure | None:
        """Structure of the Jacobian, from the problem."""
        return self.problem.structure

    @property
    def order(self) -> tuple[int, ...]:
        """Order of the unknowns, from the problem."""
        return self.problem.order

    @property
    def num_eta(self) -> int:
        """Number of noise variables: d, or 0 where readings are exact."""
        return 0 if self.problem.noise.is_exact else self.problem.num_observations

    @property
    def dimension(self) -> int:
        """Dimension Q of the ambient space: all unknowns, and the noise variables."""
        return self.problem.num_unknowns + self.num_eta

    def split(self, position: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Split a position into zeta (h,), w (m,) and eta (d,); eta is 0 for exact readings."""
        theta, eta = jnp.split(self.to_lifted(position), [self.problem.num_unknowns])
        return *self.problem.split(theta), eta

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (Q,), of a point (theta, eta) on the lifted manifold of the whole problem."""
        return self._arranged(self.problem.from_whole(lifted))

    def to_lifted(self, position: jax.Array) -> jax.Array:
        """Point (theta, eta) on the lifted manifold at a position; eta is 0 for exact readings."""
        lifted = jnp.pad(position, (0, self.problem.num_observations - self.num_eta))
        return _permuted(lifted, np.argsort(self.order))

    def lift(self, theta: jax.Array) -> jax.Array:
        """Return the position, (Q,), of unknowns (h + m,) with the noise that explains the data.

        Exact readings have no noise, and the data need not hold.
        """
        problem = self.problem
        zeta, _ = problem.split(theta)
        eta = problem.noise.invert(problem.predict(theta), zeta, problem.observed)
        return self._arranged(jnp.concatenate([theta, eta]))

    def rough_position(self, drawn: jax.Array) -> jax.Array:
        """Return a position, (Q,), near a standard normal draw, for moves onto the manifold.

        It is :meth:`lift` of the draw's unknowns.
        """
        return self.lift(self.to_lifted(drawn)[: self.problem.num_unknowns])

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,), in units of the observations."""
        problem, (zeta, white, eta) = self.problem, self.split(position)
        predicted = problem.predict(jnp.concatenate([zeta, white]))
        return predicted - problem.noise.predicted(problem.observed, zeta, eta)

    def logdensity(self, position: jax.Array, gram: GramFactor) -> jax.Array:
        """Log density, (), on the manifold, relative to the standard normal one.

        The density is with respect to the manifold's own measure; ``gram`` is the factor of J J^T
        at the position.
        """
        zeta, white, eta = self.split(position)
        log_density = self.problem.log_reference(zeta, white, eta) - 0.5 * gram.log_determinant()
        return log_density + self.problem.log_factor(jnp.concatenate([zeta, white]))

    def unknowns(self, point: ManifoldPoint) -> jax.Array:
        """All unknowns theta of the whole problem, (h + m,), at a point."""
        lifted = self.to_lifted(point.position)
        return self.problem.to_whole(lifted[: self.problem.num_unknowns])

    def describe(self, point: ManifoldPoint) -> Described:
        """Return the values stored with a draw, by name, and no moments."""
        return self.problem.whole.described(self.unknowns(point)), {}

    def _arranged(self, lifted):
        """Return the position, (Q,), of a point on the lifted manifold of this problem."""
        return _permuted(lifted, np.asarray(self.order))[: self.dimension]


def _permuted(values, order):
    """Permute the first values by ``order``; the others keep their places."""
    return jnp.concatenate([values[order], values[order.size :]]) if order.size else values
