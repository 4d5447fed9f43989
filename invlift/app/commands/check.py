"""``invlift check``: look a problem over before running it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from invlift.app.checks import check_problem
from invlift.app.commands.common import BAD_VERDICT, check_is_new, say
from invlift.app.problems import open_problem, with_a_mesh
from invlift.app.progress import says_that_it_compiles
from invlift.errors import InputError

STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    picture = None
    if parsed.plot is not None:
        picture = Path(parsed.plot or f"{Path(parsed.problem).stem}_prior.png")
        if picture.suffix != ".png":
            expected = "a name that ends in .png"
            raise InputError("--plot", expected, f"{picture}", "correct the option")
        check_is_new("--plot", picture)
        spec = with_a_mesh(parsed.problem, "check --plot")
    else:
        spec = open_problem(parsed.problem)
    with says_that_it_compiles(errors):
        report = check_problem(spec)
    if report.description:
        say(console, f"{report.description}\n")
    for finding in report.findings:
        console.print(f"[{STYLES[finding.level]}]{finding.level:>4}[/]  ", end="")
        say(console, str(finding))
    say(console, f"\n{report.verdict}")
    if picture is not None:
        from invlift.app.prior_pictures import picture_prior
        from invlift.posterior.field_plots import plot_prior
        from invlift.posterior.plots import saved

        with says_that_it_compiles(errors):
            saved(plot_prior(picture_prior(spec)), picture)
        say(console, f"\nWritten: {picture}")
    return 0 if report.is_good else BAD_VERDICT
