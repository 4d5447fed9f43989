"""Base class of kernels: Markov transitions with options, adaptation, statistics and standards."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from invlift.programs.pytrees import Module, PyTree
from invlift.samplers.chains.adaptation import Adaptation, DualAveraging
from invlift.standards import Standards
from invlift.targets import Described, Target

#: Kinds of target that an inverse problem offers to kernels.
TargetKind = Literal["manifold", "density", "laplace"]


#: Standards of trajectories on a density: they fail where their energy is not conserved.
DIVERGENCES = Standards(
    failures="num_divergences",
    failures_in_words="trajectories diverged",
    failures_in_brief="divergences",
    advice="raise target_acceptance or warmup, or sample on the lifted manifold (chmc)",
)


def acceptance_probability(log_ratio: jax.Array) -> jax.Array:
    """Return min(1, exp(log_ratio)), (), or 0 for NaN (Metropolis et al. 1953)."""
    return jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))


def statistics(
    acceptance_rate, is_accepted, num_steps=1, num_factorisations=1, **further
) -> dict[str, jax.Array]:
    """Return the statistics of a transition by name, () each: see :meth:`Kernel.step`."""
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
        The target of an inverse problem that the kernel needs.  "manifold": the lifted posterior
        (:class:`~invlift.targets.ConstrainedTarget`).  "density": the ordinary posterior, with
        ``logdensity``, ``loglikelihood`` and ``describe`` of a position.  "laplace": the ordinary
        posterior in coordinates in which its Laplace approximation is standard normal.
    standards : Standards
    step_sizes : (float, float) or None
        Smallest and largest step size, if only the step size is adapted, to
        ``target_acceptance``; else None.
    carries : tuple of str
        Fields of the state that the chain keeps and saves with its position; the state must then
        be a NamedTuple.  The other fields are recomputed from the position every few iterations,
        except in a small model, which keeps all fields.  List the fields that do not follow from
        the position, and those that are small but costly to compute.
    """

    target_kind: ClassVar[TargetKind] = "density"
    standards: ClassVar[Standards] = Standards()
    step_sizes: ClassVar[tuple[float, float] | None] = None
    carries: ClassVar[tuple[str, ...]] = ()

    @property
    def adaptation(self) -> Adaptation:
        """Tuning during warm-up: of the step size by dual averaging, or none."""
        if self.step_sizes is None:
            return Adaptation()
        least, most = self.step_sizes
        return DualAveraging(self.target_acceptance, initial=0.1, least=least, most=most)

    def init(self, target: Target, position: jax.Array) -> PyTree:
        """Return the first state of a chain, a pytree that depends only on target and position.

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
        """Return the position of a state, (Q,)."""
        return state.position

    def carried(self, state: PyTree) -> dict[str, jax.Array]:
        """Return the fields of a state that are saved with its position, of any shape (...)."""
        return {name: getattr(state, name) for name in self.carries}

    def step(
        self, target: Target, rng_key: jax.Array, state: PyTree, tuning: PyTree
    ) -> tuple[PyTree, dict]:
        """Make one transition.

        Parameters
        ----------
        target
        rng_key : jax.Array
        state
        tuning
            Result of the adaptation's ``tuning``.

        Returns
        -------
        state
        dict of () arrays
            Statistics.  They include ``acceptance_rate`` and ``num_factorisations``, the number of
            evaluations of the model; each evaluation factorises its equation once.
        """
        raise NotImplementedError

    def distance(self, target: Target, state: PyTree) -> jax.Array:
        """Return the distance of a state from the set on which the target is defined.

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
        """Return the stored quantities of a draw, and the quantities kept only as moments.

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
