"""Record of a comparison: results of the finished methods, with a checksum."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from invlift.app.problems import AnyProblem
from invlift.errors import InputError
from invlift.files.output_folder import OutputFolder
from invlift.posterior.output.files import as_json, write_json
from invlift.posterior.statistics.comparison import Efficiency
from invlift.programs.digest import digest

RECORD, TABLE, FIGURE = "comparison.json", "comparison.csv", "comparison.png"


def of_comparison(folder: Path) -> OutputFolder:
    """Return the folder of a comparison."""
    return OutputFolder(folder, "comparison", RECORD, (TABLE, FIGURE))


def identity_of(problem: AnyProblem, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the common settings and problem of all methods of a comparison, for JSON."""
    return {**settings, "problem": digest(problem)}


def write_comparison(folder: Path, rows: Sequence[Efficiency], identity: Mapping[str, Any]) -> None:
    """Write the rows of the finished methods, for :func:`read_comparison`."""
    record = json.loads(as_json({"identity": identity, "rows": [vars(row) for row in rows]}))
    write_json(folder / RECORD, record | {"checksum": _checksum(record)})


def read_comparison(folder: Path, identity: Mapping[str, Any]) -> list[Efficiency]:
    """Read the rows of a comparison to be continued, with the same identity.

    Raises
    ------
    InputError
        If there is no record, or it is damaged or belongs to another comparison.
    """
    path = folder / RECORD
    of_comparison(folder).check(is_resuming=True)
    try:
        record = dict(json.loads(path.read_text("utf-8")))
        is_whole = record.pop("checksum", None) == _checksum(record)
        recorded, rows = record["identity"], [_row(each) for each in record["rows"]]
    except (ValueError, LookupError, TypeError):
        is_whole = False
    remedy = "begin anew in another directory, by --out"
    if not is_whole:
        found = "one that is cut off or changed"
        raise InputError(f"{path}", "a record as it was written", found, remedy)
    of_comparison(folder).check_identity(recorded, identity)
    return rows


def _row(values: Mapping[str, Any]) -> Efficiency:
    return Efficiency(**{name: math.nan if x is None else x for name, x in values.items()})


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
