"""Separators, header and rows of a table in text."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from typing import NamedTuple

from invlift.errors import InputError
from invlift.tables.numbers import is_number
from invlift.units import size_of

Line = tuple[int, list[str]]

#: Separators of columns, with their names in notes.
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SAMPLE = 200  # number of lines from which the separator is found


class Lines(NamedTuple):
    """Header and rows of a table in text.

    Attributes
    ----------
    header : (int, list of str)
        Line number and names.  Units from a line below, or from lines above, are added to the
        names, "x [m]".
    rows : list of (int, list of str)
        Line number and entries of each row.
    notes : list of str
        Notes on how the text was read.
    """

    header: Line
    rows: list[Line]
    notes: list[str]


def lines_of(text: str, name: str) -> Lines:
    """Find the header and the rows of a table in text, also of a table without rows.

    Blank lines are left out, and so are lines above the header that have a # or one entry, or a
    name with a colon and an entry, as loggers write them.  The last line with # is the header if
    numbers follow it, as ``numpy.savetxt`` writes it.  The separator is that of Excel's first line,
    ``sep=;``, else the one that gives the most numbers, else spaces.  Columns on the right without
    name and entries are left out.  So is a first column without name that is empty or numbers the
    rows.

    Raises
    ------
    InputError
        If the text has no table, or quotation marks do not match.
    """
    spaces = []
    if match := re.match(r"sep=(.)(?=\r?\n)", text):
        text, mark = text[match.end() :], match[1]
    elif (mark := _separator(text)) is None:
        mark = ","
        if (with_tabs := _tabs_for_spaces(text)) is not None:
            text, mark, spaces = with_tabs, "\t", ["spaces between columns"]
    lines = _split(text, mark, name)
    if not lines:
        raise InputError(name, "a header and one row per sensor", "an empty file", "add them")
    whole = lines
    lines, above = _without_preamble(lines)
    above_units = _units_above(whole[:above])
    num = next((k for k, (_, entries) in enumerate(lines) if entries[0][:1] != "#"), len(lines))
    if num and (num == len(lines) or any(map(is_number, lines[num][1]))):
        num -= 1
        row, (first, *others) = lines[num]
        lines[num] = row, [first.removeprefix("#").strip(), *others]
    first, *every = lines[num:]
    rows = [line for line in every if line[1][0][:1] != "#" or len(line[1]) == len(first[1])]
    _check_remarks(rows, name)
    remarks = len(every) - len(rows)
    (first, header), *rows = _without_unnamed([first, *rows])
    notes = [_MARKS.get(mark, repr(mark)) + " between columns"] if mark != "," else []
    notes = spaces or notes
    for num, which in ((above, "above the header"), (remarks, "with #")):
        notes += [f"{num} line{'s' * (num > 1)} {which} left out"] if num else []
    units = _units_below(header, rows)
    if units:
        notes.append(f"units in row {rows[0][0]}")
        both = zip(header, units, strict=True)
        header = [f"{each} [{unit}]" if unit else each for each, unit in both]
    elif any(each in above_units for each in header):
        header = [f"{each} [{above_units[each]}]" if each in above_units else each
                  for each in header]  # fmt: skip
        notes.append("units above the header")
    return Lines((first, header), rows[bool(units) :], notes)


def _check_remarks(rows: list[Line], name: str) -> None:
    """Refuse rows that begin with # where others do not: they may be remarks or names."""
    is_remark = [entries[0][:1] == "#" for _, entries in rows]
    if any(is_remark) and not all(is_remark):
        row, entries = rows[is_remark.index(True)]
        remedy = "remove the row if it is no reading, or the # if it is one"
        raise InputError(f"{name}, row {row}", "a row without #", repr(entries[0][:40]), remedy)


