"""Sensor tables, a row for each reading: what is read from them, and what is written."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from invlift.errors import InputError
from invlift.fem.readings.sensors import TEXTS, Sensors, checked
from invlift.tables.column_words import FACTOR, converted, unused, used_rows, with_logarithms
from invlift.tables.header import with_known_columns
from invlift.tables.mapping import with_columns, with_places
from invlift.tables.numbers import without_limits
from invlift.tables.table import Table, read_table
from invlift.tables.times import Clock, with_times

#: Columns of numbers that mean something; those of texts are `TEXTS`.
_NUMBERS = "x", "y", "z", "x2", "y2", "z2", "radius", "value", "sigma", FACTOR
#: Columns in which a row may have no entry, and those in which it may if the table has kinds.
_SPARSE = "x2", "y2", "z2", "over", "radius", "group"
_SPARSE_OF_KINDS = "x", "y", "z", "experiment"
#: Columns of texts of which each row has one, and what to do about a row that has none.
_NEEDED = {
    "name": "name the sensor",
    "experiment": "name the experiment that the reading is of",
    "kind": "name the kind of the reading, point for example",
}


def read_sensors(
    source: Any,
    dim: int,
    *,
    columns: Mapping[str, str] | None = None,
    places: Any = None,
    units: Mapping[str, str] | None = None,
    needs_values: bool = True,
    clock: Clock | None = None,
) -> Sensors:
    """Read a sensor table.

    Parameters
    ----------
    source : path, pandas.DataFrame, or Dataset or DataArray of xarray
        Text, as :func:`invlift.tables.table.read_table` reads it. Its header names the columns, in
        any order and case: x, y, z (only for a three-dimensional mesh), value and, if wanted,
        sigma, group, name and experiment (texts), valid (rows with 0 are left out), x2, y2 and z2
        (second places), kind, over (texts) and radius, which are empty where a reading has none; in
        a table with kinds so may places and experiments be. Other columns are kept beside the
        results as they are, unless they look like one of these, or are times, errors or weights.
        Several rows may have one place: they are readings of their own.
    dim : int
        Dimension of the mesh, 2 or 3.
    columns : mapping of str to str, optional
        Patterns of the names of columns by what they are: ``{"value": "Temp*"}``. Several columns
        of values are sensors of their own, whose name is what the star stands for.
    places : as `source`, optional
        Another table, with the places by ``name``.
    units : mapping of str to str, optional
        Those of ``length`` and ``solution``: columns in other units are converted.
    needs_values : bool
        If False, the column value may be missing (positions for a simulation); it is then zero.
    clock : Clock, optional
        Of a field that changes in time: the table has a column ``time`` then, of numbers or dates.

    Returns
    -------
    Sensors
        With d readings, their places and what else the table says of them.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, repeated or nearly one of those above, a
        row has too few or too many entries, or an entry is not a finite number (for sigma: a
        positive one).

    Examples
    --------
    >>> sensors = invlift.read_sensors("examples/disc/sensors.csv", 2)
    >>> sensors.points.shape, sensors.values.shape
    ((10, 2), (10,))
    """
    axes = list("xyz"[:dim])
    table, notes = read_table(source), []
    if columns:
        table = with_columns(table, columns)
    if places is not None:
        table, notes = with_places(table, read_table(places, "a table of places"))
    found = _sensors_of(table, axes, units or {}, needs_values, clock)
    return replace(found, notes=(*found.notes, *notes))


def _sensors_of(
    table: Table,
    axes: list[str],
    units: Mapping[str, str],
    needs_values: bool,
    clock: Clock | None,
) -> Sensors:
    has_times = clock is not None
    seconds = [f"{axis}2" for axis in axes]
    needed = [*axes, "value"] if needs_values else axes
    needed = [*needed, "time"] if has_times else needed
    if set(seconds) & {each.casefold() for each in table.columns}:
        needed = needed + seconds
    table = with_known_columns(table, needed, ["sigma", *TEXTS, "radius", FACTOR], seconds)
    table, notes = used_rows(table, has_times)
    if has_times:
        table = with_times(table, "time", clock)
    table, limits = _without_limits(table)
    table = with_entries(table, (*_NUMBERS, "time") if has_times else _NUMBERS)
    table = with_logarithms(converted(table, units))
    columns = {column: table.array(column) for column in table.columns}
    points = np.stack([columns[axis] for axis in axes], axis=1)
    seconds = [columns[axis] for axis in seconds if axis in columns]
    known = [*_NUMBERS, *TEXTS, *(["time"] if has_times else [])]
    notes = [*table.notes, *notes, *unused(table.columns, known)]
    return checked(
        points,
        columns.get("value", np.zeros(len(table.rows))),
        columns.get("sigma"),
        table.rows,
        table.name,
        **{attribute: columns.get(column) for column, attribute in TEXTS.items()},
        radius=columns.get("radius"),
        limits=limits,
        times=columns["time"] if has_times else None,
        minus=np.stack(seconds, axis=1) if seconds else None,
        further={column: array for column, array in columns.items() if column not in known},
        notes=tuple(notes),
    )


def _without_limits(table: Table) -> tuple[Table, np.ndarray | None]:
    """The table with the limits of censored readings as values, and which these are, if any."""
    is_text = "value" in table.columns and table.array("value").dtype.kind == "U"
    if not is_text:
        return table, None
    values, limits = without_limits(table.frame["value"].to_numpy())
    num = int(np.count_nonzero(limits != ""))
    if not num:
        return table, None
    taken = f"{num} censored reading{'s' * (num > 1)}, of which only a limit is known"
    table = table.with_column("value", values)
    return replace(table, taken=(*table.taken, taken)), limits


def with_entries(table: Table, numbers: Sequence[str]) -> Table:
    """The table with its numbers read and all texts there that a row needs."""
    if not len(table.rows):
        remedy = "add one row per sensor"
        raise InputError(table.name, "at least one sensor", "only a header", remedy)
    sparse = {*_SPARSE, *(_SPARSE_OF_KINDS if "kind" in table.columns else ())}
    sparse |= {FACTOR, "sigma"} if FACTOR in table.columns else set()
    table = table.with_numbers(numbers, sparse)
    for column, remedy in _NEEDED.items():
        if column in table.columns and column not in sparse:
            empty = np.flatnonzero(table.array(column) == "")
            if empty.size:
                raise InputError(table.at(empty[0], column), "a name", "an empty entry", remedy)
    return table.with_texts([each for each in table.columns if each not in numbers])


def write_sensors(path: str | os.PathLike, sensors: Sensors) -> None:
    """Write a sensor table that `read_sensors` reads back exactly."""
    axes = "xyz"[: sensors.points.shape[1]]
    columns, header = [*sensors.points.T], [*axes]
    if sensors.minus is not None:
        columns += [*sensors.minus.T]
        header += [f"{axis}2" for axis in axes]
    if sensors.radius is not None:
        columns.append(sensors.radius)
        header.append("radius")
    columns = [np.where(np.isnan(each), "", each.astype(str)) for each in columns]
    values = sensors.values
    if sensors.limits is not None:
        pairs = zip(sensors.limits.tolist(), values.tolist(), strict=True)
        values = np.array([f"{limit}{value}" for limit, value in pairs])
    columns.append(values)
    header.append("value")
    texts = ((column, getattr(sensors, attribute)) for column, attribute in TEXTS.items())
    for column, entries in (("sigma", sensors.sigma), ("time", sensors.times), *texts):
        if entries is not None:
            columns.append(entries)
            header.append(column)
    columns += sensors.further.values()
    header += sensors.further
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
