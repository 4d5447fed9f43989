"""What constrained samplers ask of a target: a density on the manifold where a constraint vanishes.

The target on {q : c(q) = 0} has density exp(-|q|^2/2 + l(q)) with respect to the manifold's own
measure.  Samplers see it through the functions of :class:`ConstrainedSystem` alone, so that they
run on a circle as well as on the lifted posterior of a partial differential equation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from invlift.derivatives import second_directional
from invlift.pytrees import pytree


class ConstrainedSystem(Protocol):
    """A pytree with these members; Q is the ambient dimension, d the number of constraints.

    A *point* is a NamedTuple with at least ``position`` (Q,), ``constraint`` (d,), ``logdensity``
    () and ``logdensity_grad`` (Q,), the last two of l, and whatever the methods below need.
    """

    constraint_scale: jax.Array

    def point(self, position: jax.Array) -> Any:
        """Evaluate everything at a position, (Q,)."""
        ...

    def apply_jacobian(self, point: Any, vector: jax.Array) -> jax.Array:
        """J v, (Q,) to (d,)."""
        ...

    def apply_jacobian_transpose(self, point: Any, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (d,) to (Q,)."""
        ...

    def solve_gram(self, point: Any, rhs: jax.Array) -> jax.Array:
        """(J J^T)^-1 rhs, (d,) to (d,)."""
        ...

    def normal_space(self, point: Any, origin: jax.Array) -> Callable:
        """lambda -> correction to lambda, (d,), towards c(origin - J^T lambda) = 0.

        Of third order (Chebyshev's method): c and its derivatives at one position.
        """
        ...


def project_momentum(system: ConstrainedSystem, point, momentum: jax.Array) -> jax.Array:
    """Orthogonal projection of a momentum, (Q,), onto the tangent space (Au et al. 2023, eq. 5)."""
    multiplier = system.solve_gram(point, system.apply_jacobian(point, momentum))
    return momentum - system.apply_jacobian_transpose(point, multiplier)


class DensePoint(NamedTuple):
    """Point of a :class:`DenseSystem`.

    Attributes
    ----------
    position : (Q,)
    constraint : (d,)
    jacobian : (d, Q)
    lower : (d, d)
        Cholesky factor of the Gram matrix.
    logdensity : ()
    logdensity_grad : (Q,)
    """

    position: jax.Array
    constraint: jax.Array
    jacobian: jax.Array
    lower: jax.Array
    logdensity: jax.Array
    logdensity_grad: jax.Array


@pytree
@dataclass(frozen=True)
class DenseSystem:
    """A system from two JAX functions, with everything dense: for small and for test problems.

    Attributes
    ----------
    constraint_fn : callable
        c, (Q,) to (d,).
    logdensity_fn : callable
        l, (Q,) to (): log density relative to the standard normal one, with respect to the
        manifold's own measure.
    """

    constraint_fn: Callable = field(metadata={"static": True})
    logdensity_fn: Callable = field(metadata={"static": True})

    @property
    def constraint_scale(self) -> jax.Array:
        """One: constraints are taken to be of order one."""
        return jnp.asarray(1.0)

    def point(self, position: jax.Array) -> DensePoint:
        """Evaluate everything at a position, (Q,)."""
        jacobian = jax.jacrev(self.constraint_fn)(position)
        value, grad = jax.value_and_grad(self.logdensity_fn)(position)
        lower = jnp.linalg.cholesky(jacobian @ jacobian.T)
        return DensePoint(position, self.constraint_fn(position), jacobian, lower, value, grad)

    def apply_jacobian(self, point: DensePoint, vector: jax.Array) -> jax.Array:
        """J v, (d,)."""
        return point.jacobian @ vector

    def apply_jacobian_transpose(self, point: DensePoint, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (Q,)."""
        return multiplier @ point.jacobian

    def solve_gram(self, point: DensePoint, rhs: jax.Array) -> jax.Array:
        """(J J^T)^-1 rhs, (d,)."""
        return jax.scipy.linalg.cho_solve((point.lower, True), rhs)

    def normal_space(self, point: DensePoint, origin: jax.Array) -> Callable:
        """lambda -> correction to lambda, (d,), by Chebyshev's method."""

        def step(multiplier):
            position = origin - multiplier @ point.jacobian
            matrix = jax.jacrev(self.constraint_fn)(position) @ point.jacobian.T
            factor = jax.scipy.linalg.lu_factor(matrix)
            newton = jax.scipy.linalg.lu_solve(factor, self.constraint_fn(position))
            curvature = second_directional(
                self.constraint_fn, (position,), (newton @ point.jacobian,)
            )
            return newton + jax.scipy.linalg.lu_solve(factor, 0.5 * curvature)

        return step
