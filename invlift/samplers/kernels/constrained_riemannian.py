"""Constrained Riemannian HMC: trajectories on a manifold in a metric of the ambient space.

With a metric M(q), (Q, Q), and C(q), (d, Q), the Jacobian of the constraint, the Hamiltonian on the
manifold and its cotangent spaces {p : C M^-1 p = 0} is

    H(q, p) = -log pi(q) + (1/2) log det M + (1/2) log det(C M^-1 C^T) - (1/2) log det(C C^T)
              + (1/2) p^T M^-1 p,

where pi is the density with respect to the manifold's Hausdorff measure.  The momentum is normal
with the covariance P^T M P, where P projects onto the cotangent space; the log determinants are
those of this covariance on the cotangent space (Brubaker, Salzmann & Urtasun 2012, their
Acceptance Hamiltonian).  The dynamics are simulated by the generalised RATTLE method, which is
symmetric and symplectic where its implicit equations are solved (Hairer, Lubich & Wanner 2006,
section VII.1.4; Brubaker et al. 2012):

    p* = p - (h/2) dH/dq(q, p*) - C(q)^T lambda
    q' = q + (h/2) (M(q)^-1 + M(q')^-1) p*,    c(q') = 0
    p' = p* - (h/2) dH/dq(q', p*) - C(q')^T mu,    C(q') M(q')^-1 p' = 0

Each step is also solved backwards, to check that it is reversible: see
:mod:`~invlift.samplers.kernels.reference.riemannian`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from invlift.files.tables import number
from invlift.projections import distance_to_manifold
from invlift.samplers.chains.adaptation import Adaptation, MetricAdaptation
from invlift.samplers.constrained.retractions import POSITION_TOLERANCE, work
from invlift.samplers.kernels.base import Standards
from invlift.samplers.kernels.chmc import quarter_period
from invlift.samplers.kernels.constrained import ManifoldKernel, statistics
from invlift.samplers.kernels.reference.riemannian import Trajectory, decided, distance, is_same
from invlift.targets import ConstrainedTarget, Point

#: Convergence tolerances of an iteration: the relative residual of the fixed point, and the last
#: move of Newton's method.
SETTLED, LAST_MOVE = 1e-11, 1e-6
#: Largest number of iterations.
MAX_ITERATIONS = 50

#: M^-1 at a position: (Q, Q), or its diagonal, (Q,).
InverseMetric = Callable[[jax.Array], jax.Array]


class RiemannianPoint(NamedTuple):
    """A position and the terms of the Hamiltonian there that do not depend on the momentum.

    Attributes
    ----------
    point
        The target's evaluation.
    inverse : (Q, Q) or (Q,)
        M^-1, or its diagonal.
    jacobian : (d, Q)
        C.
    potential : ()
    slope : (Q,)
        The potential's gradient.
    """

    point: Point
    inverse: jax.Array
    jacobian: jax.Array
    potential: jax.Array
    slope: jax.Array


class ConstrainedRiemannianHMC(ManifoldKernel, settings=True):
    """Constrained Riemannian HMC (Brubaker, Salzmann & Urtasun 2012).

    The integration time is (pi/2) Uniform(0.7, 1.3): about a quarter of the period of a normal
    distribution if the metric is its precision matrix.  It is divided into equal steps no longer
    than the step size, at most 100.  All matrices are dense, except a diagonal metric.

    Attributes
    ----------
    metric : {"diagonal", "own"}
        "diagonal": a diagonal mass matrix, the inverse of the variances of the warm-up draws
        (Carpenter et al. 2017, section 3.2), so that unknowns may have any scale.  "own": the
        target's ``metric``, a function from (Q,) to (Q, Q), which may depend on the position.  For
        :func:`invlift.manifold_problem` it is an argument.  For the lifted coordinates of a
        posterior, which are whitened, it is the identity.
    target_acceptance : float
        Acceptance rate to which the step size is adapted.
    """

    standards: ClassVar[Standards] = ManifoldKernel.standards._replace(
        failures_in_words="trajectories ended at an implicit step without a solution",
        failures_in_brief="steps failed",
        short_step=None,
    )

    metric: Literal["diagonal", "own"] = "diagonal"
    target_acceptance: number(0.01, 0.99) = 0.8

    @property
    def adaptation(self) -> Adaptation:
        """Adaptation of the step size by dual averaging, and of the mass matrix in windows."""
        metric = "identity" if self.metric == "own" else self.metric
        return MetricAdaptation(metric, self.target_acceptance)

    def step(self, target: ConstrainedTarget, rng_key: jax.Array, state: Point, tuning):
        """Make one transition; ``tuning`` is step size, (), and inverse mass matrix, (Q,)."""
        step_size, inverse_mass = tuning
        inverse_metric = self.inverse_metric(target, inverse_mass)
        key_momentum, key_time, key_accept = jax.random.split(rng_key, 3)
        place = evaluate(target, inverse_metric, state.position)
        momentum = project(place, draw_momentum(key_momentum, place))
        length, num_steps = quarter_period(key_time, step_size)
        go_on = partial(advance, target, inverse_metric, step_size=length)
        start = Trajectory(place, momentum, jnp.asarray(0), jnp.asarray(2), jnp.asarray(False))
        chosen, end, *decision = decided(key_accept, start, num_steps, go_on, energy)
        return chosen.state.point, statistics(
            chosen.state.point,
            *decision,
            end.count,
            end.has_failed.astype(int),
            work(end.num_evaluations),
            energy(chosen),
        )

    def inverse_metric(self, target: ConstrainedTarget, inverse_mass: jax.Array) -> InverseMetric:
        """Return the function M^-1 of the position, given the adapted inverse mass, (Q,)."""
        if self.metric != "own" or not hasattr(target, "metric"):
            return lambda position: inverse_mass

        def inverse(position):
            lower = jnp.linalg.cholesky(target.metric(position))
            return cho_solve((lower, True), jnp.eye(position.size))

        return inverse


def evaluate(
    target: ConstrainedTarget, inverse_metric: InverseMetric, position: jax.Array
) -> RiemannianPoint:
    """Evaluate the terms of the Hamiltonian at a position, (Q,), that need no momentum."""

    def log_volume(position):
        inverse, jacobian = inverse_metric(position), _jacobian(target, position)[1]
        of_metric = _log_root(inverse) if inverse.ndim == 2 else 0.5 * jnp.sum(jnp.log(inverse))
        across = _log_root(times(inverse, jacobian) @ jacobian.T)
        return across - of_metric - _log_root(jacobian @ jacobian.T), (inverse, jacobian)

    volume, slope = jax.value_and_grad(log_volume, has_aux=True)(position)
    volume, (inverse, jacobian) = volume
    point = target.point(position)
    logdensity = point.logdensity - 0.5 * position @ position
    slope = slope - point.logdensity_grad + position
    return RiemannianPoint(point, inverse, jacobian, volume - logdensity, slope)


def advance(
    target: ConstrainedTarget, inverse_metric: InverseMetric, trajectory: Trajectory, step_size
) -> Trajectory:
    """Make one step of the generalised RATTLE method, and check that it is reversible."""
    start = trajectory.state
    there = _flow(target, inverse_metric, start, trajectory.momentum, step_size)
    end = evaluate(target, inverse_metric, there.position)
    momentum = there.momentum - 0.5 * step_size * (
        end.slope + _kinetic_slope(inverse_metric, end.point.position, there.momentum)
    )
    momentum = project(end, momentum)
    # The step backwards: reversing the time is equivalent to reversing the momentum.
    back = _flow(target, inverse_metric, end, momentum, -step_size)
    is_reversible = is_same(back.momentum, there.momentum)
    is_reversible &= is_same(back.position, start.point.position)
    is_met = distance_to_manifold(target, end.point) <= POSITION_TOLERANCE
    is_good = there.is_settled & back.is_settled & is_reversible & is_met
    return Trajectory(
        end,
        momentum,
        trajectory.count + 1,
        trajectory.num_evaluations + there.count + back.count + 2,  # `evaluate` takes two
        ~(is_good & jnp.isfinite(end.potential)),
    )


def energy(trajectory: Trajectory) -> jax.Array:
    """Return the Hamiltonian, ()."""
    place, momentum = trajectory.state, trajectory.momentum
    return place.potential + 0.5 * momentum @ times(place.inverse, momentum)


def draw_momentum(rng_key: jax.Array, place: RiemannianPoint) -> jax.Array:
    """Draw a momentum with the covariance M, (Q,), not yet in the cotangent space."""
    noise = jax.random.normal(rng_key, place.point.position.shape)
    if place.inverse.ndim == 1:
        return noise / jnp.sqrt(place.inverse)
    return solve_triangular(jnp.linalg.cholesky(place.inverse), noise, lower=True, trans="T")


def project(place: RiemannianPoint, momentum: jax.Array) -> jax.Array:
    """Project a momentum onto the cotangent space: p - C^T (C M^-1 C^T)^-1 C M^-1 p, (Q,)."""
    return _projected(place, momentum)[0]


def _projected(place: RiemannianPoint, momentum: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the projected momentum, (Q,), and the Lagrange multiplier, (d,)."""
    raised = times(place.inverse, place.jacobian)
    lower = jnp.linalg.cholesky(raised @ place.jacobian.T)
    multiplier = cho_solve((lower, True), raised @ momentum)
    return momentum - multiplier @ place.jacobian, multiplier


