"""One reversible step of the constrained dynamics, from a splitting and a retraction.

A step kicks the momentum, follows the flow, and kicks again.  After the flow, the position is moved
back onto the manifold along the normal space at the start.  After each part, the momentum is
projected onto the tangent space.  The flow back must return to the start, or the step fails:
without this check the dynamics would not be reversible (Zappa, Holmes-Cerf & Goodman 2018; Graham,
Thiery & Beskos 2022, section 4.3 and Algorithm 1; Au, Graham & Thiery 2023, Algorithm 2).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.projections import distance_to_manifold, project_momentum
from invlift.samplers.constrained.retractions import POSITION_TOLERANCE, Retraction, retract, work
from invlift.samplers.constrained.splittings import Splitting
from invlift.targets import ConstrainedTarget, Point


class Integrator(NamedTuple):
    """Method of a step: a splitting, a retraction and a return check.

    Attributes
    ----------
    splitting : Splitting
    retraction : Retraction
    ends_early : bool
        Whether the return check stops when its result is nearly certain: see
        :func:`~invlift.samplers.constrained.retractions.retract`.
    is_audited : () bool
        Whether the return check then still runs to convergence, to count different results.
    """

    splitting: Splitting
    retraction: Retraction
    ends_early: bool
    is_audited: bool | jax.Array = False


class State(NamedTuple):
    """Current end of a trajectory.

    Attributes
    ----------
    position, momentum : (Q,)
        A position on the manifold and a momentum in its tangent space.
    logdensity : ()
        l(q) - |q|^2/2, or -inf after a failed step.
    logdensity_grad : (Q,)
    point
        The target's evaluation at the position.
    work : (3,) int
        Sums along the trajectory: see :func:`~invlift.samplers.constrained.retractions.work`.
    num_failures : () int
        Steps along the trajectory that failed.
    """

    position: jax.Array
    momentum: jax.Array
    logdensity: jax.Array
    logdensity_grad: jax.Array
    point: Point
    work: jax.Array
    num_failures: jax.Array


def build_state(point: Point, momentum: jax.Array, done=(0, 0, 0), num_failures=0) -> State:
    """Return the state at a point with a momentum, (Q,), in its tangent space."""
    position = point.position
    return State(
        position,
        momentum,
        point.logdensity - 0.5 * position @ position,
        point.logdensity_grad - position,
        point,
        jnp.asarray(done),
        jnp.asarray(num_failures),
    )


def sample_momentum(target: ConstrainedTarget, rng_key: jax.Array, point: Point) -> jax.Array:
    """Draw a standard normal momentum in the tangent space, (Q,) (Au et al. 2023, Algorithm 3)."""
    momentum = jax.random.normal(rng_key, point.position.shape, point.position.dtype)
    return project_momentum(target, point, momentum)


def constrained_step(
    integrator: Integrator,
    target: ConstrainedTarget,
    state: State,
    step_size: jax.Array,
) -> State:
    """Make one step of size ``step_size`` (negative: backwards in time).

    Parameters
    ----------
    integrator : Integrator
    target : ConstrainedTarget
    state : State
    step_size : ()
        In units of the standard normal distribution's period / (2 pi).  With the Gaussian
        splitting its absolute value must be below pi.

    Returns
    -------
    State
        The new state; after a failure the old position with ``logdensity`` -inf.  A step fails if
        the retraction does not converge, the constraint does not hold, or the flow backwards does
        not return to the start.
    """
    splitting = integrator.splitting
    start = state.point
    half = 0.5 * step_size
    momentum = project_momentum(target, start, state.momentum + half * splitting.force(start))
    time = step_size / splitting.num_inner

    def is_going(loop):
        num_flows, is_good, *_ = loop
        return is_good & (num_flows < 2 * splitting.num_inner)

    def flow(loop):
        """Flow forwards from a new start (even numbers), then back from the end (odd numbers)."""
        number, _, origin, point, momentum, done = loop
        is_there = number % 2 == 0
        origin = jnp.where(is_there, point.position, origin)
        expected = jnp.where(is_there, jnp.inf, origin)
        retracted, moved = _constrained_flow(
            integrator._replace(is_audited=integrator.is_audited & ~is_there),
            target,
            point,
            momentum,
            jnp.where(is_there, time, -time),
            expected,
        )

        def arrive(_):
            new = target.point(retracted.position)
            is_met = distance_to_manifold(target, new) <= POSITION_TOLERANCE
            is_met &= jnp.isfinite(new.logdensity) & retracted.is_converged
            return (
                is_met,
                new,
                project_momentum(target, new, moved),
                work(retracted.is_converged),
            )

        def stay(_):
            return retracted.is_expected, point, momentum, work()

        is_good, point, momentum, extra = jax.lax.cond(
            is_there & retracted.is_converged, arrive, stay, None
        )
        return (
            number + 1,
            is_good,
            origin,
            point,
            momentum,
            done + retracted.work + extra,
        )

    # Both directions share one loop body, so that the program contains the forward map only twice.
    _, is_good, _, new, momentum, done = jax.lax.while_loop(
        is_going,
        flow,
        (0, jnp.asarray(True), start.position, start, momentum, state.work),
    )
    momentum = project_momentum(target, new, momentum + half * splitting.force(new))
    moved = build_state(new, momentum, done, state.num_failures)
    failed = state._replace(
        logdensity=jnp.full_like(state.logdensity, -jnp.inf),
        work=done,
        num_failures=state.num_failures + 1,
    )
    return jax.tree.map(lambda new, old: jnp.where(is_good, new, old), moved, failed)


def _constrained_flow(integrator, target, point, momentum, time, expected):
    """Follow the flow for a time, with an impulse along the normal space at the start."""
    splitting = integrator.splitting
    origin, _ = splitting.flow(point.position, momentum, time)
    retracted = retract(
        integrator.retraction,
        target,
        point,
        origin,
        expected,
        ends_early=integrator.ends_early,
        is_audited=integrator.is_audited,
    )
    impulse = target.apply_jacobian_transpose(point, retracted.multiplier)
    _, moved = splitting.flow(point.position, momentum - impulse / splitting.reach(time), time)
    return retracted, moved
