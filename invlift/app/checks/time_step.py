"""Whether the steps of a differential equation are short enough: half of them, the same solution.

A solution that is not finite, as with steps too long for a fast rate, is one that chains never
reach: the draws then look sound and are of a part of the posterior alone.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from invlift.app.checks.findings import Finding
from invlift.app.checks.posterior_draws import some_draws
from invlift.posterior.names import PREDICTED
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem
from invlift.programs.compilation import program
from invlift.samplers.chains.results import Run

#: Draws looked at, and share of them from which on the finding is remarkable.
NUM_DRAWS, MANY = 50, 0.05
#: What counts as another solution: a difference of this share of a reading, or of its median over
#: the draws. Draws from the prior, of which many explain no readings, show blow-ups alone.
OF_PRIOR, OF_POSTERIOR = 1.0, 0.01

REMEDY = (
    "give a shorter max_step, or method = 'rodas3' if the equations are stiff, as chains never "
    "reach unknowns without a solution"
)


def check_time_step(problem: InverseProblem | ManifoldProblem, seed: int) -> list[Finding]:
    """What draws from the prior say of the step; nothing where the model has none."""
    if not problem.has_time_steps:
        return []
    rng = np.random.default_rng(seed)
    white = np.stack([problem.prior.sample(rng) for _ in range(NUM_DRAWS)])
    coefficients = _transformed(problem.prior, white)
    coarse = _solved(problem.model, coefficients)
    found = _finding(coarse, _finer(problem, coefficients), "the prior", OF_PRIOR)
    return [found if found.level == "ok" else replace(found, detail=f"{found.detail}: {REMEDY}")]


def time_step_doubts(problem: InverseProblem, run: Run) -> list[tuple[str, str]]:
    """What is wrong with the step at the draws of a run, if anything is, and what to do."""
    if not problem.has_time_steps:
        return []
    names = [name for name, _ in problem.model.shapes]
    kept = some_draws(run, [*names, PREDICTED], NUM_DRAWS)
    coefficients = np.concatenate([kept[name] for name in names], axis=1)
    found = _finding(kept[PREDICTED], _finer(problem, coefficients), "the posterior", OF_POSTERIOR)
    if found.level == "ok":
        return []
    return [(f"the steps of the equation are too long: {found.detail}", REMEDY)]


def _finding(coarse, finer, source: str, tolerance: float) -> Finding:
    coarse, finer = np.asarray(coarse), np.asarray(finer)
    size = np.median(np.where(np.isfinite(finer), np.abs(finer), 0.0), axis=0)
    with np.errstate(invalid="ignore"):
        same = np.abs(coarse - finer) <= tolerance * (np.abs(finer) + size)
    num_others = int(np.sum(~same.all(axis=1)))
    detail = f"with half the longest step {num_others} of {len(coarse)} draws from {source} have "
    detail += f"another solution, by more than {100 * tolerance:g} %, or none that is finite"
    if num_others <= MANY * len(coarse):
        return Finding("ok", "time step", detail)
    return Finding("note", "time step", detail)


@program
def _transformed(prior, white):
    return jax.lax.map(prior.transform, white)


@program
def _solved(model, coefficients):
    """Readings of each draw, (K, d)."""
    return jax.lax.map(model, coefficients)


def _finer(problem, coefficients):
    """The same with half the longest step."""
    return _solved(replace(problem.model, fn=problem.model.finer), coefficients)
