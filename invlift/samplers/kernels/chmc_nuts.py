"""Constrained HMC with trajectories that end at a U-turn (NUTS)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.files.tables import integer
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels.constrained import ConstrainedKernel, statistics
from invlift.targets import ConstrainedTarget


class ConstrainedNUTS(ConstrainedKernel, settings=True):
    """Constrained HMC transition of dynamic length: multinomial NUTS (Betancourt 2017, appendix A).

    A failed step ends the trajectory like a divergence.

    Attributes
    ----------
    retraction, splitting, num_inner, return_check, target_acceptance
        See :class:`~invlift.samplers.kernels.constrained.ConstrainedKernel`.
    max_doublings : int
        Largest number of doublings of a trajectory; with 7, up to 2^7 - 1 steps.
    """

    max_doublings: integer(1, 20) = 7

    def step(self, target: ConstrainedTarget, rng_key: jax.Array, state, tuning):
        """Make one transition from point to point; ``tuning`` is the step size, ()."""
        # Imported here: the import takes half a second, and only this method needs it.
        from blackjax.mcmc.metrics import gaussian_euclidean
        from blackjax.mcmc.nuts import iterative_nuts_proposal

        integrator = self.drawn_integrator(rng_key)
        key_momentum, key_trajectory = jax.random.split(rng_key)
        start = build_state(state, sample_momentum(target, key_momentum, state))
        metric = gaussian_euclidean(jnp.ones_like(start.position))
        propose = iterative_nuts_proposal(
            lambda state, size: constrained_step(integrator, target, state, size),
            metric.kinetic_energy,
            metric.check_turning,
            self.max_doublings,
        )
        end, info = propose(key_trajectory, start, tuning)
        left, right = info.trajectory_leftmost_state, info.trajectory_rightmost_state
        return end.point, statistics(
            end.point,
            info.acceptance_rate,
            jnp.any(end.position != start.position),
            info.num_integration_steps,
            left.num_failures + right.num_failures,
            left.work + right.work,
            info.energy,
        )
