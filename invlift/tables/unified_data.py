"""Reading of the unified data format of BERT and pyGIMLi.

See :mod:`invlift.tables.voltages`.
"""

from __future__ import annotations

import numpy as np

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import ROLES
from invlift.tables.table import Table, table_of_lines

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
    positions, lines, _ = _block(lines[first:], "electrodes", name)
    numbers = [f"{axis} of an electrode" for axis in "xyz"[: len(positions[0][1])]]
    if len(numbers) not in (2, 3):
        expected, found = "two or three coordinates", f"{len(positions[0][1])} entries"
        remedy = "give x, y and z, or two of them for a flat mesh"
        raise InputError(f"{name}, row {positions[0][0]}", expected, found, remedy)
    places = table_of_lines(positions, numbers, name).with_numbers(numbers)
    bad = np.argwhere(~np.isfinite(places.frame.to_numpy()))
    if bad.size:
        where = places.at(bad[0, 0], numbers[bad[0, 1]])
        raise InputError(where, "a finite number", "another", "correct it")
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
    return places.frame.to_numpy(), table


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
