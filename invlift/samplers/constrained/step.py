"""One reversible step of the constrained dynamics, from a splitting and a retraction.

A step kicks the momentum, follows the flow with the position moved back onto the manifold along the
normal space at its start, and kicks again; the momentum is projected onto the tangent space after
each part.  The flow back must return to the start, or the step fails: without this check the
dynamics would not be reversible (Zappa, Holmes-Cerf & Goodman 2018; Graham, Thiery & Beskos 2022,
section 4.3 and Algorithm 1; Au, Graham & Thiery 2023, Algorithm 2).
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
    """How a step is made.

    Attributes
    ----------
    splitting : Splitting
    retraction : Retraction
    ends_early : bool
        Whether the way back is followed only until its end is nearly certain: see
        :func:`~invlift.samplers.constrained.retractions.retract`.
    is_audited : () bool
        Whether it is then followed to its end nevertheless, to count where that decides otherwise.
    """

    splitting: Splitting
    retraction: Retraction
    ends_early: bool
    is_audited: bool | jax.Array = False


class State(NamedTuple):
    """Where a trajectory is.

    Attributes
    ----------
    position, momentum : (Q,)
        On the manifold and in its tangent space.
    logdensity : ()
        l(q) - |q|^2/2, or -inf after a failed step.
    logdensity_grad : (Q,)
    point
        The target's evaluation at the position.
    work : (3,) int
        Counted along the trajectory: see :func:`~invlift.samplers.constrained.retractions.work`.
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
    """State at a point with a momentum, (Q,), in its tangent space."""
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
    """Standard normal momentum in the tangent space, (Q,) (Au et al. 2023, Algorithm 3)."""
    momentum = jax.random.normal(rng_key, point.position.shape, point.position.dtype)
    return project_momentum(target, point, momentum)


def constrained_step(
    integrator: Integrator,
    target: ConstrainedTarget,
    state: State,
    step_size: jax.Array,
) -> State:
    """One step of size ``step_size`` (negative: backwards in time).

    Parameters
    ----------
    integrator : Integrator
    target : ConstrainedTarget
    state : State
    step_size : ()
        In units of the standard normal distribution's own period / (2 pi); with the Gaussian
        splitting below pi in size.

    Returns
    -------
    State
        After a failure (no convergence, constraint not met, or the flow backwards does not return
        to the start) the old position with ``logdensity`` -inf.
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
        """Flow there from a new start (even numbers), then back from where that led (odd)."""
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

    # There and back share one loop body: the program holds the forward map only twice.
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
    """Flow for a time, with an impulse along the normal space at the start."""
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