def times(inverse: jax.Array, rows: jax.Array) -> jax.Array:
    """Apply M^-1, given as (Q, Q) or as its diagonal, (Q,), to vectors, (..., Q)."""
    return inverse * rows if inverse.ndim == 1 else rows @ inverse


class _Flow(NamedTuple):
    """Result of a step's implicit equations: q', (Q,), p*, (Q,), convergence, and iterations."""

    position: jax.Array
    momentum: jax.Array
    is_settled: jax.Array
    count: jax.Array


def _flow(target, inverse_metric, place: RiemannianPoint, momentum: jax.Array, step_size) -> _Flow:
    """Solve for p* and q' by fixed-point iteration, and for lambda by Newton's method.

    With a constant metric p* and q' are explicit.
    """
    half = 0.5 * step_size
    origin = place.point.position
    kicked = momentum - half * place.slope

    def iterate(loop):
        position, middle, multiplier, *_, count = loop
        slope = _kinetic_slope(inverse_metric, origin, middle)
        new_middle = kicked - half * slope - place.jacobian.T @ multiplier
        move = half * (place.inverse + inverse_metric(position))
        new = origin + times(move, new_middle)
        miss = jnp.maximum(distance(new, position), distance(new_middle, middle))
        value, jacobian = _jacobian(target, new)
        raised = times(move, place.jacobian)
        change = jnp.linalg.solve(jacobian @ raised.T, value)
        position, middle = new - change @ raised, new_middle - change @ place.jacobian
        return position, middle, multiplier + change, miss, distance(position, new), count + 1

    def is_running(loop):
        *_, miss, move, count = loop
        # Also false for NaN.
        is_finite = (miss < jnp.inf) & (move < jnp.inf)
        return is_finite & ((miss > SETTLED) | (move > LAST_MOVE)) & (count < MAX_ITERATIONS)

    middle, multiplier = _projected(place, kicked)
    position = origin + step_size * times(place.inverse, middle)
    largest = jnp.asarray(jnp.finfo(origin.dtype).max)
    first = (position, middle, multiplier, largest, largest, 0)
    position, middle, _, miss, move, count = jax.lax.while_loop(is_running, iterate, first)
    return _Flow(position, middle, (miss <= SETTLED) & (move <= LAST_MOVE), count)


def _kinetic_slope(inverse_metric: InverseMetric, position: jax.Array, momentum: jax.Array):
    """Return d/dq (1/2) p^T M(q)^-1 p, (Q,)."""

    def kinetic(position):
        return 0.5 * momentum @ times(inverse_metric(position), momentum)

    return jax.grad(kinetic)(position)


def _jacobian(target: ConstrainedTarget, position: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the constraint c, (d,), and its Jacobian C, (d, Q)."""
    value, pull_back = jax.vjp(target.constraint, position)
    return value, jax.vmap(lambda row: pull_back(row)[0])(jnp.eye(value.size))


def _log_root(matrix: jax.Array) -> jax.Array:
    """Return (1/2) log det of a positive definite matrix, ()."""
    return jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(matrix))))
