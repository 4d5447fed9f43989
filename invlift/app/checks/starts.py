"""Checks at the start of the first chain: fit, sensitivity, dependence, choice of sampler."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from invlift.app.checks.findings import Finding
from invlift.app.checks.fit import check_fit, check_limits
from invlift.app.runs.starts import RoughStarts, Starts
from invlift.errors import InputError
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.models.named_model import NamedModel
from invlift.problems.choice.partly_lifted import laplace_referred
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem, name_of_reading
from invlift.problems.starts.landing import distance_from_manifold
from invlift.problems.starts.search import Start, from_lifted, lifted_above
from invlift.programs.compilation import program
from invlift.programs.dependence import NONE, spread
from invlift.targets import Target

#: Sensitivity, in sd of the noise, below which a reading has no information on the field.
BLIND = 1e-3
#: Largest number of unknowns for the test of a normal approximation, number of its draws, and
#: smallest effective share of their weights for a nearly normal posterior. The share is 0.7 and
#: 0.12 for hare and lynx and potassium channels, where NUTS is faster than constrained HMC; it is
#: 0.05, 0.06 and 0.02 for sodium channels and two soils, where NUTS is slower.
MANY_UNKNOWNS, NUM_WEIGHED, NEARLY_NORMAL = 50, 400, 0.1


def check_start(starts: Starts | RoughStarts) -> list[Finding]:
    """Check fit, limits and sensitivity at the start of the first chain."""
    if starts.first is None:
        return [_constraint(starts.target, starts[0])]
    # The reduced problem may replace many readings by fewer numbers.
    reduced = starts.target.problem.searched
    fit = check_fit(reduced.whole, starts.first)
    limits = check_limits(starts.target.problem.whole, starts.first)
    return [fit, *limits, check_sensitivity(reduced, starts.first)]


def usual_position(target: Target) -> np.ndarray:
    """Return the position, (target.dimension,), at the median of the prior."""
    problem = target.problem.searched
    lifted = lifted_above(problem, np.zeros(problem.prior.num_white))
    return np.asarray(from_lifted(target, lifted))


def _constraint(target: ManifoldProblem, position: np.ndarray) -> Finding:
    """Return the finding that the constraints hold and are independent at a start."""
    distance = distance_from_manifold(target, position)
    detail = f"{target.num_constraints} for {target.num_unknowns} unknowns, independent at a "
    detail += f"random start, which was moved to within {distance:.1e} of the manifold"
    return Finding("ok", "constraint", detail)


def check_sensitivity(problem: InverseProblem, start: Start) -> Finding:
    """Check the sensitivity of the readings to the unknowns, in sd of their noise."""
    if problem.noise.is_exact:
        return Finding("ok", "sensitivity", "readings are exact: there is no noise to compare with")
    moves, level = start.sensitivity, "ok"
    blind = np.flatnonzero(moves < BLIND)
    detail = (
        f"readings vary by {moves.min():.3g} to {moves.max():.3g} sd of the noise over the prior"
    )
    if blind.size == moves.size:
        level = "bad"
        detail += ": much less than the noise; are source, boundary values and units right?"
    elif blind.size:
        first = name_of_reading(problem, blind[0])
        level = "note"
        detail += f"; {blind.size} readings contain no information, the first is {first}"
    return Finding(level, "sensitivity", detail)


def check_dependence(problem: InverseProblem | ManifoldProblem) -> list[Finding]:
    """Return a note on unknowns of a function on which no reading depends."""
    model = problem.model if problem.has_readings else None
    if type(model) is not NamedModel:  # subclasses, as for paths, have more coefficients
        return []
    sizes = [math.prod(shape) for _, shape in model.shapes]
    labels = np.where(np.repeat(np.eye(len(sizes), dtype=bool), sizes, axis=1), 0, NONE)
    least, _ = spread(model, jnp.zeros(sum(sizes)), labels)
    names = [
        name
        for (name, _), least_of_axis in zip(model.shapes, least, strict=True)
        if (least_of_axis != 0).all()
    ]
    if not names:
        return []
    detail = f"no reading depends on {', '.join(names)}, whose posterior is the prior"
    return [Finding("note", "unknowns", detail)]


def check_method(problem: InverseProblem | ManifoldProblem) -> list[Finding]:
    """Return a note if a sampler without lifting may be faster: see the page on samplers.

    This is so for few unknowns with many readings and a nearly normal posterior: draws from the
    Laplace approximation, weighted by the posterior, then have a large effective share.
    """
    if not problem.has_readings or not problem.lifted().is_dense:
        return []
    size = problem.num_unknowns
    if size > min(MANY_UNKNOWNS, problem.num_observations):
        return []
    try:
        target = OrdinaryPosterior(laplace_referred(problem))
    except InputError:  # the noise may be too large or too small for the approximation
        return []
    draws = np.random.default_rng(0).standard_normal((NUM_WEIGHED, size))
    logs = np.asarray(_log_weights(target, draws))
    weights = np.exp(logs - np.max(logs, initial=-np.inf, where=np.isfinite(logs)))
    weights = np.where(np.isfinite(weights), weights, 0.0)
    share = weights.sum() ** 2 / (NUM_WEIGHED * np.square(weights).sum())
    if not share >= NEARLY_NORMAL:
        return []
    detail = f"{problem.num_observations} readings of {size} unknowns, and a nearly normal "
    detail += f"posterior ({100 * share:.0f} % of the weights of its normal approximation): nuts "
    detail += "with a dense metric may take less time than chmc: try invlift run with "
    detail += "--method nuts --option metric=dense"
    return [Finding("note", "method", detail)]


@program
def _log_weights(target, draws):
    return jax.lax.map(target.loglikelihood, draws)
