"""``invlift report``, ``loo`` and ``next-sensor``: results from the folders of runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pandas as pd
from rich.console import Console

from invlift.app.commands.common import BAD_VERDICT, built, say, say_table, typed
from invlift.app.problem.saved_problem import open_saved
from invlift.app.problems import with_readings
from invlift.app.runs.results import load
from invlift.app.studies.refit import TABLE, Refit, least_reliable, refit, write_refits
from invlift.errors import InputError, printable
from invlift.files.output_folder import check_is_new
from invlift.files.tables import integer
from invlift.posterior.output.folder_files import is_finished, problem_file
from invlift.posterior.output.next_sensor_files import write_next_sensors
from invlift.posterior.output.report import write_report
from invlift.posterior.output.run_folder import read_record
from invlift.posterior.posterior import Posterior
from invlift.posterior.statistics.leave_one_out import MAX_PARETO_K
from invlift.posterior.statistics.model_comparison import compare_runs

#: Largest number of places for sensors: the linear estimate is accurate only for a few readings.
MAX_NUM = 100
#: Headings of the columns of a comparison.
HEADINGS = {
    "elpd": "elpd", "se": "se", "below": "below best", "below_se": "its se", "p_loo": "p_loo",
    "num_unreliable": f"k > {MAX_PARETO_K:g}", "weight": "weight",
}  # fmt: skip
#: Headings of the columns of runs without a reading.
REFIT_HEADINGS = {
    "observed": "reading", "mean": "predicted", "sd": "sd", "pit": "loo_pit",
    "elpd": "loo_elpd by refit", "elpd_error": "its error", "weighted": "by weights",
    "pareto_k": "k",
}  # fmt: skip


def report(parsed, console: Console, errors: Console) -> int:
    """Write the report of a run; return the exit status."""
    directory = Path(parsed.directory)
    page = directory / "report.html" if parsed.out is None else Path(parsed.out)
    if parsed.out is not None:
        check_is_new("--out", page)
    posterior, problem = load(directory), problem_file(directory)
    text = problem.read_text("utf-8", "replace") if problem.is_file() else ""
    is_done, title = is_finished(directory), directory.resolve().name
    record = read_record(directory).model_dump() if is_done else posterior.record()
    say(console, f"Written: {write_report(posterior, record, page, title, text)}")
    return 0


def loo(parsed, console: Console, errors: Console) -> int:
    """Compare runs by leave-one-out predictions of the readings; return the exit status."""
    num = None if parsed.refit is None else typed("--refit", parsed.refit, integer(1, MAX_NUM))
    fewest = 2 if num is None else 1
    if len({Path(run).resolve() for run in parsed.runs}) < max(fewest, len(parsed.runs)):
        expected = f"{'two' if num is None else 'one'} or more folders of different runs"
        found = printable(" ".join(parsed.runs))
        raise InputError("invlift loo", expected, found, "name each once")
    runs, refits = {run: load(run) for run in parsed.runs}, {}
    if num is not None:
        consoles = console, errors
        refits = {name: _refitted(Path(name), run, num, *consoles) for name, run in runs.items()}
    table = compare_runs(
        runs, {run: {x.row: x.elpd for x in refitted} for run, refitted in refits.items()}
    )
    doubts = []
    for name, row in table.iterrows():
        num_readings = runs[name].fit.leave_one_out().elpd.size
        if row["num_unreliable"]:
            doubts.append(
                f"{name}: leave-one-out prediction is not reliable at {row['num_unreliable']:.0f} "
                f"of {num_readings} sensors (Pareto k up to {row['max_pareto_k']:.2f})"
            )
        if not _has_converged(Path(name), runs[name]):
            doubts.append(f"{name}: the run has not converged")
        doubts += [
            f"{name}: the run without {each.sensor} has not converged"
            for each in refits.get(name, ())
            if not each.is_converged
        ]
    shown = table[list(HEADINGS)].rename(columns=HEADINGS).rename_axis("run")
    say_table(console, shown.round(2))
    for line in (*doubts, "\nThis comparison is not reliable.") if doubts else ():
        say(console, line)
    return BAD_VERDICT if doubts else 0


def _refitted(
    folder: Path, posterior: Posterior, num: int, console: Console, errors: Console
) -> list[Refit]:
    """Run without each of the readings with the least reliable weights; print a table."""
    loo, spec = posterior.fit.leave_one_out(), open_saved(folder)
    problem = with_readings(built(spec, errors), f"{folder}", "loo --refit")
    settings, refits = spec.sampler, []
    options = settings.model_dump(include={"chains", "warmup", "draws", "seed", "starts"})
    rows = least_reliable(loo, num)
    for each in refit(problem, loo, rows, method=settings.kernel(), **options):
        refits.append(each)
        write_refits(folder, refits)  # after each run, as a run may take long
    table = pd.DataFrame([asdict(each) for each in refits]).set_index("sensor")
    say_table(console, table[list(REFIT_HEADINGS)].rename(columns=REFIT_HEADINGS).round(3))
    say(console, f"Written: {folder / TABLE}\n")
    return refits


def next_sensor(parsed, console: Console, errors: Console) -> int:
    """Print the places where one more reading reduces the variance most; return the exit status."""
    posterior = load(parsed.directory)
    proposals = posterior.next_sensors(typed("--num", parsed.num, integer(1, MAX_NUM)), parsed.of)
    shown = proposals.best.drop(columns="node").rename(
        columns={"share": "share of variance, in all"}
    )
    say_table(console, shown)
    written = write_next_sensors(posterior, proposals, Path(parsed.directory))
    say(
        console,
        f"From {proposals.num_draws} draws: a place without information has a share of about "
        f"{1.0 / proposals.num_draws:.1g}.",
    )
    has_converged = _has_converged(Path(parsed.directory), posterior)
    if not has_converged:
        say(console, "The run has not converged, so these shares are not reliable.")
    say(console, f"\nWritten: {', '.join(map(str, written))}")
    return 0 if has_converged else BAD_VERDICT


def _has_converged(directory: Path, posterior: Posterior) -> bool:
    """Return whether a finished run, or the draws made so far, have converged."""
    is_done = is_finished(directory)
    return (read_record(directory).verdict if is_done else posterior.verdict()).is_converged
