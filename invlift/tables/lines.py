"""Lines of a table in text: what separates its columns, where its header is, and its rows."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from typing import NamedTuple

from invlift.errors import InputError
from invlift.tables.numbers import is_number
from invlift.units import size_of

Line = tuple[int, list[str]]

#: What may separate columns, as notes call it.
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SAMPLE = 200  # lines that tell what separates columns


class Lines(NamedTuple):
    """Header and rows of a table in text.

    Attributes
    ----------
    header : (int, list of str)
        Its line and the names, with units behind them, "x [m]", if a line below has these.
    rows : list of (int, list of str)
        Line and entries of each row.
    notes : list of str
        What was taken for what.
    """

    header: Line
    rows: list[Line]
    notes: list[str]


def lines_of(text: str, name: str) -> Lines:
    """Header and rows, one row or none, of the lines that are not blank.

    Lines with # above the header are left out; the last is the header where numbers follow it, as
    ``numpy.savetxt`` writes it.  So are lines of one entry, or of a name with a colon and an entry,
    which loggers write above it.  Columns are separated as Excel's first line says, ``sep=;``, by
    what cuts most of the entries into numbers, or by spaces.  Left out are columns without name and
    entries on the right, and on the left one without name that is empty or numbers the rows.

    Raises
    ------
    InputError
        If there is nothing in it, or quotation marks do not match.
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
    lines, above = _without_preamble(lines)
    num = next((k for k, (_, entries) in enumerate(lines) if entries[0][:1] != "#"), len(lines))
    if num and (num == len(lines) or any(map(is_number, lines[num][1]))):
        num -= 1
        row, (first, *others) = lines[num]
        lines[num] = row, [first.removeprefix("#").strip(), *others]
    first, *every = lines[num:]
    rows = [line for line in every if line[1][0][:1] != "#" or len(line[1]) == len(first[1])]
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
    return Lines((first, header), rows[bool(units) :], notes)


def _split(text: str, mark: str, name: str) -> list[Line]:
    """Line number and stripped entries of every line that is not blank.

    Not by pandas, which fills rows that are too short without a word and keeps no line numbers.
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
    """The mark that cuts the first lines into equally many entries, and most into numbers."""
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
    """The text with a tab for spaces between entries, where all lines have as many, or None.

    numpy.savetxt writes so, with "# " in front of the names.
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
    """The lines from the header on, and how many others are above it that no # is in front of."""
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


def _without_unnamed(lines: list[Line]) -> list[Line]:
    """The lines without columns that no name is above and nothing is in, or numbers of rows."""
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
    """Units in the first row, if it has nothing but units, and numbers are below it."""
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
