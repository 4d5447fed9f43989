"""``invlift simulate``: readings of a field drawn from the prior, or a series of such fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from invlift.app.build import build_noise, build_problem
from invlift.app.commands.common import check_directory, check_is_new, number_option, say
from invlift.app.problems import with_a_mesh
from invlift.app.simulate import prior_draws, simulate_readings
from invlift.app.truth import READINGS, truth_file
from invlift.atomic import replace_on_success
from invlift.errors import InputError
from invlift.fem.sensors import write_sensors
from invlift.posterior.files import Step, write_fields, write_series

#: Most draws of a series: their files are numbered with four digits.
MAX_DRAWS = 10_000


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
    if parsed.draws is not None:
        return _write_draws(parsed, seed, out, console)
    if not out.name or out.is_dir():
        found = f"the directory {out}"
        raise InputError("--out", "a new file to write", found, "choose another name")
    beside = truth_file(out)
    check_is_new((out, beside), "a new file to write", "choose another name")
    spec = with_a_mesh(parsed.problem, "simulate")
    field = build_problem(spec, needs_values=False)
    noise = build_noise(spec, field.sensors) if sigma is None else sigma
    sensors, truth = simulate_readings(field, noise, seed)
    check_directory(out)
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
    _say_drawn(console, truth)
    return 0


def _write_draws(parsed, seed: int, out: Path, console: Console) -> int:
    """Write a series of draws from the prior and return the exit status."""
    num = number_option("--draws", parsed.draws, int)
    if not 1 <= num <= MAX_DRAWS:
        expected = f"an integer from 1 to {MAX_DRAWS}"
        raise InputError("--draws", expected, parsed.draws, "correct the option")
    if parsed.sigma is not None:
        raise InputError(
            "--sigma",
            "no noise scale with --draws, as no readings are made",
            parsed.sigma,
            "leave out one of the two",
        )
    if out.suffix != ".pvd":
        raise InputError(
            "--out", "with --draws a name that ends in .pvd", f"{out}", "correct the option"
        )
    folder = out.with_suffix("")
    check_is_new((out, folder), "a new file and folder to write", "choose another name")
    check_directory(out)
    spec = with_a_mesh(parsed.problem, "simulate")
    field = build_problem(spec, needs_values=False)
    draws = list(prior_draws(field, build_noise(spec, field.sensors), num, seed))
    is_nodal = field.problem.prior.location == "nodes"
    steps = []
    for draw in draws:
        coefficients = {
            "log_conductivity": draw.log_conductivity,
            "conductivity": np.exp(draw.log_conductivity),
        }
        on_nodes = {"solution": draw.solution} | (coefficients if is_nodal else {})
        steps.append(Step(on_nodes, {} if is_nodal else coefficients, draw.numbers))
    try:
        write_series(out, field.mesh.points, field.mesh.cells, steps)
    except OSError as error:
        raise InputError(
            "--out", "a file that can be written", f"{error.strerror}: {out}", "choose another"
        ) from error
    what = "a draw" if num == 1 else f"{num} draws"
    say(console, f"Written: {out} ({what} from the prior) and the folder {folder}")
    if num == 1:
        _say_drawn(console, draws[0].numbers)
    return 0


def _say_drawn(console: Console, numbers: dict[str, np.ndarray]) -> None:
    """Print what was drawn of unknown parameters, if anything."""
    drawn = [f"{name} {_in_brief(values)}" for name, values in numbers.items()]
    if drawn:
        say(console, f"Drawn from their priors: {', '.join(drawn)}")


def _in_brief(values) -> str:
    """A number, or the first of several."""
    first = [f"{value:.6g}" for value in values.flat[:4]]
    return first[0] if not values.ndim else f"[{' '.join(first)}{' ...' * (values.size > 4)}]"
