"""A kernel on parts of the unknowns in turn, each given the rest."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from invlift.errors import InputError
from invlift.programs.pytrees import static
from invlift.samplers.chains.adaptation import Adaptation
from invlift.samplers.kernels.base import Kernel, Standards
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.targets import Described, Target


class TargetInParts(Protocol):
    """What is asked of a target, beside what the kernel that walks on its parts asks of these."""

    def parts(self, position: jax.Array) -> tuple[Target, ...]:
        """Targets on the same positions, (Q,), each given something of the position.

        Each is the conditional distribution of the whole given that, and the position is in it.
        Their number and structure do not depend on the position.
        """
        ...

    def describe_position(self, position: jax.Array) -> Described:
        """What is kept of a draw, and that of which only moments are: arrays by name."""
        ...


class AlternateState(NamedTuple):
    """Where a chain is.

    Attributes
    ----------
    position : (Q,)
    iteration : () int
        Which part's turn it is, modulo their number.
    """

    position: jax.Array
    iteration: jax.Array


class Alternate(Kernel, settings=True):
    """One transition of a kernel on each part of a target in turn.

    Each leaves the conditional distribution on its part invariant, and so all do the whole one
    (Graham, Thiery & Beskos 2022, section 5.1, whose parts are paths given their values at
    alternating sets of times).  Momenta are not kept from one part to the next.

    Attributes
    ----------
    kernel : Kernel
    """

    carries: ClassVar[tuple[str, ...]] = ("iteration",)

    kernel: Kernel = static(default=ConstrainedHMC(persistence=0.0))

    @property
    def target_kind(self) -> str:
        """That of the kernel."""
        return self.kernel.target_kind

    @property
    def standards(self) -> Standards:
        """Those of the kernel."""
        return self.kernel.standards

    @property
    def adaptation(self) -> Adaptation:
        """That of the kernel, one for all parts."""
        return self.kernel.adaptation

    def init(self, target: TargetInParts, position: jax.Array) -> AlternateState:
        """The position, (Q,), at the first part's turn; an InputError if the target has none."""
        if not hasattr(target, "parts"):
            expected = "a target in parts, as a diffusion is if exact readings depend on its state "
            found = type(target).__name__
            raise InputError("kernel", expected + "alone", found, "take chmc")
        return AlternateState(position, jnp.asarray(0))

    def step(self, target: TargetInParts, rng_key: jax.Array, state: AlternateState, tuning):
        """One transition of the kernel on the part whose turn it is."""
        parts = target.parts(state.position)

        def walk_on(part):
            def walk():
                start = self.kernel.init(part, state.position)
                end, recorded = self.kernel.step(part, rng_key, start, tuning)
                return self.kernel.position(end), recorded

            return walk

        turn = state.iteration % len(parts)
        position, found = jax.lax.switch(turn, [walk_on(part) for part in parts])
        return AlternateState(position, state.iteration + 1), found

    def distance(self, target: TargetInParts, state: AlternateState) -> jax.Array:
        """From the first part, (): there the kernel's own."""
        part = target.parts(state.position)[0]
        return self.kernel.distance(part, self.kernel.init(part, state.position))

    def describe(self, target: TargetInParts, state: AlternateState) -> Described:
        """What the target keeps of a position."""
        return target.describe_position(state.position)
