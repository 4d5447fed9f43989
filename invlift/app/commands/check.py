"""``invlift check``: check a problem before a run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from invlift.app.checks import Finding, check_problem
from invlift.app.commands.common import BAD_VERDICT, built, interruptible, say
from invlift.app.problem.problem_file import ProblemSpec
from invlift.app.problems import open_problem, with_readings
from invlift.app.runs.progress import phases_display
from invlift.app.runs.quantities import field_of, field_prior, names_of_readings
from invlift.app.studies.simulate import prior_draws
from invlift.files.output_folder import check_is_new
from invlift.posterior.names import FIELD, PREDICTED
from invlift.problems.problem import InverseProblem
from invlift.units import with_unit

STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}
#: Number of draws from the prior whose readings are plotted, and whose fields are plotted.
NUM_DRAWS, NUM_FIELDS = 50, 4


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    picture = None
    if parsed.plot is not None:
        from invlift.posterior.figures.style import check_format

        picture = Path(parsed.plot or f"{Path(parsed.problem).stem}_prior.png")
        check_format("--plot", picture)
        check_is_new("--plot", picture)
    spec = open_problem(parsed.problem)
    problem = built(spec, errors)
    if picture is not None:
        with_readings(problem, parsed.problem, "check --plot")
    if not isinstance(spec, ProblemSpec):
        say(console, f"{problem}\n")

    def show(finding: Finding) -> None:
        console.print(f"[{STYLES[finding.level]}]{finding.level:>4}[/]  ", end="")
        say(console, str(finding))

    with phases_display(errors, "preparing the checks"):
        report = interruptible(partial(check_problem, on_finding=show), problem, spec)
    say(console, f"\n{report.verdict}")
    if picture is not None:
        _draw_prior(problem, spec.sampler.seed, picture)
        say(console, f"\nWritten: {picture}")
    return 0 if report.is_good else BAD_VERDICT


def _draw_prior(problem: InverseProblem, seed: int, picture: Path) -> None:
    """Plot fields drawn from the prior, their standard deviation, and their readings.

    Without a mesh only the readings are plotted. The draws are those of ``invlift simulate
    --draws`` with the seed of the problem file.
    """
    from invlift.posterior.figures.field_plots import Panel, plot_predictions, plot_prior
    from invlift.posterior.figures.style import saved

    draws = list(prior_draws(problem, NUM_DRAWS, seed))
    predicted = np.stack([draw[PREDICTED] for draw in draws])
    mesh, sensors = problem.mesh, problem.sensors
    if mesh is None or sensors is None:
        labels = names_of_readings(problem)
        saved(plot_predictions(np.asarray(problem.observed), predicted, labels), picture)
        return
    field = field_of(problem)
    name, unit, is_nodal = field.name, field.unit, field.place == "node"
    label = "log-conductivity" if name == FIELD else with_unit(name, unit)
    panels = [
        Panel(f"Draw {index}", draw[name], is_nodal, "viridis", label)
        for index, draw in enumerate(draws[:NUM_FIELDS])
    ]
    std = Panel("Standard deviation", field_prior(problem).pointwise_std(), is_nodal, "magma")
    saved(plot_prior(mesh, sensors, panels, std, predicted), picture)
