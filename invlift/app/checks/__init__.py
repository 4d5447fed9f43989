"""Pre-flight: is this problem well posed, are its derivatives right, do steps find back?

What takes no time, `run` refuses a problem by: the start of a chain, which is needed anyway, and
the standard deviation of the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np

from invlift.app.checks.derivatives import (
    KERNEL,
    check_derivatives,
    check_step,
    evaluate,
    slopes_along,
    trial_step,
)
from invlift.app.checks.field import check_places, check_prior, check_tables
from invlift.app.checks.findings import Finding, Report
from invlift.app.checks.level import check_level
from invlift.app.checks.mesh_error import check_mesh_error, finer_model
from invlift.app.checks.predictions import check_predictions
from invlift.app.checks.starts import (
    check_dependence,
    check_method,
    check_start,
    usual_position,
    with_first,
)
from invlift.app.checks.time_step import check_time_step
from invlift.app.checks.told_in_time import check_told_in_time
from invlift.app.problem.problem_file import ProblemSpec
from invlift.app.problems import AnyProblem, PythonSpec
from invlift.app.runs.sampling import choice_of, target_of
from invlift.app.runs.starts import RoughStarts, Starts, chosen_starts
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import compile_chain
from invlift.samplers.chains.workers import single_threaded_blas

__all__ = ["Finding", "Report", "check_problem", "find_objections"]


def check_problem(
    problem: AnyProblem,
    spec: ProblemSpec | PythonSpec | None = None,
    *,
    seed: int = 0,
    on_finding: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Look a problem over.

    Parameters
    ----------
    problem : InverseProblem or ManifoldProblem
    spec : ProblemSpec or PythonSpec, optional
        What it was made of on the command line, for what only the file says: its seed is then used.
    seed : int
        Of the start and the directions that are tried.
    on_finding : callable
        Told of each finding as it is made: what is cheap and often wrong first.

    Returns
    -------
    Report
        With ``findings``, each ``ok``, ``note`` or ``bad``, and a ``verdict``.

    Raises
    ------
    InputError
        If there is no start.
    """
    seed = seed if spec is None else spec.sampler.seed
    findings: list[Finding] = []

    def tell(found: Sequence[Finding]) -> None:
        findings.extend(found)
        for each in found:
            on_finding(each)

    with single_threaded_blas(), ThreadPoolExecutor() as pool:  # to compile all at once
        lifted = target_of(problem, KERNEL)  # whose programs a run shares
        position = jax.ShapeDtypeStruct((lifted.dimension,), float)
        shapes = slopes_along.shapes(lifted, position, position)
        pool.submit(trial_step.prepare, lifted, shapes.point, 0, 1.0)
        pool.submit(slopes_along.prepare, lifted, position, position)
        prior = pool.submit(check_prior, problem)
        predictions = pool.submit(check_predictions, problem, seed)
        time_step = pool.submit(check_time_step, problem, seed)
        dependence = pool.submit(check_dependence, problem)
        level = pool.submit(check_level, problem)
        finer = pool.submit(finer_model, problem)
        tell(check_tables(problem, spec))
        tell(prior.result())
        starts = chosen_starts(problem, "prior", 1)(KERNEL, lifted, seed)
        starts = with_first(starts, lambda _, *arguments: evaluate(*arguments))
        tell(of_start := check_start(starts))
        tell(level.result() + predictions.result() + dependence.result() + time_step.result())
        is_fitted = all(each.level != "bad" for each in of_start)
        # If the start misses the readings by far, its values are near overflow: derivatives that
        # fail there can be right.
        position = starts[0] if is_fitted else usual_position(lifted)
        point, rng = evaluate(lifted, position), np.random.default_rng(seed)
        tell(check_derivatives(lifted, point, rng))
        if is_fitted:
            fit = starts.first.fit if isinstance(starts, Starts) else None
            tell(check_told_in_time(problem, fit))
            tell(check_mesh_error(problem, finer.result(), fit))
            tell([check_step(lifted, point, seed)])
            tell(check_method(problem))
    return Report(findings, "" if isinstance(spec, ProblemSpec) else f"{problem}")


def find_objections(
    problem: AnyProblem, spec: ProblemSpec | PythonSpec
) -> tuple[list[str], Starts | RoughStarts]:
    """What makes a problem not ready to run, and where its chains start, the first being known.

    What the chains run is compiled at the same time.
    """
    settings, kernel = spec.sampler, spec.sampler.kernel()
    with single_threaded_blas():
        choice = choice_of(problem, kernel)
        target = target_of(problem, kernel, choice)
        pool = ThreadPoolExecutor()
        pool.submit(compile_chain, target, Plan(kernel, settings.warmup, 1), target.dimension)
        of_prior = pool.submit(check_prior, problem)
        pool.shutdown(wait=False)
        findings = check_places(problem)
        find_starts = chosen_starts(problem, settings.starts, settings.chains)
        starts = with_first(find_starts(kernel, target, settings.seed), choice=choice)
    findings += check_start(starts) + of_prior.result()
    return [str(finding) for finding in findings if finding.level == "bad"], starts
