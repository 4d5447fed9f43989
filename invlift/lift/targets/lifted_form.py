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
    """The target that constrained samplers walk on, of an inverse problem.

    Points on the lifted manifold are (zeta, w, eta), (h + m + d,), where the data hold exactly.
    Positions are the same in the order that suits the problem's structure, without eta where
    readings are exact: then the unknowns are conditioned on the readings themselves (Graham &
    Storkey 2017, section 4).

    As it is here, derivatives are automatic, and in the structure of the problem.  A subclass
    writes what it saves.

    Attributes
    ----------
    problem : InverseProblem
        With h + m unknowns and d readings.
    """

    #: Whether derivatives by all unknowns are dense arrays, with which modes are looked for.
    is_dense: ClassVar[bool] = False

    problem: Any  # of a higher layer, so no type: only its methods are used here

    @property
    def structure(self) -> JacobianStructure | None:
        """That of the problem."""
        return self.problem.structure

    @property
    def order(self) -> tuple[int, ...]:
        """That of the problem."""
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
        """zeta (h,), w (m,) and eta (d,) of a position; eta is 0 of exact readings."""
        theta, eta = jnp.split(self.to_lifted(position), [self.problem.num_unknowns])
        return *self.problem.split(theta), eta

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (Q,), of a point (theta, eta) on the lifted manifold of the whole problem."""
        return self._arranged(self.problem.from_whole(lifted))

    def to_lifted(self, position: jax.Array) -> jax.Array:
        """Point (theta, eta) on the lifted manifold of a position; eta is 0 of exact readings."""
        lifted = jnp.pad(position, (0, self.problem.num_observations - self.num_eta))
        return _permuted(lifted, np.argsort(self.order))

    def lift(self, theta: jax.Array) -> jax.Array:
        """The one position, (Q,), above unknowns (h + m,), at which the data hold; they need not
        where readings are exact.
        """
        problem = self.problem
        zeta, _ = problem.split(theta)
        eta = problem.noise.invert(problem.predict(theta), zeta, problem.observed)
        return self._arranged(jnp.concatenate([theta, eta]))

    def rough_position(self, drawn: jax.Array) -> jax.Array:
        """A position, (Q,), from which the manifold is to be reached, near a standard normal draw:
        above its unknowns.
        """
        return self.lift(self.to_lifted(drawn)[: self.problem.num_unknowns])

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,), in units of the observations."""
        problem, (zeta, white, eta) = self.problem, self.split(position)
        predicted = problem.predict(jnp.concatenate([zeta, white]))
        return predicted - problem.noise.predicted(problem.observed, zeta, eta)

    def logdensity(self, position: jax.Array, gram: GramFactor) -> jax.Array:
        """Log density with respect to the manifold's own measure, relative to the standard normal
        one, (); ``gram`` is the factor of J J^T at the position.
        """
        zeta, white, eta = self.split(position)
        log_density = self.problem.log_reference(zeta, white, eta) - 0.5 * gram.log_determinant()
        return log_density + self.problem.log_factor(jnp.concatenate([zeta, white]))

    def unknowns(self, point: ManifoldPoint) -> jax.Array:
        """All unknowns theta of the whole problem, (h + m,), at a point."""
        lifted = self.to_lifted(point.position)
        return self.problem.to_whole(lifted[: self.problem.num_unknowns])

    def describe(self, point: ManifoldPoint) -> Described:
        """What is kept of a draw, by name, as of the problem; and no moments."""
        return self.problem.whole.described(self.unknowns(point)), {}

    def _arranged(self, lifted):
        """Position, (Q,), of a point on the problem's own lifted manifold."""
        return _permuted(lifted, np.asarray(self.order))[: self.dimension]


def _permuted(values, order):
    """Values in another order of the first of them."""
    return jnp.concatenate([values[order], values[order.size :]]) if order.size else values
