"""Densities on manifolds given by JAX functions, with Jacobians of any structure."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.lift.jacobians import ConstraintJacobian, GramFactor, JacobianStructure, differentiate
from invlift.programs.derivatives import derivatives_along
from invlift.programs.pytrees import Module
from invlift.targets import Described, LocalConstraint, Slopes


class ManifoldPoint(NamedTuple):
    """A position, and the values computed there.

    Attributes
    ----------
    position : (Q,)
    constraint : (d,)
    jacobian : ConstraintJacobian
    gram : GramFactor
        Factor of J J^T, (d, d).
    logdensity : ()
        Relative to the standard normal one.
    logdensity_grad : (Q,)
    """

    position: jax.Array
    constraint: jax.Array
    jacobian: ConstraintJacobian
    gram: GramFactor
    logdensity: jax.Array
    logdensity_grad: jax.Array


class ManifoldTarget(Module):
    """A density on the manifold {q : c(q) = 0}, with c from (Q,) to (d,).

    A subclass implements ``constraint`` and ``logdensity``, and may have a ``structure``.  Without
    one the Jacobian is dense, which suits some hundred constraints.  The force is the derivative of
    the log density, including its part through the Jacobian.
    """

    #: Name of the function that :meth:`slopes` differentiates.
    differentiated: ClassVar[str] = "constraint"

    @property
    def structure(self) -> JacobianStructure | None:
        """Structure of the constraint's derivatives by the last variables; None if dense.

        See :func:`invlift.lift.jacobians.differentiate`.
        """
        return None

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,)."""
        raise NotImplementedError

    def logdensity(self, position: jax.Array, gram: GramFactor) -> jax.Array:
        """Log density, (), on the manifold, relative to the standard normal one.

        The density is with respect to the manifold's own measure; ``gram`` is the factor of J J^T
        at the position.
        """
        raise NotImplementedError

    def linearise(self, position: jax.Array) -> tuple[jax.Array, ConstraintJacobian]:
        """c(q), (d,), and its Jacobian."""
        return differentiate(self.constraint, position, self.structure)

    def point(self, position: jax.Array) -> ManifoldPoint:
        """Evaluate everything at a position, (Q,)."""

        def evaluate(position):
            value, jacobian = self.linearise(position)
            gram = jacobian.inner()
            return self.logdensity(position, gram), (value, jacobian, gram)

        density, grad = jax.value_and_grad(evaluate, has_aux=True)(position)
        logdensity, (value, jacobian, gram) = density
        return ManifoldPoint(position, value, jacobian, gram, logdensity, grad)

    def apply_jacobian(self, point: ManifoldPoint, vector: jax.Array) -> jax.Array:
        """J v, (d,)."""
        return point.jacobian.apply(vector)

    def apply_jacobian_transpose(self, point: ManifoldPoint, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (Q,)."""
        return point.jacobian.apply_transpose(multiplier)

    def solve_gram(self, point: ManifoldPoint, rhs: jax.Array) -> jax.Array:
        """(J J^T)^-1 rhs, (d,)."""
        return point.gram.solve(rhs)

    def on_normal_space(self, point: ManifoldPoint, origin: jax.Array) -> ManifoldNormalSpace:
        """Return the constraint on the normal space of a point through ``origin``, (Q,)."""
        return ManifoldNormalSpace(self, point.jacobian, origin)

    def slopes(self, position: jax.Array, direction: jax.Array) -> Slopes:
        """Differentiate the constraint along a direction, (Q,), scaled to change it by about 1."""
        point, still = self.point(position), jnp.zeros_like(position)
        value, first, second = derivatives_along(self.constraint, (position, direction, still))
        scale = 1.0 / jnp.maximum(1.0, jnp.max(jnp.abs(first)))
        slope = self.apply_jacobian(point, direction)
        return Slopes(point, value, scale * slope, scale * first, scale**2 * second, scale)

    def describe(self, point: ManifoldPoint) -> Described:
        """Return the position by name, and no moments."""
        return {"position": point.position}, {}


class ManifoldNormalSpace(NamedTuple):
    """The map lambda -> c(origin - J^T lambda), with J at a point on the manifold."""

    target: ManifoldTarget
    jacobian: ConstraintJacobian
    origin: jax.Array

    @property
    def max_derivative(self) -> int:
        """Highest derivative: 2, as for a model with automatic differentiation."""
        return 2

    def residual(self, multiplier: jax.Array) -> jax.Array:
        """The constraint at lambda, (d,) to (d,)."""
        return self.target.constraint(self._at(multiplier))

    def linearise(self, multiplier: jax.Array) -> LocalConstraint:
        """The constraint at lambda, (d,), and its derivatives along the normal space there."""
        position = self._at(multiplier)
        value, jacobian = self.target.linearise(position)
        factor = jacobian.inner(self.jacobian)

        def derivative(path, lower):
            moves = (-self.jacobian.apply_transpose(each) for each in path)
            curve = (position, *moves, jnp.zeros_like(position))
            return derivatives_along(self.target.constraint, curve)[-1], lower

        return LocalConstraint(value, lambda rhs, _: factor.solve(rhs), derivative)

    def _at(self, multiplier):
        return self.origin - self.jacobian.apply_transpose(multiplier)
