"""Constrained HMC over about a quarter of the prior's period."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.samplers.constrained.step import build_state, sample_momentum
from invlift.samplers.kernels.constrained import ConstrainedKernel

#: Steps after which a trajectory ends even if its time is not over: where so short steps are needed
#: that it would take more, draws that depend on one another more closely cost less.
MAX_STEPS = 100
#: Range of the integration time around a quarter of the prior's period, pi/2.
JITTER = (0.7, 1.3)


class ConstrainedHMC(ConstrainedKernel, settings=True):
    """Constrained HMC transition over about a quarter period (Au et al. 2023, Algorithm 3).

    Where the posterior is close to Gaussian, all directions of the lifted state oscillate with
    unit frequency (Au et al. 2023, theorem 1), so that after a quarter period the state has
    forgotten where it was.  The time, (pi/2) Uniform(0.7, 1.3), is randomised against resonance
    and cut into equal steps no longer than the step size, at most 100.

    Attributes
    ----------
    retraction, splitting, num_inner, return_check, target_acceptance
        See :class:`~invlift.samplers.kernels.constrained.ConstrainedKernel`.
    """

    def step(self, target, rng_key: jax.Array, state, tuning):
        """One transition from a point to a point; ``tuning`` is the step size, ()."""
        key_momentum, key_time, key_accept = jax.random.split(rng_key, 3)
        start = build_state(state, sample_momentum(target, key_momentum, state))
        low, high = JITTER
        time = 0.5 * jnp.pi * jax.random.uniform(key_time, minval=low, maxval=high)
        time = jnp.minimum(time, MAX_STEPS * tuning)
        num_steps = jnp.ceil(time / tuning).astype(int)
        return self.walk(target, key_accept, start, time / num_steps, num_steps)
