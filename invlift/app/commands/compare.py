"""``invlift compare``: several methods for the same time."""

from __future__ import annotations

import math

from rich.console import Console

from invlift.app.commands.common import (
    BAD_VERDICT,
    check_is_new,
    headline,
    number_option,
    say,
    say_table,
)
from invlift.app.compare import INTERRUPTED, compare
from invlift.app.problems import build, open_problem
from invlift.app.progress import comparison_display
from invlift.app.terminal import interrupts_raise
from invlift.errors import InputError, printable
from invlift.posterior.comparison import plot_comparison, write_comparison
from invlift.samplers.kernels import KERNELS

HEADINGS = [
    "method", "draws", "ESS bulk", "tail", "R-hat", "", "accepted", "failed", "step", "ESS/s",
    "ESS/1000 fact.",
]  # fmt: skip


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    methods = [name.strip() for name in parsed.methods.split(",") if name.strip()]
    if not methods or len(set(methods)) < len(methods):
        raise InputError(
            "--methods", "different names with commas between", parsed.methods, "name each once"
        )
    unknown = next((name for name in methods if name not in KERNELS), None)
    if unknown is not None:
        expected = f"names among {', '.join(KERNELS)}"
        raise InputError("--methods", expected, printable(unknown), "correct the option")
    seconds = number_option("--budget", parsed.budget, float)
    if not 0 < seconds < float("inf"):
        raise InputError("--budget", "a positive number", parsed.budget, "give seconds")
    spec = open_problem(parsed.problem).with_overrides(
        chains=parsed.chains, warmup=parsed.warmup, seed=parsed.seed
    )
    directory = spec.output.dir.with_name(f"{spec.output.dir.name}-comparison")
    if parsed.out is not None:
        spec = spec.with_overrides(out=parsed.out)
        directory = spec.output.dir
    files = directory / "comparison.csv", directory / "comparison.png"
    check_is_new(files, "a directory without a comparison", "choose another")
    field = build(spec)
    spec.with_overrides(out=directory).prepare_output("--out" if parsed.out else None)
    say(console, headline(field))
    settings, rows = spec.sampler, []
    with interrupts_raise(), comparison_display(errors) as on_progress:
        for row in compare(
            field.problem,
            methods,
            seconds=seconds,
            chains=settings.chains,
            warmup=settings.warmup,
            seed=settings.seed,
            on_progress=on_progress,
        ):
            rows.append(row)
            # After each, so that a comparison cut short has what was found until then.
            write_comparison(files[0], rows)
            plot_comparison(rows, files[1])
    say_table(console, HEADINGS, [_cells(row) for row in rows])
    for row in rows:
        if row.note:
            say(console, f"{row.method}: {row.note}")
    say(console, f"\nWritten to {directory}: {', '.join(file.name for file in files)}")
    is_done = len(rows) == len(methods) and rows[-1].note != INTERRUPTED
    is_done = is_done and any(row.num_draws for row in rows)
    return 0 if is_done else BAD_VERDICT


def _cells(row) -> list[str]:
    """Effective sizes, the smallest of all scalars; the second estimate where the two disagree."""
    bulk = _in_digits(row.ess_bulk)
    if row.ess_bulk > 0 and not row.estimators_agree:
        bulk += f" or {_in_digits(row.ess_batch)}"
    return [
        row.method,
        f"{row.num_chains} x {row.num_draws}",
        bulk,
        _in_digits(row.ess_tail),
        "-" if math.isnan(row.r_hat) else f"{row.r_hat:.3f}",
        row.doubt,
        _in_digits(row.acceptance_rate),
        "-" if math.isnan(row.failure_share) else f"{row.failure_share:.1%}",
        _in_digits(row.step_size),
        _in_digits(row.ess_per_second),
        _in_digits(1000 * row.ess_per_factorisation),
    ]


def _in_digits(value: float) -> str:
    if value != value:
        return "-"
    return f"{value:.3g}" if abs(value) < 1e3 else f"{value:.0f}"
