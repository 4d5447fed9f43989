"""Several tables that are one: a file of each well or logger, each written in its own way."""

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
from invlift.tables.mapping import NAME
from invlift.tables.table import Table

_BY_NAME = 'give them by name, {"MW-1": table}, or a column name in each'


class Sources(NamedTuple):
    """What is read as one table.

    Attributes
    ----------
    name : str
        What error messages call all of it.
    parts : list of (str, source)
        Name of the sensor of each that names none itself, and what to read.
    """

    name: str
    parts: list[tuple[str, Any]]


def sources_of(source: Any) -> Sources | None:
    """The tables of a pattern of paths, a list or a dictionary; None if it is a single one.

    Raises
    ------
    InputError
        If there are none, or two files have one name.
    """
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    if glob.has_magic(name) and not Path(name).exists():
        source = sorted(glob.glob(name, recursive=True))
        if not source:
            remedy = "check the path (paths in a problem file are relative to that file)"
            raise InputError(name, "files of this pattern", "none", remedy)
    if isinstance(source, dict):
        parts = [(f"{key}", each) for key, each in source.items()]
    elif isinstance(source, list | tuple):
        is_file = [isinstance(each, str | os.PathLike) for each in source]
        parts = [(Path(each).stem if own else "", each)
                 for each, own in zip(source, is_file, strict=True)]  # fmt: skip
    else:
        return None
    if not parts:
        raise InputError("sensor tables", "at least one", "none", "name their files")
    if not name:
        first = parts[0][1] if isinstance(parts[0][1], str | os.PathLike) else "a sensor table"
        name = os.fspath(first)
        name += f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return Sources(name, parts)


def with_name(table: Table, name: str, names: Sequence[str]) -> Table:
    """The table with the name of its sensor, where it has no column of names.

    Raises
    ------
    InputError
        If there is no name, or several tables have it.
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
    """Tables, whose numbers are read, one below the other; rows are called "3 of b.csv".

    Raises
    ------
    InputError
        If columns of one name are in different units.
    """
    units: dict[str, tuple[str, str]] = {}
    for table in tables:
        for column, unit in table.units.items():
            first, other = units.setdefault(column, (unit, table.name))
            if first != unit:
                where, found = f"{table.name}, row {table.first}, column {column}", repr(unit)
                remedy = "convert one of them, or name the unit of all in [units]"
                raise InputError(where, f"{first!r}, as in {other}", found, remedy)
    frame = pd.concat([each.frame for each in tables], ignore_index=True)
    is_number = pd.api.types.is_numeric_dtype
    texts = {name: column.where(column.notna(), "") for name, column in frame.items()
             if not is_number(column)}  # fmt: skip
    frame = frame.assign(**texts)
    short = _short_names([each.name for each in tables])
    rows = [f"{row} of {own}" for table, own in zip(tables, short, strict=True)
            for row in table.rows]  # fmt: skip
    known = {column: unit for column, (unit, _) in units.items()}
    return Table(frame, np.array(rows), name, units=known)


def _short_names(names: Sequence[str]) -> list[str]:
    """Names of files without their folders, where these differ."""
    short = [Path(each).name for each in names]
    return short if len(set(short)) == len(names) else list(names)


def notes_of(tables: Sequence[Table]) -> list[str]:
    """Notes on tables, those on all of them once."""
    short, found = _short_names([each.name for each in tables]), []
    for note in dict.fromkeys(each for table in tables for each in table.notes):
        of = [name for name, table in zip(short, tables, strict=True) if note in table.notes]
        more = f" and {len(of) - 3} more" if len(of) > 3 else ""
        found.append(note if len(of) == len(tables) else f"{', '.join(of[:3])}{more}: {note}")
    return found
