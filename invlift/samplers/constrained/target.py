"""What constrained samplers ask of a target: a density on the manifold where a constraint vanishes.

The target on {q : c(q) = 0} has density exp(-|q|^2/2 + l(q)) with respect to the manifold's own
measure.  Samplers see it through the functions of :class:`ConstrainedTarget` alone, so that they
run on a sphere as well as on the lifted posterior of a partial differential equation.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp


class NormalSpace(Protocol):
    """The constraint on a normal space: lambda -> c(origin - J^T lambda).

    Attributes
    ----------
    max_derivative : int
        Order of the derivatives of the constraint along curves up to which they cost less than they
        save, 2 or 3.
    """

    max_derivative: int

    def residual(self, multiplier: jax.Array) -> jax.Array:
        """The constraint at lambda, (d,) to (d,)."""
        ...

    def linearise(self, multiplier: jax.Array) -> Any:
        """The constraint at lambda and its derivatives along the normal space.

        With the members ``residual`` (d,), ``solve(rhs, tolerance)`` and ``derivative(path,
        lower)``: see
        :class:`invlift.inverse.targets.protocols.LocalConstraint`.
        """
        ...


class ConstrainedTarget(Protocol):
    """A pytree with these members; Q is the ambient dimension, d the number of constraints.

    A *point* is a NamedTuple with at least ``position`` (Q,), ``constraint`` (d,), ``logdensity``
    () and ``logdensity_grad`` (Q,), the last two of l, and whatever the methods below need.
    """

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

    def on_normal_space(self, point: Any, origin: jax.Array) -> NormalSpace:
        """The constraint on the normal space of a point through ``origin``, (Q,)."""
        ...

    def describe(self, point: Any) -> tuple[dict, dict]:
        """What is kept of a draw, and that of which only moments are: arrays by name."""
        ...


def project_momentum(target: ConstrainedTarget, point, momentum: jax.Array) -> jax.Array:
    """Orthogonal projection of a momentum, (Q,), onto the tangent space (Au et al. 2023, eq. 5)."""
    multiplier = target.solve_gram(point, target.apply_jacobian(point, momentum))
    return momentum - target.apply_jacobian_transpose(point, multiplier)


def normal_move(target: ConstrainedTarget, point, violation: jax.Array) -> jax.Array:
    """Largest entry, (), of the shortest move of a position that changes the constraint by (d,).

    To first order at the point.  What a violation means for the position does not depend on the
    units of the constraints, nor on how one compares with another.
    """
    multiplier = target.solve_gram(point, violation)
    return jnp.max(jnp.abs(target.apply_jacobian_transpose(point, multiplier)))


def distance_to_manifold(target: ConstrainedTarget, point) -> jax.Array:
    """Newton's move from a point back onto the manifold, (), relative to positions larger than 1.

    Not a number where the constraint or its Jacobian is not finite.
    """
    size = jnp.maximum(1.0, jnp.max(jnp.abs(point.position)))
    return normal_move(target, point, point.constraint) / size
