"""What makes a problem not ready to run: `check` says it among other things, `run` refuses by it.

All of it is cheap: the start of a chain, which is needed anyway, and the standard deviation of the
prior.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from invlift.app.build import FieldProblem
from invlift.app.problem_file import ProblemSpec
from invlift.app.problems import OwnProblem, PythonSpec
from invlift.app.sampling import target_of
from invlift.app.starts import (
    CLOSE_ENOUGH,
    MAX_MISFIT,
    Start,
    find_start,
    name_of_reading,
    random_starts,
)
from invlift.compilation import Program
from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.priors.matern_table import MaternTable
from invlift.inverse.problem import InverseProblem
from invlift.inverse.targets.given_manifold import ManifoldProblem
from invlift.inverse.targets.laplace_whitened import laplace_whitened
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import compile_chain, evaluate_state
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.constrained.landing import distance_from_manifold
from invlift.samplers.kernels.base import Kernel

#: Fewest mesh widths across the prior's range that resolve it, and fewest with which the field has
#: any range of its own.
NODES_PER_RANGE, LEAST_PER_RANGE = 4.0, 0.5
#: Share of the standard deviation asked for below which the prior's own is remarkable, and below
#: which it is another prior.
LOW_STD, LEAST_STD = 0.7, 0.3
#: Share of the noise below which a reading's dependence on the field is none.
BLIND = 1e-3
#: Most unknowns of which a normal approximation is tried, draws of it, and the share of their
#: weights from which on it is near: 0.7 and 0.12 of hare and lynx and of potassium channels, where
#: NUTS is faster than constrained HMC; 0.05, 0.06 and 0.02 of sodium channels and two soils, where
#: it is not.
MANY_UNKNOWNS, NUM_WEIGHED, NEARLY_NORMAL = 50, 400, 0.1


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    level: Literal["ok", "note", "bad"]
    name: str
    detail: str

    def __str__(self) -> str:
        """Return name and detail."""
        return f"{self.name}: {self.detail}"


def find_objections(spec: ProblemSpec | PythonSpec, field: FieldProblem | OwnProblem) -> list[str]:
    """What makes a problem not ready to run; what the chains run is compiled at the same time."""
    settings, kernel = spec.sampler, spec.sampler.kernel()
    with single_threaded_blas():
        target = target_of(field.problem, kernel)
        beside = ThreadPoolExecutor()
        beside.submit(compile_chain, target, Plan(kernel, settings.warmup, 1), target.dimension)
        of_prior = beside.submit(prior, spec, field)
        beside.shutdown(wait=False)
        _, findings = start_of(kernel, target, field.problem, settings.seed)
    findings += of_prior.result()
    return [str(finding) for finding in findings if finding.level == "bad"]


def start_of(
    kernel: Kernel,
    target: Any,
    problem: InverseProblem | ManifoldProblem,
    seed: int,
    evaluate_fn: Callable = evaluate_state,
) -> tuple[np.ndarray, list[Finding]]:
    """Where the first chain would start, (target.dimension,), and what was found on the way there.

    An InputError if there is no start.
    """
    if isinstance(problem, ManifoldProblem):
        position = random_starts(kernel, target, seed, 1)[0]
        return position, [_constraint(target, position)]
    start = find_start(kernel, target, seed, 0, evaluate_fn)
    return start.position, [sensitivity(problem, start), fit(problem, start)]


def _constraint(target: ManifoldProblem, position: np.ndarray) -> Finding:
    """Whether a start is on the manifold: its constraints are independent there."""
    distance = distance_from_manifold(target, position)
    detail = f"{target.num_constraints} for {target.num_unknowns} unknowns, independent at a "
    detail += f"random start, which was moved to within {distance:.1e} of the manifold"
    if distance <= CLOSE_ENOUGH:
        return Finding("ok", "constraint", detail)
    detail += ": it may vanish nowhere, or far from there; give manifold_problem a start"
    return Finding("bad", "constraint", detail)


def sensitivity(problem: InverseProblem, start: Start) -> Finding:
    """How far the readings move with the unknowns, in standard deviations of their noise."""
    if problem.noise.is_exact:
        return Finding("ok", "sensitivity", "readings are exact: there is no noise to compare with")
    moves, level = start.sensitivity, "ok"
    blind = np.flatnonzero(moves < BLIND)
    detail = f"readings move by {moves.min():.3g} to {moves.max():.3g} sd of the noise with the "
    detail += "unknowns, as far as their prior allows"
    if blind.size == moves.size:
        level = "bad"
        detail += ": nothing next to the noise; are source, boundary values and units right?"
    elif blind.size:
        first = name_of_reading(problem, blind[0])
        level = "note"
        detail += f"; {blind.size} readings say nothing about them, the first is {first}"
    return Finding(level, "sensitivity", detail)


def fit(problem: InverseProblem, start: Start) -> Finding:
    """Whether some unknowns reproduce the readings: the start was fitted to them."""
    if problem.noise.is_exact:
        return Finding("ok", "fit", "the start reproduces the readings exactly")
    if problem.noise.num_parameters:
        return Finding("ok", "fit", "the noise scale, being unknown, grows with what does not fit")
    worst = int(np.argmax(start.misfit))
    most = start.misfit[worst]
    detail = f"unknowns fitted to the readings miss them by up to {most:.3g} sd of the noise"
    if most <= MAX_MISFIT:
        return Finding("ok", "fit", detail)
    detail += f", at {name_of_reading(problem, worst)}, which contradicts another or the model (a "
    detail += "boundary value where it stands, a unit, too small a noise)"
    return Finding("bad", "fit", detail)


def method(problem: InverseProblem | ManifoldProblem) -> list[Finding]:
    """Whether a sampler that does not lift is worth a trial: see the page on samplers.

    It is where few unknowns have many readings and draws of the Laplace approximation, weighed by
    the posterior, count for much: the posterior is nearly normal then.
    """
    if isinstance(problem, ManifoldProblem) or problem.own_lifted() is not None:
        return []
    size = problem.num_unknowns
    if size > min(MANY_UNKNOWNS, problem.num_observations):
        return []
    try:
        target = laplace_whitened(problem)
    except InputError:  # the noise may be too large or too small for one
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
    detail += 'with metric = "dense" may take less time than chmc; invlift compare says which does'
    return [Finding("note", "method", detail)]


@partial(Program, effort="none")
def _log_weights(target, draws):
    return jax.lax.map(target.loglikelihood, draws)


def prior(spec: ProblemSpec | PythonSpec, field: FieldProblem | OwnProblem) -> list[Finding]:
    """Whether a field's prior is the one asked for, on its mesh; nothing without a field."""
    if not isinstance(field, FieldProblem):
        return []
    low, middle, high = np.quantile(_unknown_std(field), [0.0, 0.5, 1.0])
    level, detail = "ok", "realised standard deviation of the log-conductivity "
    detail += f"{low:.3g} to {high:.3g}, median {middle:.3g}"
    if not (isinstance(spec, ProblemSpec) and isinstance(spec.prior, MaternTable)):
        return [Finding(level, "prior", detail)]
    length, std = spec.prior.typical()
    detail += f" (asked for {std:.3g})"
    if high > 1.3 * std and spec.prior.boundary == "neumann":
        level = "note"
        detail += '; the natural boundary inflates it near the edge: see [prior] boundary = "robin"'
    elif middle < LOW_STD * std:
        level = "bad" if middle < LEAST_STD * std else "note"
        detail += "; far less than asked for: is the range in the mesh's unit of length?"
    return [Finding(level, "prior", detail), _resolution(field.mesh, length)]


def _unknown_std(field: FieldProblem) -> np.ndarray:
    """Prior standard deviation of the field where it is unknown."""
    std = field.prior.pointwise_std()
    return std[std > 0.0]


def _resolution(mesh: Mesh, length: float) -> Finding:
    """Whether the mesh resolves the range of the prior."""
    corners = mesh.points[mesh.cells]
    edges = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    per_range = length / float(np.median(edges))
    level, detail = "ok", f"{per_range:.2g} mesh widths across the prior's range of {length:.3g}"
    if per_range < LEAST_PER_RANGE:
        level = "bad"
        detail += ": the field has no range; is it in the mesh's unit of length?"
    elif per_range < NODES_PER_RANGE:
        level = "note"
        detail += f"; below {NODES_PER_RANGE:g} the mesh decides the field: refine it"
    return Finding(level, "resolution", detail)
