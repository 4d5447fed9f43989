"""``invlift simulate``: readings of a field drawn from the prior."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from invlift.app.build import build_noise, build_problem
from invlift.app.commands.common import check_is_new, number_option, say
from invlift.app.problem_file import read_problem
from invlift.app.simulate import simulate_readings
from invlift.app.truth import READINGS, truth_file
from invlift.atomic import replace_on_success
from invlift.errors import InputError
from invlift.fem.sensors import write_sensors
from invlift.posterior.files import write_fields


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    del errors

    sigma = None if parsed.sigma is None else number_option("--sigma", parsed.sigma, float)
    if sigma is not None and not 0 < sigma < float("inf"):
        raise InputError("--sigma", "a positive number", parsed.sigma, "give the noise scale")
    seed = number_option("--seed", parsed.seed, int)
    if seed < 0:
        raise InputError("--seed", "an integer of at least 0", parsed.seed, "correct the option")
    out = Path(parsed.out)
    if not out.name or out.is_dir():
        found = f"the directory {out}"
        raise InputError("--out", "a new file to write", found, "choose another name")
    beside = truth_file(out)
    check_is_new((out, beside), "a new file to write", "choose another name")
    spec = read_problem(parsed.problem)
    field = build_problem(spec, needs_values=False)
    noise = build_noise(spec, field.sensors) if sigma is None else sigma
    sensors, truth = simulate_readings(field, noise, seed)
    if not out.parent.is_dir():
        raise InputError(
            "--out", "a file in an existing directory", f"{out.parent}", "make the directory first"
        )
    location = field.problem.prior.location
    coefficients = {"log_conductivity": truth.pop("log_conductivity")}
    on_nodes = {"solution": truth.pop("solution")} | (coefficients if location == "nodes" else {})
    on_cells = coefficients if location == "cells" else {}
    points, cells = field.mesh.points, field.mesh.cells
    try:
        numbers = truth | {READINGS: sensors.values}
        write_fields(beside, points, cells, on_nodes, on_cells, numbers=numbers)
        with replace_on_success(out) as temporary:
            write_sensors(temporary, sensors)
    except OSError as error:
        raise InputError(
            "--out", "a file that can be written", f"{error.strerror}: {out}", "choose another"
        ) from error
    kind = "of the problem file" if sigma is None else f"{sigma:g}"
    say(
        console,
        f"Written: {out} ({len(sensors.values)} sensors, noise {kind}) and the field behind them, "
        f"{beside}",
    )
    drawn = [f"{name} {_in_brief(values)}" for name, values in truth.items()]
    if drawn:
        say(console, f"Drawn from their priors: {', '.join(drawn)}")
    return 0


def _in_brief(values) -> str:
    """A number, or the first of several."""
    first = [f"{value:.6g}" for value in values.flat[:4]]
    return first[0] if not values.ndim else f"[{' '.join(first)}{' ...' * (values.size > 4)}]"
