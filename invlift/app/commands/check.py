"""``invlift check``: look a problem over before running it."""

from __future__ import annotations

from rich.console import Console

from invlift.app.checks import check_problem
from invlift.app.commands.common import BAD_VERDICT, say
from invlift.app.problem_file import read_problem
from invlift.app.progress import says_that_it_compiles


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    with says_that_it_compiles(errors):
        report = check_problem(read_problem(parsed.problem))
    for finding in report.findings:
        style = {"ok": "green", "note": "yellow", "bad": "bold red"}[finding.level]
        console.print(f"[{style}]{finding.level:>4}[/]  ", end="")
        say(console, f"{finding.name}: {finding.detail}")
    say(console, f"\n{report.verdict}")
    return 0 if report.is_good else BAD_VERDICT
