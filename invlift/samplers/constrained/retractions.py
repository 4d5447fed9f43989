"""Retractions: move a position back onto the manifold along the normal space of a point.

They find lambda with c(origin - J^T lambda) = 0, where J is the Jacobian at the point.  The methods
differ only in their correction of lambda.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.projections import normal_move
from invlift.targets import ConstrainedTarget, NormalSpace, Point

#: Largest distance of a position from the manifold, relative for positions larger than 1 (Graham,
#: Thiery & Beskos 2022, Algorithm 1, which compares the last move of the position with it).  Most
#: positions are within 1e-12.  The tolerance is for rounding errors: a reading at a time is a
#: difference of numbers that are up to 1e4 times as large, and with a noise of a thousandth of its
#: range the rounding error is some 1e-7 standard deviations.
POSITION_TOLERANCE = 1e-6
#: Largest difference between a position and the end of the step backwards (same reference).
REVERSIBILITY_TOLERANCE = 2.0 * POSITION_TOLERANCE
#: If the limit of an iteration is known in advance, the iteration can stop early.  It stops once
#: the error is below the first number and has just decreased by the second, a factor (gains:
#: docs/design.md, Retractions).
CERTAIN_ERROR, CERTAIN_CONTRACTION = 1e-3, 0.1
#: Relative residuals of linear systems that are solved by iteration.  The first leaves an error
#: below 1e-12 after a last move of 5e-5.  The second is for a correction that is a small part of
#: the move.
NEWTON_TOLERANCE, CURVATURE_TOLERANCE = 1e-8, 1e-3
#: Largest number of halvings of Newton's move in the line search.
MAX_HALVINGS = 10


def work(num_evaluations=0, num_audits=0, num_disagreements=0) -> jax.Array:
    """Return the three work counters as an array, (3,), so that they can be added.

    They count evaluations of the constraint, with one factorisation each; audited return checks;
    and audited return checks in which the early result differs from the final one.
    """
    return jnp.asarray([num_evaluations, num_audits, num_disagreements])


class Retraction(NamedTuple):
    """A method to solve for lambda.

    Attributes
    ----------
    correct : callable
        ``correct(target, point, space, multiplier)`` returns the change of lambda, (d,), and the
        number of evaluations of the constraint.
    move_tolerance : callable
        ``move_tolerance(space)`` is the tolerance of the last move of the position, at which the
        iteration stops.  The remaining error follows from the order of the method, and is about
        1e-12.
    max_iterations : int
        Largest number of iterations; more would cost more than a new proposal (Au et al. 2023,
        section 4.2, allow Newton's method 50).
    is_superlinear : bool
        Whether convergence is superlinear, so that a fast decrease of the error shows that the
        iteration will reach its limit.
    """

    correct: Callable
    move_tolerance: Callable[[NormalSpace], float]
    max_iterations: int
    is_superlinear: bool


#: Number of moves of "chebyshev" that reuse the matrix of Newton's move, if the space offers only
#: first derivatives.  Each of them raises the order by one.
NUM_REPEATS = 2


def _chebyshev(target, point, space: NormalSpace, multiplier):
    if space.max_derivative > 1:
        return _series(space, multiplier, space.max_derivative)
    local = space.linearise(multiplier)
    change = local.solve(local.residual, NEWTON_TOLERANCE)
    for _ in range(NUM_REPEATS):
        residual = space.residual(multiplier + change)
        change = change + local.solve(residual, CURVATURE_TOLERANCE)
    return change, 1 + NUM_REPEATS


def _chebyshev_tolerance(space: NormalSpace):
    """Return the move tolerance; a move m leaves an error m^4, or m^3 with two derivatives."""
    return 5e-5 if space.max_derivative == 2 else 1e-3


def _newton(target, point, space: NormalSpace, multiplier):
    return _series(space, multiplier, 1)


def _series(space: NormalSpace, multiplier, num_terms):
    local = space.linearise(multiplier)
    path, lower = (local.solve(local.residual, NEWTON_TOLERANCE),), ()
    for _ in range(1, num_terms):
        bend, lower = local.derivative(path, lower)
        path = (*path, local.solve(bend, CURVATURE_TOLERANCE))
    return sum(term / math.factorial(order) for order, term in enumerate(path, 1)), 1


def _newton_line_search(target, point, space: NormalSpace, multiplier):
    local = space.linearise(multiplier)
    full = local.solve(local.residual, NEWTON_TOLERANCE)
    before = normal_move(target, point, local.residual)

    def is_worse(search):
        _, after, count = search
        return ~(after < before) & (count < MAX_HALVINGS)

    def halve(search):
        scale, _, count = search
        scale = 0.5 * scale
        after = normal_move(target, point, space.residual(multiplier + scale * full))
        return scale, after, count + 1

    # The first candidate is the full move; at round-off no move is better.
    start = (jnp.asarray(2.0), jnp.asarray(jnp.inf), 0)
    scale, _, count = jax.lax.while_loop(is_worse, halve, start)
    is_settled = before <= 1e-3 * POSITION_TOLERANCE
    return jnp.where(is_settled, full, scale * full), 1 + count


def _symmetric_newton(target, point, space: NormalSpace, multiplier):
    return target.solve_gram(point, space.residual(multiplier)), 1


#: Retractions by name.
#: "chebyshev": third or fourth order.  It sums the first terms of the Taylor series at t = 1 of the
#: curve c(lambda(t)) = (1 - t) c(lambda(0)), along which c decreases to zero (Traub 1964, section
#: 5.1).  The terms are Newton's move, the curvature of c along it and, if the space offers it, the
#: third derivative along both.  If the space offers neither, two more moves with the matrix of
#: Newton's move give fourth order (Shamanskii 1967; Kelley 1995, section 5.4.3).
#: "newton": the first term, second order (Au et al. 2023, section 4.2).
#: "newton-line-search": Newton's move, halved until the residual decreases.  The norm of the
#: residual is that of the normal move that corrects it, which does not depend on the units of the
#: constraint (Deuflhard 2004, section 3.3).
#: "symmetric-newton": J J^T at the point replaces Newton's matrix.  It is of first order, but needs
#: only values of the constraint (Barth et al. 1995; Au et al. 2023, section 4.2).
RETRACTIONS: dict[str, Retraction] = {
    "chebyshev": Retraction(_chebyshev, _chebyshev_tolerance, 20, True),
    "newton": Retraction(_newton, lambda _: 1e-7, 50, True),
    "newton-line-search": Retraction(_newton_line_search, lambda _: 1e-7, 50, True),
    "symmetric-newton": Retraction(_symmetric_newton, lambda _: 1e-11, 50, False),
}


class Retracted(NamedTuple):
    """Result of a retraction.

    Attributes
    ----------
    position : (Q,)
        origin - J^T lambda.
    multiplier : (d,)
        lambda.
    is_converged : () bool
    is_expected : () bool
        Whether the iteration converges to the expected position.
    work : (3,) int
        See :func:`work`.
    """

    position: jax.Array
    multiplier: jax.Array
    is_converged: jax.Array
    is_expected: jax.Array
    work: jax.Array


def retract(
    retraction: Retraction,
    target: ConstrainedTarget,
    point: Point,
    origin: jax.Array,
    expected: jax.Array,
    *,
    ends_early: bool,
    is_audited: bool | jax.Array = False,
) -> Retracted:
    """Find lambda with c(origin - J(q)^T lambda) = 0.

    The iteration starts from the solution of the constraint linearised at q.  (A start with the
    curvature at q saves almost nothing, and is worse for long steps.)

    Parameters
    ----------
    retraction : Retraction
    target : ConstrainedTarget
    point
        The point q whose normal space is used.
    origin : (Q,)
        The position to move onto the manifold.
    expected : (Q,)
        Expected result of the retraction, if it is known, as in the return check of a step; else
        infinite.
    ends_early : bool
        Whether a superlinear method stops as soon as it is nearly at the expected position.
    is_audited : () bool
        Whether to iterate to convergence nevertheless, use this result, and count whether the
        early result differs from it.

    Returns
    -------
    Retracted
        Not converged if the iteration exceeds its limit, or meets a value that is not finite.  The
        caller evaluates the new point, and checks there that the constraint holds to tolerance.

    Notes
    -----
    Au, Graham & Thiery (2023), section 4.2; Graham, Thiery & Beskos (2022), eq. 13; both with
    Newton's method from lambda = 0.
    """
    space = target.on_normal_space(point, origin)
    tolerance = REVERSIBILITY_TOLERANCE * jnp.maximum(1.0, jnp.max(jnp.abs(expected)))
    may_end_early = ends_early and retraction.is_superlinear
    is_audited = jnp.asarray(is_audited) & may_end_early
    stops_early = may_end_early & ~is_audited
    move_tolerance = retraction.move_tolerance(space)

    def error_of(multiplier):
        position = origin - target.apply_jacobian_transpose(point, multiplier)
        return jnp.max(jnp.abs(position - expected))

    def is_running(loop):
        _, move, _, is_expected, _, _, count = loop
        is_settled = (move <= move_tolerance) | (is_expected & stops_early)
        is_lost = ~jnp.isfinite(move) | (count >= retraction.max_iterations)
        return ~is_settled & ~is_lost

    def iterate(loop):
        multiplier, _, before, _, is_early, num_evaluations, count = loop
        change, spent = retraction.correct(target, point, space, multiplier)
        multiplier = multiplier + change
        move = jnp.max(jnp.abs(target.apply_jacobian_transpose(point, change)))
        error = error_of(multiplier)
        is_expected = (error <= tolerance) & jnp.isfinite(error)
        if may_end_early:
            # The iterations that would still be needed must be within the limit: one more at the
            # expected position, two if it is only certain to get there.
            is_there = (move <= move_tolerance) | (count + 2 <= retraction.max_iterations)
            is_certain = (error <= CERTAIN_ERROR) & (error <= CERTAIN_CONTRACTION * before)
            is_certain &= count + 3 <= retraction.max_iterations
            is_early |= (is_expected & is_there) | is_certain
            is_expected = jnp.where(is_audited, is_expected, is_early)
        return multiplier, move, error, is_expected, is_early, num_evaluations + spent, count + 1

    linear = point.constraint + target.apply_jacobian(point, origin - point.position)
    start = target.solve_gram(point, linear)
    # The initial value of the move must be finite and above the tolerance, or the loop does not
    # start.
    unmoved = jnp.asarray(jnp.finfo(origin.dtype).max)
    no = jnp.asarray(False)
    first = (start, unmoved, error_of(start), no, no, 0, 0)
    last = jax.lax.while_loop(is_running, iterate, first)
    multiplier, move, _, is_expected, is_early, num_evaluations, _ = last
    position = origin - target.apply_jacobian_transpose(point, multiplier)
    is_settled = move <= move_tolerance
    is_converged = is_settled | (is_expected & stops_early)
    is_expected &= is_converged
    done = work(num_evaluations, is_audited, is_audited & (is_early != is_expected))
    return Retracted(position, multiplier, is_converged, is_expected, done)
