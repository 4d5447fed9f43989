"""Elliptical slice sampling: BlackJAX's kernel."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from invlift.programs.pytrees import PyTree
from invlift.samplers.kernels.base import Kernel, statistics
from invlift.targets import Density


class EllipticalSlice(Kernel, settings=True):
    """Elliptical slice sampling (Murray, Adams & MacKay 2010, Figure 2): nothing to tune.

    The next position lies on the ellipse through the position and a prior draw.  A bracket on the
    ellipse shrinks until the likelihood of a point in it exceeds a level drawn at the start.
    """

    carries: ClassVar[tuple[str, ...]] = ("logdensity",)

    def init(self, target: Density, position: jax.Array) -> PyTree:
        """Evaluate the log likelihood at a position, (Q,)."""
        from blackjax.mcmc.elliptical_slice import init

        return init(position, _likelihood_of(target))

    def step(self, target: Density, rng_key: jax.Array, state, tuning):
        """Make one transition; there is no tuning."""
        from blackjax.mcmc.elliptical_slice import build_kernel

        ones, zeros = jnp.ones_like(state.position), jnp.zeros_like(state.position)
        new, info = build_kernel(ones, zeros)(rng_key, state, _likelihood_of(target))
        has_moved, num = jnp.any(new.position != state.position), info.subiter
        return new, statistics(1.0 / num, has_moved, num, num)


def _likelihood_of(target: Density):
    """Return the log likelihood, with -inf for NaN, because a NaN would end BlackJAX's loop."""

    def loglikelihood(position):
        value = target.loglikelihood(position)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    return loglikelihood
