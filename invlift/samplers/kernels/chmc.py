"""Constrained HMC over about a quarter of the prior's period."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.files.tables import number
from invlift.samplers.constrained.step import build_state, sample_momentum
from invlift.samplers.kernels.constrained import ConstrainedKernel
from invlift.targets import ConstrainedTarget, Point

#: Steps after which a trajectory ends even if its time is not over: where so short steps are needed
#: that it would take more, draws that depend on one another more closely cost less.
MAX_STEPS = 100
#: Range of the integration time around a quarter of the prior's period, pi/2.
JITTER = (0.7, 1.3)


def quarter_period(rng_key: jax.Array, step_size) -> tuple[jax.Array, jax.Array]:
    """Length and number of equal steps, (), no longer than a step size, of a time drawn anew.

    (pi/2) Uniform(0.7, 1.3), or what 100 steps reach.
    """
    low, high = JITTER
    time = 0.5 * jnp.pi * jax.random.uniform(rng_key, minval=low, maxval=high)
    time = jnp.minimum(time, MAX_STEPS * step_size)
    num_steps = jnp.maximum(1, jnp.ceil(time / step_size)).astype(int)
    return time / num_steps, num_steps


class PhasePoint(NamedTuple):
    """A point of a chain that keeps some of its momentum.

    Attributes
    ----------
    point
        The target's evaluation at the position.
    momentum : (Q,)
        In the tangent space there: what the next trajectory starts with a part of.
    has_momentum : () bool
        Whether there is one; not before the first transition.
    """

    point: Point
    momentum: jax.Array
    has_momentum: jax.Array


class ConstrainedHMC(ConstrainedKernel, settings=True):
    """Constrained HMC transition over about a quarter period (Au et al. 2023, Algorithm 3).

    Where the posterior is close to Gaussian, all directions of the lifted state oscillate with
    unit frequency (Au et al. 2023, theorem 1), so that after a quarter period the state has
    forgotten where it was.  The time, (pi/2) Uniform(0.7, 1.3), is randomised against resonance
    and cut into equal steps no longer than the step size, at most 100.

    A trajectory starts with a part of the momentum that the last one ended with, reversed if that
    one was rejected: generalised HMC (Horowitz 1991; on manifolds, with the check of the way back,
    Lelièvre, Rousset & Stoltz 2019).  Where the posterior is wider than a quarter period reaches,
    as along a noise scale of which the readings say little, the chain then keeps its direction.

    Attributes
    ----------
    retraction, splitting, num_inner, return_check, target_acceptance
        See :class:`~invlift.samplers.kernels.constrained.ConstrainedKernel`.
    persistence : float
        Correlation of a trajectory's first momentum with the last one's; at 0 momenta are
        independent, as in Algorithm 3 itself.
    """

    carries: ClassVar[tuple[str, ...]] = ("momentum", "has_momentum")

    persistence: number(0, 0.99) = 0.4

    def init(self, target: ConstrainedTarget, position: jax.Array) -> PhasePoint:
        """The target's evaluation at a position, (Q,), without a momentum yet."""
        return PhasePoint(target.point(position), jnp.zeros_like(position), jnp.asarray(False))

    def point_of(self, state: PhasePoint) -> Point:
        """The target's evaluation at the state's position."""
        return state.point

    def step(self, target: ConstrainedTarget, rng_key: jax.Array, state: PhasePoint, tuning):
        """One transition; ``tuning`` is the step size, ()."""
        key_momentum, key_time, key_accept = jax.random.split(rng_key, 3)
        kept = jnp.where(state.has_momentum, self.persistence, 0.0)
        fresh = sample_momentum(target, key_momentum, state.point)
        momentum = kept * state.momentum + jnp.sqrt(1.0 - kept**2) * fresh
        start = build_state(state.point, momentum)
        end, recorded = self.walk(target, key_accept, start, *quarter_period(key_time, tuning))
        # Reversed by a rejection, or the density would not be invariant (Horowitz 1991).
        momentum = jnp.where(recorded["is_accepted"], end.momentum, -end.momentum)
        return PhasePoint(end.point, momentum, jnp.asarray(True)), recorded
