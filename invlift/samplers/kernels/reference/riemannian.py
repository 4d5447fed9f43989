"""Riemannian HMC: trajectories in a metric that depends on the position.

With a metric M(theta) the Hamiltonian is

    H(theta, p) = -log pi(theta) + (1/2) log det M(theta) + (1/2) p^T M(theta)^-1 p

(Girolami & Calderhead 2011, eq. 13).  The generalised leapfrog method keeps volume and is
reversible, where its implicit equations are solved (Leimkuhler & Reich 2004, section 6.3; Girolami
& Calderhead 2011, eqs 14 to 16):

    p* = p - (h/2) dH/dtheta(theta, p*)
    theta' = theta + (h/2) (M(theta)^-1 + M(theta')^-1) p*
    p' = p* - (h/2) dH/dtheta(theta', p*)

They are solved by fixed-point iteration.  The step back from (theta', p') is solved in the same
way.  If an iteration does not converge, or the step back does not return to p* and theta, the
trajectory ends and is rejected: without this check the transition would not be reversible (Brofos &
Lederman 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from invlift.files.tables import integer, number
from invlift.programs.pytrees import PyTree
from invlift.samplers.kernels.base import (
    DIVERGENCES,
    Kernel,
    Standards,
    acceptance_probability,
    statistics,
)
from invlift.samplers.kernels.reference.metrics import METRICS, metric_of
from invlift.targets import Density

#: Relative tolerances: of the last move of a converged iteration, and of the return of a step back.
SETTLED, RETURNED = 1e-10, 2e-8
#: Largest number of iterations.
MAX_ITERATIONS = 100


class RiemannianState(NamedTuple):
    """A position and the terms of the Hamiltonian there that do not depend on the momentum.

    Attributes
    ----------
    position : (Q,)
    logdensity : ()
    gradient : (Q,)
        Gradient of the log density.
    lower : (Q, Q)
        Cholesky factor of the metric.
    """

    position: jax.Array
    logdensity: jax.Array
    gradient: jax.Array
    lower: jax.Array


class Trajectory(NamedTuple):
    """The current end of a trajectory.

    Attributes
    ----------
    state
        Position with the terms of the Hamiltonian that do not depend on the momentum.
    momentum : (Q,)
    count, num_evaluations : () int
        Steps taken, and evaluations of the model.
    has_failed : () bool
    """

    state: PyTree
    momentum: jax.Array
    count: jax.Array
    num_evaluations: jax.Array
    has_failed: jax.Array


def decided(
    rng_key: jax.Array,
    start: Trajectory,
    num_steps: int | jax.Array,
    advance: Callable[[Trajectory], Trajectory],
    energy: Callable[[Trajectory], jax.Array],
) -> tuple[Trajectory, Trajectory, jax.Array, jax.Array]:
    """Simulate a trajectory to its end, and accept or reject the end.

    Parameters
    ----------
    rng_key : jax.Array
        Key of the Metropolis decision.
    start : Trajectory
    num_steps : () int
        A step that fails ends the trajectory, which is then rejected.
    advance, energy : callable
        Function that makes one step, and function that returns the Hamiltonian, ().

    Returns
    -------
    chosen, end : Trajectory
        The next state of the chain, and the end of the trajectory.
    acceptance_rate, is_accepted : ()
    """

    def is_running(trajectory):
        return (trajectory.count < num_steps) & ~trajectory.has_failed

    end = jax.lax.while_loop(is_running, advance, start)
    log_ratio = jnp.where(end.has_failed, -jnp.inf, energy(start) - energy(end))
    acceptance = acceptance_probability(log_ratio)
    is_accepted = jax.random.uniform(rng_key) < acceptance
    chosen = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), end, start)
    return chosen, end, acceptance, is_accepted


class RiemannianHMC(Kernel, settings=True):
    """Riemannian HMC with a fixed number of steps (Girolami & Calderhead 2011).

    Attributes
    ----------
    metric : {"fisher", "softabs"}
        "fisher": Fisher information plus prior precision (Girolami & Calderhead 2011).  "softabs":
        smoothed absolute values of the Hessian's eigenvalues, at least 1 (Betancourt 2013); it
        differentiates the forward map three times, and is for few unknowns.
    num_steps : int
        Steps of each trajectory.
    target_acceptance : float
        Acceptance rate to which the step size is adapted.
    """

    standards: ClassVar[Standards] = DIVERGENCES._replace(
        min_acceptance=0.5,
        failures_in_words="trajectories ended at an implicit step without a solution, or diverged",
        failures_in_brief="steps failed",
    )

    step_sizes: ClassVar[tuple[float, float]] = (1e-6, 3.0)

    metric: METRICS = "fisher"
    num_steps: integer(1, 10_000) = 10
    target_acceptance: number(0.01, 0.99) = 0.8

    def init(self, target: Density, position: jax.Array) -> RiemannianState:
        """Evaluate the log density, its gradient and the metric at a position, (Q,)."""
        return self._state(target, position, metric_of(target, self.metric)(position))

    def _state(self, target: Density, position, metric) -> RiemannianState:
        logdensity, gradient = jax.value_and_grad(target.logdensity)(position)
        return RiemannianState(position, logdensity, gradient, jnp.linalg.cholesky(metric))

    def step(self, target: Density, rng_key: jax.Array, state: RiemannianState, tuning):
        """Make one transition; ``tuning`` is the step size h, ()."""
        key_momentum, key_accept = jax.random.split(rng_key)
        noise = jax.random.normal(key_momentum, state.position.shape)
        zero = jnp.asarray(0)
        start = Trajectory(state, state.lower @ noise, zero, zero, jnp.asarray(False))
        chosen, end, *decision = decided(
            key_accept, start, self.num_steps, lambda at: self.advance(target, at, tuning), energy
        )
        decision = *decision, end.count, end.num_evaluations
        return chosen.state, statistics(*decision, num_divergences=end.has_failed.astype(int))

    def advance(self, target: Density, trajectory: Trajectory, step_size) -> Trajectory:
        """Make one step of the generalised leapfrog method, and check that it is reversible."""
        state, half = trajectory.state, 0.5 * step_size
        metric = metric_of(target, self.metric)
        kicked, is_kicked = _kick(_force(metric, state), trajectory.momentum, half)
        position, has_arrived, num_drifts = _drift(metric, state, kicked, step_size)
        there = self._state(target, position, metric(position))
        force = _force(metric, there)
        momentum = kicked + half * force(kicked)
        # The step backwards: reversing the time is equivalent to reversing the momentum.
        back, is_back_kicked = _kick(force, momentum, -half)
        returned, has_returned, num_returns = _drift(metric, there, back, -step_size)
        is_reversible = is_same(back, kicked) & is_same(returned, state.position)
        is_settled = is_kicked & has_arrived & is_back_kicked & has_returned
        # 3: the derivatives of the metric at both ends, and the metric on arrival.  The 1 below is
        # the log density with its gradient.
        num_metrics = num_drifts + num_returns + 3
        return Trajectory(
            there,
            momentum,
            trajectory.count + 1,
            trajectory.num_evaluations + num_metrics + 1,
            ~(is_settled & is_reversible),
        )


def energy(trajectory: Trajectory) -> jax.Array:
    """Return the Hamiltonian, ()."""
    state, momentum = trajectory.state, trajectory.momentum
    log_root = jnp.sum(jnp.log(jnp.diagonal(state.lower)))
    return -state.logdensity + log_root + 0.5 * momentum @ cho_solve((state.lower, True), momentum)


def _force(metric, state: RiemannianState) -> Callable[[jax.Array], jax.Array]:
    """Return -dH/dtheta at a position as a function of the momentum.

    With v = M^-1 p, the derivative of (1/2) p^T M^-1 p equals that of -(1/2) v^T M v at constant v.
    The derivative of (1/2) log det M is <M^-1, dM> / 2.
    """
    _, pull_back = jax.vjp(metric, state.position)
    identity = jnp.eye(state.position.shape[0])
    (by_volume,) = pull_back(0.5 * cho_solve((state.lower, True), identity))

    def force(momentum):
        velocity = cho_solve((state.lower, True), momentum)
        (by_kinetic,) = pull_back(0.5 * jnp.outer(velocity, velocity))
        return state.gradient - by_volume + by_kinetic

    return force


def _kick(force: Callable, momentum: jax.Array, time) -> tuple[jax.Array, jax.Array]:
    """Return the momentum after an implicit kick, (Q,), and whether the iteration converged."""
    return _solve(lambda middle: momentum + time * force(middle), momentum)[:2]


def _drift(metric, state: RiemannianState, momentum: jax.Array, time):
    """Return the position after an implicit drift, (Q,), convergence, and number of metrics."""
    velocity = cho_solve((state.lower, True), momentum)

    def arrive(position):
        lower = jnp.linalg.cholesky(metric(position))
        return state.position + 0.5 * time * (velocity + cho_solve((lower, True), momentum))

    return _solve(arrive, state.position + time * velocity)


def _solve(function: Callable, start: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Find a fixed point by iteration; return it, (Q,), convergence, and number of evaluations."""

    def is_running(loop):
        _, move, count = loop
        # Also false for NaN.
        return (move > SETTLED) & (move < jnp.inf) & (count < MAX_ITERATIONS)

    def iterate(loop):
        value, _, count = loop
        new = function(value)
        return new, distance(new, value), count + 1

    first = (start, jnp.asarray(1.0), jnp.asarray(0))
    value, move, count = jax.lax.while_loop(is_running, iterate, first)
    return value, move <= SETTLED, count


def distance(first: jax.Array, second: jax.Array) -> jax.Array:
    """Return the largest difference, relative to the maximum norm of the second or to 1."""
    return jnp.max(jnp.abs(first - second)) / jnp.maximum(1.0, jnp.max(jnp.abs(second)))


def is_same(first: jax.Array, second: jax.Array) -> jax.Array:
    """Return whether a step back has returned to its start, to tolerance."""
    return distance(first, second) <= RETURNED
