"""``invlift loo``: compare runs by leave-one-out predictions of the readings."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from invlift.app.commands.common import BAD_VERDICT, say, say_table
from invlift.errors import InputError, printable
from invlift.posterior.leave_one_out import MAX_PARETO_K
from invlift.posterior.model_comparison import ComparedRun, compare_runs, read_saved_run

HEADINGS = [
    "run", "elpd", "se", "below best", "se", "p_loo", f"k > {MAX_PARETO_K:g}", "weight",
]  # fmt: skip


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    folders = [Path(run) for run in parsed.runs]
    if len({folder.resolve() for folder in folders}) < max(2, len(folders)):
        raise InputError(
            "invlift loo",
            "two or more folders of different runs",
            printable(" ".join(parsed.runs)),
            "name two or more, each once",
        )
    rows = compare_runs([read_saved_run(run) for run in parsed.runs])
    say_table(console, HEADINGS, [_cells(row) for row in rows])
    doubts = [doubt for row in rows for doubt in _doubts(row)]
    for doubt in doubts:
        say(console, doubt)
    if doubts:
        say(console, "\nThis comparison is not reliable.")
    return BAD_VERDICT if doubts else 0


def _cells(row: ComparedRun) -> list[str]:
    numbers = row.elpd, row.elpd_error, row.difference, row.difference_error, row.num_effective
    return [
        row.name,
        *(f"{number:.2f}" for number in numbers),
        f"{row.num_unreliable} of {row.num_sensors}",
        f"{row.weight:.2f}",
    ]


def _doubts(row: ComparedRun) -> list[str]:
    doubts = []
    if row.num_unreliable:
        doubts.append(
            f"{row.name}: leave-one-out prediction is not reliable at {row.num_unreliable} of "
            f"{row.num_sensors} sensors (Pareto k up to {row.max_pareto_k:.2f})"
        )
    if not row.is_converged:
        doubts.append(f"{row.name}: the run has not converged")
    return doubts
