"""``invlift next-sensor``: where one more reading would tell most."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from invlift.app.commands.common import integer_option, say, say_table
from invlift.app.results import load
from invlift.posterior.next_sensors import write_next_sensors

#: Most places: the linear estimate is one of a few readings.
MAX_NUM = 100


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    del errors
    posterior = load(parsed.directory)
    found = posterior.next_sensors(integer_option("--num", parsed.num, 1, MAX_NUM), parsed.of)
    axes = [axis for axis in "xyz" if axis in found.best]
    names = ["solution"] if len(found.shares) > 1 else []
    rows = []
    for rank, row in found.best.iterrows():
        places = [f"{row[axis]:.4g}" for axis in axes]
        rows.append([str(rank), *row[names], *places, f"{row['share']:.1%}"])
    say_table(console, ["rank", *names, *axes, "of the variance, in all"], rows)
    written = write_next_sensors(posterior, found, Path(parsed.directory))
    say(console, f"\nWritten: {', '.join(map(str, written))}")
    return 0
