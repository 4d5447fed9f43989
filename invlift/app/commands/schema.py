"""``invlift schema``: the keys of a problem file, as JSON schema or as a page."""

from __future__ import annotations

import json

from rich.console import Console

from invlift.app.commands.common import say
from invlift.app.problem.problem_schema import key_reference, problem_schema


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    text = key_reference() if parsed.page else json.dumps(problem_schema(), indent=2)
    say(console, text.removesuffix("\n"))
    return 0
