"""A kernel that updates parts of the unknowns in turn, each conditional on the rest."""

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
    """A target with conditional parts; each part also needs the methods that the kernel calls."""

    def parts(self, position: jax.Array) -> tuple[Target, ...]:
        """Return the conditional targets at a position, (Q,), each on positions of this shape.

        Each target is the whole distribution conditioned on some function of the position.  The
        position belongs to the support of all of them.  Their number and structure do not depend
        on the position.
        """
        ...

    def describe_position(self, position: jax.Array) -> Described:
        """Return the stored arrays of a draw at a position, (Q,), and those kept as moments only.

        Both are dicts of arrays by name.
        """
        ...


class AlternateState(NamedTuple):
    """State of a chain.

    Attributes
    ----------
    position : (Q,)
    iteration : () int
        Number of the iteration; modulo the number of parts, the index of the part to update.
    """

    position: jax.Array
    iteration: jax.Array


class Alternate(Kernel, settings=True):
    """Kernel that makes one transition on each part of a target in turn.

    Each transition leaves the conditional distribution of its part invariant.  All of them
    therefore leave the whole distribution invariant (Graham, Thiery & Beskos 2022, section 5.1,
    where the parts are paths given their values at alternating sets of times).  Momenta are not
    kept from one part to the next.

    Attributes
    ----------
    kernel : Kernel
    """

    carries: ClassVar[tuple[str, ...]] = ("iteration",)

    kernel: Kernel = static(default=ConstrainedHMC(persistence=0.0))

    @property
    def target_kind(self) -> str:
        """Target kind of the inner kernel."""
        return self.kernel.target_kind

    @property
    def standards(self) -> Standards:
        """Standards of the inner kernel."""
        return self.kernel.standards

    @property
    def adaptation(self) -> Adaptation:
        """Adaptation of the inner kernel, shared by all parts."""
        return self.kernel.adaptation

    def init(self, target: TargetInParts, position: jax.Array) -> AlternateState:
        """Return the state at a position, (Q,), before the first part; InputError without parts."""
        if not hasattr(target, "parts"):
            expected = "a target in parts, as a diffusion is if exact readings depend on its state "
            found = type(target).__name__
            raise InputError("kernel", expected + "alone", found, "take chmc")
        return AlternateState(position, jnp.asarray(0))

    def step(self, target: TargetInParts, rng_key: jax.Array, state: AlternateState, tuning):
        """Make one transition of the inner kernel on the current part."""
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
        """Return the inner kernel's distance from the manifold of the first part, ()."""
        part = target.parts(state.position)[0]
        return self.kernel.distance(part, self.kernel.init(part, state.position))

    def describe(self, target: TargetInParts, state: AlternateState) -> Described:
        """Return the target's description of the position."""
        return target.describe_position(state.position)
