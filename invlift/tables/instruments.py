"""Readings in the files of the instruments of AGI and Lippmann.

A SuperSting of AGI writes ``.stg``: three lines, then a record in each line, separated by commas.
Field 5 is the voltage for a unit of current in ohm, and field 6 its error in tenths of a per cent.
From field 10 on there are x, y and z of the electrodes a, b, m and n.  A 4point light of Lippmann
writes ``.tx0``: lines with "*" hold settings, among them the places of the electrodes.  A line of
names and the readings follow: numbers of electrodes, current in mA, voltage in mV and its error in
per cent.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import ROLES
from invlift.tables.lines import Line
from invlift.tables.table import Table, table_of_lines

_STG = "advanced geosciences"
_VALUE, _ERROR, _PLACES = 4, 5, slice(9, 21)
_POSITION = re.compile(r"\* electrode \[ *\d+\] x y z \(m\) = (.*)")
_LEGEND = "* num a b m n i u du "


def instrument_data(lines: list[Line], name: str) -> tuple[np.ndarray, Table] | None:
    """Read places of electrodes and readings of a file; return None for another format.

    If the table has numbers of electrodes, places are (K, 3).  Else they are those of a, b, m and n
    of each reading, (d, 4, 3).

    Raises
    ------
    InputError
        If the file does not follow its format; the message names the row if there is one.
    """
    first = " ".join(lines[0][1]).casefold() if lines else ""
    if first.startswith(_STG):
        return _stg(lines, name)
    legend = next(
        (k for k, (_, each) in enumerate(lines) if " ".join(each).casefold().startswith(_LEGEND)),
        None,
    )
    return None if legend is None else _tx0(lines, legend, name)


def _stg(lines: list[Line], name: str) -> tuple[np.ndarray, Table]:
    unit = next((row for row in lines[:3] if row[1][0].casefold() == "unit:"), None)
    if unit is None or unit[1][1:] != ["meter"]:
        where = f"{name}, row {unit[0]}" if unit else name
        found = " ".join(unit[1]) if unit else "none"
        raise InputError(where, "Unit: meter", found, "save the file in metres")
    records = [(row, " ".join(each).split(",")) for row, each in lines[3:]]
    short = next((row for row, each in records if len(each) < _PLACES.stop), None)
    if short is not None:
        expected, remedy = "a record with x, y and z of four electrodes", "save the file again"
        raise InputError(f"{name}, row {short}", expected, "a shorter one", remedy)
    axes = [f"{axis} of {role}" for role in ROLES for axis in "xyz"]
    columns = ["value", "err", *axes]
    rows = [(row, [x.strip() for x in (each[_VALUE], each[_ERROR], *each[_PLACES])])
            for row, each in records]  # fmt: skip
    table = table_of_lines(rows, columns, name).with_numbers(columns)
    places = table.frame[axes].to_numpy().reshape(-1, 4, 3)
    errors = table.frame["err"] / 1000.0
    table = replace(table, frame=table.frame.drop(columns=axes).assign(err=errors))
    return places, _named(table, "a SuperSting's file of AGI")


def _tx0(lines: list[Line], legend: int, name: str) -> tuple[np.ndarray, Table]:
    texts = ((row, " ".join(each).replace(",", ".")) for row, each in lines)
    matches = [(row, _POSITION.fullmatch(text.casefold())) for row, text in texts]
    positions = [(row, match[1].split()) for row, match in matches if match]
    if not positions:
        expected, remedy = "the places of the electrodes", "save the file with them"
        raise InputError(name, f"{expected}, * Electrode [ 1] x y z (m) = ...", "none", remedy)
    axes = [f"{axis} of an electrode" for axis in "xyz"]
    places = table_of_lines(positions, axes, name).with_numbers(axes).frame.to_numpy()
    columns = [*ROLES, "current", "voltage", "err"]
    rows = [(row, [x.replace(",", ".") for x in each[1:8]]) for row, each in lines[legend:]
            if each[0][:1] != "*"]  # fmt: skip
    is_read = [row for row in rows if "-" not in row[1]]
    table = table_of_lines(is_read, columns, name)
    table = table.renamed(columns, [*[""] * 4, "mA", "mV", "%"]).with_numbers(columns[4:])
    table = _named(table, "a file of Lippmann's 4point light")
    if failed := len(rows) - len(is_read):
        table = replace(table, taken=(*table.taken, f"{failed} failed readings left out"))
    return places, table


def _named(table: Table, what: str) -> Table:
    """Add a note on the format, and drop the column of errors if any error is 0."""
    taken = (*table.taken, what)
    if num := int(np.count_nonzero(table.frame["err"] == 0.0)):
        units = {column: unit for column, unit in table.units.items() if column != "err"}
        table = replace(table, frame=table.frame.drop(columns="err"), units=units)
        taken = (*taken, f"errors left out, as {num} are 0")
    return replace(table, taken=taken)
