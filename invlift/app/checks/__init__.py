"""Checks of a problem before a run: tables, prior, start, derivatives, reversibility of steps.

`run` only makes the checks that cost no time: the start of a chain, which it needs anyway, and the
standard deviation of the prior.
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
from invlift.app.checks.information import check_information
from invlift.app.checks.mesh_error import check_mesh_error, finer_model
from invlift.app.checks.predictions import check_level, check_predictions
from invlift.app.checks.starts import (
    check_dependence,
    check_method,
    check_start,
    usual_position,
)
from invlift.app.checks.time_step import check_time_step
from invlift.app.problem.problem_file import ProblemSpec
from invlift.app.problems import AnyProblem, PythonSpec
from invlift.app.runs.sampling import choice_of, target_of
from invlift.app.runs.starts import RoughStarts, Starts, chosen_starts
from invlift.problems.starts.search import PHASES
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
    """Check a problem before a run.

    Parameters
    ----------
    problem : InverseProblem or ManifoldProblem
    spec : ProblemSpec or PythonSpec, optional
        Problem file or Python file of the problem, for checks of its keys. Its seed replaces
        `seed`.
    seed : int
        Seed of the start and of the directions of the derivative tests.
    on_finding : callable
        Called with each finding, as soon as it is made. Cheap checks of frequent errors come first.

    Returns
    -------
    Report
        A report with ``findings``, each ``ok``, ``note`` or ``bad``, and a ``verdict``.

    Raises
    ------
    InputError
        If no start is found.
    """
    seed = seed if spec is None else spec.sampler.seed
    findings: list[Finding] = []
    file = spec if isinstance(spec, ProblemSpec) else None

    def tell(new: Sequence[Finding]) -> None:
        findings.extend(new)
        for each in new:
            on_finding(each)

    def begin(step: str) -> None:
        PHASES.info("checking %s", step, extra={"chain": 0})

    with single_threaded_blas(), ThreadPoolExecutor() as pool:  # compile in parallel
        lifted = target_of(problem, KERNEL)  # a run uses the same programs
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
        begin("mesh, tables and prior")
        tell(check_tables(problem, file))
        tell(prior.result())
        starts = chosen_starts(problem, "prior", 1)(KERNEL, lifted, seed)
        starts = starts.with_first(lambda _, *arguments: evaluate(*arguments))
        tell(of_start := check_start(starts))
        begin("what the prior predicts")
        tell(level.result() + predictions.result() + dependence.result() + time_step.result())
        is_fitted = all(each.level != "bad" for each in of_start)
        begin("derivatives")
        # If the start is far from the readings, its values are near overflow, and correct
        # derivatives may fail the test there.
        position = starts[0] if is_fitted else usual_position(lifted)
        point, rng = evaluate(lifted, position), np.random.default_rng(seed)
        tell(check_derivatives(lifted, point, rng))
        if is_fitted:
            fit = starts.first and starts.first.fit
            tell(check_information(problem, fit))
            begin("the error of the mesh")
            tell(check_mesh_error(problem, finer.result(), fit))
            begin("a step of the sampler")
            tell([check_step(lifted, point, seed)])
            tell(check_method(problem))
    return Report(findings, "" if file else f"{problem}")


def find_objections(
    problem: AnyProblem, spec: ProblemSpec | PythonSpec
) -> tuple[list[str], Starts | RoughStarts]:
    """Return objections against running a problem, and its starts with the first one found.

    The program of the chains is compiled at the same time.
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
        starts = find_starts(kernel, target, settings.seed).with_first(choice=choice)
    findings += check_start(starts) + of_prior.result()
    return [str(finding) for finding in findings if finding.level == "bad"], starts
