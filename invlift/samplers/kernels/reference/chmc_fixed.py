"""Constrained dynamics over a fixed number of steps: HMC, Langevin and random-walk Metropolis."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax

from invlift.files.tables import integer, number
from invlift.samplers.constrained.splittings import SPLITTINGS
from invlift.samplers.constrained.step import build_state, sample_momentum
from invlift.samplers.kernels.constrained import ConstrainedKernel, Standards
from invlift.targets import ConstrainedTarget


class FixedConstrainedHMC(ConstrainedKernel, settings=True):
    """Constrained HMC over a fixed number of steps (Brubaker, Salzmann & Urtasun 2012).

    Attributes
    ----------
    num_steps : int
        Steps of each trajectory.
    retraction, splitting, num_inner, simulation, return_check, target_acceptance
        See :class:`~invlift.samplers.kernels.constrained.ConstrainedKernel`.
    """

    num_steps: integer(1, 10_000) = 3

    def step(self, target: ConstrainedTarget, rng_key: jax.Array, state, tuning):
        """Make one transition from point to point; ``tuning`` is the step size, ()."""
        key_momentum, key_accept = jax.random.split(rng_key)
        start = build_state(state, sample_momentum(target, key_momentum, state))
        end, recorded = self.walk(target, key_accept, start, tuning, self.num_steps)
        return end.point, recorded


class ConstrainedLangevin(FixedConstrainedHMC, settings=True):
    """Constrained Langevin: a single step of the dynamics (Brubaker, Salzmann & Urtasun 2012).

    Attributes
    ----------
    retraction, splitting, num_inner, simulation, return_check, target_acceptance
        See :class:`~invlift.samplers.kernels.constrained.ConstrainedKernel`.  The default target
        acceptance is the optimum of Langevin dynamics (Roberts & Rosenthal 1998).
    """

    splitting: Literal[SPLITTINGS] = "stormer-verlet"
    target_acceptance: number(0.01, 0.99) = 0.574
    num_steps: ClassVar[int] = 1


class ConstrainedRandomWalk(FixedConstrainedHMC, settings=True):
    """Constrained random-walk Metropolis (Zappa, Holmes-Cerf & Goodman 2018, section 2).

    The proposal is a normal step in the tangent space, moved back onto the manifold along the
    normal space.  This is one step of the dynamics without kicks.  The Metropolis test uses the
    target's Hamiltonian, whose kinetic part gives the ratio of proposal densities.

    Attributes
    ----------
    retraction, return_check, target_acceptance
        See :class:`~invlift.samplers.kernels.constrained.ConstrainedKernel`.  The default target
        acceptance is the optimum of random walks (Roberts, Gelman & Gilks 1997).
    """

    standards: ClassVar[Standards] = ConstrainedKernel.standards._replace(
        min_acceptance=0.1, short_step=None
    )

    target_acceptance: number(0.01, 0.99) = 0.234
    splitting: ClassVar[str] = "stormer-verlet"
    simulation: ClassVar[str] = "free"
    num_inner: ClassVar[int] = 1
    num_steps: ClassVar[int] = 1
