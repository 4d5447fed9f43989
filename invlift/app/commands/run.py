"""``invlift run``: sample the posterior and write the results."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

from rich.console import Console

from invlift.app.checks import find_objections
from invlift.app.commands.common import (
    BAD_VERDICT,
    built,
    headline,
    interruptible,
    interrupts_raise,
    method_options,
    say,
    say_table,
    typed,
)
from invlift.app.problem.saved_problem import (
    keep_objections,
    kept_objections,
    save_problem,
)
from invlift.app.problems import open_problem
from invlift.app.runs.dask import dask_executor
from invlift.app.runs.progress import phases_display, progress_display
from invlift.app.runs.sampling import sample, versions
from invlift.errors import InputError
from invlift.files.output_folder import OutputFolder
from invlift.files.tables import integer
from invlift.posterior.output.folder_files import PROBLEM_FILES, problem_sha256
from invlift.samplers.chains.results import Run

#: Shortest time of chains, even if the budget was used before they start, s.
SHORTEST = 1.0
#: Modules for the results. A thread imports them while the chains run, as this takes seconds.
RESULTS = "invlift.app.runs.results", "invlift.posterior.output.report"
#: File that identifies the run of the saved chains.
RECORD = "run.json"


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    names = "method", "chains", "draws", "warmup", "seed", "budget"
    options = {name: getattr(parsed, name) for name in names}
    spec = open_problem(parsed.problem)
    if parsed.option:
        options["options"] = spec.sampler.options | method_options(parsed.option)
    spec = spec.with_overrides(out=parsed.out, **options)
    directory, settings = spec.output.dir, spec.sampler
    _folder(directory).check(is_resuming=parsed.resume)
    executor = _executor(parsed)
    began = time.monotonic()
    problem, info = built(spec, errors), _run_info(spec)
    say(console, headline(problem))
    is_new = not directory.exists()
    with _folder(directory).lock():
        _folder(directory).check(is_resuming=parsed.resume)
        if not parsed.resume:  # with --resume the chains there may belong to another problem
            save_problem(spec)
        objections, starts = kept_objections(directory), settings.starts
        if objections is None or not parsed.resume:
            try:
                which = f"chain 0 (of {settings.chains}): "
                with phases_display(errors, "preparing the search for starts", which):
                    objections, starts = interruptible(
                        find_objections, problem, spec, max_seconds=settings.budget
                    )
            except TimeoutError:
                text = f"the budget of {settings.budget:g} s was over during the search for starts"
                say(errors, f"invlift: stopped before warm-up: {text}; nothing is kept")
                return BAD_VERDICT
            keep_objections(directory, objections)
        if not objections or parsed.anyway or parsed.resume:
            spent = time.monotonic() - began
            run = _sampled(spec, problem, starts, executor, spent, parsed.resume, errors)
            save_problem(spec)  # the run may have been made longer, or the file removed
            return _write_results(spec, problem, run, objections, info, console, errors)
    if is_new:
        shutil.rmtree(directory)
    found, remedy = "; ".join(objections), "correct this, or run it with --anyway"
    raise InputError(parsed.problem, "a problem that is ready to run", found, remedy)


def _sampled(
    spec, problem, starts, executor, spent: float, is_resuming: bool, errors: Console
) -> Run:
    """Draw from the posterior; ``spent`` is the used part of the budget, s."""
    settings, kernel = spec.sampler, spec.sampler.kernel()
    sizes = settings.chains, settings.warmup, settings.num_draws
    threading.Thread(target=lambda: [*map(import_module, RESULTS)], daemon=True).start()
    with (
        interrupts_raise(),
        progress_display(errors, *sizes, kernel.standards.failures_in_brief) as on_progress,
        executor as executor,
    ):
        return sample(
            problem,
            kernel,
            **settings.model_dump(include={"chains", "warmup", "draws", "seed"}),
            starts=starts,
            budget=settings.budget and max(settings.budget - spent, SHORTEST),
            max_field_megabytes=spec.output.max_field_megabytes,
            executor=executor,
            checkpoint=spec.output.dir / "chains",
            resume=is_resuming,
            on_progress=on_progress,
        )


def _executor(parsed):
    """Return the context of the executor of the chains; its value None means threads."""
    workers = None
    if parsed.workers is not None:
        workers = typed("--workers", parsed.workers, integer(1))
        if parsed.scheduler is not None:
            expected = "a number of processes, without --scheduler"
            raise InputError("--workers", expected, "both", "choose one of the two")
    is_here = parsed.scheduler is None and workers is None
    return nullcontext() if is_here else dask_executor(parsed.scheduler, workers)


def _write_results(spec, problem, run, objections, info, console: Console, errors: Console) -> int:
    """Write and print the results of a run, and return the exit status."""
    from invlift.app.runs.results import posterior_of

    directory = spec.output.dir
    if not run.chains:
        kept = "no draws yet; the chains so far are kept, go on with --resume"
        say(errors, f"invlift: stopped during warm-up: {kept}")
        return BAD_VERDICT
    posterior = posterior_of(problem, run, exceedance=spec.output.exceedance, objections=objections)
    # Print the results first: files and figures take longer than a short run.
    verdict = posterior.verdict()
    table = posterior.summary()[["mean", "sd", "q05", "q95", "ess_bulk", "r_hat"]]
    if len(table):
        say_table(console, table.rename(index=posterior.titles))
    say(console, str(verdict))
    record = posterior.record() | info
    written = posterior.write(directory, info)
    if spec.output.report:
        written += _pictures(posterior, record, directory, next(iter(spec.files.values())))
    say(console, f"\nWritten to {directory}: {', '.join(path.name for path in written)}")
    if run.is_interrupted:
        say(console, "The run was interrupted; finish it with --resume.")
    elif not verdict.is_converged and spec.sampler.budget is not None:
        say(console, "Its time may have been too short; go on with --resume.")
    return 0 if verdict.is_good and not run.is_interrupted else BAD_VERDICT


def _pictures(posterior, record: dict, directory: Path, text: str) -> list[Path]:
    """Write the figures of a run, and its report."""
    from invlift.posterior.output.report import write_report

    paths, drawn = [], {}
    if posterior.mesh is not None:
        paths.append(directory / "posterior.png")
        drawn["fields"] = posterior.plot.fields(paths[-1])
    if posterior.fit.series:
        paths.append(directory / ("posterior.png" if posterior.mesh is None else "series.png"))
        drawn["series"] = posterior.plot.series(paths[-1])
    page = directory / "report.html"
    title = directory.resolve().name
    return [*paths, write_report(posterior, record, page, title, text, drawn)]


def _folder(directory: Path) -> OutputFolder:
    """Return the folder of a run.

    A run that was stopped before its chains had a record may be replaced by another one.
    """
    has_chains = (directory / "chains").is_dir()
    leftovers = ("chains", *PROBLEM_FILES) if has_chains else ()
    return OutputFolder(directory, "run", f"chains/{RECORD}", leftovers=leftovers)


def _run_info(spec) -> dict:
    """Return versions and settings, and digest or path of the files of the problem."""
    settings = spec.sampler
    info = {"versions": versions(), "seed": settings.seed, "method": settings.method}
    info |= {"options": dict(settings.options), "num_warmup": settings.warmup}
    name, text = next(iter(spec.files.items()))
    return info | {"problem_sha256": problem_sha256(name, text)} | spec.record()
