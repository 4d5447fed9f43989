"""Voltages between electrodes in formats of geoelectric programs and instruments.

The formats are arrays of Res2DInv, files of the instruments of AGI and Lippmann, tables exported
from a Syscal or a Terrameter LS, the unified data format, and ``protocol.dat`` of R2 and ResIPy
(Binley, R2 manual; Blanchy et al. 2020, "ResIPy", Computers & Geosciences 137).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import ROLES
from invlift.tables.instruments import instrument_data
from invlift.tables.lines import Line
from invlift.tables.numbers import is_plain_number
from invlift.tables.res2dinv import res2dinv_data
from invlift.tables.table import Table, table_of_lines, table_of_text
from invlift.tables.unified_data import unified_data


class _Export(NamedTuple):
    """Columns of a table that an instrument exports.

    Attributes
    ----------
    x : tuple of 4 str
        Columns of the places of a, b, m and n along the line.
    height : str
        Pattern of the columns of heights, with "{}" for "a", "b", "m" and "n".
    voltage, current : str
        Columns of the voltage and the current.
    units : dict of str to str
        Units of these two.
    """

    x: tuple[str, ...]
    height: str
    voltage: str
    current: str
    units: dict[str, str]


_IN_MILLI = {"voltage": "mV", "current": "mA"}
#: Exports of a Syscal, and of a Terrameter LS.
_EXPORTS = (
    _Export(("Spa.1", "Spa.2", "Spa.3", "Spa.4"), "", "Vp", "In", _IN_MILLI),
    _Export(("xA(m)", "xB(m)", "xM(m)", "xN(m)"), "z{}(m)", "VMN(mV)", "IAB(mA)", _IN_MILLI),
    _Export(
        ("A(x)", "B(x)", "M(x)", "N(x)"), "{}(z)", "U(V)", "I(mA)", _IN_MILLI | {"voltage": "V"}
    ),
)
#: Texts that identify files of ABEM's Terrameters, in small letters.
_ABEM_COLUMNS, _ABEM_ROWS = "a(x)", "rows header/data/topography"
#: Coordinate from which on an electrode is infinitely far away, in m.
_FAR = 1e4


def ground_data(text: str, name: str) -> tuple[np.ndarray | None, Table] | None:
    """Read positions of electrodes, (K, 2 or 3) or None, and readings from a known format.

    Return None if the text is in another format.

    Raises
    ------
    InputError
        If a row does not follow the format, or a variant of the format is not supported.
    """
    lines = [(row, line.split()) for row, line in enumerate(text.splitlines(), 1) if line.strip()]
    if (parsed := instrument_data(lines, name)) is not None:
        return numbered_places(*parsed) if parsed[0].ndim == 3 else parsed
    if any(mark in text.casefold() for mark in (_ABEM_COLUMNS, _ABEM_ROWS)):
        return _terrameter(text, name)
    if parsed := _protocol(lines, name):
        return parsed
    if parsed := res2dinv_data(lines, name):
        return numbered_places(*parsed)
    if parsed := unified_data(text, name):
        return parsed
    first = next((line for line in lines if line[1][0][:1] != "#"), None)
    if first and len(first[1]) > 1 and all(map(is_plain_number, first[1])):
        expected = "the number of electrodes in a line of its own, or a header"
        remedy = "add the counts, if this is the unified data format: 4# electrodes"
        raise InputError(f"{name}, row {first[0]}", expected, " ".join(first[1])[:40], remedy)
    return None


def _protocol(lines: list[Line], name: str) -> tuple[None, Table] | None:
    """Read ``protocol.dat`` of R2 and ResIPy: a count, then rows of number, a, b, m, n, value."""
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


def _terrameter(text: str, name: str) -> tuple[np.ndarray, Table]:
    """Read the table in an export of a Terrameter LS, without the lines above and below it."""
    lines = text.splitlines()
    headers = (k for k, line in enumerate(lines) if _ABEM_COLUMNS in line.casefold())
    first = next(headers, 0)
    ends = (k for k in range(first, len(lines)) if not lines[k].strip(" -\t"))
    table = table_of_text("\n".join(lines[first : next(ends, None)]), name)
    exported = exported_data(replace(table, rows=table.rows + first, first=first + 1))
    if exported is None:
        remedy = "export it as Res2DInv (.dat), or save a, b, m, n and value as CSV"
        raise InputError(name, "a table of voltages", "an export of an ABEM Terrameter", remedy)
    return exported


def exported_data(table: Table) -> tuple[np.ndarray, Table] | None:
    """Read positions of electrodes and readings from an instrument's export; else return None.

    The electrodes are on a line.  If all heights are the same, they are set to 0.
    """
    written = {each.replace(" ", "").casefold(): each for each in table.columns}
    for export in _EXPORTS:
        names = [*export.x, export.voltage, export.current]
        if {each.casefold() for each in names} <= set(written):
            columns = [written[each.casefold()] for each in names]
            break
    else:
        return None
    heights = [written.get(export.height.format(role)) for role in ROLES]
    heights = heights if all(heights) else []
    numbers = table.with_numbers([*columns, *heights])
    x = numbers.frame[columns[:4]].to_numpy()
    x = np.where(np.abs(x) < _FAR, x, np.nan)
    z = numbers.frame[heights].to_numpy() if heights else np.zeros(x.shape)
    z = np.where(np.isnan(x), np.nan, z if np.ptp(z[~np.isnan(x)]) else 0.0)
    others = numbers.frame.drop(columns=[*columns, *heights])
    readings = dict(zip(("voltage", "current"), columns[4:], strict=True))
    others = others.assign(**{key: numbers.frame[each] for key, each in readings.items()})
    electrodes = replace(numbers, frame=others, units=export.units)
    return numbered_places(np.stack([x, z], axis=2), electrodes)


def numbered_places(places: np.ndarray, table: Table) -> tuple[np.ndarray, Table]:
    """Number the distinct places (d, 4, 2 or 3); return positions (K, 2 or 3) and the table.

    The table gets the columns a, b, m and n with these numbers.  A place of NaN is infinitely far
    away and has the number 0.
    """
    whole = places.reshape(-1, places.shape[2])
    is_far = np.isnan(whole[:, 0])
    near = whole[~is_far]
    # 0.3 and 3 * 0.1 are one place.
    digits = 12 - int(np.ceil(np.log10(max(np.abs(near).max(initial=0.0), 1e-50))))
    positions, number = np.unique(np.round(near, digits), axis=0, return_inverse=True)
    entries = np.full(len(whole), "0", dtype=object)
    entries[~is_far] = [f"{each}" for each in number.ravel() + 1]
    numbers = pd.DataFrame(entries.reshape(-1, 4), columns=list(ROLES))
    return positions, replace(table, frame=pd.concat([numbers, table.frame], axis=1))
