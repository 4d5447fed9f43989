"""The Metropolis-adjusted Langevin algorithm: BlackJAX's kernel."""

from __future__ import annotations

from typing import ClassVar

import jax

from invlift.files.tables import number
from invlift.programs.pytrees import PyTree
from invlift.samplers.kernels.base import Kernel, Standards, statistics
from invlift.targets import Density


class MALA(Kernel, settings=True):
    """Metropolis-adjusted Langevin algorithm (Besag 1994; Roberts & Tweedie 1996).

    theta' = theta + (h^2/2) grad log pi(theta) + h xi with xi standard normal, accepted with the
    ratio of proposal densities (Hastings 1970).  BlackJAX's step size is h^2/2.

    Attributes
    ----------
    target_acceptance : float
        Acceptance rate to which the step size h is adapted; 0.574 is optimal in many dimensions
        (Roberts & Rosenthal 1998).
    """

    standards: ClassVar[Standards] = Standards(min_acceptance=0.3)
    step_sizes: ClassVar[tuple[float, float]] = (1e-6, 10.0)
    carries: ClassVar[tuple[str, ...]] = ("logdensity", "logdensity_grad")

    target_acceptance: number(0.01, 0.99) = 0.574

    def init(self, target: Density, position: jax.Array) -> PyTree:
        """Evaluate the log density and its gradient at a position, (Q,)."""
        # Imported here: the import takes half a second, and only this method needs it.
        from blackjax.mcmc.mala import init

        return init(position, target.logdensity)

    def step(self, target: Density, rng_key: jax.Array, state, tuning):
        """Make one transition; ``tuning`` is the step size h, ()."""
        from blackjax.mcmc.mala import build_kernel

        new, info = build_kernel()(rng_key, state, target.logdensity, 0.5 * tuning**2)
        return new, statistics(info.acceptance_rate, info.is_accepted)
