"""Projections at a point of a manifold: onto its tangent space, and back onto the manifold."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.targets import ConstrainedTarget, Point


def project_momentum(target: ConstrainedTarget, point: Point, momentum: jax.Array) -> jax.Array:
    """Orthogonal projection of a momentum, (Q,), onto the tangent space (Au et al. 2023, eq. 5)."""
    multiplier = target.solve_gram(point, target.apply_jacobian(point, momentum))
    return momentum - target.apply_jacobian_transpose(point, multiplier)


def normal_move(target: ConstrainedTarget, point: Point, violation: jax.Array) -> jax.Array:
    """Largest entry, (), of the shortest move of a position that changes the constraint by (d,).

    To first order at the point.  What a violation means for the position does not depend on the
    units of the constraints, nor on how one compares with another.
    """
    multiplier = target.solve_gram(point, violation)
    return jnp.max(jnp.abs(target.apply_jacobian_transpose(point, multiplier)))


def distance_to_manifold(target: ConstrainedTarget, point: Point) -> jax.Array:
    """Newton's move from a point back onto the manifold, (), relative to positions larger than 1.

    Not a number where the constraint or its Jacobian is not finite.
    """
    size = jnp.maximum(1.0, jnp.max(jnp.abs(point.position)))
    return normal_move(target, point, point.constraint) / size
