"""``invlift compare``: compare several methods with the same time each."""

from __future__ import annotations

from rich.console import Console

from invlift.app.commands.common import (
    BAD_VERDICT,
    built,
    headline,
    interrupts_raise,
    say,
    say_table,
    typed,
)
from invlift.app.problems import open_problem
from invlift.app.runs.progress import comparison_display
from invlift.app.studies.compare import (
    FIGURE,
    INTERRUPTED,
    NUMPYRO_NUTS,
    TABLE,
    compare,
    of_comparison,
    read_comparison,
    write_comparison,
)
from invlift.errors import InputError
from invlift.files.tables import number
from invlift.posterior.output.files import write_table
from invlift.posterior.statistics.comparison import plot_comparison, table_of
from invlift.programs.digest import digest
from invlift.samplers.kernels import KERNELS

#: Printed columns of the table, and their headings.
HEADINGS = {
    "num_draws": "draws", "ess_bulk": "ESS bulk", "ess_tail": "tail", "r_hat": "R-hat",
    "doubt": "", "acceptance_rate": "accepted", "failure_share": "failed", "step_size": "step",
    "ess_per_second": "ESS/s", "ess_per_factorisation": "ESS/fact.",
}  # fmt: skip


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
    seconds = typed("--budget", parsed.budget, number(above=0.0))
    names = "chains", "warmup", "seed"
    options = {name: getattr(parsed, name) for name in names}
    spec = open_problem(parsed.problem).with_overrides(**options)
    spec = spec.with_output(parsed.out, "-comparison")
    directory, settings = spec.output.dir, spec.sampler.model_dump(include={*names})
    files = directory / TABLE, directory / FIGURE
    of_comparison(directory).check(is_resuming=parsed.resume)
    problem = built(spec, errors)
    identity = {**settings, "seconds": seconds, "problem": digest(problem)}
    rows = read_comparison(directory, identity) if parsed.resume else []
    rows = [row for row in rows if row.note != INTERRUPTED]
    left = [name for name in methods if name not in {row.method for row in rows}]
    directory.mkdir(parents=True, exist_ok=True)
    say(console, headline(problem))
    with interrupts_raise(), comparison_display(errors, left) as on_progress:
        for row in compare(problem, left, budget=seconds, **settings, on_progress=on_progress):
            rows.append(row)
            # Write after each method, so that an interrupted comparison keeps its results.
            write_comparison(directory, rows, identity)
            write_table(files[0], table_of(rows))
            plot_comparison(rows, files[1])
    shown = table_of(rows).assign(doubt=[row.doubt for row in rows])
    say_table(console, shown[list(HEADINGS)].rename(columns=HEADINGS))
    for row in rows:
        if row.note:
            say(console, f"{row.method}: {row.note}")
    say(console, f"\nWritten to {directory}: {', '.join(file.name for file in files)}")
    is_done = {*methods} <= {row.method for row in rows if row.note != INTERRUPTED}
    return 0 if is_done and any(row.num_draws for row in rows) else BAD_VERDICT
