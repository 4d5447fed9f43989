"""What a kernel is: a Markov transition, with its options, adaptation, statistics and standards."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from invlift.programs.pytrees import Module, PyTree
from invlift.samplers.chains.adaptation import Adaptation, DualAveraging
from invlift.standards import Standards
from invlift.targets import Described, Target

#: Which target of an inverse problem a kernel needs.
TargetKind = Literal["manifold", "density", "laplace"]


#: Of trajectories on a density, which fail where their energy is not kept.
DIVERGENCES = Standards(
    failures="num_divergences",
    failures_in_words="trajectories diverged",
    failures_in_brief="divergences",
    advice="raise target_acceptance or warmup, or sample on the lifted manifold (chmc)",
)


def acceptance_probability(log_ratio: jax.Array) -> jax.Array:
    """min(1, exp(log_ratio)), (); 0 where it is not a number (Metropolis et al. 1953)."""
    return jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))


def statistics(
    acceptance_rate, is_accepted, num_steps=1, num_factorisations=1, **further
) -> dict[str, jax.Array]:
    """Statistics of a transition by name, () each: see :meth:`Kernel.step`."""
    recorded = {
        "acceptance_rate": acceptance_rate,
        "is_accepted": is_accepted,
        "num_steps": num_steps,
        "num_factorisations": num_factorisations,
    }
    return jax.tree.map(jnp.asarray, recorded | further)


class Kernel(Module, settings=True):
    """A transition that leaves a target invariant; its fields are its options.

    A subclass writes :meth:`init` and :meth:`step`, and may write the other methods.

    Attributes
    ----------
    target_kind : {"manifold", "density", "laplace"}
        Which target of an inverse problem it needs: the lifted posterior
        (:class:`~invlift.targets.ConstrainedTarget`); the ordinary one, with
        ``logdensity``, ``loglikelihood`` and ``describe`` of a position; or the same in coordinates
        in which its Laplace approximation is standard normal.
    standards : Standards
    step_sizes : (float, float) or None
        Smallest and largest step size, if the step size is all that is adapted, to
        ``target_acceptance``; else None.
    carries : tuple of str
        Fields of its state, then a NamedTuple, that the chain keeps and saves with its position.
        The others are computed again from the position every few iterations; a small model keeps
        all of them.  List what does not follow from the position, and what is small but costly to
        compute.
    """

    target_kind: ClassVar[TargetKind] = "density"
    standards: ClassVar[Standards] = Standards()
    step_sizes: ClassVar[tuple[float, float] | None] = None
    carries: ClassVar[tuple[str, ...]] = ()

    @property
    def adaptation(self) -> Adaptation:
        """How it is tuned during warm-up: a step size by dual averaging, or nothing."""
        if self.step_sizes is None:
            return Adaptation()
        least, most = self.step_sizes
        return DualAveraging(self.target_acceptance, initial=0.1, least=least, most=most)

    def init(self, target: Target, position: jax.Array) -> PyTree:
        """First state of a chain: a pytree that depends on target and position alone.

        Parameters
        ----------
        target
        position : (Q,)

        Returns
        -------
        state
        """
        raise NotImplementedError

    def position(self, state: PyTree) -> jax.Array:
        """Position of a state, (Q,)."""
        return state.position

    def carried(self, state: PyTree) -> dict[str, jax.Array]:
        """Fields of a state that are saved with its position, of any shape (...)."""
        return {name: getattr(state, name) for name in self.carries}

    def step(
        self, target: Target, rng_key: jax.Array, state: PyTree, tuning: PyTree
    ) -> tuple[PyTree, dict]:
        """One transition.

        Parameters
        ----------
        target
        rng_key : jax.Array
        state
        tuning
            From the adaptation.

        Returns
        -------
        state
        dict of () arrays
            Statistics: among them ``acceptance_rate`` and ``num_factorisations``, evaluations of
            the model, one factorisation of its equation each.
        """
        raise NotImplementedError

    def distance(self, target: Target, state: PyTree) -> jax.Array:
        """How far a state is from the set on which the target is defined.

        Parameters
        ----------
        target
        state

        Returns
        -------
        ()
            Largest entry of the constraint, in its unit; 0 for a density.
        """
        return jnp.asarray(0.0)

    def describe(self, target: Target, state: PyTree) -> Described:
        """What is kept of a draw, and that of which only moments are kept.

        Parameters
        ----------
        target
        state

        Returns
        -------
        dict, dict
            Arrays by name.
        """
        return target.describe(self.position(state))
