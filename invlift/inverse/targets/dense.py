"""Densities on manifolds given by JAX functions, with everything dense: for small dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.derivatives import derivatives_along
from invlift.inverse.models.base import ForwardModel
from invlift.inverse.priors.base import Prior
from invlift.inverse.targets.protocols import LocalConstraint, NormalSolves
from invlift.pytrees import Module, static


class DensePoint(NamedTuple):
    """A position, and all that is known there.

    Attributes
    ----------
    position : (Q,)
    constraint : (d,)
    jacobian : (d, Q)
    lower : (d, d)
        Cholesky factor of the Gram matrix.
    logdensity : ()
        Relative to the standard normal one.
    logdensity_grad : (Q,)
    """

    position: jax.Array
    constraint: jax.Array
    jacobian: jax.Array
    lower: jax.Array
    logdensity: jax.Array
    logdensity_grad: jax.Array


class DenseTarget(Module):
    """A density on {q : c(q) = 0}, (Q,) to (d,), with dense matrices.

    A subclass writes ``constraint`` and ``logdensity``, the log density relative to the standard
    normal one with respect to the manifold's own measure.
    """

    @property
    def solves_of_point(self) -> int:
        """Right-hand sides that a model solves for at a point: not counted."""
        return 0

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,)."""
        raise NotImplementedError

    def logdensity(self, position: jax.Array) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        raise NotImplementedError

    def point(self, position: jax.Array) -> DensePoint:
        """Evaluate everything at a position, (Q,)."""
        jacobian = jax.jacrev(self.constraint)(position)
        value, grad = jax.value_and_grad(self.logdensity)(position)
        lower = jnp.linalg.cholesky(jacobian @ jacobian.T)
        return DensePoint(position, self.constraint(position), jacobian, lower, value, grad)

    def apply_jacobian(self, point: DensePoint, vector: jax.Array) -> jax.Array:
        """J v, (d,)."""
        return point.jacobian @ vector

    def apply_jacobian_transpose(self, point: DensePoint, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (Q,)."""
        return multiplier @ point.jacobian

    def solve_gram(self, point: DensePoint, rhs: jax.Array) -> jax.Array:
        """(J J^T)^-1 rhs, (d,)."""
        return jax.scipy.linalg.cho_solve((point.lower, True), rhs)

    def on_normal_space(self, point: DensePoint, origin: jax.Array) -> DenseNormalSpace:
        """The constraint on the normal space of a point through ``origin``, (Q,)."""
        return DenseNormalSpace(self, point.jacobian, origin)

    def describe(self, point: DensePoint) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """The position, and nothing of which only moments are kept."""
        return {"position": point.position}, {}


class DenseNormalSpace(NamedTuple):
    """lambda -> c(origin - J^T lambda), J (d, Q) taken at a point on the manifold."""

    target: DenseTarget
    jacobian: jax.Array
    origin: jax.Array

    @property
    def solves(self) -> NormalSolves:
        """Not counted."""
        return NormalSolves()

    @property
    def max_derivative(self) -> int:
        """As of a model by automatic differentiation."""
        return 2

    def residual(self, multiplier: jax.Array) -> jax.Array:
        """The constraint at lambda, (d,) to (d,)."""
        return self.target.constraint(self.origin - multiplier @ self.jacobian)

    def linearise(self, multiplier: jax.Array) -> LocalConstraint:
        """The constraint at lambda, (d,), and its derivatives along the normal space there."""
        position = self.origin - multiplier @ self.jacobian
        matrix = jax.jacrev(self.target.constraint)(position) @ self.jacobian.T
        factor = jax.scipy.linalg.lu_factor(matrix)

        def derivative(path, lower):
            moves = (-each @ self.jacobian for each in path)
            curve = (position, *moves, jnp.zeros_like(position))
            return derivatives_along(self.target.constraint, curve)[-1], lower

        return LocalConstraint(
            self.target.constraint(position),
            lambda rhs, _: (jax.scipy.linalg.lu_solve(factor, rhs), 0),
            derivative,
        )


class ExplicitManifold(DenseTarget):
    """A density on a manifold {q : c(q) = 0} with respect to its own measure.

    No Gram matrix enters the density: it is given on the manifold itself, a sphere say (Brubaker,
    Salzmann & Urtasun 2012).

    Attributes
    ----------
    constraint_fn : callable
        c, (Q,) to (d,), with a Jacobian of full rank where it vanishes.
    logdensity_fn : callable
        Log density with respect to the manifold's own measure, (Q,) to (), up to a constant.
    """

    constraint_fn: Callable = static()
    logdensity_fn: Callable = static()

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,)."""
        return self.constraint_fn(position)

    def logdensity(self, position: jax.Array) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        return self.logdensity_fn(position) + 0.5 * position @ position


class ExactConditioning(DenseTarget):
    """A generator's standard normal inputs, conditioned on its output: data without noise.

    c(u) = F(X(u)) - y, density exp(-|u|^2/2) det(J J^T)^(-1/2) with respect to the manifold's own
    measure (Graham & Storkey 2017, section 4).

    Attributes
    ----------
    model : ForwardModel
        Coefficients (N,) to observations (d,).
    prior : Prior
        Inputs u (m,), m > d, to coefficients (N,).
    observed : (d,)
        y.
    """

    model: ForwardModel
    prior: Prior
    observed: jax.Array

    @property
    def dimension(self) -> int:
        """Number m of inputs."""
        return self.prior.num_white

    def constraint(self, position: jax.Array) -> jax.Array:
        """F(X(u)) - y, (d,)."""
        return self.model(self.prior.transform(position)) - self.observed

    def logdensity(self, position: jax.Array) -> jax.Array:
        """-(1/2) log det J J^T, ()."""
        jacobian = jax.jacrev(self.constraint)(position)
        return -0.5 * jnp.linalg.slogdet(jacobian @ jacobian.T)[1]

    def describe(self, point: DensePoint) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """Coefficients, under the model's name for them, and the prior's unknown parameters."""
        kept = self.model.describe(self.prior.transform(point.position))
        return kept | self.prior.parameters(point.position), {}
