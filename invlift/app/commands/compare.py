"""``invlift compare``: several methods for the same time."""

from __future__ import annotations

import math

from rich.console import Console

from invlift.app.commands.common import BAD_VERDICT, headline, positive_option, say, say_table
from invlift.app.compare import INTERRUPTED, NUMPYRO_NUTS, compare
from invlift.app.problems import build, open_problem
from invlift.app.progress import comparison_display
from invlift.app.terminal import interrupts_raise
from invlift.errors import InputError
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
        expected = "different names with commas between"
        raise InputError("--methods", expected, parsed.methods, "name each once")
    known = (*KERNELS, NUMPYRO_NUTS)
    if unknown := [name for name in methods if name not in known]:
        expected = f"names among {', '.join(known)}"
        raise InputError("--methods", expected, unknown[0], "correct the option")
    seconds = positive_option("--budget", parsed.budget)
    names = "chains", "warmup", "seed"
    options = {name: getattr(parsed, name) for name in names}
    spec = open_problem(parsed.problem).with_overrides(**options)
    spec = spec.with_output(parsed.out, "-comparison")
    directory, settings = spec.output.dir, {name: getattr(spec.sampler, name) for name in names}
    files = directory / "comparison.csv", directory / "comparison.png"
    for file in files:
        if file.exists():
            found = f"{file.name}, which is there already"
            expected = "a directory without a comparison"
            raise InputError(f"{directory}", expected, found, "choose another with --out")
    field = build(spec)
    directory.mkdir(parents=True, exist_ok=True)
    say(console, headline(field))
    rows = []
    with interrupts_raise(), comparison_display(errors) as on_progress:
        settings |= {"seconds": seconds, "on_progress": on_progress}
        for row in compare(field.problem, methods, **settings):
            rows.append(row)
            # After each, so that a comparison cut short has what was done until then.
            write_comparison(files[0], rows)
            plot_comparison(rows, files[1])
    say_table(console, HEADINGS, [_cells(row) for row in rows])
    for row in rows:
        if row.note:
            say(console, f"{row.method}: {row.note}")
    say(console, f"\nWritten to {directory}: {', '.join(file.name for file in files)}")
    is_done = len(rows) == len(methods) and rows[-1].note != INTERRUPTED
    return 0 if is_done and any(row.num_draws for row in rows) else BAD_VERDICT


def _cells(row) -> list[str]:
    """Effective sizes, the smallest of all scalars; the second estimate where the two disagree."""
    bulk = _in_digits(row.ess_bulk)
    if row.ess_bulk > 0 and not row.estimators_agree:
        bulk += f" or {_in_digits(row.ess_batch)}"
    rates = row.step_size, row.ess_per_second, 1000 * row.ess_per_factorisation
    return [
        row.method, f"{row.num_chains} x {row.num_draws}", bulk, _in_digits(row.ess_tail),
        _in_digits(row.r_hat, ".3f"), row.doubt, _in_digits(row.acceptance_rate),
        _in_digits(row.failure_share, ".1%"), *map(_in_digits, rates),
    ]  # fmt: skip


def _in_digits(value: float, form: str = "") -> str:
    if math.isnan(value):
        return "-"
    return format(value, form or (".3g" if abs(value) < 1e3 else ".0f"))
