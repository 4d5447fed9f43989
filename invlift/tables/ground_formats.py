"""Voltages between electrodes as programs and instruments of geoelectrics write them.

Arrays of Res2DInv, tables exported from Syscal instruments, and ``protocol.dat`` of R2 and ResIPy
(Binley, R2 manual; Blanchy et al. 2020, "ResIPy", Computers & Geosciences 137).
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import ROLES
from invlift.tables.lines import Line
from invlift.tables.res2dinv import res2dinv_data
from invlift.tables.table import Table, table_of_lines
from invlift.tables.unified_data import unified_data

#: Columns of positions along a line, of the voltage and of the current, as Syscal exports them.
_SYSCAL = (
    ("Spa.1", "Spa.2", "Spa.3", "Spa.4", "Vp", "In"),
    ("xA(m)", "xB(m)", "xM(m)", "xN(m)", "VMN(mV)", "IAB(mA)"),
)
#: What the two exports of ABEM's Terrameters have, in small letters.
_ABEM = "rows header/data/topography", "a(x)\tb(x)", "a(x)\ta(y)"
#: What stands for an electrode that is infinitely far away in a table of positions, in m.
_FAR = 1e4


def ground_data(text: str, name: str) -> tuple[np.ndarray | None, Table] | None:
    """Positions of electrodes, (K, 2 or 3) or None, and readings, of one of the formats.

    None if the text is of no such format.

    Raises
    ------
    InputError
        Naming the row at which the text is not what its format says, or the format if it cannot be
        read.
    """
    lines = [(row, line.split()) for row, line in enumerate(text.splitlines(), 1) if line.strip()]
    if any(mark in text.casefold() for mark in _ABEM):
        remedy = "export it as Res2DInv (.dat), or save a, b, m, n and value as CSV"
        raise InputError(name, "a table of voltages", "an export of an ABEM Terrameter", remedy)
    if found := _protocol(lines, name):
        return found
    if found := res2dinv_data(lines, name):
        return _numbered(*found)
    if found := unified_data(text, name):
        return found
    first = next((line for line in lines if line[1][0][:1] != "#"), None)
    if first and len(first[1]) > 1 and all(map(_is_number, first[1])):
        expected = "the number of electrodes in a line of its own, or a header"
        remedy = "add the counts, if this is the unified data format: 4# electrodes"
        raise InputError(f"{name}, row {first[0]}", expected, " ".join(first[1])[:40], remedy)
    return None


def _is_number(entry: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", entry) is not None


def _protocol(lines: list[Line], name: str) -> tuple[None, Table] | None:
    """Of R2 and ResIPy: a count; then number, four electrodes, and the resistance."""
    if len(lines) < 2 or len(lines[0][1]) != 1 or not lines[0][1][0].isdecimal():
        return None
    (_, (count,)), *rows = lines
    width = len(rows[0][1])
    if width < 5 or rows[0][1][0] != "1":
        return None
    if width > 8:
        remedy = "number the electrodes from 1, and save a, b, m, n and value as CSV"
        found = "electrodes by line and number"
        raise InputError(name, "protocol.dat of a line of electrodes", found, remedy)
    if len(rows) != int(count):
        remedy = "correct the number, or add them"
        raise InputError(name, f"{count} readings", f"{len(rows)}", remedy)
    further = ["value", "column 7", "column 8"][: width - 5]
    table = table_of_lines(rows, ["number", *ROLES, *further], name)
    return None, table


def syscal_data(table: Table) -> tuple[np.ndarray, Table] | None:
    """Positions of electrodes and readings of a table that a Syscal exported; None of another."""
    written = {each.replace(" ", "").casefold(): each for each in table.columns}
    for names in _SYSCAL:
        if {each.casefold() for each in names} <= set(written):
            columns = [written[each.casefold()] for each in names]
            break
    else:
        return None
    heights = [written.get(f"z{role}(m)") for role in ROLES] if names[0].startswith("x") else []
    heights = heights if heights and all(heights) else []
    numbers = table.with_numbers([*columns, *heights])
    x = numbers.frame[columns[:4]].to_numpy()
    x = np.where(np.abs(x) < _FAR, x, np.nan)
    z = np.where(np.isnan(x), np.nan, numbers.frame[heights].to_numpy() if heights else 0.0)
    voltage, current = (1e-3 * numbers.frame[each] for each in columns[4:])
    others = numbers.frame.drop(columns=[*columns, *heights])
    others = others.assign(voltage=voltage, current=current)
    return _numbered(np.stack([x, z], axis=2), replace(numbers, frame=others, units={}))


def _numbered(places: np.ndarray, table: Table) -> tuple[np.ndarray, Table]:
    """Positions (K, 2) of the electrodes, from places (d, 4, 2), and the table with their numbers.

    NaN is infinitely far away.
    """
    whole = places.reshape(-1, 2)
    is_far = np.isnan(whole[:, 0])
    positions, number = np.unique(whole[~is_far], axis=0, return_inverse=True)
    entries = np.full(len(whole), "0", dtype=object)
    entries[~is_far] = [f"{each}" for each in number.ravel() + 1]
    numbers = pd.DataFrame(entries.reshape(-1, 4), columns=list(ROLES))
    return positions, replace(table, frame=pd.concat([numbers, table.frame], axis=1))
