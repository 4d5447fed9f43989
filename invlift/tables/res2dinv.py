"""Text in the formats of Res2DInv: standard arrays by number, and the general array.

Loke, "Rapid 2-D resistivity & IP inversion", manual of Res2DInv, the appendix on data formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.tables.lines import Line
from invlift.tables.numbers import is_plain_number
from invlift.tables.table import Table, table_of_lines

_GENERAL = 11
#: Arrays by number: name, and places of a, b, m and n in units of the distance.  The places are
#: constants, and multiples of the factor n in each row.  None is infinitely far away.
_ARRAYS = {
    1: ("Wenner", (0, 3, 1, 2), None),
    2: ("pole-pole", (0, None, 1, None), None),
    3: ("dipole-dipole", (0, 1, 1, 2), (0, 0, 1, 1)),
    4: ("Wenner beta", (0, 1, 2, 3), None),
    5: ("Wenner gamma", (0, 2, 1, 3), None),
    6: ("pole-dipole", (0, None, 0, 1), (0, 0, 1, 1)),
    7: ("Schlumberger", (0, 1, 0, 1), (0, 2, 1, 1)),
}
#: Codes of the location of a row: at the first electrode, or in the middle.  The next is the code
#: of topography with distances along the ground.
_OF_FIRST, _OF_MIDDLE = 0, 1
_ALONG_GROUND = 2


def res2dinv_data(lines: list[Line], name: str) -> tuple[np.ndarray, Table] | None:
    """Read the places of a, b, m and n, (d, 4, 2), NaN if infinitely far, and the readings.

    Readings are apparent resistivities, ``rhoa``, or resistances, ``value``, with relative errors
    ``err`` if the file has errors.  Places are on the ground if there is a list of topography.

    Return None if the lines are in another format.

    Raises
    ------
    InputError
        If the lines do not follow the format, or the array is not supported.
    """
    head = [" ".join(entries).strip(",") for _, entries in lines[1:4]]
    if len(head) < 3 or not all(map(is_plain_number, head)) or not head[1].isdecimal():
        return None
    kind = int(head[1])
    if kind not in (*_ARRAYS, _GENERAL):
        known = ", ".join(what for what, _, _ in _ARRAYS.values())
        remedy = f"save it as a general array ({_GENERAL})"
        found = f"the array number {kind} of Res2DInv"
        raise InputError(f"{name}, row {lines[2][0]}", f"{known}, or general", found, remedy)
    rest = iter(lines[3:])
    is_resistance = False
    if kind == _GENERAL:
        _number(rest, name, "a sub-array")
        is_resistance = _number(rest, name, "the kind of measurement, 0 or 1") == 1
    count = int(_number(rest, name, "the number of readings"))
    location = int(_number(rest, name, "where the place of a row is, 0 or 1"))
    has_ip = int(_number(rest, name, "whether there is induced polarisation, 0 or 1")) != 0
    taken = [f"the array {'general' if kind == _GENERAL else _ARRAYS[kind][0]} of Res2DInv"]
    if has_ip:
        _ = [next(rest, None) for _ in range(3)]
        taken.append("induced polarisation left out")
    rows = [line for line in rest if line[1][0][:1] not in "#;"]
    has_errors = bool(rows) and rows[0][1][0].casefold() == "error"
    if has_errors:
        start = next((k for k, line in enumerate(rows) if is_plain_number(line[1][0])), 0)
        if rows[start][1] != ["0"]:
            remedy = "save errors in the unit of the readings"
            raise InputError(f"{name}, row {rows[start][0]}", "0", rows[start][1][0], remedy)
        rows = rows[start + 1 :]
    readings = [(row, " ".join(each).replace(",", " ").split()) for row, each in rows[:count]]
    if len(readings) < count:
        found, remedy = f"{len(readings)}", "correct the number, or add them"
        raise InputError(name, f"{count} readings", found, remedy)
    make = _general if kind == _GENERAL else _of_array
    places, values = make(readings, kind, location, name)
    topography = _topography(iter(rows[count:]), name)
    if topography is not None:
        taken.append(f"topography of {len(topography[1])} points")
        places = _on_ground(places, *topography, name)
    frame = {"value" if is_resistance else "rhoa": values[:, 0]}
    if has_errors:
        if values.shape[1] < 2 + has_ip:
            found = "a row without one"
            raise InputError(name, "an error in each row", found, "save it again")
        frame["err"] = values[:, 1 + has_ip] / np.abs(values[:, 0])
        taken.append("errors of the readings as sigma")
    table = Table(pd.DataFrame(frame), np.array([row for row, _ in readings]), name)
    return places, replace(table, taken=tuple(taken))


def _number(lines: Iterator[Line], name: str, what: str) -> float:
    """Return the next number in a line of its own, and skip lines of text before it."""
    for row, entries in lines:
        entry = " ".join(entries).strip(",")
        if is_plain_number(entry):
            return float(entry)
        if is_plain_number(entries[0].strip(",")):
            raise InputError(f"{name}, row {row}", what, entry[:40], "give it in a line of its own")
    raise InputError(name, what, "the end of the file", "save the file again")


def _general(lines: list[Line], kind: int, location: int, name: str):
    """Read rows of a general array: number of electrodes, x and z of each, and numbers."""
    places = np.full((len(lines), 4, 2), np.nan)
    roles = {"4": [0, 1, 2, 3], "3": [0, 2, 3], "2": [0, 2]}
    parts = []
    for number, (row, entries) in enumerate(lines):
        own = roles.get(entries[0].removesuffix(".0"))
        size = 0 if own is None else 2 * len(own) + 1
        if own is None or len(entries) <= size or not all(map(is_plain_number, entries)):
            expected = "2, 3 or 4 electrodes, x and z of each, and the reading"
            found = " ".join(entries)[:40]
            raise InputError(f"{name}, row {row}", expected, found, "correct the number of rows")
        places[number, own] = np.reshape(entries[1:size], (-1, 2)).astype(float)
        parts.append((row, entries[size:]))
    return places, _values(parts, name)


def _of_array(lines: list[Line], kind: int, location: int, name: str):
    """Read rows of a standard array: place, distance, factor n of some arrays, and numbers."""
    what, constants, multiples = _ARRAYS[kind]
    size = 2 + (multiples is not None)
    numbers = _values(lines, name)
    if numbers.shape[1] <= size:
        expected = f"place, distance,{' factor n,' * (size > 2)} and reading in a row of {what}"
        raise InputError(f"{name}, row {lines[0][0]}", expected, "fewer", "save it again")
    first, distance = numbers[:, 0], numbers[:, 1]
    factor = numbers[:, 2] if size > 2 else np.zeros(len(numbers))
    constants = np.array(constants, dtype=float)
    offsets = constants + np.abs(factor)[:, None] * np.array(multiples or (0, 0, 0, 0))
    length = np.nanmax(offsets, axis=1, keepdims=True)
    offsets = np.where(factor[:, None] < 0.0, length - offsets, offsets)
    if location == _OF_MIDDLE and not np.isnan(constants).any():
        offsets = offsets - length / 2.0
    elif location != _OF_FIRST:
        expected = f"the place of the first electrode, {_OF_FIRST}, of {what}"
        remedy = f"save it as a general array ({_GENERAL})"
        raise InputError(name, expected, f"{location}", remedy)
    x = first[:, None] + distance[:, None] * offsets
    return np.stack([x, np.where(np.isnan(x), np.nan, 0.0)], axis=2), numbers[:, size:]


def _values(lines: list[Line], name: str) -> np.ndarray:
    """Return the numbers of rows of equal length, (d, k)."""
    columns = [f"column {number + 1}" for number in range(len(lines[0][1]) if lines else 0)]
    return table_of_lines(lines, columns, name).with_numbers(columns).frame.to_numpy(float)


def _topography(lines: Iterator[Line], name: str) -> tuple[int, np.ndarray] | None:
    """Read the topography: the kind of its distances, and points, (k, 2); None without one."""
    _, entries = next(lines, (0, ["0"]))
    if not is_plain_number(entries[0]):  # "Topography in separate list"
        _, entries = next(lines, (0, ["0"]))
    if entries[0] not in ("1", "2"):
        return None
    kind, count = int(entries[0]), int(_number(lines, name, "the number of points of topography"))
    split = ((row, " ".join(entries).replace(",", " ").split()) for row, entries in lines)
    points = [line for line, _ in zip(split, range(count), strict=False)]
    if len(points) < count or not points:
        found, remedy = f"{len(points)}", "correct the number, or add them"
        raise InputError(name, f"{count} points of topography", found, remedy)
    bad = next((row for row, each in points if len(each) != 2), None)
    if bad is not None:
        where, remedy = f"{name}, row {bad}", "correct the number of points"
        raise InputError(where, "x and z of a point of topography", "another row", remedy)
    points = _values(points, name)
    back = np.flatnonzero(np.diff(points[:, 0]) <= 0.0)
    if back.size:
        expected = "points of topography from left to right"
        found = f"{points[back[0] + 1, 0]:g} behind {points[back[0], 0]:g}"
        raise InputError(name, expected, found, "sort them")
    return kind, points


def _on_ground(places: np.ndarray, kind: int, points: np.ndarray, name: str) -> np.ndarray:
    """Move places of a line onto the ground, by their horizontal distance or along the ground."""
    if np.nanmax(np.abs(places[..., 1]), initial=0.0) > 0.0:
        expected = "z of electrodes in their rows, or in a list of topography"
        raise InputError(name, expected, "both", "remove one of them")
    along = places[..., 0]
    low, high = np.nanmin(along), np.nanmax(along)
    if low < points[0, 0] or high > points[-1, 0]:
        expected = f"topography from {low:g} to {high:g}, where electrodes are"
        found = f"{points[0, 0]:g} to {points[-1, 0]:g}"
        raise InputError(name, expected, found, "add points at its ends")
    x = points[:, 0]
    if kind == _ALONG_GROUND:
        steps = np.diff(points, axis=0)
        steps = np.sqrt(np.maximum(steps[:, 0] ** 2 - steps[:, 1] ** 2, 0.0))
        x = points[0, 0] + np.concatenate([[0.0], np.cumsum(steps)])
    return np.stack([np.interp(along, points[:, 0], each) for each in (x, points[:, 1])], axis=2)
