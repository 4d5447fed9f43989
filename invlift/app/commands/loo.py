"""``invlift loo``: compare runs by leave-one-out predictions of the readings."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from invlift.app.commands.common import BAD_VERDICT, say, say_table
from invlift.errors import InputError, printable
from invlift.posterior.leave_one_out import MAX_PARETO_K, standard_error
from invlift.posterior.model_comparison import ComparedRun, compare_runs, read_saved_run

HEADINGS = [
    "run", "elpd", "se", "below best", "se", "p_loo", f"k > {MAX_PARETO_K:g}", "weight",
]  # fmt: skip


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    if len({Path(run).resolve() for run in parsed.runs}) < max(2, len(parsed.runs)):
        expected, found = "two or more folders of different runs", printable(" ".join(parsed.runs))
        raise InputError("invlift loo", expected, found, "name two or more, each once")
    rows = compare_runs([read_saved_run(run) for run in parsed.runs])
    say_table(console, HEADINGS, list(map(_cells, rows)))
    doubts = []
    for run in (row.run for row in rows):
        if not run.loo.is_reliable.all():
            doubts.append(
                f"{run.name}: leave-one-out prediction is not reliable at {_unreliable(run.loo)} "
                f"sensors (Pareto k up to {run.loo.pareto_k.max():.2f})"
            )
        if not run.is_converged:
            doubts.append(f"{run.name}: the run has not converged")
    for line in (*doubts, "\nThis comparison is not reliable.") if doubts else ():
        say(console, line)
    return BAD_VERDICT if doubts else 0


def _cells(row: ComparedRun) -> list[str]:
    # Standard errors as in Vehtari, Gelman & Gabry (2017), eqs 23 and 24.
    (elpd, elpd_error), (num_effective, _) = row.run.loo.totals().values()
    numbers = elpd, elpd_error, row.below.sum(), standard_error(row.below), num_effective
    cells = [f"{number:.2f}" for number in (*numbers, row.weight)]
    return [row.run.name, *cells[:-1], _unreliable(row.run.loo), cells[-1]]


def _unreliable(loo) -> str:
    return f"{(~loo.is_reliable).sum()} of {loo.elpd.size}"
