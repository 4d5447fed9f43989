"""Samplers that need no gradients: random walk, and preconditioned Crank-Nicolson."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from invlift.files.tables import number
from invlift.programs.pytrees import PyTree
from invlift.samplers.kernels.base import Kernel, Standards, statistics
from invlift.targets import Density


class _Walk(Kernel, settings=True):
    """A proposal reversible for a reference measure, accepted by the density relative to it.

    The acceptance rule of BlackJAX: a log density that is not a number is a rejection.  One
    evaluation of the model a transition.
    """

    standards: ClassVar[Standards] = Standards(min_acceptance=0.1)
    carries: ClassVar[tuple[str, ...]] = ("logdensity",)
    step_sizes: ClassVar[tuple[float, float]] = (1e-6, 10.0)

    target_acceptance: number(0.01, 0.99)

    def density_of(self, target: Density):
        """The log density that decides, (Q,) to (): relative to the proposal's reference."""
        raise NotImplementedError

    def propose(self, rng_key: jax.Array, position: jax.Array, step_size: jax.Array) -> jax.Array:
        """A position, (Q,), drawn near another one, (Q,)."""
        raise NotImplementedError

    def init(self, target: Density, position: jax.Array) -> PyTree:
        """Log density at a position, (Q,)."""
        # Here, as half a second of imports is only worth it where a program is made.
        from blackjax.mcmc.random_walk import init

        return init(position, self.density_of(target))

    def step(self, target: Density, rng_key: jax.Array, state, tuning):
        """One transition; ``tuning`` is the step size, ()."""
        from blackjax.mcmc.random_walk import build_rmh

        new, info = build_rmh()(
            rng_key,
            state,
            self.density_of(target),
            lambda key, position: self.propose(key, position, tuning),
        )
        return new, statistics(info.acceptance_rate, info.is_accepted)


class RandomWalk(_Walk, settings=True):
    """Random-walk Metropolis (Metropolis et al. 1953): theta' = theta + h xi, xi standard normal.

    The proposal is symmetric, so that the ratio of densities decides (Hastings 1970).

    Attributes
    ----------
    target_acceptance : float
        What the step size h is adapted to; 0.234 is best in many dimensions (Roberts, Gelman &
        Gilks 1997).
    """

    target_acceptance: number(0.01, 0.99) = 0.234

    def density_of(self, target: Density):
        """The log density itself."""
        return target.logdensity

    def propose(self, rng_key: jax.Array, position: jax.Array, step_size: jax.Array) -> jax.Array:
        """theta + h xi, (Q,)."""
        return position + step_size * jax.random.normal(rng_key, position.shape)


class PreconditionedCrankNicolson(_Walk, settings=True):
    """Preconditioned Crank-Nicolson (Cotter, Roberts, Stuart & White 2013).

    theta' = sqrt(1 - b^2) theta + b xi, with xi standard normal: for standard normal theta the pair
    (theta, theta') is normal with a covariance that does not change when they are exchanged, so
    that the proposal is reversible for the standard normal distribution, and the ratio of
    likelihoods decides.  The acceptance does not vanish as a field is resolved more finely.

    Attributes
    ----------
    target_acceptance : float
        What the share b, at most 1, is adapted to.
    """

    step_sizes: ClassVar[tuple[float, float]] = (1e-6, 1.0)

    target_acceptance: number(0.01, 0.99) = 0.3

    def density_of(self, target: Density):
        """The log density relative to the standard normal one."""
        return target.loglikelihood

    def propose(self, rng_key: jax.Array, position: jax.Array, step_size: jax.Array) -> jax.Array:
        """sqrt(1 - b^2) theta + b xi, (Q,)."""
        noise = jax.random.normal(rng_key, position.shape)
        return jnp.sqrt(1.0 - step_size**2) * position + step_size * noise
