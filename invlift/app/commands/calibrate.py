"""``invlift calibrate``: ranks of the truth among posterior draws, in simulations."""

from __future__ import annotations

from rich.console import Console

from invlift.app.build import FieldProblem
from invlift.app.calibrate import MAX_KEPT, MIN_KEPT, calibrate, field_places, field_to_calibrate
from invlift.app.calibration_files import FIGURE, RECORD, TABLE, check_is_ready
from invlift.app.commands.common import BAD_VERDICT, headline, integer_option, say, say_table
from invlift.app.problem_file import ProblemSpec
from invlift.app.problems import build_with_readings, open_problem
from invlift.app.progress import calibration_display
from invlift.app.terminal import interrupts_raise
from invlift.posterior.calibration_plot import plot_calibration


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    num_simulations = integer_option("--simulations", parsed.simulations, 1, 10**6)
    num_draws = integer_option("--draws", parsed.draws, MIN_KEPT, MAX_KEPT)
    options = {name: getattr(parsed, name) for name in ("method", "warmup", "seed")}
    spec = open_problem(parsed.problem).with_overrides(**options)
    spec = spec.with_output(parsed.out, "-calibration")
    directory, settings = spec.output.dir, spec.sampler
    check_is_ready(directory, is_resuming=parsed.resume)
    field = (
        field_to_calibrate(spec)
        if isinstance(spec, ProblemSpec)
        else build_with_readings(spec, "calibrate")
    )
    say(console, headline(field))
    places = field_places(field, settings.seed) if isinstance(field, FieldProblem) else None
    with interrupts_raise(), calibration_display(errors, num_simulations) as on_simulation:
        calibration = calibrate(
            field.problem,
            settings.kernel(),
            simulations=num_simulations,
            draws=num_draws,
            **{name: getattr(settings, name) for name in ("warmup", "seed", "starts")},
            places=places,
            directory=directory,
            resume=parsed.resume,
            on_simulation=on_simulation,
        )
    written = [TABLE, RECORD] if calibration.simulations else [RECORD]
    if calibration.num_counted:
        plot_calibration(calibration, directory / FIGURE)
        written.insert(1, FIGURE)
        p_values = calibration.p_values()
        rows = [  # how far mean and spread of the ranks are off, in standard errors
            [name, f"{p_values[name]:.2g}", f"{mean:+.1f} se", f"{spread:+.1f} se"]
            for name, (mean, spread) in calibration.shapes().items()
        ]
        say_table(console, ["", "p", "mean rank", "spread"], rows)
    verdict = calibration.verdict()
    say(console, str(verdict))
    say(console, f"\nWritten to {directory}: {', '.join(written)}")
    return 0 if verdict.is_calibrated else BAD_VERDICT
