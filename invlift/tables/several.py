"""Several tables read as one, such as a file for each well or logger in different formats."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.fem.readings.sensors import Sensors
from invlift.tables.mapping import NAME
from invlift.tables.table import Table

_BY_NAME = 'give them by name, {"MW-1": table}, or a column name in each'


class Sources(NamedTuple):
    """Tables to read as one.

    Attributes
    ----------
    name : str
        Name of all tables together in error messages.
    parts : list of (str, source)
        Sensor name of each table, used if it has no names itself, and the table to read.
    """

    name: str
    parts: list[tuple[str, Any]]


def sources_of(source: Any) -> Sources | None:
    """Return the tables of a pattern of paths, a list or a dictionary; None for a single table.

    Paths in a list may be patterns as well.

    Raises
    ------
    InputError
        If there is no table, or a file twice.
    """
    name = path_of(source)
    match _files_of(source) or source:
        case dict() as named:
            parts = [(f"{key}", each) for key, each in named.items()]
        case list() | tuple() as several:
            every = [each for own in several for each in (_files_of(own) or [own])]
            parts = [(Path(path_of(each)).stem, each) for each in every]
        case _:
            return None
    if not parts:
        raise InputError("sensor tables", "at least one", "none", "name their files")
    files = [os.path.realpath(path) for _, each in parts if (path := path_of(each))]
    twice = next((each for each in files if files.count(each) > 1), None)
    if twice is not None:
        raise InputError(Path(twice).name, "each file once", "it twice", "name it once")
    if not name:
        name = path_of(parts[0][1]) or "a sensor table"
        name += f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return Sources(name, parts)


def path_of(source: Any) -> str:
    """Return the path of a file as text; "" if the source is no path."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else ""


def _files_of(source: Any) -> list[str]:
    """Return the files of a pattern of paths in the order of their names; none if it is none."""
    name = path_of(source)
    if not glob.has_magic(name) or Path(name).exists():
        return []
    if files := sorted(glob.glob(name, recursive=True)):
        return files
    remedy = "check the path (paths in a problem file are relative to that file)"
    raise InputError(name, "files of this pattern", "none", remedy)


def with_name(table: Table, name: str, names: Sequence[str]) -> Table:
    """Add a column with the name of the sensor, if the table has no column of names.

    Raises
    ------
    InputError
        If there is no name, or several tables have the same name.
    """
    if any(each.casefold() == NAME for each in table.columns):
        return table
    if not name or names.count(name) > 1:
        found = f"{names.count(name)} named {name!r}" if name else "none"
        remedy = f"rename the files, or {_BY_NAME}" if name else _BY_NAME
        raise InputError(table.name, "a name of its own for each sensor", found, remedy)
    remarks = (*table.remarks, "no column name: the sensor is called as its table")
    return replace(table.with_column(NAME, name), remarks=remarks)


def joined(tables: Sequence[Table], name: str) -> Table:
    """Join tables with numbers one below the other; rows have names such as "3 of b.csv".

    Raises
    ------
    InputError
        If columns with the same name have different units, one of them may be none, or only some
        tables have sigma.
    """
    units: dict[str, tuple[str, str]] = {}
    for table in tables:
        units |= {each: (unit, table.name) for each, unit in table.units.items()
                  if each not in units}  # fmt: skip
    for table, column in ((table, each) for table in tables for each in units):
        first, other = units[column]
        unit = table.units.get(column, "")
        if column in table.columns and unit != first and column != "sigma":  # in that of value
            where = f"{table.name}, row {table.first}, column {column}"
            found = repr(unit) if unit else "none"
            remedy = "convert one of them, or name the unit of all in [units]"
            raise InputError(where, f"the unit {first!r}, as in {other}", found, remedy)
    check_all_have("sigma", [(each.name, "sigma" in each.columns) for each in tables])
    frame = pd.concat([each.frame for each in tables], ignore_index=True)
    is_number = pd.api.types.is_numeric_dtype
    texts = {name: column.where(column.notna(), "") for name, column in frame.items()
             if not is_number(column)}  # fmt: skip
    frame = frame.assign(**texts)
    short = short_names([each.name for each in tables])
    rows = [f"{row} of {own}" for table, own in zip(tables, short, strict=True)
            for row in table.rows]  # fmt: skip
    known = {column: unit for column, (unit, _) in units.items()}
    return Table(frame, np.array(rows), name, units=known)


def check_all_have(column: str, tables: Sequence[tuple[str, bool]]) -> None:
    """Refuse that some tables, by name, have a column and others do not."""
    without = [name for name, has_it in tables if not has_it]
    if 0 < len(without) < len(tables):
        other = next(name for name, has_it in tables if has_it)
        remedy = "add it to this table, or remove it from all"
        raise InputError(without[0], f"a column {column!r}, as in {other}", "none", remedy)


def short_names(names: Sequence[str]) -> list[str]:
    """Return names of files without their folders, or unchanged if these are not unique."""
    short = [Path(each).name for each in names]
    return short if len(set(short)) == len(names) else list(names)


def notes_of(tables: Sequence[Table | Sensors]) -> list[str]:
    """Return the notes on tables; each note is given once, with the tables that it applies to."""
    short, found = short_names([each.name for each in tables]), []
    for note in dict.fromkeys(each for table in tables for each in table.notes):
        of = [name for name, table in zip(short, tables, strict=True) if note in table.notes]
        more = f" and {len(of) - 3} more" if len(of) > 3 else ""
        found.append(note if len(of) == len(tables) else f"{', '.join(of[:3])}{more}: {note}")
    return found
