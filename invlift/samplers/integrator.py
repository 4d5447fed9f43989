"""One reversible step of the constrained dynamics by Gaussian splitting.

The Hamiltonian |q|^2/2 + |p|^2/2 - l(q) is split into h1 = -l, a kick of the momentum, and
h2 = (|q|^2 + |p|^2)/2, whose flow is a rotation; each is followed by a projection (Graham, Thiery
& Beskos 2022, section 4.3 and Algorithm 1).  For a linear constraint the step is exact at any size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from invlift.samplers.projection import CONSTRAINT_TOLERANCE, project_position
from invlift.samplers.system import ConstrainedSystem, project_momentum

#: Largest difference of a position from where the step backwards arrives (Graham, Thiery & Beskos
#: 2022, Algorithm 1: twice the position tolerance of 1e-8).
REVERSIBILITY_TOLERANCE = 2e-8


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
    point = state.point
    half = 0.5 * step_size
    momentum = project_momentum(system, point, state.momentum + half * point.logdensity_grad)
    forward, rotated = _rotate(system, point, momentum, step_size)

    def arrive(_):
        new_point = system.point(forward.position)
        new_momentum = project_momentum(system, new_point, rotated)
        backward, _ = _rotate(system, new_point, new_momentum, -step_size)
        error = jnp.max(jnp.abs(backward.position - point.position))
        is_reversible = backward.is_converged & (error < REVERSIBILITY_TOLERANCE)
        violation = jnp.max(jnp.abs(new_point.constraint)) / system.constraint_scale
        is_good = (
            is_reversible & (violation < CONSTRAINT_TOLERANCE) & jnp.isfinite(new_point.logdensity)
        )
        kicked = new_momentum + half * new_point.logdensity_grad
        new_momentum = project_momentum(system, new_point, kicked)
        return is_good, new_point, new_momentum, 1 + backward.num_evaluations

    def give_up(_):
        return jnp.asarray(False), point, momentum, jnp.zeros_like(forward.num_evaluations)

    is_good, new_point, new_momentum, extra = jax.lax.cond(
        forward.is_converged, arrive, give_up, None
    )
    count = state.num_evaluations + forward.num_evaluations + extra
    moved = build_state(new_point, new_momentum, count, state.num_failures)
    failed = state._replace(
        logdensity=jnp.full_like(state.logdensity, -jnp.inf),
        num_evaluations=count,
        num_failures=state.num_failures + 1,
    )
    return jax.tree.map(lambda new, old: jnp.where(is_good, new, old), moved, failed)


def _rotate(system, point, momentum, angle):
    """Rotate (q, p), projecting the new position along the normal space at the old one."""
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    projection = project_position(system, point, cosine * point.position + sine * momentum)
    impulse = system.apply_jacobian_transpose(point, projection.multiplier) / sine
    rotated = cosine * (momentum - impulse) - sine * point.position
    return projection, rotated
