"""The directory of a calibration: what it is of, and the simulations that are done."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from invlift.app.sampling import versions
from invlift.atomic import replace_on_success
from invlift.errors import InputError
from invlift.input_files import read_text
from invlift.posterior.calibration import Calibration, Simulation
from invlift.posterior.files import write_json

TABLE, RECORD, FIGURE = "calibration.csv", "calibration.json", "calibration.png"
#: Largest file of a calibration that is read: some million simulations.
MAX_BYTES = 2**28
#: Columns of the table before those of the ranks.
_COLUMNS = [each.name for each in fields(Simulation) if each.name != "ranks"]
_REMEDY = "restore the file, or begin anew in another directory"


def check_is_ready(directory: Path, *, is_resuming: bool) -> None:
    """Check that a calibration can begin in a directory, or go on there; else an InputError."""
    there = [name for name in (TABLE, RECORD, FIGURE) if (directory / name).exists()]
    if is_resuming and RECORD not in there:
        raise InputError(
            f"{directory}",
            "a directory with a calibration to go on with",
            f"no {RECORD} in it" if directory.is_dir() else "no such directory",
            "give the directory of that calibration, or begin without resume",
        )
    if there and not is_resuming:
        expected, found = "a directory without a calibration", f"{there[0]}, which is there already"
        remedy = "choose another directory, or go on with that calibration (--resume)"
        raise InputError(f"{directory}", expected, found, remedy)


def simulations_done(directory: Path, identity: Mapping[str, Any]) -> list[Simulation]:
    """The simulations in a directory, which is made this calibration's if it is nobody's.

    ``identity`` is all that decides the ranks, except how many simulations there are. An InputError
    if the calibration in the directory is another one, or a file is damaged.
    """
    path, table = directory / RECORD, directory / TABLE
    if not path.exists():
        write_json(path, {"identity": identity})
    what = "the record of a calibration"
    text = read_text(path, f"{path}", what, remedy=_REMEDY, max_bytes=MAX_BYTES)
    try:
        recorded = dict(json.loads(text)["identity"])
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise InputError(f"{path}", what, f"{error!r}", _REMEDY) from None
    for key, value in identity.items():
        if recorded.get(key) != value:
            found = f"{recorded.get(key)}: the calibration there is another one"
            remedy = "resume with the same problem and options, or choose another directory"
            raise InputError(f"{path}, {key}", f"{value}", found, remedy)
    is_there = table.exists()
    return read_simulations(table, identity["names"], identity["num_draws"]) if is_there else []


def write_simulations(path: Path, simulations: Sequence[Simulation], names: Sequence[str]) -> None:
    """Write a table of simulations as CSV, a row each, the last columns the ranks of quantities."""
    with replace_on_success(path) as file, file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [*_COLUMNS, *names], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**each.ranks, **vars(each)} for each in simulations)


def read_simulations(path: Path, names: Sequence[str], num_draws: int) -> list[Simulation]:
    """Read what :func:`write_simulations` wrote; an InputError if it is not such a table."""
    what = "the table of this calibration"
    text = read_text(path, f"{path}", what, remedy=_REMEDY, max_bytes=MAX_BYTES)
    simulations, number, row, adapter = [], 1, [], TypeAdapter(Simulation)
    try:
        header, *rows = csv.reader(text.splitlines() or [""])
        row = header
        if header != [*_COLUMNS, *names]:
            raise ValueError
        for number, row in enumerate(rows, start=2):  # noqa: B007
            cells = dict(zip(header, row, strict=True))
            ranks = {name: rank for name in names if (rank := cells.pop(name))}
            each = adapter.validate_python(cells | {"ranks": ranks})
            is_complete = len(ranks) == len(names) or (not ranks and not each.counts)
            if not is_complete or not all(0 <= rank <= num_draws for rank in each.ranks.values()):
                raise ValueError
            simulations.append(each)
    except (ValueError, csv.Error):
        where, found = f"{path}, row {number}", f"{','.join(row)[:80]!r}"
        raise InputError(where, what, found, _REMEDY) from None
    return simulations


def write_record(directory: Path, identity: Mapping[str, Any], calibration: Calibration) -> None:
    """Write what is known of a calibration."""
    is_cut_short = len(calibration.simulations) < calibration.num_requested
    record = {"identity": identity, "versions": versions(), "is_interrupted": is_cut_short}
    write_json(directory / RECORD, record | calibration.record())
