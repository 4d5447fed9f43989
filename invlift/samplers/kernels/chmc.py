"""Constrained HMC over about a quarter of the prior's period."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.files.tables import number
from invlift.samplers.constrained.step import build_state, sample_momentum
from invlift.samplers.kernels.constrained import ConstrainedKernel
from invlift.targets import ConstrainedTarget, Point

#: Largest number of steps of a trajectory.  Where the steps are so short that the integration time
#: would need more, shorter trajectories with more correlated draws cost less.
MAX_STEPS = 100
#: Range of the integration time around a quarter of the prior's period, pi/2.
JITTER = (0.7, 1.3)


def quarter_period(rng_key: jax.Array, step_size) -> tuple[jax.Array, jax.Array]:
    """Draw an integration time; return length and number of its equal steps, () each.

    The time is (pi/2) Uniform(0.7, 1.3), but not more than 100 step sizes.  A step is not longer
    than the step size.
    """
    low, high = JITTER
    time = 0.5 * jnp.pi * jax.random.uniform(rng_key, minval=low, maxval=high)
    time = jnp.minimum(time, MAX_STEPS * step_size)
    num_steps = jnp.maximum(1, jnp.ceil(time / step_size)).astype(int)
    return time / num_steps, num_steps


class PhasePoint(NamedTuple):
    """State of a chain with partial momentum refreshment.

    Attributes
    ----------
    point
        The target's evaluation at the position.
    momentum : (Q,)
        Last momentum, in the tangent space at the position.  The next trajectory starts with a
        part of it.
    has_momentum : () bool
        False before the first transition.
    """

    point: Point
    momentum: jax.Array
    has_momentum: jax.Array


class ConstrainedHMC(ConstrainedKernel, settings=True):
    """Constrained HMC transition over about a quarter period (Au et al. 2023, Algorithm 3).

    Where the posterior is close to Gaussian, all directions of the lifted state oscillate with
    unit frequency (Au et al. 2023, theorem 1).  After a quarter period the state is then nearly
    independent of its start.  The integration time, (pi/2) Uniform(0.7, 1.3), is random, to avoid
    resonance.  It is divided into equal steps no longer than the step size, at most 100.

    A trajectory starts with a part of the final momentum of the last one, reversed if that one was
    rejected.  This is generalised HMC (Horowitz 1991; on manifolds, with a reversibility check,
    Lelièvre, Rousset & Stoltz 2019).  Where the posterior is wider than the reach of a quarter
    period, as along a noise scale that the readings hardly determine, the chain keeps its
    direction.

    Attributes
    ----------
    retraction, splitting, num_inner, return_check, target_acceptance
        See :class:`~invlift.samplers.kernels.constrained.ConstrainedKernel`.
    persistence : float
        Correlation of the first momentum of a trajectory with the final momentum of the last one.
        At 0 the momenta are independent, as in Algorithm 3.
    """

    carries: ClassVar[tuple[str, ...]] = ("momentum", "has_momentum")

    persistence: number(0, 0.99) = 0.4

    def init(self, target: ConstrainedTarget, position: jax.Array) -> PhasePoint:
        """Evaluate the target at a position, (Q,), without a momentum."""
        return PhasePoint(target.point(position), jnp.zeros_like(position), jnp.asarray(False))

    def point_of(self, state: PhasePoint) -> Point:
        """Return the target's evaluation at the state's position."""
        return state.point

    def step(self, target: ConstrainedTarget, rng_key: jax.Array, state: PhasePoint, tuning):
        """Make one transition; ``tuning`` is the step size, ()."""
        key_momentum, key_time, key_accept = jax.random.split(rng_key, 3)
        kept = jnp.where(state.has_momentum, self.persistence, 0.0)
        fresh = sample_momentum(target, key_momentum, state.point)
        momentum = kept * state.momentum + jnp.sqrt(1.0 - kept**2) * fresh
        start = build_state(state.point, momentum)
        end, recorded = self.walk(target, key_accept, start, *quarter_period(key_time, tuning))
        # A rejection reverses the momentum; else the density is not invariant (Horowitz 1991).
        momentum = jnp.where(recorded["is_accepted"], end.momentum, -end.momentum)
        return PhasePoint(end.point, momentum, jnp.asarray(True)), recorded
