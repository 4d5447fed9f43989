"""HMC and NUTS on a density with a constant mass matrix: BlackJAX's kernels."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from invlift.files.tables import integer, number
from invlift.programs.pytrees import PyTree
from invlift.samplers.chains.adaptation import Adaptation, MetricAdaptation
from invlift.samplers.kernels.base import DIVERGENCES, Kernel, Standards, statistics
from invlift.targets import Density

#: Range of the number of steps relative to the nominal one; it varies to avoid resonance.
JITTER = (0.7, 1.3)


class _EuclideanKernel(Kernel, settings=True):
    """HMC with an adapted mass matrix.

    Attributes
    ----------
    metric : {"identity", "diagonal", "dense"}
        The inverse mass matrix: identity, or adapted to the posterior covariance in Stan's windows.
    target_acceptance : float
        Acceptance rate to which the step size is adapted.
    """

    standards: ClassVar[Standards] = DIVERGENCES._replace(min_acceptance=0.5)
    carries: ClassVar[tuple[str, ...]] = ("logdensity", "logdensity_grad")

    metric: Literal["identity", "diagonal", "dense"] = "diagonal"
    target_acceptance: number(0.01, 0.99) = 0.8

    @property
    def adaptation(self) -> Adaptation:
        """Adaptation in Stan's windows (Carpenter et al. 2017); for "identity" step size only."""
        return MetricAdaptation(self.metric, self.target_acceptance)

    def init(self, target: Density, position: jax.Array) -> PyTree:
        """Evaluate the log density and its gradient at a position, (Q,)."""
        from blackjax.mcmc.hmc import init

        return init(position, target.logdensity)


class HMC(_EuclideanKernel, settings=True):
    """Hamiltonian Monte Carlo with a random number of steps (Neal 2011).

    The number is drawn for each trajectory, uniformly from 0.7 to 1.3 times the nominal one.

    Attributes
    ----------
    metric, target_acceptance
        See :class:`NUTS`.
    num_steps : int
        Nominal number of steps of a trajectory.
    """

    num_steps: integer(1, 10_000) = 10

    def step(self, target: Density, rng_key: jax.Array, state, tuning):
        """Make one transition; ``tuning`` is step size, (), and inverse mass matrix."""
        from blackjax.mcmc.hmc import build_kernel

        key_length, key_step = jax.random.split(rng_key)
        low, high = (max(1, round(factor * self.num_steps)) for factor in JITTER)
        num_steps = jax.random.randint(key_length, (), low, high + 1)
        step_size, inverse_mass = tuning
        metric = _metric(inverse_mass)
        new, info = build_kernel()(key_step, state, target.logdensity, step_size, metric, num_steps)
        # BlackJAX's energy is that of the trajectory's end, also if it is rejected.
        stayed = metric.kinetic_energy(info.momentum) - state.logdensity
        info = info._replace(energy=jnp.where(info.is_accepted, info.energy, stayed))
        return new, _statistics(info, info.is_accepted, num_steps)


class NUTS(_EuclideanKernel, settings=True):
    """Hamiltonian Monte Carlo of dynamic length (Hoffman & Gelman 2014; Betancourt 2017).

    Attributes
    ----------
    metric : {"identity", "diagonal", "dense"}
        The inverse mass matrix: identity, or adapted to the posterior covariance in Stan's windows.
    target_acceptance : float
        Acceptance rate to which the step size is adapted.
    max_doublings : int
        Largest number of doublings of a trajectory.
    """

    max_doublings: integer(1, 20) = 10

    def step(self, target: Density, rng_key: jax.Array, state, tuning):
        """Make one transition; ``tuning`` is step size, (), and inverse mass matrix."""
        from blackjax.mcmc.nuts import build_kernel

        step_size, inverse_mass = tuning
        new, info = build_kernel()(
            rng_key, state, target.logdensity, step_size, _metric(inverse_mass), self.max_doublings
        )
        has_moved = jnp.any(new.position != state.position)
        return new, _statistics(info, has_moved, info.num_integration_steps)


def _metric(inverse_mass: jax.Array):
    """Return BlackJAX's metric, with a kinetic energy that is never negative.

    If a momentum overflows, its product with a dense matrix may be minus infinity, and the end of
    the trajectory would be accepted.
    """
    from blackjax.mcmc.metrics import default_metric

    metric = default_metric(inverse_mass)

    def kinetic_energy(momentum, position=None):
        energy = metric.kinetic_energy(momentum, position)
        return jnp.where(energy >= 0.0, energy, jnp.inf)

    return metric._replace(kinetic_energy=kinetic_energy)


def _statistics(info, is_accepted, num_steps) -> dict[str, jax.Array]:
    further = {"num_divergences": info.is_divergent.astype(int), "energy": info.energy}
    return statistics(info.acceptance_rate, is_accepted, num_steps, num_steps, **further)