def _split(text: str, mark: str, name: str) -> list[Line]:
    """Return line number and stripped entries of every line that is not blank.

    pandas is not used: it fills short rows without a warning, and does not keep line numbers.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)
    try:
        return [
            (reader.line_num, stripped)
            for entries in reader
            if any(stripped := [entry.strip() for entry in entries])
        ]
    except csv.Error as reason:
        raise InputError(
            f"{name}, row {reader.line_num}",
            "numbers separated by commas",
            f"{reason}",
            "save the table as CSV in UTF-8",
        ) from None


def _separator(text: str) -> str | None:
    """Return the separator that splits the first lines into equal numbers of entries.

    Among several the one with a header and the largest fraction of numbers is taken.
    """
    lines = [line for line in io.StringIO(text, newline="") if line.strip()][:_SAMPLE]
    best, most = None, (False, 0.0)
    for mark in _MARKS:
        try:
            cut = list(csv.reader(lines, delimiter=mark, skipinitialspace=True))
        except csv.Error:
            continue
        widths = Counter(len(entries) for entries in cut if len(entries) > 1)
        if not widths:
            continue
        width = widths.most_common(1)[0][0]
        header, *rows = [each for each in cut if len(each) == width]
        entries = [each for row in rows for entry in row if (each := entry.strip())] or [""]
        has_header = not any(map(is_number, header))
        score = has_header, sum(map(is_number, entries)) / len(entries)
        if score > most:
            best, most = mark, score
    return best


def _tabs_for_spaces(text: str) -> str | None:
    """Replace spaces between entries by tabs; None if lines have different numbers of entries.

    numpy.savetxt writes such files, with "# " in front of the names.
    """
    cut = [line.removeprefix("# ").split() for line in text.splitlines() if line.strip()]
    if len(cut) < 2 or {len(line) for line in cut} != {len(cut[0])} or len(cut[0]) < 2:
        return None
    if any(map(is_number, cut[0])) or not any(map(is_number, cut[1])):
        return None
    return "".join(
        "\t".join(line.strip().removeprefix("# ").split()) + "\n" for line in text.splitlines()
    )


def _without_preamble(lines: list[Line]) -> tuple[list[Line], int]:
    """Return the lines from the header on, and the number of lines without # above it."""
    filled = [[each for each in entries if each] for _, entries in lines]
    width = max(map(len, filled[:_SAMPLE]))
    num = 0
    for entries in filled:
        is_title = len(entries) == 1 < width
        is_entry = len(entries) == 2 < width and entries[0].endswith(":")
        if not (is_title or is_entry) or entries[0].startswith("#"):
            break
        num += 1
    return lines[num:] or lines, num if lines[num:] else 0


def _units_above(lines: list[Line]) -> dict[str, str]:
    """Return units by column, from lines "LEVEL" and "UNIT: m" below it, as Solinst writes them."""
    texts = [" ".join(entries) for _, entries in lines]
    pairs = itertools.pairwise(texts)
    found = {name: below[5:].strip() for name, below in pairs if below[:5].upper() == "UNIT:"}
    return {name: unit for name, unit in found.items() if size_of(unit) is not None}


def _without_unnamed(lines: list[Line]) -> list[Line]:
    """Drop columns without a name that are empty or, on the left, number the rows."""
    width = max((k for k, name in enumerate(lines[0][1], start=1) if name), default=0)
    for _, entries in lines:
        while len(entries) > width and not entries[-1]:
            entries.pop()
    if width and lines[0][1][0] == "":
        first = [entries[:1] for _, entries in lines[1:]]
        numbers = ([[f"{k + start}"] for k in range(len(first))] for start in (0, 1))
        if first in ([[""]] * len(first), *numbers):
            lines = [(row, entries[1:]) for row, entries in lines]
    return lines


def _units_below(header: list[str], rows: list[Line]) -> list[str]:
    """Return the units in the first row, if it has only units and numbers are below it."""
    if len(rows) < 2 or len(rows[0][1]) != len(header):
        return []
    units = [entry.removeprefix("[").removesuffix("]") for entry in rows[0][1]]
    units = [each[1:-1] if each[:1] == "(" and each[-1:] == ")" else each for each in units]
    are_units = [not each or each == "-" or size_of(each) is not None for each in units]
    if not any(units) or not all(are_units) or not any(map(is_number, rows[1][1])):
        return []
    has_number = any(is_number(below) for unit, below in zip(units, rows[1][1], strict=False)
                     if unit)  # fmt: skip
    return ["" if each == "-" else each for each in units] if has_number else []
