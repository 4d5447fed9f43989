"""Reading and writing of sensor tables, with a row for each reading."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from invlift.errors import InputError
from invlift.fem.readings.sensors import TEXTS, Sensors, checked
from invlift.tables.column_words import (
    FACTOR,
    NO_UNITS,
    converted,
    unused,
    used_rows,
    with_logarithms,
)
from invlift.tables.header import with_known_columns
from invlift.tables.mapping import with_columns, with_places, without_readings
from invlift.tables.numbers import without_limits
from invlift.tables.several import Sources, joined, notes_of, sources_of, with_name
from invlift.tables.table import Table, read_table
from invlift.tables.times import Clock, with_lengths, with_times

#: Known columns of numbers; known columns of texts are `TEXTS`.
_NUMBERS = "x", "y", "z", "x2", "y2", "z2", "radius", "value", "sigma", FACTOR
#: Columns with optional entries, and those with optional entries if the table has kinds.
_SPARSE = "x2", "y2", "z2", "over", "radius", "group", "averaged_over", "moment"
_SPARSE_OF_KINDS = "x", "y", "z", "experiment"
#: Columns of numbers of a field that changes in time.
_OF_TIME = "time", "averaged_over", "moment"
#: Columns of texts that may not be empty, with the remedy for an empty entry.
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
    source : path, pandas.DataFrame, Dataset or DataArray of xarray, or several of these
        A table for :func:`invlift.tables.table.read_table`. Several tables are a list, a pattern of
        paths, "loggers/*.csv", or a dictionary by the names of the sensors; each is read
        separately. If a file has no names, its sensor has the name of the file without its ending.
        The header names the columns, in any order and case: x, y, z (only for a three-dimensional
        mesh) and value. Optional columns are sigma, group, name and experiment (texts), valid (rows
        with 0 are left out), x2, y2 and z2 (second places), kind, over (texts) and radius, which
        are empty if they do not apply. In a table with kinds, places and experiments may be empty
        too. Other columns are kept beside the results, unless they look like one of these, or are
        times, errors or weights. Several rows with one place are separate readings.
    dim : int
        Dimension of the mesh, 2 or 3.
    columns : mapping of str to str, optional
        Standard name -> pattern of a column's name: ``{"value": "Temp*"}``. Several columns of
        values are separate sensors, named by the text that the star matches.
    places : as `source`, optional
        A second table with the places by ``name``.
    units : mapping of str to str, optional
        Units of ``length`` and ``solution``; columns in other units are converted.
    needs_values : bool
        If False, the column value may be missing (positions for a simulation); it is then zero.
    clock : Clock, optional
        Units of time for a field that changes in time. The table then has a column ``time`` of
        numbers or dates. An optional column ``averaged_over`` has the length of the interval before
        this time over which the reading is a mean, and ``moment`` the order of a temporal moment.

    Returns
    -------
    Sensors
        The d readings with their places and the other columns.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, repeated or has a misspelt name, a row has
        too few or too many entries, or an entry is not a finite number (for sigma: a positive one).

    Examples
    --------
    >>> sensors = invlift.read_sensors("examples/disc/sensors.csv", 2)
    >>> sensors.points.shape, sensors.values.shape
    ((10, 2), (10,))
    """
    axes, sources = list("xyz"[:dim]), sources_of(source)
    known = None if places is None else read_table(places, "a table of places")
    options = {"axes": axes, "units": units or {}, "needs_values": needs_values, "clock": clock}
    if sources is None:
        table = read_table(source)
        table = with_columns(table, columns) if columns else table
        table = table if known is None else with_places(table, known)
        table, limits = _with_numbers(table, **options)
        notes = table.notes
    else:
        table, limits, notes = _of_several(sources, columns, known, options)
    unread = [] if known is None else without_readings(known, table)
    return _sensors_of(table, axes, limits, [*notes, *unread], has_times=clock is not None)


def _of_several(
    sources: Sources,
    columns: Mapping[str, str] | None,
    places: Table | None,
    options: Mapping[str, Any],
) -> tuple[Table, np.ndarray | None, list[str]]:
    """Read several tables and join them; return the table, its limits, and notes."""
    tables, limits = [], []
    names = [name for name, _ in sources.parts]
    for number, (name, each) in enumerate(sources.parts, start=1):
        table = read_table(each, f"sensor table {name or number}")
        table = with_columns(table, columns, name=name) if columns else table
        table = with_name(table, name, names)
        table = table if places is None else with_places(table, places)
        table, own = _with_numbers(table, **options)
        tables.append(table)
        limits.append(np.full(len(table.rows), "") if own is None else own)
    whole = np.concatenate(limits)
    return joined(tables, sources.name), whole if (whole != "").any() else None, notes_of(tables)


