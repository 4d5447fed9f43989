"""Reading of the unified data format of BERT and pyGIMLi.

See :mod:`invlift.tables.voltages`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import ROLES
from invlift.tables.lines import Line
from invlift.tables.table import Table, table_of_lines
from invlift.units import factor_between

#: Names of columns in the format, in small letters -> names of columns here.
_TOKENS = {"c1": "a", "c2": "b", "p1": "m", "p2": "n", "r": "value", "rho": "value",
           "u": "voltage", "i": "current", "ra": "rhoa"}  # fmt: skip


def unified_data(text: str, name: str) -> tuple[np.ndarray, Table] | None:
    """Read positions of electrodes, (K, 2 or 3), and readings; None if in another format.

    Raises
    ------
    InputError
        If the text does not follow the format; the message names the row if there is one.
    """
    lines = [(row, *line.partition("#")[::2]) for row, line in enumerate(text.splitlines(), 1)]
    lines = [(row, entries.split(), comment.split()) for row, entries, comment in lines]
    first = next((number for number, line in enumerate(lines) if line[1]), None)
    if first is None or not _is_count(lines[first][1]):
        return None
    positions, lines, tokens = _block(lines[first:], "electrodes", name)
    places, taken = _places(positions, tokens, name)
    rows, rest, tokens = _block(lines, "readings", name)
    parts = [token.lower().partition("/")[::2] for token in tokens or [*ROLES, "rhoa"]]
    columns = [_TOKENS.get(each, each) for each, _ in parts]
    for column in columns:
        if columns.count(column) > 1:
            where = f"{name}, names of the columns, {column}"
            raise InputError(where, "each column once", "it twice", "remove one of them")
    missing = [role for role in ROLES if role not in columns]
    if missing:
        remedy = "name the columns in a line behind #, such as #a b m n r"
        expected = "columns a, b, m and n"
        raise InputError(f"{name}, names of the columns", expected, f"no {missing[0]}", remedy)
    table = table_of_lines(rows, columns, name).renamed(columns, [unit for _, unit in parts])
    _check_end(rest, len(rows), name)
    return places, replace(table, taken=taken)


def _places(rows: list[Line], tokens: list[str], name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return positions in m, (K, 2 or 3), with the axes in order, and notes.

    The axes are named behind #, in any order and with units, as in ``x/mm z/mm``.  Without names
    they are x, y and z.  Columns with other names are left out, as pyGIMLi does.
    """
    row, first = rows[0]
    where, named = f"{name}, row {row}", [each.lower().partition("/")[::2] for each in tokens]
    axes = [axis for axis, _ in named]
    if not {*axes} & {*"xyz"} or (len(axes) != len(first) and not {*axes} <= {*"xyz"}):
        axes, named = [*"xyz"[: len(first)]], []  # a remark, or none
    known = sorted({*axes} & {*"xyz"})
    if len(axes) != len(first) or len(known) not in (2, 3):
        expected, found = "two or three coordinates", f"{len(first)} entries"
        found += f" named {' '.join(tokens)}" if named else ""
        remedy = "give x, y and z, or two of them for a flat mesh"
        raise InputError(where, expected, found, remedy)
    columns = [f"{axis} of an electrode" for axis in axes]
    table = table_of_lines(rows, columns, name)
    numbers = table.with_numbers([f"{axis} of an electrode" for axis in known])
    places, taken = [], []
    for axis in known:
        column, unit = f"{axis} of an electrode", dict(named).get(axis) or "m"
        factor, own = factor_between(unit, "m"), numbers.array(column)
        if factor is None:
            raise InputError(where, f"{axis} in a unit of length", repr(unit), "convert it to m")
        if (bad := np.flatnonzero(~np.isfinite(own))).size:
            where = numbers.at(bad[0], column)
            raise InputError(where, "a finite number", "another", "correct it")
        places.append(factor * own)
        taken += [f"positions converted from {unit} to m"] if factor != 1.0 else []
    if others := [axis for axis in axes if axis not in known]:
        taken.append(f"columns {', '.join(others)} of electrodes left out")
    return np.stack(places, axis=1), tuple(dict.fromkeys(taken))


def _is_count(entries: list[str]) -> bool:
    """Return whether a line has one positive whole number, the number of rows of a block."""
    return len(entries) == 1 and entries[0].isdecimal() and 0 < float(entries[0]) < 1e9


def _check_end(lines, num_readings: int, name: str) -> None:
    """Refuse rows after the readings, unless they are a count of ground points and the points."""
    rest = [(row, entries) for row, entries, _ in lines if entries]
    if not rest:
        return
    row, entries = rest[0]
    is_count = len(entries) == 1 and entries[0].isdecimal()
    if is_count and int(entries[0]) == len(rest) - 1:
        return
    found = f"{num_readings} announced and more rows behind them"
    remedy = "correct the number of readings, or remove the rows"
    raise InputError(f"{name}, row {row}", "as many readings as announced", found, remedy)


def _block(lines, what: str, name: str):
    """Read a block that begins with its number of rows; return rows, other lines and names."""
    lines = iter(lines)
    row, entries, _ = next((line for line in lines if line[1]), (0, [], []))
    if not _is_count(entries):
        where = f"{name}, row {row}" if row else name
        found = " ".join(entries)[:40] or "the end of the file"
        raise InputError(where, f"the number of {what}", found, "add it, in a line of its own")
    size, rows, tokens = int(entries[0]), [], []
    for row, entries, comment in lines:
        if entries:
            rows.append((row, entries))
        elif not rows and comment and not tokens:
            tokens = comment
        if len(rows) == size:
            return rows, list(lines), tokens
    raise InputError(name, f"{size} {what}", f"{len(rows)}", "correct the number, or add them")
