"""``invlift check``: look a problem over before running it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from invlift.app.checks import check_problem
from invlift.app.commands.common import BAD_VERDICT, check_directory, check_is_new, say
from invlift.app.problem_file import ProblemSpec
from invlift.app.problems import open_problem, with_a_mesh
from invlift.app.progress import says_that_it_compiles
from invlift.errors import InputError


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    picture = None if parsed.plot is None else _picture_file(parsed.plot, parsed.problem)
    with says_that_it_compiles(errors):
        if picture is None:
            spec = open_problem(parsed.problem)
        else:
            spec = with_a_mesh(parsed.problem, "check --plot")
        report = check_problem(spec)
    if report.description:
        say(console, f"{report.description}\n")
    for finding in report.findings:
        style = {"ok": "green", "note": "yellow", "bad": "bold red"}[finding.level]
        console.print(f"[{style}]{finding.level:>4}[/]  ", end="")
        say(console, f"{finding.name}: {finding.detail}")
    say(console, f"\n{report.verdict}")
    if picture is not None:
        with says_that_it_compiles(errors):
            _draw(spec, picture)
        say(console, f"\nWritten: {picture}")
    return 0 if report.is_good else BAD_VERDICT


def _picture_file(option: str, problem: str) -> Path:
    """Where the picture goes, if it can."""
    file = Path(option or f"{Path(problem).stem}_prior.png")
    if file.suffix != ".png":
        raise InputError("--plot", "a name that ends in .png", f"{file}", "correct the option")
    check_is_new((file,), "a new file to write", "choose another name", option="--plot")
    check_directory(file, option="--plot")
    return file


def _draw(spec: ProblemSpec, file: Path) -> None:
    from invlift.app.prior_pictures import picture_prior
    from invlift.posterior.plots import saved
    from invlift.posterior.prior_plots import plot_prior

    try:
        saved(plot_prior(picture_prior(spec)), file)
    except OSError as error:
        raise InputError(
            "--plot", "a file that can be written", f"{error.strerror}: {file}", "choose another"
        ) from error
