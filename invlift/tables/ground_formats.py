"""Voltages between electrodes as programs and instruments of geoelectrics write them.

Res2DInv's general array (Loke, "Rapid 2-D resistivity & IP inversion", manual of Res2DInv, the
appendix on data formats), tables exported from Syscal instruments, and ``protocol.dat`` of R2 and
ResIPy (Binley, R2 manual; Blanchy et al. 2020, "ResIPy", Computers & Geosciences 137).
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import ROLES
from invlift.tables.lines import Line
from invlift.tables.table import Table, table_of_lines
from invlift.tables.unified_data import unified_data

#: Arrays of Res2DInv by their numbers.
_ARRAYS = {1: "Wenner", 2: "pole-pole", 3: "dipole-dipole", 4: "Wenner beta", 5: "Wenner gamma",
           6: "pole-dipole", 7: "Schlumberger", 8: "equatorial dipole-dipole"}  # fmt: skip
_GENERAL = 11
#: Columns of positions along a line, of the voltage and of the current, as Syscal exports them.
_SYSCAL = (
    ("Spa.1", "Spa.2", "Spa.3", "Spa.4", "Vp", "In"),
    ("xA(m)", "xB(m)", "xM(m)", "xN(m)", "VMN(mV)", "IAB(mA)"),
)
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
    for read in (_protocol, _res2dinv):
        if found := read(lines, name):
            return found
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


def _res2dinv(lines: list[Line], name: str) -> tuple[np.ndarray, Table] | None:
    """Res2DInv's general array: places of the four electrodes in each row."""
    head = [" ".join(entries).strip(",") for _, entries in lines[1:4]]
    if len(head) < 3 or not all(map(_is_number, head)) or not head[1].isdecimal():
        return None
    if _is_number(" ".join(lines[0][1])):  # in place of a title
        return None
    kind = int(head[1])
    if kind != _GENERAL:
        what = _ARRAYS.get(kind, f"number {kind}")
        found = f"the array {what} of Res2DInv"
        remedy = "save it as a general array (11), or as a, b, m, n and value with positions in "
        remedy += "the unified data format"
        raise InputError(f"{name}, row {lines[2][0]}", "a format that is read", found, remedy)
    flags = [line for line in lines[3:10] if _is_number(line[1][0]) and len(line[1]) == 1]
    is_row = [len(each := _split(line)) > 4 and all(map(_is_number, each[:4])) for line in lines]
    start = next((k for k, each in enumerate(is_row) if each), None)
    if len(flags) < 4 or start is None:
        expected = "sub-array, kind of measurement, number of readings, and a row for each"
        raise InputError(f"{name}, row {lines[3][0]}", expected, "fewer lines", "save it again")
    is_resistance, count = flags[1][1][0] == "1", int(flags[2][1][0])
    rows = [(line[0], _split(line)) for line in lines[start : start + count]]
    bad = next((row for row, entries in rows if len(entries) < 10 or entries[0] != "4"), None)
    if len(rows) < count or bad:
        where = f"{name}, row {bad}" if bad else name
        expected = f"{count} rows of 4, x and z of four electrodes, and the reading"
        found = "another row" if bad else f"{len(rows)}"
        raise InputError(where, expected, found, "save readings with four electrodes, and all")
    places = [f"{axis} of {role}" for role in ROLES for axis in "xz"]
    columns = ["count", *places, "value" if is_resistance else "rhoa"]
    rows = [(row, entries[:10]) for row, entries in rows]
    return _numbered(table_of_lines(rows, columns, name).with_numbers(columns), 2, places)


def _split(line: Line) -> list[str]:
    return " ".join(line[1]).replace(",", " ").split()


def syscal_data(table: Table) -> tuple[np.ndarray, Table] | None:
    """Positions along a line and readings of a table that a Syscal exported; None of another."""
    written = {each.replace(" ", "").casefold(): each for each in table.columns}
    for names in _SYSCAL:
        if {each.casefold() for each in names} <= set(written):
            columns = [written[each.casefold()] for each in names]
            break
    else:
        return None
    places = table.with_numbers(columns)
    frame = places.frame[columns].set_axis([*ROLES, "voltage", "current"], axis=1)
    own = Table(frame, table.rows, table.name, table.first, taken=places.taken)
    positions, own = _numbered(own, 1, ROLES)
    frame = own.frame.assign(voltage=1e-3 * frame["voltage"], current=1e-3 * frame["current"])
    return positions, Table(frame, table.rows, table.name, table.first, taken=own.taken)


def _numbered(table: Table, size: int, columns: list[str]) -> tuple[np.ndarray, Table]:
    """Positions (K, 2) of the electrodes of each row, and the table with their numbers.

    Positions are x alone, of flat ground, or x and z; those farther than 10 km are infinitely far.
    """
    places = table.frame[list(columns)].to_numpy(float).reshape(len(table.rows) * 4, size)
    is_far = np.abs(places[:, 0]) >= _FAR
    positions, number = np.unique(places[~is_far], axis=0, return_inverse=True)
    entries = np.full(len(places), "0", dtype=object)
    entries[~is_far] = [f"{each}" for each in number.ravel() + 1]
    numbers = pd.DataFrame(entries.reshape(-1, 4), columns=list(ROLES))
    others = table.frame.drop(columns=list(columns))
    frame = pd.concat([numbers, others], axis=1)
    positions = np.pad(positions, ((0, 0), (0, 2 - size)))
    return positions, Table(frame, table.rows, table.name, table.first, taken=table.taken)
