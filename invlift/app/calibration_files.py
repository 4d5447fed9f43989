"""The directory of a calibration: what it is of, and the simulations that are done."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from invlift.atomic import replace_on_success
from invlift.errors import InputError
from invlift.input_files import read_text
from invlift.posterior.calibration import FINE, Calibration, Simulation
from invlift.posterior.files import write_json

TABLE, RECORD, FIGURE = "calibration.csv", "calibration.json", "calibration.png"
#: Largest file of a calibration that is read: some million simulations.
MAX_BYTES = 2**28
_PACKAGES = ("invlift", "jax", "jaxlib", "blackjax", "scikit-fem", "numpy", "scipy")
#: Columns of the table before those of the ranks.
_COLUMNS = {
    "simulation": int,
    "outcome": str,
    "num_draws": int,
    "ess": float,
    "step_size": float,
    "acceptance_rate": float,
    "seconds": float,
}
_REMEDY = "restore the file, or begin anew in another directory"


def check_is_ready(directory: Path, *, is_resuming: bool) -> None:
    """Check that a calibration can begin in a directory, or go on there.

    Raises
    ------
    InputError
        If it is to begin and there is one already, or to go on and there is none.
    """
    there = [name for name in (TABLE, RECORD, FIGURE) if (directory / name).exists()]
    if is_resuming and RECORD not in there:
        raise InputError(
            f"{directory}",
            "a directory with a calibration to go on with",
            f"no {RECORD} in it" if directory.is_dir() else "no such directory",
            "give the directory of that calibration, or begin without resume",
        )
    if there and not is_resuming:
        raise InputError(
            f"{directory}",
            "a directory without a calibration",
            f"{there[0]}, which is there already",
            "choose another directory, or go on with that calibration (--resume)",
        )


def simulations_done(directory: Path, identity: Mapping[str, Any]) -> list[Simulation]:
    """The simulations in a directory, which is made this calibration's if it is nobody's.

    Parameters
    ----------
    directory : pathlib.Path
    identity : mapping of str to str, int or list
        All that decides the ranks, except how many simulations there are; with the names of the
        quantities, ``names``, and the draws, ``num_draws``.

    Raises
    ------
    InputError
        If the calibration in the directory is another one, or a file is damaged.
    """
    path, table = directory / RECORD, directory / TABLE
    if not path.exists():
        write_json(path, {"identity": identity})
    what = "the record of a calibration"
    try:
        text = read_text(path, f"{path}", what, remedy=_REMEDY, max_bytes=MAX_BYTES)
        found = dict(json.loads(text)["identity"])
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise InputError(f"{path}", what, f"{error!r}", _REMEDY) from None
    for key, value in identity.items():
        if found.get(key) != value:
            raise InputError(
                f"{path}, {key}",
                f"{value}",
                f"{found.get(key)}: the calibration there is another one",
                "resume with the same problem and options, or choose another directory",
            )
    if not table.exists():
        return []
    return read_simulations(table, identity["names"], identity["num_draws"])


def write_simulations(path: Path, simulations: Sequence[Simulation], names: Sequence[str]) -> None:
    """Write a table of simulations as CSV, a row each: complete, or as it was before.

    Parameters
    ----------
    path : pathlib.Path
    simulations : sequence of Simulation
    names : sequence of str
        Quantities, whose ranks are the last columns.
    """
    with replace_on_success(path) as file, file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*_COLUMNS, *names])
        for each in simulations:
            first = [getattr(each, column) for column in _COLUMNS]
            writer.writerow([*first, *(each.ranks.get(name, "") for name in names)])


def read_simulations(path: Path, names: Sequence[str], num_draws: int) -> list[Simulation]:
    """Read what :func:`write_simulations` wrote, ranks 0 ... ``num_draws`` of these quantities.

    Raises
    ------
    InputError
        If the file cannot be read or is not such a table.
    """
    what = "the table of this calibration"
    text = read_text(path, f"{path}", what, remedy=_REMEDY, max_bytes=MAX_BYTES)
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error:
        rows = []
    simulations = []
    for number, row in enumerate(rows or [[]], start=1):
        if number == 1 and row == [*_COLUMNS, *names]:
            continue
        try:
            kinds = zip(_COLUMNS.items(), row, strict=False)
            values = {column: kind(text) for (column, kind), text in kinds}
            pairs = zip(names, row[len(_COLUMNS) :], strict=True)
            ranks = {name: int(text) for name, text in pairs if text}
            is_complete = len(ranks) == len(names) or (not ranks and values["outcome"] != FINE)
            if not is_complete or not all(0 <= rank <= num_draws for rank in ranks.values()):
                raise ValueError
        except (ValueError, KeyError):
            where, found = f"{path}, row {number}", f"{','.join(row)[:80]!r}"
            raise InputError(where, what, found, _REMEDY) from None
        simulations.append(Simulation(ranks=ranks, **values))
    return simulations


def write_record(directory: Path, identity: Mapping[str, Any], calibration: Calibration) -> None:
    """Write all there is to tell."""
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    record = {
        "identity": identity,
        "versions": versions | {"python": platform.python_version()},
        "is_interrupted": len(calibration.simulations) < calibration.num_requested,
    }
    write_json(directory / RECORD, record | calibration.record())
