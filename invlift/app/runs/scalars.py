"""Targets that record only scalars, for commands that store no fields."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.app.runs.quantities import quantities_of, recorded
from invlift.posterior.names import NOISE_SCORE, PREDICTED
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem
from invlift.programs.pytrees import Module, static
from invlift.targets import Described, Target


def names_of_fields(problem: InverseProblem | ManifoldProblem) -> tuple[str, ...]:
    """Return the names of the fields among the draws of a problem."""
    return tuple(each.name for each in recorded(problem)[0] if each.place and not each.is_derived)


class _At(NamedTuple):
    """A position, (Q,), in the place of a point."""

    position: jax.Array


class Scalars(Module):
    """Target of any kind that records only scalars, the same for all methods.

    Fields are recorded by their mean and standard deviation over the coefficients, as in Au, Graham
    & Thiery (2023), section 6. Parameters and unknowns of noise and prior are recorded unchanged.
    """

    target: Target
    fields: tuple[str, ...] = static()

    def __getattr__(self, name: str) -> Any:
        if name == "target":  # not set yet
            raise AttributeError(name)
        return getattr(self.target, name)

    def describe(self, where) -> Described:
        """Return scalars and short vectors by name, and no moments."""
        return self.kept(where, self.target.describe(where)[0]), {}

    def describe_position(self, position: jax.Array) -> Described:
        """As :meth:`describe`, at a position, (Q,), of a target in parts."""
        described, _ = self.target.describe_position(position)
        return self.kept(_At(position), described), {}

    def kept(self, where, recorded: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Select the recorded quantities from those that the target describes."""
        not_kept = (PREDICTED, NOISE_SCORE, *self.fields)
        scalars = {name: values for name, values in recorded.items() if name not in not_kept}
        for name in self.fields:
            mean, deviation = jnp.mean(recorded[name]), jnp.std(recorded[name])
            scalars |= {f"{name}_field_mean": mean, f"{name}_field_std": deviation}
        return scalars


#: Name of a quantity that depends on both data and unknowns.
LOG_LIKELIHOOD = "log_likelihood"
#: Number of entries of a vector that are ranked.
NUM_ENTRIES = 5


class RankedScalars(Scalars):
    """Target that records the quantities in which true values are ranked.

    They include some entries of each vector, and the log likelihood, which also depends on the
    data. Without such a quantity draws from the prior would pass the test (Modrak et al. 2023,
    arXiv:2211.02383).
    """

    #: Entries, (k,) int, by vector.
    places: dict[str, jax.Array]

    def kept(self, where, recorded: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Select the recorded quantities from those that the target describes."""
        problem = self.target.problem.whole
        zeta, _ = problem.split(self.target.unknowns(where))
        log = problem.noise.loglikelihood(recorded[PREDICTED], zeta, problem.observed)
        entries = {name: jnp.ravel(recorded[name])[at] for name, at in self.places.items()}
        return super().kept(where, recorded) | entries | {LOG_LIKELIHOOD: log}


def random_entries(problem: InverseProblem, seed: int) -> dict[str, dict[str, int]]:
    """Choose at most 5 unknown entries of each vector that is drawn, with a seed.

    Returns, by name of the vector, the indices of the entries by their names. Names of entries of a
    field contain their coordinates.
    """
    fields = {each.name: each for each in quantities_of(problem) if each.place}
    mesh, entries = problem.mesh, {}
    for vector, shape in problem.shapes_of_draws().items():
        if not shape or vector in (PREDICTED, NOISE_SCORE):
            continue
        part = problem.prior.parts.get(vector, problem.prior)
        unknown = np.arange(math.prod(shape))
        if vector in fields and hasattr(part, "is_known"):
            unknown = np.flatnonzero(~np.asarray(part.is_known))
        size, rng = min(len(unknown), NUM_ENTRIES), np.random.default_rng(seed)
        chosen = np.sort(rng.choice(unknown, size, replace=False))
        names = [f"{vector}[{place}]" for place in chosen]
        if vector in fields:
            is_nodal = fields[vector].place == "node"
            points = mesh.points if is_nodal else mesh.points[mesh.cells].mean(axis=1)
            texts = (", ".join(f"{x:.3g}" for x in points[place] + 0.0) for place in chosen)
            names = [f"{vector}({text})" for text in texts]
        entries[vector] = dict(zip(names, chosen.tolist(), strict=True))
    return entries
