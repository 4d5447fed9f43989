"""Projection onto the tangent space, and distance from a manifold."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.targets import ConstrainedTarget, Point


def project_momentum(target: ConstrainedTarget, point: Point, momentum: jax.Array) -> jax.Array:
    """Project a momentum, (Q,), orthogonally onto the tangent space (Au et al. 2023, eq. 5)."""
    multiplier = target.solve_gram(point, target.apply_jacobian(point, momentum))
    return momentum - target.apply_jacobian_transpose(point, multiplier)


def normal_move(target: ConstrainedTarget, point: Point, violation: jax.Array) -> jax.Array:
    """Return the largest entry, (), of the shortest move that changes the constraint by (d,).

    The move is to first order at the point.  It does not depend on the units and scales of the
    constraints.
    """
    multiplier = target.solve_gram(point, violation)
    return jnp.max(jnp.abs(target.apply_jacobian_transpose(point, multiplier)))


def distance_to_manifold(target: ConstrainedTarget, point: Point) -> jax.Array:
    """Return the size, (), of the Newton step from a point onto the manifold.

    It is relative to the size of the position if that is larger than 1.  NaN where the constraint
    or its Jacobian is not finite.
    """
    size = jnp.maximum(1.0, jnp.max(jnp.abs(point.position)))
    return normal_move(target, point, point.constraint) / size
