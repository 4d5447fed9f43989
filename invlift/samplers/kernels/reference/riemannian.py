"""Riemannian HMC: trajectories in a metric that depends on the position.

With a metric M(theta) the Hamiltonian is

    H(theta, p) = -log pi(theta) + (1/2) log det M(theta) + (1/2) p^T M(theta)^-1 p

(Girolami & Calderhead 2011, eq. 13).  The generalised leapfrog method keeps volume and is
reversible, where its implicit equations are solved (Leimkuhler & Reich 2004, section 6.3; Girolami
& Calderhead 2011, eqs 14 to 16):

    p* = p - (h/2) dH/dtheta(theta, p*)
    theta' = theta + (h/2) (M(theta)^-1 + M(theta')^-1) p*
    p' = p* - (h/2) dH/dtheta(theta', p*)

They are solved by fixed-point iteration.  Where it does not settle, or where the way back from
(theta', p'), found in the same way, does not lead to p* and theta, the trajectory ends and is
rejected: without this check the transition would not be reversible (Brofos & Lederman 2021).
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

#: Largest move, relative to the size of what moves, at which an iteration has settled; and what the
#: way back may miss.
SETTLED, RETURNED = 1e-10, 2e-8
#: Iterations before it is given up.
MAX_ITERATIONS = 100


class RiemannianState(NamedTuple):
    """A position with what the Hamiltonian has there without a momentum.

    Attributes
    ----------
    position : (Q,)
    logdensity : ()
    gradient : (Q,)
        Of the log density.
    lower : (Q, Q)
        Cholesky factor of the metric.
    """

    position: jax.Array
    logdensity: jax.Array
    gradient: jax.Array
    lower: jax.Array


class Trajectory(NamedTuple):
    """A trajectory under way.

    Attributes
    ----------
    state
        Its end, with what the Hamiltonian has there without a momentum.
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
    """Follow a trajectory to its end, which is accepted or rejected.

    Parameters
    ----------
    rng_key : jax.Array
        Decides.
    start : Trajectory
    num_steps : () int
        A step that fails ends the trajectory, which is then rejected.
    advance, energy : callable
        One step; and the Hamiltonian, ().

    Returns
    -------
    chosen, end : Trajectory
        Where the chain goes on, and where the trajectory led.
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
        Fisher information and prior precision (Girolami & Calderhead 2011), or the absolute values
        of the Hessian's eigenvalues, rounded off at 1 (Betancourt 2013), for which the forward map
        is differentiated three times: for few unknowns.
    num_steps : int
        Steps of each trajectory.
    target_acceptance : float
        What the step size is adapted to.
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
        """Log density, its gradient and the metric at a position, (Q,)."""
        return self._state(target, position, metric_of(target, self.metric)(position))

    def _state(self, target: Density, position, metric) -> RiemannianState:
        logdensity, gradient = jax.value_and_grad(target.logdensity)(position)
        return RiemannianState(position, logdensity, gradient, jnp.linalg.cholesky(metric))

    def step(self, target: Density, rng_key: jax.Array, state: RiemannianState, tuning):
        """One transition; ``tuning`` is the step size h, ()."""
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
        """One step of the generalised leapfrog method, and the check of its way back."""
        state, half = trajectory.state, 0.5 * step_size
        metric = metric_of(target, self.metric)
        kicked, is_kicked = _kick(_force(metric, state), trajectory.momentum, half)
        position, has_arrived, num_drifts = _drift(metric, state, kicked, step_size)
        there = self._state(target, position, metric(position))
        force = _force(metric, there)
        momentum = kicked + half * force(kicked)
        # Backwards: the momentum is reversed, here the time.
        back, is_back_kicked = _kick(force, momentum, -half)
        returned, has_returned, num_returns = _drift(metric, there, back, -step_size)
        is_reversible = is_same(back, kicked) & is_same(returned, state.position)
        is_settled = is_kicked & has_arrived & is_back_kicked & has_returned
        # Metric and its derivatives at both ends; log density, gradient and metric on arrival.
        num_metrics = num_drifts + num_returns + 3
        return Trajectory(
            there,
            momentum,
            trajectory.count + 1,
            trajectory.num_evaluations + num_metrics + 1,
            ~(is_settled & is_reversible),
        )


def energy(trajectory: Trajectory) -> jax.Array:
    """The Hamiltonian, ()."""
    state, momentum = trajectory.state, trajectory.momentum
    log_root = jnp.sum(jnp.log(jnp.diagonal(state.lower)))
    return -state.logdensity + log_root + 0.5 * momentum @ cho_solve((state.lower, True), momentum)


def _force(metric, state: RiemannianState) -> Callable[[jax.Array], jax.Array]:
    """-dH/dtheta at a position for any momentum.

    With v = M^-1 p the derivative of (1/2) p^T M^-1 p is that of -(1/2) v^T M v at constant v, and
    that of (1/2) log det M is <M^-1, dM> / 2.
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
    """The momentum after an implicit kick, (Q,), and whether it was found."""
    return _solve(lambda middle: momentum + time * force(middle), momentum)[:2]


def _drift(metric, state: RiemannianState, momentum: jax.Array, time):
    """The position after an implicit drift, (Q,), whether it was found, and metrics evaluated."""
    velocity = cho_solve((state.lower, True), momentum)

    def arrive(position):
        lower = jnp.linalg.cholesky(metric(position))
        return state.position + 0.5 * time * (velocity + cho_solve((lower, True), momentum))

    return _solve(arrive, state.position + time * velocity)


def _solve(function: Callable, start: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A fixed point, (Q,), of a function by iteration; whether it settled; its evaluations."""

    def is_running(loop):
        _, move, count = loop
        # Also false for what is not a number.
        return (move > SETTLED) & (move < jnp.inf) & (count < MAX_ITERATIONS)

    def iterate(loop):
        value, _, count = loop
        new = function(value)
        return new, distance(new, value), count + 1

    first = (start, jnp.asarray(1.0), jnp.asarray(0))
    value, move, count = jax.lax.while_loop(is_running, iterate, first)
    return value, move <= SETTLED, count


def distance(first: jax.Array, second: jax.Array) -> jax.Array:
    """Largest difference, relative to the size of the second, at least 1."""
    return jnp.max(jnp.abs(first - second)) / jnp.maximum(1.0, jnp.max(jnp.abs(second)))


def is_same(first: jax.Array, second: jax.Array) -> jax.Array:
    """Whether the way back has led to where it began."""
    return distance(first, second) <= RETURNED
