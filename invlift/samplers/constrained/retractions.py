"""Projection of a position back onto the manifold along the normal space of another point."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.samplers.constrained.target import ConstrainedSystem

#: Constraint error allowed at a position, relative to the system's scale (Au et al. 2023, 4.2:
#: 1e-9; Graham et al. 2022, Algorithm 1: 1e-9).
CONSTRAINT_TOLERANCE = 1e-10
#: The iteration stops once its last move of the position was below this: as convergence is of
#: third order, the error left is about its cube.
MOVE_TOLERANCE = 5e-5
#: Beyond this many iterations a proposal is not worth its cost (Au et al. 2023, section 4.2, allow
#: Newton's method 50).
MAX_ITERATIONS = 20
#: Largest difference of a position from where the step backwards arrives (Graham, Thiery & Beskos
#: 2022, Algorithm 1: twice the position tolerance of 1e-8), relative to positions larger than 1.
REVERSIBILITY_TOLERANCE = 2e-8
#: An iteration whose limit is known in advance need not be followed to the end: it is taken to get
#: there once it is this close and has just come closer by this factor, being of third order (what
#: that is worth: docs/design.md, Projection).
CERTAIN_ERROR, CERTAIN_CONTRACTION = 1e-3, 0.1


class Projection(NamedTuple):
    """Result of a projection.

    Attributes
    ----------
    position : (Q,)
        origin - J^T lambda.
    multiplier : (d,)
        lambda.
    is_converged : () bool
    is_expected : () bool
        Whether the limit is the expected position.
    num_evaluations : () int
        Evaluations of the constraint and its Jacobian, one factorisation each.
    """

    position: jax.Array
    multiplier: jax.Array
    is_converged: jax.Array
    is_expected: jax.Array
    num_evaluations: jax.Array


def project_position(
    system: ConstrainedSystem, point, origin: jax.Array, expected: jax.Array
) -> Projection:
    """Find lambda with c(origin - J(q)^T lambda) = 0 by Chebyshev's method.

    It starts from the lambda that solves the constraint linearised at q.  (Its curvature there,
    counted in as well, saves next to nothing and leads astray where a step is long.)

    Parameters
    ----------
    system : ConstrainedSystem
    point
        The point q whose normal space is used.
    origin : (Q,)
        The position to project.
    expected : (Q,)
        Where the projection is expected to end, if that is known, as on the way back of a step:
        the iteration stops as soon as this is certain.  Infinite where it is not known.

    Returns
    -------
    Projection
        Not converged if the iteration does not settle within the number allowed, or meets a value
        that is not finite.  Whether the constraint holds at the end to tolerance is checked where
        the new point is evaluated.

    Notes
    -----
    Au, Graham & Thiery (2023), section 4.2; Graham, Thiery & Beskos (2022), eq. 13; both with
    Newton's method from lambda = 0.
    """
    step = system.normal_space(point, origin)
    tolerance = REVERSIBILITY_TOLERANCE * jnp.maximum(1.0, jnp.max(jnp.abs(expected)))

    def error_of(multiplier):
        position = origin - system.apply_jacobian_transpose(point, multiplier)
        return jnp.max(jnp.abs(position - expected))

    def is_running(loop):
        _, move, _, is_expected, count = loop
        is_settled = (move <= MOVE_TOLERANCE) | is_expected
        return ~is_settled & jnp.isfinite(move) & (count < MAX_ITERATIONS)

    def iterate(loop):
        multiplier, _, before, _, count = loop
        change = step(multiplier)
        multiplier = multiplier + change
        move = jnp.max(jnp.abs(system.apply_jacobian_transpose(point, change)))
        error = error_of(multiplier)
        # Two more would settle it: they must be among the iterations allowed.
        is_certain = (error <= CERTAIN_ERROR) & (error <= CERTAIN_CONTRACTION * before)
        is_certain &= count + 3 <= MAX_ITERATIONS
        is_there = (error <= tolerance) & jnp.isfinite(error)
        return multiplier, move, error, is_certain | is_there, count + 1

    linear = point.constraint + system.apply_jacobian(point, origin - point.position)
    start = system.solve_gram(point, linear)
    # The move before the first must be finite for the loop to start, and above the tolerance.
    unmoved = jnp.asarray(jnp.finfo(origin.dtype).max)
    multiplier, move, _, is_expected, count = jax.lax.while_loop(
        is_running, iterate, (start, unmoved, error_of(start), jnp.asarray(False), 0)
    )
    position = origin - system.apply_jacobian_transpose(point, multiplier)
    is_converged = (move <= MOVE_TOLERANCE) | is_expected
    return Projection(position, multiplier, is_converged, is_expected, count)
