"""What all kernels of constrained dynamics share: how a step is made and what it is judged by."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from invlift.files.tables import integer, number
from invlift.programs.pytrees import PyTree
from invlift.projections import distance_to_manifold
from invlift.samplers.constrained.retractions import RETRACTIONS
from invlift.samplers.constrained.splittings import build_splitting
from invlift.samplers.constrained.step import Integrator, State, constrained_step
from invlift.samplers.kernels import base
from invlift.samplers.kernels.base import Kernel, Standards, acceptance_probability
from invlift.targets import ConstrainedTarget, Described, Point

#: Share of the transitions whose return checks are computed to their end, to see whether stopping
#: early gives the same result: they cost at most 2 % of the factorisations.
AUDITED = 0.05
#: What is folded into a key for that choice: unlike any number of a key that is split.
AUDIT = 2**31 - 2


class ManifoldKernel(Kernel, settings=True):
    """A kernel whose state is, or holds, a constrained target's evaluation at a position."""

    target_kind: ClassVar[str] = "manifold"
    standards: ClassVar[Standards] = Standards(
        min_acceptance=0.5,
        failures="num_projection_failures",
        failures_in_words="projections onto the data manifold failed",
        failures_in_brief="projections failed",
        advice="raise warmup for a smaller step size; check for a noise scale far too small",
        short_step=0.03,
    )

    def init(self, target: ConstrainedTarget, position: jax.Array) -> PyTree:
        """The target's evaluation at a position, (Q,)."""
        return target.point(position)

    def point_of(self, state: PyTree) -> Point:
        """The target's evaluation that a state holds: here it is the state."""
        return state

    def position(self, state: PyTree) -> jax.Array:
        """Position of a state, (Q,)."""
        return self.point_of(state).position

    def distance(self, target: ConstrainedTarget, state: PyTree) -> jax.Array:
        """From the manifold, (): see
        :func:`~invlift.projections.distance_to_manifold`.
        """
        return distance_to_manifold(target, self.point_of(state))

    def describe(self, target: ConstrainedTarget, state: PyTree) -> Described:
        """What the target keeps of a point."""
        return target.describe(self.point_of(state))


class ConstrainedKernel(ManifoldKernel, settings=True):
    """A kernel of constrained dynamics (Au, Graham & Thiery 2023, section 4).

    Attributes
    ----------
    retraction : {"chebyshev", "newton", "newton-line-search", "symmetric-newton"}
        How a position is moved back onto the manifold.
    splitting : {"gaussian", "stormer-verlet", "geodesic"}
        How the Hamiltonian is split.
    num_inner : int
        Inner steps of the geodesic splitting.
    simulation : {"target", "free"}
        Whether the target's own Hamiltonian makes proposals, or one without kicks, which saves
        nothing but shows what the kicks are worth (Brubaker, Salzmann & Urtasun 2012).
    return_check : {"early", "exact"}
        Whether the way back of a step is followed until its end is nearly certain, or to its end.
        "early" follows it to its end in one transition of twenty, drawn by chance, decides these by
        what it finds there, and counts where an early end would have decided otherwise.
    target_acceptance : float
        What the step size is adapted to (Graham, Thiery & Beskos 2022, appendix N).
    """

    retraction: Literal["chebyshev", "newton", "newton-line-search", "symmetric-newton"] = (
        "chebyshev"
    )
    splitting: Literal["gaussian", "stormer-verlet", "geodesic"] = "gaussian"
    num_inner: integer(1, 1000) = 3
    simulation: Literal["target", "free"] = "target"
    return_check: Literal["early", "exact"] = "early"
    target_acceptance: number(0.01, 0.99) = 0.8

    @property
    def step_sizes(self) -> tuple[float, float]:
        """Least and largest step size, the latter the splitting's.

        A chain that would need shorter steps than 2e-3 is stuck, and should show it by rejecting
        rather than by taking thousands of steps per draw.
        """
        return 2e-3, self.integrator.splitting.longest

    @property
    def integrator(self) -> Integrator:
        """How a step is made."""
        return Integrator(
            build_splitting(self.splitting, self.num_inner, self.simulation),
            RETRACTIONS[self.retraction],
            self.return_check == "early",
        )

    def drawn_integrator(self, rng_key: jax.Array) -> Integrator:
        """How the steps of a transition with this key are made: audited or not.

        Drawn for a transition as a whole, whatever happens in it, so that it stays reversible.
        """
        is_audited = jax.random.uniform(jax.random.fold_in(rng_key, AUDIT)) < AUDITED
        return self.integrator._replace(is_audited=is_audited)

    def walk(
        self, target: ConstrainedTarget, rng_key: jax.Array, start: State, step_size, num_steps
    ):
        """A trajectory of a number of steps whose end is accepted or rejected.

        Parameters
        ----------
        target : ConstrainedTarget
        rng_key : jax.Array
            Decides.
        start : State
        step_size : ()
        num_steps : () int
            A step that fails ends the trajectory, which is then rejected.

        Returns
        -------
        State
            The end, or the start as it was.
        dict
            Statistics.
        """
        integrator = self.drawn_integrator(rng_key)

        def is_running(loop):
            state, count = loop
            return (count < num_steps) & (state.num_failures == 0)

        def advance(loop):
            state, count = loop
            return constrained_step(integrator, target, state, step_size), count + 1

        end, count = jax.lax.while_loop(is_running, advance, (start, 0))
        acceptance = acceptance_probability(energy(start) - energy(end))
        is_accepted = jax.random.uniform(rng_key) < acceptance
        chosen = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), end, start)
        return chosen, statistics(
            chosen.point,
            acceptance,
            is_accepted,
            count,
            end.num_failures,
            end.work,
            energy(chosen),
        )


def energy(state: State) -> jax.Array:
    """The Hamiltonian, ()."""
    return 0.5 * state.momentum @ state.momentum - state.logdensity


def statistics(
    point, acceptance_rate, is_accepted, num_steps, num_failures, work, energy
) -> dict[str, jax.Array]:
    """Statistics of a transition.

    Parameters
    ----------
    point
        Where it ended.
    acceptance_rate : ()
        Acceptance probability; for dynamic trajectories its average over the trajectory.
    is_accepted : () bool
        Whether the chain moved.
    num_steps : () int
        Steps taken.
    num_failures : () int
        Steps whose retraction failed or that were not reversible.
    work : (3,) int
        See :func:`~invlift.samplers.constrained.retractions.work`.
    energy : ()
        Hamiltonian at the new state.

    Returns
    -------
    dict
        These by name, and ``constraint_error``, the largest entry of the constraint;
        ``num_return_audits``, steps whose early return check was audited, and
        ``num_return_disagreements``, those of them that it would have decided wrongly.
    """
    return base.statistics(
        acceptance_rate,
        is_accepted,
        num_steps,
        num_factorisations=work[0],
        num_projection_failures=num_failures,
        energy=energy,
        constraint_error=jnp.max(jnp.abs(point.constraint)),
        num_return_audits=work[1],
        num_return_disagreements=work[2],
    )
