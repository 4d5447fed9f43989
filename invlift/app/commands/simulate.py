"""``invlift simulate``: simulate readings of unknowns from the prior, or a series of draws."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from invlift.app.commands.common import built, say, typed
from invlift.app.problem.problem_file import ProblemSpec
from invlift.app.problems import PythonSpec, noise_of, open_problem, with_readings
from invlift.app.runs.quantities import quantities_of
from invlift.app.studies.simulate import prior_draws, simulate_by_name, simulate_readings
from invlift.errors import InputError
from invlift.fem.equations.surveys import apart
from invlift.fem.readings.sensors import Sensors
from invlift.files.atomic import replace_on_success
from invlift.files.output_folder import check_is_new
from invlift.files.tables import integer, number
from invlift.noise import known_noise
from invlift.posterior.names import FIELD
from invlift.posterior.output.files import Step, write_fields, write_series, write_table
from invlift.posterior.statistics.quantity import Quantity
from invlift.problems.problem import InverseProblem
from invlift.tables.sensors import write_sensors
from invlift.tables.times import SECONDS
from invlift.tables.voltages import write_voltages

#: Largest number of draws of a series, as their files are numbered with four digits.
MAX_DRAWS = 10_000


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    sigma = None if parsed.sigma is None else typed("--sigma", parsed.sigma, number(above=0.0))
    seed = typed("--seed", parsed.seed, integer(0))
    out = Path(parsed.out)
    if parsed.draws is not None and sigma is not None:
        expected = "no noise scale with --draws, as no readings are made"
        raise InputError("--sigma", expected, parsed.sigma, "leave out one of the two")
    num = parsed.draws and typed("--draws", parsed.draws, integer(1, MAX_DRAWS))
    if num:
        _check_series(out)
    else:
        check_is_new("--out", out)
    spec = open_problem(parsed.problem)
    problem = built(spec, errors, needs_values=False)
    problem = with_readings(problem, parsed.problem, "simulate")
    noise = noise_of(spec, problem) if sigma is None else known_noise(sigma)
    if sigma is not None and problem.noise.censored is not None:
        noise = noise.with_limits(problem.noise.limits)
    if problem.mesh is not None and problem.sensors is not None:
        write = _write_draws if num else partial(_write_sensors, spec)
        return write(problem, noise, num or sigma, seed, out, console)
    if num or sigma is not None:
        option, found = ("--draws", num) if num else ("--sigma", sigma)
        expected = "none of this option, which is for fields on a mesh with a table of sensors"
        raise InputError(option, expected, f"{found}", "leave it out")
    return _write_by_name(problem, seed, out, console)


def _write_by_name(problem: InverseProblem, seed: int, out: Path, console: Console) -> int:
    """Write simulated readings and their truth as tables, and return the exit status."""
    truth_file = out.with_name(f"{out.stem}_truth.csv")
    check_is_new("--out", truth_file)
    readings, numbers = simulate_by_name(problem, seed)
    write_table(out, pd.DataFrame(readings).set_index("reading"))
    write_table(truth_file, pd.Series(numbers, name="value").rename_axis("name").to_frame())
    what = f"{len(readings['value'])} readings, noise of the problem"
    say(console, f"Written: {out} ({what}) and the truth behind them, {truth_file}")
    return 0


def _write_sensors(
    spec, problem: InverseProblem, noise, sigma, seed: int, out: Path, console
) -> int:
    """Write a sensor table and the true field of its readings, and return the exit status."""
    truth_file = out.with_name(f"{out.stem}_truth.vtu")
    check_is_new("--out", truth_file)
    sensors, truth = simulate_readings(problem, noise, seed)
    step = _step(problem, truth)
    write_fields(truth_file, problem.mesh.points, problem.mesh.cells, *vars(step).values())
    sensors = apart(in_unit_of_table(spec, sensors))
    with replace_on_success(out) as temporary:
        (write_sensors if sensors.electrodes is None else write_voltages)(temporary, sensors)
    kind = "of the problem file" if sigma is None else f"{sigma:g}"
    what = f"{len(sensors.values)} sensors, noise {kind}"
    say(console, f"Written: {out} ({what}) and the field behind them, {truth_file}")
    _say_drawn(console, step)
    return 0


def in_unit_of_table(spec: ProblemSpec | PythonSpec, sensors: Sensors) -> Sensors:
    """Return readings with times in the unit in which the problem file reads those of its table."""
    written = spec.observations.time_unit if isinstance(spec, ProblemSpec) else None
    if written is None:
        return sensors
    factor, lengths = SECONDS[spec.pde.time_unit] / SECONDS[written], sensors.averaged_over
    lengths = None if lengths is None else factor * lengths
    return replace(sensors, times=factor * sensors.times, averaged_over=lengths)


def _check_series(out: Path) -> None:
    if out.suffix != ".pvd":
        expected = "with --draws a name that ends in .pvd"
        raise InputError("--out", expected, f"{out}", "correct the option")
    check_is_new("--out", out, out.with_suffix(""))


def _write_draws(problem: InverseProblem, noise, num: int, seed: int, out: Path, console) -> int:
    """Write a series of draws from the prior, and return the exit status."""
    draws = prior_draws(replace(problem, noise=noise), num, seed)
    steps = [_step(problem, draw, with_conductivity=True) for draw in draws]
    write_series(out, problem.mesh.points, problem.mesh.cells, steps)
    what = "a draw" if num == 1 else f"{num} draws"
    say(console, f"Written: {out} ({what} from the prior) and the folder {out.with_suffix('')}")
    if num == 1:
        _say_drawn(console, steps[0])
    return 0


def _step(
    problem: InverseProblem, draw: dict[str, np.ndarray], with_conductivity: bool = False
) -> Step:
    """Return the content of a file for a draw: fields at nodes and in cells, and numbers."""
    step = Step({}, {}, {})
    on = {"node": step.on_nodes, "cell": step.on_cells, None: step.numbers}
    kinds = {each.name: each for each in quantities_of(problem)}
    for name, values in draw.items():
        kind = kinds.get(name, Quantity(name))
        if kind.place or not kind.is_derived:
            on[kind.place][name] = values
        if name == FIELD and with_conductivity:
            on[kind.place]["conductivity"] = np.exp(values)
    return step


def _say_drawn(console: Console, step: Step) -> None:
    """Print the drawn values of unknown parameters, if any."""
    with np.printoptions(precision=6, threshold=4, edgeitems=2):
        texts = {n: x if x.ndim else format(x.item(), ".6g") for n, x in step.numbers.items()}
        drawn = ", ".join(f"{name} {text}" for name, text in texts.items())
    if drawn:
        say(console, f"Drawn from their priors: {drawn}")
