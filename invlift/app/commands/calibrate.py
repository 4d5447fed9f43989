"""``invlift calibrate``: ranks of the truth among posterior draws, in simulations."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from rich.console import Console

from invlift.app.commands.common import (
    BAD_VERDICT,
    built,
    headline,
    interrupts_raise,
    say,
    say_table,
)
from invlift.app.problem.problem_file import as_typed
from invlift.app.problem.table_errors import check_options
from invlift.app.problems import noise_of, open_problem, with_readings
from invlift.app.runs.progress import simulations_display
from invlift.app.studies.calibrate import FIGURE, RECORD, TABLE, CalibrationTable, calibrate
from invlift.posterior.statistics.calibration import plot_calibration


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    sizes = {name: as_typed(getattr(parsed, name)) for name in ("simulations", "draws")}
    for name, value in sizes.items():
        check_options(CalibrationTable, f"--{name}", **{name: value})
    options = {name: getattr(parsed, name) for name in ("method", "warmup", "seed")}
    spec = open_problem(parsed.problem).with_overrides(**options)
    spec = spec.with_output(parsed.out, "-calibration")
    directory, settings = spec.output.dir, spec.sampler
    problem = built(spec, errors, needs_values=False)
    problem = with_readings(problem, parsed.problem, "calibrate")
    with_noise = replace(problem, noise=noise_of(spec, problem))
    say(console, headline(with_noise))
    with interrupts_raise(), simulations_display(errors, sizes["simulations"]) as on_simulation:
        calibration = calibrate(
            with_noise,
            settings.kernel(),
            **sizes,
            **settings.model_dump(include={"warmup", "seed", "starts"}),
            directory=directory,
            resume=parsed.resume,
            on_simulation=on_simulation,
        )
    written = [TABLE, RECORD] if calibration.simulations else [RECORD]
    if calibration.num_counted:
        plot_calibration(calibration, directory / FIGURE)
        written.insert(1, FIGURE)
        shapes = pd.DataFrame.from_dict(calibration.shapes(), orient="index")
        shapes.columns = ["mean rank, in se", "spread, in se"]  # deviations from uniform
        shapes.insert(0, "p", pd.Series(calibration.p_values()))
        say_table(console, shapes)
    verdict = calibration.verdict()
    say(console, str(verdict))
    say(console, f"\nWritten to {directory}: {', '.join(written)}")
    return 0 if verdict.is_calibrated else BAD_VERDICT
