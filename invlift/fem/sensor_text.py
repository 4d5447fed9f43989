"""The text of a sensor table: its lines, header and entries."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np

from invlift.errors import InputError, closest
from invlift.fem.column_words import without_unit
from invlift.files.input_files import read_text

MAX_BYTES = 2**24  # of a table: some 300,000 sensors
CLOSE = 0.75  # how alike the names of two columns are that may have been confused
#: Columns of results, which others of a table would hide; nor may their names have a slash.
_TAKEN = "sensor", "points", "units"
#: Numbers as some languages write them: a decimal comma, points between thousands perhaps, and
#: one with a mark of which nothing says whether it is decimal or stands between thousands.
_DECIMAL_COMMA = re.compile(r"^([+-]?(?:\d*|\d{1,3}(?:\.\d{3})+)),(\d+(?:[eE][+-]?\d+)?)$")
_THREE_BEHIND_POINT = re.compile(r"^[+-]?\d{1,3}\.\d{3}$")
_THREE_BEHIND_COMMA = re.compile(r"^[+-]?\d{1,3},\d{3}$")
#: Columns in which a row may have no entry, and those in which it may if the table has kinds.
_SPARSE = "x2", "y2", "z2", "over", "radius", "group"
_SPARSE_OF_KINDS = "x", "y", "z", "experiment"
#: Columns of texts of which each row has one, and what to do about a row that has none.
_NEEDED = {
    "name": "name the sensor",
    "experiment": "name the experiment that the reading is of",
    "kind": "name the kind of the reading, point for example",
}


def read_table(path: Path, name: str) -> str:
    """Text of a table."""
    remedy = "check the path (paths in a problem file are relative to that file)"
    return read_text(path, name, "a sensor table", remedy=remedy, max_bytes=MAX_BYTES)


def lines_of(text: str, name: str) -> list[tuple[int, list[str]]]:
    """Return (line number, stripped entries) of every line that is not blank, one or more.

    Lines with # above the header are left out; the last is the header where numbers follow it, as
    ``numpy.savetxt`` writes it.  Without commas in the header, columns are separated by semicolons,
    beside which a number may have a decimal comma, or by tabs; or as Excel's first line says,
    ``sep=;``.  Left out are columns without name and entries on the right, and on the left one
    without name that numbers the rows, as pandas writes it.
    """
    if match := re.match(r"sep=(.)(?=\r?\n)", text):
        text, mark = text[match.end() :], match[1]
    else:
        header = next((line for line in text.splitlines() if line.strip() and line[0] != "#"), ",")
        mark = next((each for each in ";\t" if each in header and "," not in header), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    try:
        lines = [
            (reader.line_num, [entry.strip() for entry in entries])
            for entries in reader
            if any(entry.strip() for entry in entries)
        ]
    except csv.Error as reason:
        raise InputError(
            f"{name}, row {reader.line_num}",
            "numbers separated by commas",
            f"{reason}",
            "save the table as CSV in UTF-8",
        ) from None
    if not lines:
        raise InputError(name, "a header and one row per sensor", "an empty file", "add them")
    num = next((k for k, (_, entries) in enumerate(lines) if entries[0][:1] != "#"), len(lines))
    if num and (num == len(lines) or any(map(_is_number, lines[num][1]))):
        num -= 1
        row, (first, *others) = lines[num]
        lines[num] = row, [first.removeprefix("#").strip(), *others]
    lines = _without_unnamed(lines[num:])
    return _with_decimal_points(lines, name) if mark == ";" else lines


def _with_decimal_points(lines, name: str) -> list[tuple[int, list[str]]]:
    """The lines with decimal points in the place of commas, and without points before these.

    Raises
    ------
    InputError
        Beside decimal commas 1.012 may be a thousand or one; so may 1,234 if all numbers with
        commas are like it.
    """
    header, *rows = lines
    entries = [(row, number, each) for row, line in rows for number, each in enumerate(line)]
    commas = [each for _, _, each in entries if _DECIMAL_COMMA.match(each)]
    if not commas:
        return lines
    is_clear = any(not _THREE_BEHIND_COMMA.match(each) for each in commas)
    unclear = _THREE_BEHIND_POINT if is_clear else _THREE_BEHIND_COMMA
    for row, number, entry in entries:
        if unclear.match(entry):
            mark = "." if is_clear else ","
            whole, part = entry.replace(mark, ""), entry.replace(mark, ".")
            column = header[1][number] if number < len(header[1]) else number + 1
            where = f"{name}, row {row}, column {column}"
            remedy = (
                "write it without a mark between thousands, and with digits that tell: 1012 or 1.0"
            )
            raise InputError(where, f"{whole} or {part}", f"{entry}, which may be either", remedy)
    decimal = [(row, [_with_decimal_point(entry) for entry in entries]) for row, entries in rows]
    return [header, *decimal]


def _with_decimal_point(entry: str) -> str:
    match = _DECIMAL_COMMA.match(entry)
    return f"{match[1].replace('.', '')}.{match[2]}" if match else entry


def _without_unnamed(lines) -> list[tuple[int, list[str]]]:
    """The lines without columns that no name is above and nothing is in, or numbers of rows."""
    width = max((k for k, name in enumerate(lines[0][1], start=1) if name), default=0)
    for _, entries in lines:
        while len(entries) > width and not entries[-1]:
            entries.pop()
    if width and not lines[0][1][0]:
        first = [entries[:1] for _, entries in lines[1:]]
        if first == [[f"{k}"] for k in range(len(first))]:
            lines = [(row, entries[1:]) for row, entries in lines]
    return lines


def checked_header(
    columns: list[str], needed: list[str], further: list[str], others: list[str], name: str
) -> list[str]:
    """Return the column names if those needed are there, and none is nearly one that may be.

    These lose units behind them: "x [m]" or "x (m)" is x.
    """
    allowed = [*needed, "value", *further, *others]
    bare = [without_unit(column)[0] for column in columns]
    columns = [own if own in allowed else column for own, column in zip(bare, columns, strict=True)]
    may_be = f"{', '.join(further)} or {','.join(others)}"
    expected = f"the columns {','.join(needed)} and perhaps {may_be}"
    where = f"{name}, row 1"
    found = ",".join(columns)
    if len(columns) == 1 and any(mark in found.strip() for mark in "; \t"):
        raise InputError(where, expected, repr(found), "separate the columns by commas")
    unknown = [column for column in columns if column not in allowed]
    missing = [column for column in needed if column not in columns]
    repeated = [column for column in columns if columns.count(column) > 1]
    if all(_is_number(column) for column in columns):
        raise InputError(where, expected, f"numbers ({found})", "add the header as first line")
    if unknown == ["z"]:
        remedy = "remove it: the mesh is two-dimensional"
        raise InputError(where, expected, "a column 'z'", remedy)
    for column in unknown:
        if column in _TAKEN or "/" in column:
            why = "names in results have no slash" if "/" in column else "results have one of it"
            remedy = f"rename it: {why}"
            raise InputError(where, expected, f"a column {column!r}", remedy)
        absent = [each for each in allowed if each not in columns]
        close = closest(column, absent, CLOSE)
        if close or not column:
            remedy = f"did you mean {close!r}?" if close else "name it"
            raise InputError(where, expected, f"a column {column!r}", remedy)
    if missing:
        what = "the mesh is three-dimensional: add it" if missing == ["z"] else "add it"
        raise InputError(where, expected, f"no column {missing[0]!r}", what)
    if repeated:
        raise InputError(where, expected, f"column {repeated[0]!r} twice", "remove one of them")
    return columns


def entries_by_column(
    lines: list[tuple[int, list[str]]], columns: list[str], numbers: Collection[str], name: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the line of each row, (d,), and columns by name, (d,): numbers, the others texts."""
    rows, table = [], []
    for row, entries in lines:
        if len(entries) != len(columns):
            raise InputError(
                f"{name}, row {row}",
                f"{len(columns)} entries ({','.join(columns)})",
                f"{len(entries)}",
                "write one number per column, with a point as decimal mark",
            )
        rows.append(row)
        table.append(
            [
                _entry(
                    column,
                    entry,
                    f"{name}, row {row}, column {column}",
                    column in numbers,
                    "kind" in columns,
                )
                for column, entry in zip(columns, entries, strict=True)
            ]
        )
    if not table:
        raise InputError(name, "at least one sensor", "only a header", "add one row per sensor")
    return np.array(rows), {
        column: np.array(entries, dtype=np.float64 if column in numbers else str)
        for column, entries in zip(columns, zip(*table, strict=True), strict=True)
    }


def _is_number(entry: str) -> bool:
    """Whether an entry is a number (Python also reads "1_000", which no table means)."""
    try:
        float(entry)
    except ValueError:
        return False
    return "_" not in entry


def number_of(entry: str, where: str) -> float:
    """Return the number in an entry; whether it is finite is checked with the whole table."""
    if not _is_number(entry):
        found = repr(entry[:40]) if entry else "an empty entry"
        remedy = "write a number such as 12.5, or remove the row if there is no reading"
        raise InputError(where, "a number", found, remedy)
    return float(entry)


def _entry(column: str, entry: str, where: str, is_number: bool, has_kinds: bool) -> float | str:
    """Return the number or text in an entry."""
    if not entry and (column in _SPARSE or (has_kinds and column in _SPARSE_OF_KINDS)):
        return np.nan if is_number else ""
    if is_number:
        return number_of(entry, where)
    if column in _NEEDED and not entry:
        raise InputError(where, "a name", "an empty entry", _NEEDED[column])
    return entry
