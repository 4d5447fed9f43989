"""Base classes of the kernels of constrained dynamics: options, trajectories and statistics."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from invlift.files.tables import integer, number
from invlift.programs.pytrees import PyTree
from invlift.projections import distance_to_manifold
from invlift.samplers.constrained.retractions import RETRACTIONS
from invlift.samplers.constrained.splittings import SPLITTINGS, build_splitting
from invlift.samplers.constrained.step import Integrator, State, constrained_step
from invlift.samplers.kernels import base
from invlift.samplers.kernels.base import Kernel, Standards, acceptance_probability
from invlift.targets import ConstrainedTarget, Described, Point

#: Share of the transitions with full return checks, which show whether an early stop gives the same
#: result.  They cost at most 2 % of the factorisations.
AUDITED = 0.05
#: Number folded into the key to draw this choice; it differs from the numbers that a split uses.
AUDIT = 2**31 - 2


class ManifoldKernel(Kernel, settings=True):
    """Base class of kernels with a state that is, or holds, a constrained target's evaluation."""

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
        """Evaluate the target at a position, (Q,)."""
        return target.point(position)

    def point_of(self, state: PyTree) -> Point:
        """Return the target's evaluation that a state holds: here the state itself."""
        return state

    def position(self, state: PyTree) -> jax.Array:
        """Return the position of a state, (Q,)."""
        return self.point_of(state).position

    def distance(self, target: ConstrainedTarget, state: PyTree) -> jax.Array:
        """Return the distance from the manifold, ().

        See :func:`~invlift.projections.distance_to_manifold`.
        """
        return distance_to_manifold(target, self.point_of(state))

    def describe(self, target: ConstrainedTarget, state: PyTree) -> Described:
        """Return the target's description of a point."""
        return target.describe(self.point_of(state))


class ConstrainedKernel(ManifoldKernel, settings=True):
    """A kernel of constrained dynamics (Au, Graham & Thiery 2023, section 4).

    Attributes
    ----------
    retraction : {"chebyshev", "newton", "newton-line-search", "symmetric-newton"}
        Method that moves a position back onto the manifold.
    splitting : {"gaussian", "stormer-verlet", "geodesic"}
        Splitting of the Hamiltonian.
    num_inner : int
        Inner steps of the geodesic splitting.
    simulation : {"target", "free"}
        Hamiltonian of the proposals: the target's, or one without kicks of the momentum.  The
        latter saves no time, but shows the benefit of the kicks (Brubaker, Salzmann & Urtasun
        2012).
    return_check : {"early", "exact"}
        End of the reversibility check of a step: as soon as its result is nearly certain, or at
        full convergence.  "early" runs the full check in one transition of twenty, chosen at
        random, and uses its result there.  It also counts the cases in which the early result
        would differ.
    target_acceptance : float
        Acceptance rate to which the step size is adapted (Graham, Thiery & Beskos 2022, appendix
        N).
    """

    retraction: Literal[tuple(RETRACTIONS)] = "chebyshev"
    splitting: Literal[SPLITTINGS] = "gaussian"
    num_inner: integer(1, 1000) = 3
    simulation: Literal["target", "free"] = "target"
    return_check: Literal["early", "exact"] = "early"
    target_acceptance: number(0.01, 0.99) = 0.8

    @property
    def step_sizes(self) -> tuple[float, float]:
        """Smallest and largest step size; the splitting sets the largest.

        A chain that needs steps shorter than 2e-3 is stuck.  Its low acceptance rate should show
        this; thousands of steps per draw would hide it.
        """
        return 2e-3, self.integrator.splitting.longest

    @property
    def integrator(self) -> Integrator:
        """Integrator of one step: splitting, retraction and end of the return check."""
        return Integrator(
            build_splitting(self.splitting, self.num_inner, self.simulation),
            RETRACTIONS[self.retraction],
            self.return_check == "early",
        )

    def drawn_integrator(self, rng_key: jax.Array) -> Integrator:
        """Return the integrator of a transition; the key decides whether its steps are audited.

        The choice holds for the whole transition, so that the transition stays reversible.
        """
        is_audited = jax.random.uniform(jax.random.fold_in(rng_key, AUDIT)) < AUDITED
        return self.integrator._replace(is_audited=is_audited)

    def walk(
        self, target: ConstrainedTarget, rng_key: jax.Array, start: State, step_size, num_steps
    ):
        """Simulate a trajectory with a given number of steps, and accept or reject its end.

        Parameters
        ----------
        target : ConstrainedTarget
        rng_key : jax.Array
            Key of the Metropolis decision and of the audit.
        start : State
        step_size : ()
        num_steps : () int
            A step that fails ends the trajectory, which is then rejected.

        Returns
        -------
        State
            The end if it is accepted, else the start.
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
    """Return the Hamiltonian, ()."""
    return 0.5 * state.momentum @ state.momentum - state.logdensity


def statistics(
    point, acceptance_rate, is_accepted, num_steps, num_failures, work, energy
) -> dict[str, jax.Array]:
    """Return the statistics of a transition.

    Parameters
    ----------
    point
        The target's evaluation at the new position.
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
        The arguments by name, and ``constraint_error``, the largest entry of the constraint;
        ``num_return_audits``, the number of steps with an audited return check; and
        ``num_return_disagreements``, the number of audited steps in which the early check would
        have decided wrongly.
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
