"""Kernels without gradients: random walk and preconditioned Crank-Nicolson."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from invlift.files.tables import number
from invlift.programs.pytrees import PyTree
from invlift.samplers.kernels.base import Kernel, Standards, statistics
from invlift.targets import Density


class _Walk(Kernel, settings=True):
    """Metropolis kernel with a proposal that is reversible for a reference measure.

    The ratio of densities relative to this measure decides.  The acceptance rule is BlackJAX's: a
    log density that is NaN is a rejection.  A transition evaluates the model once.
    """

    standards: ClassVar[Standards] = Standards(min_acceptance=0.1)
    carries: ClassVar[tuple[str, ...]] = ("logdensity",)
    step_sizes: ClassVar[tuple[float, float]] = (1e-6, 10.0)

    target_acceptance: number(0.01, 0.99)

    def density_of(self, target: Density):
        """Return the log density, (Q,) to (), relative to the proposal's reference measure."""
        raise NotImplementedError

    def propose(self, rng_key: jax.Array, position: jax.Array, step_size: jax.Array) -> jax.Array:
        """Draw a proposed position, (Q,), from the current position, (Q,)."""
        raise NotImplementedError

    def init(self, target: Density, position: jax.Array) -> PyTree:
        """Evaluate the log density at a position, (Q,)."""
        # Imported here: the import takes half a second, and only this method needs it.
        from blackjax.mcmc.random_walk import init

        return init(position, self.density_of(target))

    def step(self, target: Density, rng_key: jax.Array, state, tuning):
        """Make one transition; ``tuning`` is the step size, ()."""
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
        Acceptance rate to which the step size h is adapted; 0.234 is optimal in many dimensions
        (Roberts, Gelman & Gilks 1997).
    """

    target_acceptance: number(0.01, 0.99) = 0.234

    def density_of(self, target: Density):
        """Return the log density."""
        return target.logdensity

    def propose(self, rng_key: jax.Array, position: jax.Array, step_size: jax.Array) -> jax.Array:
        """Draw theta + h xi, (Q,)."""
        return position + step_size * jax.random.normal(rng_key, position.shape)


class PreconditionedCrankNicolson(_Walk, settings=True):
    """Preconditioned Crank-Nicolson (Cotter, Roberts, Stuart & White 2013).

    The proposal is theta' = sqrt(1 - b^2) theta + b xi, with xi standard normal.  For standard
    normal theta the joint distribution of (theta, theta') is symmetric.  The proposal is therefore
    reversible for the standard normal distribution, and the ratio of likelihoods decides.  The
    acceptance rate does not vanish as a field is refined.

    Attributes
    ----------
    target_acceptance : float
        Acceptance rate to which the factor b, at most 1, is adapted.
    """

    step_sizes: ClassVar[tuple[float, float]] = (1e-6, 1.0)

    target_acceptance: number(0.01, 0.99) = 0.3

    def density_of(self, target: Density):
        """Return the log density relative to the standard normal distribution."""
        return target.loglikelihood

    def propose(self, rng_key: jax.Array, position: jax.Array, step_size: jax.Array) -> jax.Array:
        """Draw sqrt(1 - b^2) theta + b xi, (Q,)."""
        noise = jax.random.normal(rng_key, position.shape)
        return jnp.sqrt(1.0 - step_size**2) * position + step_size * noise
