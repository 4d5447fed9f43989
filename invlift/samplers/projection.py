"""Projection of a position back onto the manifold along the normal space of another point."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.samplers.system import ConstrainedSystem

#: Constraint error allowed at a position, relative to the system's scale (Au et al. 2023, 4.2:
#: 1e-9; Graham et al. 2022, Algorithm 1: 1e-9).
CONSTRAINT_TOLERANCE = 1e-10
#: Newton stops once its last move of the position was below this: as convergence is quadratic,
#: the error left is about its square.
MOVE_TOLERANCE = 1e-6
#: Beyond this many iterations a proposal is not worth its cost (Au et al. 2023, section 4.2).
MAX_ITERATIONS = 50


class Projection(NamedTuple):
    """Result of a projection.

    Attributes
    ----------
    position : (Q,)
        origin - J^T lambda.
    multiplier : (d,)
        lambda.
    is_converged : () bool
    num_evaluations : () int
        Evaluations of the constraint and its Jacobian, one factorisation each.
    """

    position: jax.Array
    multiplier: jax.Array
    is_converged: jax.Array
    num_evaluations: jax.Array


def project_position(system: ConstrainedSystem, point, origin: jax.Array) -> Projection:
    """Find lambda with c(origin - J(q)^T lambda) = 0 by Newton's method, from lambda = 0.

    Parameters
    ----------
    system : ConstrainedSystem
    point
        The point q whose normal space is used.
    origin : (Q,)
        The position to project.

    Returns
    -------
    Projection
        Not converged if Newton does not settle within the iterations allowed, or meets a value
        that is not finite.  Whether the constraint holds at the end to tolerance is checked where
        the new point is evaluated.

    Notes
    -----
    Au, Graham & Thiery (2023), section 4.2; Graham, Thiery & Beskos (2022), eq. 13.
    """
    evaluate = system.normal_space(point, origin)

    def is_running(loop):
        _, move, count = loop
        return (move > MOVE_TOLERANCE) & jnp.isfinite(move) & (count < MAX_ITERATIONS)

    def iterate(loop):
        multiplier, _, count = loop
        _, step = evaluate(multiplier)
        move = jnp.max(jnp.abs(system.apply_jacobian_transpose(point, step)))
        return multiplier + step, move, count + 1

    zero = jnp.zeros_like(point.constraint)
    # The move before the first must be finite for the loop to start, and above the tolerance.
    start = (zero, jnp.asarray(jnp.finfo(zero.dtype).max), 0)
    multiplier, move, count = jax.lax.while_loop(is_running, iterate, start)
    position = origin - system.apply_jacobian_transpose(point, multiplier)
    return Projection(position, multiplier, move <= MOVE_TOLERANCE, count)
