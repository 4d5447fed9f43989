"""``invlift report``: a page that shows a run."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from invlift.app.commands.common import check_is_new, say
from invlift.app.report import write_report
from invlift.errors import InputError


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    del errors

    out = None if parsed.out is None else Path(parsed.out)
    if out is not None:
        if not out.name or out.is_dir():
            raise InputError("--out", "a new file to write", f"the directory {out}", "name a file")
        check_is_new((out,), "a new file to write", "choose another name")
        if not out.parent.is_dir():
            raise InputError(
                "--out",
                "a file in an existing directory",
                f"{out.parent}",
                "make the directory first",
            )
    written = write_report(parsed.directory, out)
    say(console, f"Written: {', '.join(map(str, written))}")
    return 0
