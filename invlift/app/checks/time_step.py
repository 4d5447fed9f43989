"""Check of the time step of a differential equation: half the step must give the same solution.

Chains never reach unknowns with a solution that is not finite, as with steps too long for a fast
rate. The draws then look correct, but cover only a part of the posterior.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from invlift.app.checks.findings import Finding
from invlift.posterior.names import PREDICTED
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem, coefficients_at
from invlift.programs.compilation import program
from invlift.samplers.chains.results import Run

#: Number of draws, and share of different solutions above which a note is given.
NUM_DRAWS, MANY = 50, 0.05
#: Relative tolerance of a different solution, for draws from prior and posterior: relative to a
#: reading plus its median over the draws. The prior has many draws far from the readings, so it
#: can only show blow-ups.
OF_PRIOR, OF_POSTERIOR = 1.0, 0.01

REMEDY = (
    "give a shorter max_step, or method = 'rodas3' if the equations are stiff, as chains never "
    "reach unknowns without a solution"
)


def check_time_step(problem: InverseProblem | ManifoldProblem, seed: int) -> list[Finding]:
    """Check the time step at draws from the prior; nothing if the model has no time steps."""
    if not problem.has_time_steps:
        return []
    rng = np.random.default_rng(seed)
    white = np.stack([problem.prior.sample(rng) for _ in range(NUM_DRAWS)])
    coefficients = coefficients_at(problem.prior, white)
    coarse = _solved(problem.model, coefficients)
    finding = _finding(coarse, _finer(problem, coefficients), "the prior", OF_PRIOR)
    return [
        finding if finding.level == "ok" else replace(finding, detail=f"{finding.detail}: {REMEDY}")
    ]


def time_step_doubts(problem: InverseProblem, run: Run) -> list[tuple[str, str]]:
    """Return doubts about the time step at the draws of a run, with a remedy; empty if none."""
    if not problem.has_time_steps:
        return []
    names = [name for name, _ in problem.model.shapes]
    kept = run.some_draws([*names, PREDICTED], NUM_DRAWS)
    coefficients = np.concatenate([kept[name] for name in names], axis=1)
    finding = _finding(
        kept[PREDICTED], _finer(problem, coefficients), "the posterior", OF_POSTERIOR
    )
    if finding.level == "ok":
        return []
    return [(f"the steps of the equation are too long: {finding.detail}", REMEDY)]


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
def _solved(model, coefficients):
    """Return readings of each draw, (K, d)."""
    return jax.lax.map(model, coefficients)


def _finer(problem, coefficients):
    """Return readings of each draw, (K, d), with half the longest step."""
    return _solved(replace(problem.model, fn=problem.model.finer), coefficients)
