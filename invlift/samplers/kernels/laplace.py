"""Kernels that use the Laplace approximation, and independent draws from it."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax

from invlift.files.tables import number
from invlift.samplers.kernels.base import (
    Kernel,
    Standards,
    TargetKind,
    acceptance_probability,
    statistics,
)
from invlift.samplers.kernels.reference.langevin import MALA
from invlift.samplers.kernels.reference.random_walk import PreconditionedCrankNicolson
from invlift.targets import Density


class GeneralisedCrankNicolson(PreconditionedCrankNicolson, settings=True):
    """Generalised preconditioned Crank-Nicolson (Rudolf & Sprungk 2018): gpCN.

    The proposal theta' = m + sqrt(1 - b^2) (theta - m) + b C^(1/2) xi is reversible for the normal
    distribution with mean m and covariance C, here the Laplace approximation of the posterior.  In
    the coordinates of this approximation it is the proposal of
    :class:`PreconditionedCrankNicolson` (Pinski, Simpson, Stuart & Weber 2015, section 4).
    """

    target_kind: ClassVar[TargetKind] = "laplace"


class LaplaceMALA(MALA, settings=True):
    """MALA preconditioned by the covariance C of the Laplace approximation.

    theta' = theta + (h^2/2) C grad log pi(theta) + h C^(1/2) xi: :class:`MALA` in coordinates in
    which C is the identity (Roberts & Stramer 2002, section 4, with a constant matrix).

    Attributes
    ----------
    target_acceptance : float
        Acceptance rate to which the step size h is adapted.
    """

    target_kind: ClassVar[TargetKind] = "laplace"

    target_acceptance: number(0.01, 0.99) = 0.574


class LaplaceState(NamedTuple):
    """A draw and its log importance weight.

    Attributes
    ----------
    position : (Q,)
    log_weight : ()
        Log density of the posterior relative to the approximation.
    """

    position: jax.Array
    log_weight: jax.Array


class Laplace(Kernel, settings=True):
    """Independent draws from the Laplace approximation: a first answer, not the posterior.

    All draws are kept.  Their ``acceptance_rate`` is the acceptance probability of an independence
    sampler (Tierney 1994, section 2.3.3): 1 everywhere if the approximation is exact.
    """

    target_kind: ClassVar[TargetKind] = "laplace"
    standards: ClassVar[Standards] = Standards(
        caveat="these are draws from the Laplace approximation, not from the posterior",
        advice='sample the posterior itself, with method "chmc" say',
    )
    carries: ClassVar[tuple[str, ...]] = ("log_weight",)

    def init(self, target: Density, position: jax.Array) -> LaplaceState:
        """Return a position, (Q,), with its log importance weight."""
        return LaplaceState(position, target.loglikelihood(position))

    def step(self, target: Density, rng_key: jax.Array, state: LaplaceState, tuning):
        """Make one draw; there is no tuning."""
        new = self.init(target, jax.random.normal(rng_key, state.position.shape))
        return new, statistics(acceptance_probability(new.log_weight - state.log_weight), True)