def _with_numbers(
    table: Table,
    axes: list[str],
    units: Mapping[str, str],
    needs_values: bool,
    clock: Clock | None,
) -> tuple[Table, np.ndarray | None]:
    """Return the table of valid readings with numbers, and the limits of censored ones or None."""
    has_times = clock is not None
    seconds = [f"{axis}2" for axis in axes]
    needed = [*axes, "value"] if needs_values else axes
    needed = [*needed, "time"] if has_times else needed
    if set(seconds) & {each.casefold() for each in table.columns}:
        needed = needed + seconds
    further = ["sigma", *TEXTS, "radius", FACTOR, *(_OF_TIME[1:] if has_times else ())]
    table = _with_empty_places(table, axes)
    table = with_known_columns(table, needed, further, seconds)
    table, notes = used_rows(table, has_times)
    if has_times:
        _check_has_rows(table)
        if "averaged_over" in table.columns:
            table = with_lengths(table, "averaged_over", "time", clock)
        table = with_times(table, "time", clock)
    table, limits = _without_limits(table)
    table = with_entries(table, _numbers(has_times))
    for column in (FACTOR, "moment") if has_times else (FACTOR,):
        unit = table.units.get(column, "")
        if unit not in NO_UNITS:
            where = f"{table.name}, row {table.first}, column {column}"
            expected = "no unit, as it is a plain number"
            raise InputError(where, expected, repr(unit), "write it without one")
    table = with_logarithms(converted(table, units))
    notes += unused(table.columns, _known(has_times))
    return replace(table, remarks=(*table.remarks, *notes)), limits


def _with_empty_places(table: Table, axes: list[str]) -> Table:
    """Add empty places to a table without them, if its readings are over parts of the body."""
    names = {each.casefold() for each in table.columns}
    if names & {*axes} or not {"kind", "over"} <= names:
        return table
    for axis in axes:
        table = table.with_column(axis, np.full(len(table.rows), ""))
    return table


def _numbers(has_times: bool) -> tuple[str, ...]:
    return (*_NUMBERS, *_OF_TIME) if has_times else _NUMBERS


def _known(has_times: bool) -> list[str]:
    return [*_numbers(has_times), *TEXTS]


def _sensors_of(
    table: Table,
    axes: list[str],
    limits: np.ndarray | None,
    notes: Sequence[str],
    has_times: bool,
) -> Sensors:
    columns = {column: table.array(column) for column in table.columns}
    points = np.stack([columns[axis] for axis in axes], axis=1)
    seconds = [columns[f"{axis}2"] for axis in axes if f"{axis}2" in columns]
    known = _known(has_times)
    sensors = checked(
        points,
        columns.get("value", np.zeros(len(table.rows))),
        columns.get("sigma"),
        table.rows,
        table.name,
        **{attribute: columns.get(column) for column, attribute in TEXTS.items()},
        radius=columns.get("radius"),
        limits=limits,
        times=columns["time"] if has_times else None,
        averaged_over=columns.get("averaged_over") if has_times else None,
        moment=columns.get("moment") if has_times else None,
        minus=np.stack(seconds, axis=1) if seconds else None,
        is_sigma_absolute="sigma" in table.units,
        further={column: array for column, array in columns.items() if column not in known},
        notes=tuple(notes),
    )
    return replace(sensors, notes=(*notes, *_repeated(sensors))) if has_times else sensors


def _repeated(sensors: Sensors) -> list[str]:
    """Return a note on repeated readings of a place and time, as where two exports overlap."""
    first = sensors.first_of_same("labels")
    num = np.count_nonzero(first != np.arange(len(first)))
    if not num:
        return []
    are = f"{num} reading{'s are' if num > 1 else ' is'}"
    return [f"{are} of the place and time of an earlier one: each counts as one more reading"]


def _without_limits(table: Table) -> tuple[Table, np.ndarray | None]:
    """Convert censored readings such as "<0.1" to their limits; return "<", ">" or "" by row.

    The second result is None if no reading is censored.
    """
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


def _check_has_rows(table: Table) -> None:
    if not len(table.rows):
        remedy = "add one row per sensor"
        raise InputError(table.name, "at least one sensor", "only a header", remedy)


def with_entries(table: Table, numbers: Sequence[str]) -> Table:
    """Convert columns to numbers or texts, and check that all needed entries are present."""
    _check_has_rows(table)
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
    columns = dict(zip("xyz", sensors.points.T, strict=False))
    if sensors.minus is not None:
        columns |= dict(zip(("x2", "y2", "z2"), sensors.minus.T, strict=False))
    columns |= {each: getattr(sensors, each) for each in ("radius", "averaged_over", "moment")}
    columns = {
        name: np.where(np.isnan(numbers), "", numbers.astype(str))
        for name, numbers in columns.items()
        if numbers is not None
    }
    values = sensors.values
    if sensors.limits is not None:
        pairs = zip(sensors.limits.tolist(), values.tolist(), strict=True)
        values = np.array([f"{limit}{value}" for limit, value in pairs])
    columns |= {"value": values, "sigma": sensors.sigma, "time": sensors.times}
    columns |= {column: getattr(sensors, attribute) for column, attribute in TEXTS.items()}
    write_columns(path, columns | dict(sensors.further))


def write_columns(path: str | os.PathLike, columns: Mapping[str, np.ndarray | None]) -> None:
    """Write arrays as the columns of a CSV file, without those that are None."""
    there = {name: entries.tolist() for name, entries in columns.items() if entries is not None}
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(there)
        writer.writerows(zip(*there.values(), strict=True))
