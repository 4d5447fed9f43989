"""``invlift simulate``: readings of a field drawn from the prior, or a series of such fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from invlift.app.build import build_noise, build_problem
from invlift.app.commands.common import check_is_new, integer_option, positive_option, say
from invlift.app.problems import with_a_mesh
from invlift.app.simulate import prior_draws, simulate_readings
from invlift.errors import InputError
from invlift.fem.sensors import write_sensors
from invlift.fem.voltages import write_voltages
from invlift.files.atomic import replace_on_success
from invlift.inverse.noise import known_noise
from invlift.posterior.files import Step, write_fields, write_series
from invlift.posterior.names import FIELD

#: Most draws of a series: their files are numbered with four digits.
MAX_DRAWS = 10_000


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    del errors
    sigma = None if parsed.sigma is None else positive_option("--sigma", parsed.sigma)
    seed = integer_option("--seed", parsed.seed, 0)
    out = Path(parsed.out)
    if parsed.draws is not None:
        num = integer_option("--draws", parsed.draws, 1, MAX_DRAWS)
        if sigma is not None:
            expected = "no noise scale with --draws, as no readings are made"
            raise InputError("--sigma", expected, parsed.sigma, "leave out one of the two")
        return _write_draws(parsed.problem, num, seed, out, console)
    check_is_new("--out", out)
    truth_file = out.with_name(f"{out.stem}_truth.vtu")
    check_is_new("--out", truth_file)
    spec = with_a_mesh(parsed.problem, "simulate")
    field = build_problem(spec, needs_values=False)
    noise = build_noise(spec, field.sensors) if sigma is None else known_noise(sigma)
    sensors, truth = simulate_readings(field, noise, seed)
    fields = field.by_place({FIELD: truth.log_conductivity}, truth.solutions)
    write_fields(truth_file, field.mesh.points, field.mesh.cells, *fields, numbers=truth.numbers)
    with replace_on_success(out) as temporary:
        (write_sensors if sensors.electrodes is None else write_voltages)(temporary, sensors)
    kind = "of the problem file" if sigma is None else f"{sigma:g}"
    what = f"{len(sensors.values)} sensors, noise {kind}"
    say(console, f"Written: {out} ({what}) and the field behind them, {truth_file}")
    _say_drawn(console, truth.numbers)
    return 0


def _write_draws(problem: str, num: int, seed: int, out: Path, console: Console) -> int:
    """Write a series of draws from the prior and return the exit status."""
    if out.suffix != ".pvd":
        expected = "with --draws a name that ends in .pvd"
        raise InputError("--out", expected, f"{out}", "correct the option")
    folder = out.with_suffix("")
    check_is_new("--out", out, folder)
    spec = with_a_mesh(problem, "simulate")
    field, steps = build_problem(spec, needs_values=False), []
    draws = list(prior_draws(field, build_noise(spec, field.sensors), num, seed))
    for draw in draws:
        phi = draw.log_conductivity
        coefficients = {FIELD: phi, "conductivity": np.exp(phi)}
        steps.append(Step(*field.by_place(coefficients, draw.solutions), draw.numbers))
    write_series(out, field.mesh.points, field.mesh.cells, steps)
    what = "a draw" if num == 1 else f"{num} draws"
    say(console, f"Written: {out} ({what} from the prior) and the folder {folder}")
    if num == 1:
        _say_drawn(console, draws[0].numbers)
    return 0


def _say_drawn(console: Console, numbers: dict[str, np.ndarray]) -> None:
    """Print what was drawn of unknown parameters, if anything."""
    with np.printoptions(precision=6, threshold=4, edgeitems=2):
        texts = {name: x if x.ndim else format(x.item(), ".6g") for name, x in numbers.items()}
        drawn = ", ".join(f"{name} {text}" for name, text in texts.items())
    if drawn:
        say(console, f"Drawn from their priors: {drawn}")
