"""Transitions of constrained Hamiltonian Monte Carlo: how far to go, and what to keep."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.samplers.constrained.step import State, build_state, constrained_step, sample_momentum
from invlift.samplers.constrained.target import ConstrainedSystem

#: Trajectories of dynamic length double at most this often: up to 2^7 - 1 steps.
MAX_DOUBLINGS = 7
#: Steps after which a trajectory ends even if its time is not over: where so short steps are needed
#: that it would take more, draws that depend on one another more closely cost less.
MAX_STEPS = 100
#: Range of the integration time around a quarter of the prior's period, pi/2.
JITTER = (0.7, 1.3)


class TransitionInfo(NamedTuple):
    """What one transition did.

    Attributes
    ----------
    acceptance_rate : ()
        Acceptance probability; for dynamic trajectories its average over the trajectory.
    is_accepted : () bool
        Whether the chain moved.
    num_steps : () int
        Integrator steps taken.
    num_projection_failures : () int
        Steps whose projection failed or was not reversible.
    num_factorisations : () int
        Evaluations of constraint and Jacobian, one sparse factorisation each.
    energy : ()
        Hamiltonian at the new state.
    """

    acceptance_rate: jax.Array
    is_accepted: jax.Array
    num_steps: jax.Array
    num_projection_failures: jax.Array
    num_factorisations: jax.Array
    energy: jax.Array


def quarter_period(system: ConstrainedSystem, rng_key: jax.Array, point, step_size: jax.Array):
    """Constrained HMC transition over about a quarter period (Au et al. 2023, Algorithm 3).

    Where the posterior is close to Gaussian, all directions of the lifted state oscillate with
    unit frequency (Au et al. 2023, theorem 1), so that after a quarter period the state has
    forgotten where it was.  The time, (pi/2) Uniform(0.7, 1.3), is randomised against resonance
    and cut into equal steps no longer than ``step_size``, at most 100.

    Parameters
    ----------
    system : ConstrainedSystem
    rng_key : jax.Array
    point
        The system's evaluation at the current position.
    step_size : ()

    Returns
    -------
    point
        At the new position.
    TransitionInfo
    """
    key_momentum, key_time, key_accept = jax.random.split(rng_key, 3)
    start = build_state(point, sample_momentum(system, key_momentum, point))
    low, high = JITTER
    time = 0.5 * jnp.pi * jax.random.uniform(key_time, minval=low, maxval=high)
    time = jnp.minimum(time, MAX_STEPS * step_size)
    num_steps = jnp.ceil(time / step_size).astype(int)
    size = time / num_steps

    def is_running(loop):
        state, count = loop
        return (count < num_steps) & (state.num_failures == 0)

    def advance(loop):
        state, count = loop
        return constrained_step(system, state, size), count + 1

    end, count = jax.lax.while_loop(is_running, advance, (start, 0))
    log_ratio = _energy(start) - _energy(end)
    acceptance = jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
    is_accepted = jax.random.uniform(key_accept) < acceptance
    chosen = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), end, start)
    return chosen.point, TransitionInfo(
        acceptance, is_accepted, count, end.num_failures, end.num_evaluations, _energy(chosen)
    )


def no_u_turn(system: ConstrainedSystem, rng_key: jax.Array, point, step_size: jax.Array):
    """Constrained HMC transition of dynamic length: multinomial NUTS (Betancourt 2017, appendix A).

    Parameters and results as for :func:`quarter_period`.  A failed step ends the trajectory like a
    divergence.
    """
    # Here, as half a second of imports is only worth it where a program is made.
    from blackjax.mcmc.metrics import gaussian_euclidean
    from blackjax.mcmc.nuts import iterative_nuts_proposal

    key_momentum, key_trajectory = jax.random.split(rng_key)
    start = build_state(point, sample_momentum(system, key_momentum, point))
    metric = gaussian_euclidean(jnp.ones_like(start.position))
    propose = iterative_nuts_proposal(
        lambda state, size: constrained_step(system, state, size),
        metric.kinetic_energy,
        metric.check_turning,
        MAX_DOUBLINGS,
    )
    end, info = propose(key_trajectory, start, step_size)
    left, right = info.trajectory_leftmost_state, info.trajectory_rightmost_state
    return end.point, TransitionInfo(
        info.acceptance_rate,
        jnp.any(end.position != start.position),
        info.num_integration_steps,
        left.num_failures + right.num_failures,
        left.num_evaluations + right.num_evaluations,
        info.energy,
    )


def _energy(state: State) -> jax.Array:
    return 0.5 * state.momentum @ state.momentum - state.logdensity
