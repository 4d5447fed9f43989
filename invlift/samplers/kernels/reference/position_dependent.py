"""Metropolis-Hastings proposals with a covariance that depends on the position.

With a positive definite metric M(theta) = L L^T and a drift b(theta),

    theta' ~ Normal(theta + (h^2/2) b(theta), h^2 M(theta)^-1).

The metric is the target's ``metric``.  For an inverse problem it is the Gauss-Newton Hessian: the
Fisher information of Gaussian noise of known scale plus the prior's precision, I (Au, Graham &
Thiery 2023, supplement 1).  The transition is exact with any metric, because the acceptance
probability contains the ratio of proposal densities (Hastings 1970),

    log q(theta' | theta) = log det L - |L^T (theta' - theta - (h^2/2) b)|^2 / (2 h^2) - Q log h.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from invlift.files.tables import number
from invlift.samplers.kernels.base import Kernel, Standards, statistics
from invlift.targets import Density


class MetricState(NamedTuple):
    """A position with its log density, drift and metric.

    Attributes
    ----------
    position : (Q,)
    logdensity : ()
    drift : (Q,)
        b.
    lower : (Q, Q)
        L, lower triangular.
    """

    position: jax.Array
    logdensity: jax.Array
    drift: jax.Array
    lower: jax.Array


class _PositionDependent(Kernel, settings=True):
    """A kernel with a position-dependent proposal; a subclass defines the drift.

    A transition evaluates the model twice: for the density and for the metric.
    """

    step_sizes: ClassVar[tuple[float, float]] = (1e-6, 10.0)

    target_acceptance: number(0.01, 0.99)

    def init(self, target: Density, position: jax.Array) -> MetricState:
        """Evaluate log density, drift and metric at a position, (Q,)."""
        raise NotImplementedError

    def log_proposal(
        self, state: MetricState, position: jax.Array, step_size: jax.Array
    ) -> jax.Array:
        """Return the log density, (), of proposing a position, (Q,), from a state.

        A constant that depends only on the step size is left out.
        """
        centre = state.position + 0.5 * step_size**2 * state.drift
        scaled = (position - centre) @ state.lower / step_size
        return jnp.sum(jnp.log(jnp.diagonal(state.lower))) - 0.5 * scaled @ scaled

    def step(self, target: Density, rng_key: jax.Array, state: MetricState, tuning):
        """Make one transition; ``tuning`` is the step size h, ()."""
        # Imported here: the import takes half a second, and only this method needs it.
        from blackjax.mcmc.proposal import (
            compute_asymmetric_acceptance_ratio,
            static_binomial_sampling,
        )

        key_move, key_accept = jax.random.split(rng_key)
        noise = jax.random.normal(key_move, state.position.shape)
        spread = solve_triangular(state.lower, noise, lower=True, trans="T")
        move = 0.5 * tuning**2 * state.drift + tuning * spread
        proposed = self.init(target, state.position + move)

        def energy(start, end):
            return -end.logdensity - self.log_proposal(end, start.position, tuning)

        log_ratio = compute_asymmetric_acceptance_ratio(energy)(state, proposed)
        new, (is_accepted, acceptance, _) = static_binomial_sampling(
            key_accept, log_ratio, state, proposed
        )
        return new, statistics(acceptance, is_accepted, num_factorisations=2)


class PositionDependentRandomWalk(_PositionDependent, settings=True):
    """Random walk with the metric's inverse as covariance, b = 0 (Livingstone 2015).

    Attributes
    ----------
    target_acceptance : float
        Acceptance rate to which the step size h is adapted; 0.234 is the optimum of random walks
        (Roberts, Gelman & Gilks 1997).
    """

    standards: ClassVar[Standards] = Standards(min_acceptance=0.1)

    target_acceptance: number(0.01, 0.99) = 0.234

    def init(self, target: Density, position: jax.Array) -> MetricState:
        """Evaluate log density and metric at a position, (Q,); the drift is zero."""
        lower = jnp.linalg.cholesky(target.metric(position))
        return MetricState(position, target.logdensity(position), jnp.zeros_like(position), lower)


class SimplifiedManifoldMALA(_PositionDependent, settings=True):
    """Simplified manifold MALA, b = M^-1 grad log pi (Girolami & Calderhead 2011).

    The drift omits the derivatives of the metric; the Metropolis test corrects for this.
    :class:`PositionDependentMALA` includes them.

    Attributes
    ----------
    target_acceptance : float
        Acceptance rate to which the step size h is adapted; 0.574 is the optimum of Langevin
        dynamics (Roberts & Rosenthal 1998).
    """

    standards: ClassVar[Standards] = Standards(min_acceptance=0.3)

    target_acceptance: number(0.01, 0.99) = 0.574

    def init(self, target: Density, position: jax.Array) -> MetricState:
        """Evaluate log density, drift and metric at a position, (Q,)."""
        lower = jnp.linalg.cholesky(target.metric(position))
        logdensity, gradient = jax.value_and_grad(target.logdensity)(position)
        return MetricState(position, logdensity, cho_solve((lower, True), gradient), lower)


class PositionDependentMALA(SimplifiedManifoldMALA, settings=True):
    """MALA with the drift of the diffusion that keeps the target invariant (Xifara et al. 2014).

    b = M^-1 (grad log pi - Xi), where Xi_i is the sum over j and k of (dM_ij / dtheta_k) (M^-1)_jk
    (Au, Graham & Thiery 2023, supplement 1).  It takes one derivative of the metric for each
    unknown.

    Attributes
    ----------
    target_acceptance : float
        Acceptance rate to which the step size h is adapted; 0.574 is the optimum of Langevin
        dynamics (Roberts & Rosenthal 1998).
    """

    def init(self, target: Density, position: jax.Array) -> MetricState:
        """Evaluate log density, drift and metric at a position, (Q,)."""
        metric, derivative = jax.linearize(target.metric, position)
        lower = jnp.linalg.cholesky(metric)
        identity = jnp.eye(position.shape[0])
        inverse = cho_solve((lower, True), identity)

        # One unknown at a time, as the whole derivative dM would be (Q, Q, Q).
        def add(index, correction):
            return correction + derivative(identity[index]) @ inverse[index]

        correction = jax.lax.fori_loop(0, position.shape[0], add, jnp.zeros_like(position))
        logdensity, gradient = jax.value_and_grad(target.logdensity)(position)
        drift = cho_solve((lower, True), gradient - correction)
        return MetricState(position, logdensity, drift, lower)
