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

    A point on the ellipse through the position and a prior draw, found by shrinking a bracket until
    its likelihood is above a level drawn at the start.
    """

    carries: ClassVar[tuple[str, ...]] = ("logdensity",)

    def init(self, target: Density, position: jax.Array) -> PyTree:
        """Log likelihood at a position, (Q,)."""
        from blackjax.mcmc.elliptical_slice import init

        return init(position, _likelihood_of(target))

    def step(self, target: Density, rng_key: jax.Array, state, tuning):
        """One transition; there is no tuning."""
        from blackjax.mcmc.elliptical_slice import build_kernel

        ones, zeros = jnp.ones_like(state.position), jnp.zeros_like(state.position)
        new, info = build_kernel(ones, zeros)(rng_key, state, _likelihood_of(target))
        has_moved, num = jnp.any(new.position != state.position), info.subiter
        return new, statistics(1.0 / num, has_moved, num, num)


def _likelihood_of(target: Density):
    """The log likelihood, -inf where it is not a number: BlackJAX's loop would end there."""

    def loglikelihood(position):
        value = target.loglikelihood(position)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    return loglikelihood
