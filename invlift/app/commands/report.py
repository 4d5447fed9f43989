"""``invlift report``: a page that shows a run."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from invlift.app.commands.common import check_is_new, say
from invlift.app.report import write_report


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    del errors
    if parsed.out is not None:
        check_is_new("--out", Path(parsed.out))
    written = write_report(parsed.directory, parsed.out)
    say(console, f"Written: {', '.join(map(str, written))}")
    return 0
