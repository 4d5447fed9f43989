"""``invlift run``: sample the posterior and write the results."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import threading
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from invlift.app.build import FieldProblem
from invlift.app.commands.common import BAD_VERDICT, headline, integer_option, say, say_table
from invlift.app.dask import dask_executor
from invlift.app.problem_file import ProblemSpec
from invlift.app.problems import build, open_problem
from invlift.app.progress import progress_display, says_that_it_compiles
from invlift.app.readiness import find_objections
from invlift.app.sampling import sample, versions
from invlift.app.terminal import interrupts_raise
from invlift.atomic import LOCK, only_writer, replace_on_success, unfinished_files
from invlift.errors import InputError
from invlift.posterior.run_folder import PROBLEM_FILES

#: The file that says which run the saved chains belong to.
RECORD = "run.json"
#: The picture for a first look.
PICTURE = "posterior.png"


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    names = "method", "chains", "draws", "warmup", "seed", "budget"
    options = {name: getattr(parsed, name) for name in names}
    spec = open_problem(parsed.problem).with_overrides(out=parsed.out, **options)
    workers = None
    if parsed.workers is not None:
        workers = integer_option("--workers", parsed.workers, 1)
        if parsed.scheduler is not None:
            expected = "a number of processes, without --scheduler"
            raise InputError("--workers", expected, "both", "choose one of the two")
    directory = spec.output.dir
    _check_is_ready(directory, parsed.resume)
    field = build(spec)
    info = _run_info(spec)
    is_new = not directory.exists()
    chains = directory / "chains"
    settings, kernel = spec.sampler, spec.sampler.kernel()
    with only_writer(chains):
        _check_is_ready(directory, parsed.resume)
        goes_on, objections = (chains / RECORD).exists(), None
        if not goes_on:
            with says_that_it_compiles(errors):
                objections = find_objections(spec, field)
            if objections and not parsed.anyway:
                if is_new:
                    shutil.rmtree(directory, ignore_errors=True)
                found, remedy = "; ".join(objections), "mend that, or insist with --anyway"
                raise InputError(parsed.problem, "a problem that is ready to run", found, remedy)
            for leftover in (*unfinished_files(directory), *unfinished_files(chains)):
                leftover.unlink()
            _write_problem(spec)
        say(console, headline(field))
        preparing = threading.Thread(target=_prepare_results, args=(field,))
        preparing.start()
        sizes = settings.chains, settings.warmup, settings.num_draws
        with (
            interrupts_raise(),
            progress_display(errors, *sizes, kernel.standards.failures_in_brief) as on_progress,
            _executor(parsed.scheduler, workers) as executor,
        ):
            names = "chains", "warmup", "draws", "seed", "starts"
            run = sample(
                field.problem,
                kernel,
                **{name: getattr(settings, name) for name in names},
                max_seconds=settings.budget,
                max_field_megabytes=spec.output.max_field_megabytes,
                executor=executor,
                checkpoint=chains,
                resume=parsed.resume,
                on_progress=on_progress,
            )
            _write_problem(spec)  # which may have been made longer, or removed
            preparing.join()
            if goes_on:
                objections = find_objections(spec, field)
            return _write_results(spec, field, run, objections, info, console, errors)


def _executor(scheduler: str | None, workers: int | None):
    """Context of what runs the chains; None stands for threads."""
    has_processes = scheduler is not None or workers is not None
    return dask_executor(scheduler, workers) if has_processes else nullcontext()


def _prepare_results(field) -> None:
    """Import and compile what the results need, a second or two, beside what the chains need."""
    importlib.import_module("invlift.app.results")
    importlib.import_module("invlift.app.report")
    if isinstance(field, FieldProblem):
        field.prior.pointwise_std()


def _write_results(spec, field, run, objections, info, console: Console, errors: Console) -> int:
    """Write what a run has found, print it, and return the exit status."""
    from invlift.app.results import build_posterior
    from invlift.app.truth import compare_with_truth, describe_coverage, find_truth

    directory = spec.output.dir
    if not run.chains:
        kept = "no draws yet; the chains so far are kept, go on with --resume"
        say(errors, f"invlift: stopped during warm-up: {kept}")
        return BAD_VERDICT
    posterior = build_posterior(field, run, spec.sampler.num_draws, objections=objections)
    truth = find_truth(field, spec.observations.file) if isinstance(spec, ProblemSpec) else None
    coverage = None if truth is None else compare_with_truth(field, posterior, truth)
    written = posterior.write(directory, info | ({"truth": coverage} if coverage else {}))
    written += write_picture(posterior, directory)
    written += _write_report(directory, errors)
    verdict = posterior.verdict()
    columns = ["mean", "sd", "q05", "q95", "ess_bulk", "r_hat"]
    rows = [
        [str(name), *(f"{row[column]:.4g}" for column in columns)]
        for name, row in posterior.summary()[columns].rename(index=posterior.titles).iterrows()
    ]
    if rows:
        say_table(console, ["", *columns], rows)
    say(console, str(verdict))
    if coverage:
        say(console, describe_coverage(coverage, field.prior.location))
    say(console, f"\nWritten to {directory}: {', '.join(path.name for path in written)}")
    if run.is_interrupted:
        say(console, "The run was interrupted; finish it with --resume.")
    elif not verdict.is_converged and spec.sampler.budget is not None:
        say(console, "Its time may have been too short; go on with --resume.")
    return 0 if verdict.is_converged and not run.is_interrupted else BAD_VERDICT


def write_picture(posterior, directory: Path) -> list[Path]:
    """Draw the fields on the mesh, or where there is none what has an axis of numbers."""
    if posterior.mesh is None and not posterior.series:
        return []
    plot = posterior.plot_series if posterior.mesh is None else posterior.plot_fields
    plot(directory / PICTURE)
    return [directory / PICTURE]


def _write_report(directory: Path, errors: Console) -> list[Path]:
    """Write the report: the results are there already, whatever goes wrong here."""
    from invlift.app.report import write_report

    try:
        return write_report(directory)
    except (InputError, OSError) as error:
        again = f"invlift report {directory} tries again"
        say(errors, f"invlift: note: the report is not complete ({error}); {again}")
        return []


def _check_is_ready(directory: Path, is_resuming: bool) -> None:
    """Check that a run can begin in a directory, or go on there.

    A run that was killed before it had a record of its chains has not begun: another one begins in
    its place, told to go on or not.

    An InputError if it is to begin and something is there already, or to go on and no run was.
    """
    chains = directory / "chains"
    entries, saved = _names_in(directory), _names_in(chains)
    before = {"chains", *PROBLEM_FILES} if chains.is_dir() else set()
    num_entries, has_chains = len(entries - before) + len(saved - {LOCK}), RECORD in saved
    if is_resuming and not has_chains and (num_entries or not chains.is_dir()):
        found = f"no chains/{RECORD} in it" if directory.is_dir() else "no such directory"
        remedy = "give the directory of the run with --out, or run without --resume to begin one"
        raise InputError(f"{directory}", "a directory with saved chains", found, remedy)
    if num_entries and not is_resuming:
        expected, found = "an empty output directory", f"{num_entries} entries"
        remedy = "choose another with --out, or go on with an interrupted run by --resume"
        raise InputError(f"{directory}", expected, found, remedy)


def _names_in(directory: Path) -> set[str]:
    """What is in a directory, but for files that a killed process has left unfinished."""
    if not directory.is_dir():
        return set()
    return {entry.name for entry in set(directory.iterdir()) - set(unfinished_files(directory))}


def _write_problem(spec) -> None:
    is_toml = isinstance(spec, ProblemSpec)
    with replace_on_success(spec.output.dir / PROBLEM_FILES[not is_toml]) as temporary:
        temporary.write_text(spec.to_toml() if is_toml else spec.content, encoding="utf-8")


def _run_info(spec) -> dict:
    """Versions and settings, and of what file on this machine the problem was made."""
    settings = spec.sampler
    info = {"versions": versions(), "seed": settings.seed, "method": settings.method}
    info |= {"options": dict(settings.options), "num_warmup": settings.warmup}
    if isinstance(spec, ProblemSpec):
        return info | {"mesh_sha256": hashlib.sha256(spec.mesh.file.read_bytes()).hexdigest()}
    digest = hashlib.sha256(spec.content.encode()).hexdigest()
    return info | {"source": f"{spec.source}:{spec.name}", "source_sha256": digest}
