"""One reversible step of the constrained dynamics by Gaussian splitting.

The Hamiltonian |q|^2/2 + |p|^2/2 - l(q) is split into h1 = -l, a kick of the momentum, and
h2 = (|q|^2 + |p|^2)/2, whose flow is a rotation; each is followed by a projection (Graham, Thiery
& Beskos 2022, section 4.3 and Algorithm 1).  For a linear constraint the step is exact at any size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from invlift.samplers.constrained.retractions import CONSTRAINT_TOLERANCE, project_position
from invlift.samplers.constrained.target import ConstrainedSystem, project_momentum


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
        The system's evaluation at the position.
    num_evaluations, num_failures : () int
        Counted along the trajectory: factorisations, and steps that failed.
    """

    position: jax.Array
    momentum: jax.Array
    logdensity: jax.Array
    logdensity_grad: jax.Array
    point: Any
    num_evaluations: jax.Array
    num_failures: jax.Array


def build_state(point, momentum: jax.Array, num_evaluations=0, num_failures=0) -> State:
    """State at a point with a momentum, (Q,), in its tangent space."""
    position = point.position
    return State(
        position,
        momentum,
        point.logdensity - 0.5 * position @ position,
        point.logdensity_grad - position,
        point,
        jnp.asarray(num_evaluations),
        jnp.asarray(num_failures),
    )


def sample_momentum(system: ConstrainedSystem, rng_key: jax.Array, point) -> jax.Array:
    """Standard normal momentum in the tangent space, (Q,) (Au et al. 2023, Algorithm 3)."""
    momentum = jax.random.normal(rng_key, point.position.shape, point.position.dtype)
    return project_momentum(system, point, momentum)


def constrained_step(system: ConstrainedSystem, state: State, step_size: jax.Array) -> State:
    """One step of size ``step_size`` (negative: backwards in time).

    Parameters
    ----------
    system : ConstrainedSystem
    state : State
    step_size : ()
        In units of the prior's own period / (2 pi); below pi in size.

    Returns
    -------
    State
        After a failure (no convergence, constraint not met, or the step backwards does not return
        to the start) the old position with ``logdensity`` -inf.
    """
    start = state.point
    half = 0.5 * step_size
    momentum = project_momentum(system, start, state.momentum + half * start.logdensity_grad)

    def is_going(loop):
        leg, is_good, *_ = loop
        return is_good & (leg < 2)

    def go(loop):
        """Rotate: first there (leg 0), then back (leg 1) from the new point."""
        leg, _, point, momentum, count = loop
        is_there = leg == 0
        angle = jnp.where(is_there, step_size, -step_size)
        expected = jnp.where(is_there, jnp.inf, start.position)
        projection, rotated = _rotate(system, point, momentum, angle, expected)

        def arrive(_):
            new = system.point(projection.position)
            violation = jnp.max(jnp.abs(new.constraint)) / system.constraint_scale
            is_met = (violation < CONSTRAINT_TOLERANCE) & jnp.isfinite(new.logdensity)
            return is_met, new, project_momentum(system, new, rotated), 1

        def stay(_):
            return projection.is_expected, point, momentum, 0

        is_good, point, momentum, extra = jax.lax.cond(
            is_there & projection.is_converged, arrive, stay, None
        )
        return leg + 1, is_good, point, momentum, count + projection.num_evaluations + extra

    # There and back share one loop body: the program holds the forward map only twice.
    _, is_good, new, momentum, count = jax.lax.while_loop(
        is_going, go, (0, jnp.asarray(True), start, momentum, state.num_evaluations)
    )
    momentum = project_momentum(system, new, momentum + half * new.logdensity_grad)
    moved = build_state(new, momentum, count, state.num_failures)
    failed = state._replace(
        logdensity=jnp.full_like(state.logdensity, -jnp.inf),
        num_evaluations=count,
        num_failures=state.num_failures + 1,
    )
    return jax.tree.map(lambda new, old: jnp.where(is_good, new, old), moved, failed)


def _rotate(system, point, momentum, angle, expected):
    """Rotate (q, p), projecting the new position along the normal space at the old one."""
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    origin = cosine * point.position + sine * momentum
    projection = project_position(system, point, origin, expected)
    impulse = system.apply_jacobian_transpose(point, projection.multiplier) / sine
    rotated = cosine * (momentum - impulse) - sine * point.position
    return projection, rotated
