"""Microcanonical dynamics, of constant speed, with a Metropolis test: BlackJAX's kernel."""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp

from invlift.errors import InputError
from invlift.files.tables import number
from invlift.programs.pytrees import PyTree
from invlift.samplers.kernels.base import DIVERGENCES, Kernel, Standards, statistics
from invlift.targets import Density

#: Largest number of steps of a trajectory, even if it does not reach its length.
MAX_STEPS = 500


class MAMS(Kernel, settings=True):
    """Metropolis-adjusted microcanonical sampler (Robnik, Cohn-Gordon & Seljak 2025).

    The gradient of the log density turns a particle of unit speed (Ver Steeg & Galstyan 2021).
    Each trajectory starts in a random direction.  The Metropolis test uses the change of log
    density minus the change of kinetic energy.  The latter is the log volume change of the turns,
    so that the transition is exact (Robnik, Cohn-Gordon & Seljak 2025, arXiv:2503.01707).

    The unit of length is sqrt(Q), the typical norm of a standard normal vector: a trajectory is
    then as long as an HMC trajectory of the same time.  Its length is uniform between 0 and twice
    the mean, whatever the position.

    Attributes
    ----------
    trajectory_length : float
        Mean length of a trajectory, in units of sqrt(Q); 1.57 is a quarter of the prior's period.
    target_acceptance : float
        Acceptance rate to which the step size, in units of sqrt(Q), is adapted.
    """

    standards: ClassVar[Standards] = DIVERGENCES._replace(min_acceptance=0.6)
    step_sizes: ClassVar[tuple[float, float]] = (1e-5, 10.0)
    carries: ClassVar[tuple[str, ...]] = ("logdensity", "logdensity_grad")

    trajectory_length: number(0.01, 100.0) = 1.5
    target_acceptance: number(0.01, 0.99) = 0.9

    def integrator(self, logdensity_fn, inverse_mass_matrix):
        """Return BlackJAX's integrator, with two gradients for each step (McLachlan 1995)."""
        # Imported here: the import takes half a second, and only this method needs it.
        from blackjax.mcmc.integrators import isokinetic_mclachlan

        return isokinetic_mclachlan(logdensity_fn, inverse_mass_matrix)

    def init(self, target: Density, position: jax.Array) -> PyTree:
        """Evaluate the log density and its gradient at a position, (Q,).

        Raises
        ------
        InputError
            If there is only one unknown: a line has only two directions.
        """
        from blackjax.mcmc.adjusted_mclmc import init

        if position.shape[0] < 2:
            raise InputError(
                "sampler, method mams",
                "a posterior of at least 2 unknowns",
                f"{position.shape[0]}",
                'choose another method, "nuts" for example',
            )
        return init(position, target.logdensity)

    def step(self, target: Density, rng_key: jax.Array, state, tuning):
        """Make one transition; ``tuning`` is the step size, ()."""
        from blackjax.mcmc.adjusted_mclmc import build_kernel

        key_length, key_step = jax.random.split(rng_key)
        length = 2.0 * self.trajectory_length * jax.random.uniform(key_length)
        num_steps = jnp.clip(jnp.ceil(length / tuning), 1, MAX_STEPS).astype(int)
        new, info = build_kernel(self.integrator)(
            key_step,
            state,
            target.logdensity,
            tuning * math.sqrt(state.position.shape[0]),
            (num_steps,),
        )
        moved = info.acceptance_rate, info.is_accepted, num_steps, 2 * num_steps
        return new, statistics(*moved, num_divergences=info.is_divergent.astype(int))
