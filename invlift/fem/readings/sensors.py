"""Sensor tables, a row for each reading: what kind of reading it is, where, and its value."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from invlift.errors import InputError, as_numbers
from invlift.fem.readings.column_words import FACTOR, converted, unused, used_rows, with_logarithms
from invlift.fem.time.clock import Clock, times_of
from invlift.tables.header import with_known_columns
from invlift.tables.mapping import with_columns, with_places
from invlift.tables.numbers import without_limits
from invlift.tables.table import Table, read_table

MAX_SIZE = 1e50  # of coordinates and readings; their squares must be numbers too
#: Numbers that stand for missing readings, and how far they are then from all others, in parts of
#: these: loggers' own, netCDF's fill values, the ends of 16 bits.
MISSING = np.array(
    [-99.0, -999.0, -999.25, -999.9, -9999.0, -9999.9, -99999.0, -999999.0, 9999.0, 99999.0,
     999999.0, 1e20, 1e30, 1e31, -1e30, 9.969209968386869e36, 1.70141e38, -32768.0, 32767.0]
)  # fmt: skip
FAR_FROM_OTHERS = 3.0
#: Columns that mean something: numbers, and texts with what they are here.
_NUMBERS = "x", "y", "z", "x2", "y2", "z2", "radius", "value", "sigma", FACTOR
_TEXTS = {
    "group": "groups",
    "name": "labels",
    "experiment": "experiments",
    "kind": "kinds",
    "over": "over",
}
#: Columns in which a row may have no entry, and those in which it may if the table has kinds.
_SPARSE = "x2", "y2", "z2", "over", "radius", "group"
_SPARSE_OF_KINDS = "x", "y", "z", "experiment"
#: Columns of texts of which each row has one, and what to do about a row that has none.
_NEEDED = {
    "name": "name the sensor",
    "experiment": "name the experiment that the reading is of",
    "kind": "name the kind of the reading, point for example",
}
#: Attributes of a table that are texts.
_TEXT_ARRAYS = *_TEXTS.values(), "limits"
#: Attributes of a table that are numbers.
_ARRAYS = "points", "values", "sigma", "radius", "times", "minus"


@dataclass(frozen=True, eq=False)
class Sensors:
    """A table of d readings.

    Attributes
    ----------
    points : ndarray of float64, shape (d, dim)
        Places of the sensors, in the length unit of the mesh; NaN where a reading has none.
    values : ndarray of float64, shape (d,)
        Readings, in the unit of what is read.
    sigma : ndarray of float64, shape (d,), or None
        Standard deviation of each reading's noise, in its unit, if the table has the column.
    rows : ndarray of int, shape (d,)
        Line of each reading in the file; the header is line 1.
    name : str
        The file as the user gave it, for error messages.
    groups : ndarray of str, shape (d,), or None
        Name of the group whose noise scale or offset each reading shares, if the table has the
        column; "" where it is of none.
    labels : ndarray of str, shape (d,), or None
        Name of each sensor, if the table has a column ``name``.
    experiments : ndarray of str, shape (d,), or None
        Name of the experiment that each reading is of, if the table has a column ``experiment``;
        "" where it is of none.
    kinds : ndarray of str, shape (d,), or None
        Kind of each reading, if the table has a column ``kind``: see
        :data:`invlift.fem.readings.kinds.KINDS`. Without it readings are of points or differences.
    over : ndarray of str, shape (d,), or None
        Group of the mesh that a reading is over, if the table has the column; "" where it is not.
    radius : ndarray of float64, shape (d,), or None
        Radius of what a reading is the mean of, in the length unit, if the table has the column;
        NaN where it has none.
    limits : ndarray of str, shape (d,), or None
        Which readings are censored: "<" where a reading is below its value, ">" where it is above,
        "" where it is the value; None if none is.
    times : ndarray of float64, shape (d,), or None
        Time of each reading, if the field changes in time and the table has the column ``time``.
    minus : ndarray of float64, shape (d, dim), or None
        Second places, from columns ``x2``, ``y2`` and ``z2``: such a reading is the solution at the
        first place less that at the second. NaN where a reading has none.
    electrodes : ndarray of str, shape (d, 4), or None
        Of voltages between electrodes, which have no place: the names or numbers, from 1, of those
        where current enters and leaves, and of those between which is read. See
        :func:`invlift.fem.electrodes.voltages.read_voltages`.
    positions : ndarray of float64, shape (K, 2 or 3), or None
        Where the electrodes are, if the table says so.
    currents, weights : ndarray of float64, shape (d, K), or None
        What was driven at each electrode in ampere, and how their potentials make the reading,
        where this is not a unit current or not a voltage between two.
    electrode_groups : tuple of K str
        Boundary groups of the electrodes, once it is known which they are.
    further : mapping of str to ndarray of str, shape (d,)
        Other columns by name, as they are written in the table: they are kept beside results.
    outside : str
        How many sensors of the table lay outside the mesh and what became of them; empty if none.
    notes : tuple of str
        What of the table is left out or not used.
    """

    points: np.ndarray
    values: np.ndarray
    sigma: np.ndarray | None
    rows: np.ndarray
    name: str
    groups: np.ndarray | None = None
    labels: np.ndarray | None = None
    experiments: np.ndarray | None = None
    kinds: np.ndarray | None = None
    over: np.ndarray | None = None
    radius: np.ndarray | None = None
    limits: np.ndarray | None = None
    times: np.ndarray | None = None
    minus: np.ndarray | None = None
    electrodes: np.ndarray | None = None
    positions: np.ndarray | None = None
    currents: np.ndarray | None = None
    weights: np.ndarray | None = None
    electrode_groups: tuple[str, ...] = ()
    further: Mapping[str, np.ndarray] = field(default_factory=dict)
    outside: str = ""
    notes: tuple[str, ...] = ()

    def take(self, kept: np.ndarray) -> Sensors:
        """Return the table reduced to the readings at positions `kept`."""
        columns = *_ARRAYS, "rows", *_TEXT_ARRAYS, "electrodes", "currents", "weights"
        given = {name: getattr(self, name) for name in columns}
        taken = {name: column[kept] for name, column in given.items() if column is not None}
        further = {name: column[kept] for name, column in self.further.items()}
        return replace(self, further=further, **taken)


def joined(tables: Mapping[str, Sensors]) -> Sensors:
    """Tables of the readings of experiments by name, one after the other as one.

    Where a table does not have a column of another its entries are NaN or "".
    """
    every = list(tables.values())
    first, sizes = every[0], [len(each.values) for each in every]
    if len(every) == 1:
        return first

    def column(parts: list[np.ndarray | None]) -> np.ndarray | None:
        known = next((part for part in parts if part is not None), None)
        if known is None:
            return None
        empty = "" if known.dtype.kind == "U" else np.nan
        parts = [
            np.full((size, *known.shape[1:]), empty) if part is None else part
            for part, size in zip(parts, sizes, strict=True)
        ]
        return np.concatenate(parts)

    whole = {
        name: column([getattr(each, name) for each in every])
        for name in (*_ARRAYS, "rows", *_TEXT_ARRAYS)
    }
    if whole["experiments"] is None:
        whole["experiments"] = np.repeat(list(tables), sizes)
    names = dict.fromkeys(name for each in every for name in each.further)
    further = {name: column([each.further.get(name) for each in every]) for name in names}
    outside = "; ".join(dict.fromkeys(each.outside for each in every if each.outside))
    notes = tuple(dict.fromkeys(note for each in every for note in each.notes))
    return replace(first, further=further, outside=outside, notes=notes, **whole)


def sensors_from_arrays(points, values, sigma=None, name: str = "sensors", **columns) -> Sensors:
    """Make a sensor table from arrays, with every check that a file gets.

    Parameters
    ----------
    points : array_like of float, shape (d, dim)
        NaN where a reading of a kind has no place.
    values : array_like of float, shape (d,)
    sigma : float or array_like of float, shape (d,), optional
        One number is that of all readings.
    name : str
        What error messages call the table; its rows count from 2, as if written to a file.
    **columns : array_like, shape (d,)
        Further attributes of :class:`Sensors`, such as ``kinds`` and ``over``; ``minus`` is
        (d, dim).  Text that is missing, None or NaN as in a data frame, is "".

    Raises
    ------
    InputError
        For shapes that do not fit, no rows, values that are masked or not finite and sigma <= 0.
    """
    columns = {"points": points, "values": values, "sigma": sigma, **columns}
    arrays = {}
    for key, given in columns.items():
        if given is None:
            continue
        if key not in (*_ARRAYS, *_TEXT_ARRAYS):
            expected = f"columns among {', '.join([*_ARRAYS, *_TEXT_ARRAYS])}"
            raise InputError(f"{name}, {key}", expected, "another", "rename it, or leave it out")
        if key in _ARRAYS:
            where, remedy = f"{name}, {key}", "give numbers only"
            arrays[key] = np.array(as_numbers(where, given, "an array of numbers", remedy))
        else:
            arrays[key] = _texts(f"{name}, {key}", given)
    shape = arrays["points"].shape
    if sigma is not None and np.ndim(sigma) == 0:
        arrays["sigma"] = np.full(shape[:1], arrays["sigma"])
    for key, array in arrays.items():
        expected = shape if key in ("points", "minus") else shape[:1]
        if len(shape) != 2 or shape[1] not in (2, 3) or array.shape != expected:
            raise InputError(
                f"{name}, {key}",
                "points of shape (d, 2) or (d, 3), all else of shape (d,)",
                f"shape {array.shape}",
                "give one row of coordinates and one number per sensor",
            )
    required = [arrays.pop(key, None) for key in ("points", "values", "sigma")]
    return checked(*required, np.arange(2, shape[0] + 2), name, **arrays)


def _texts(where: str, given) -> np.ndarray:
    """An array of text, "" where it is missing: None, NaN, what pandas has for it, or masked."""
    try:
        is_missing = pd.isna(np.asarray(given, dtype=object)) | np.ma.getmask(given)
        return np.where(is_missing, "", np.array(given, dtype=str))
    except (ValueError, TypeError) as reason:
        raise InputError(where, "an array of text", str(reason), "give one per sensor") from None


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

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, repeated or nearly one of those above, a
        row has too few or too many entries, or an entry is not a finite number (for sigma: a
        positive one).
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
    table = with_known_columns(table, needed, ["sigma", *_TEXTS, "radius", FACTOR], seconds)
    table, notes = used_rows(table, has_times)
    if has_times:
        table = table.with_column("time", times_of(table, "time", clock))
    table, limits = _without_limits(table)
    table = with_entries(table, (*_NUMBERS, "time") if has_times else _NUMBERS)
    table = with_logarithms(converted(table, units))
    columns = {column: table.array(column) for column in table.columns}
    points = np.stack([columns[axis] for axis in axes], axis=1)
    seconds = [columns[axis] for axis in seconds if axis in columns]
    known = [*_NUMBERS, *_TEXTS, *(["time"] if has_times else [])]
    notes = [*table.notes, *notes, *unused(table.columns, known)]
    return checked(
        points,
        columns.get("value", np.zeros(len(table.rows))),
        columns.get("sigma"),
        table.rows,
        table.name,
        **{attribute: columns.get(column) for column, attribute in _TEXTS.items()},
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
    texts = ((column, getattr(sensors, attribute)) for column, attribute in _TEXTS.items())
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


def checked(points, values, sigma, rows, name: str, **others) -> Sensors:
    """Return the table if it has rows, all finite, with positive sigma."""
    if len(values) == 0:
        raise InputError(name, "at least one sensor", "none", "add one row per sensor")
    radius = others.get("radius")
    may_lack_place = others.get("kinds") is not None or others.get("electrodes") is not None
    places = np.where(np.isnan(points), 0.0, points) if may_lack_place else points
    columns = dict(zip("xyz", places.T, strict=False)) | {"value": values}
    if radius is not None:
        columns["radius"] = np.where(np.isnan(radius), 0.0, radius)
    minus = others.get("minus")
    if minus is not None:
        is_partial = np.isnan(minus).any(axis=1) & ~np.isnan(minus).all(axis=1)
        if is_partial.any():
            raise InputError(
                f"{name}, row {rows[np.flatnonzero(is_partial)[0]]}, second place",
                f"{minus.shape[1]} coordinates, or none",
                f"{np.count_nonzero(~np.isnan(minus[np.flatnonzero(is_partial)[0]]))}",
                "give all of them, or leave all empty",
            )
        seconds = np.where(np.isnan(minus), 0.0, minus)
        columns |= {f"{axis}2": each for axis, each in zip("xyz", seconds.T, strict=False)}
    if sigma is not None:
        columns["sigma"] = sigma
    if others.get("times") is not None:
        columns["time"] = others["times"]
    for column, entries in columns.items():
        bad = np.flatnonzero(~(np.abs(entries) <= MAX_SIZE))
        if len(bad):
            is_finite = np.isfinite(entries[bad[0]])
            raise InputError(
                f"{name}, row {rows[bad[0]]}, column {column}",
                f"a number up to {MAX_SIZE:g} in size" if is_finite else "a finite number",
                f"{entries[bad[0]]:g}",
                "correct it, or remove the row if there is no reading",
            )
    _check_missing(values, rows, name)
    limits = others.get("limits")
    if limits is not None and (bad := np.flatnonzero(~np.isin(limits, ["", "<", ">"]))).size:
        where, found = f"{name}, row {rows[bad[0]]}, limits", f"{limits[bad[0]]}"
        raise InputError(where, '"<", ">" or ""', found, "leave it empty for a plain reading")
    if sigma is not None and (sigma < 1.0 / MAX_SIZE).any():
        bad = np.flatnonzero(sigma < 1.0 / MAX_SIZE)[0]
        raise InputError(
            f"{name}, row {rows[bad]}, column sigma",
            "a positive standard deviation",
            f"{sigma[bad]:g}",
            "give the accuracy of the sensor, or remove the column and give one scale for all",
        )
    return Sensors(points, values, sigma, rows, name, **others)


def _check_missing(values: np.ndarray, rows: np.ndarray, name: str) -> None:
    """Refuse readings that stand for missing ones, far from all others."""
    is_code = np.isin(values, MISSING)
    real = values[~is_code]
    if not is_code.any() or not real.size:
        return
    low, high = real.min(), real.max()
    far = FAR_FROM_OTHERS * max(high - low, np.abs(real).max())
    bad = np.flatnonzero(is_code & (np.maximum(low - values, values - high) > far))
    if bad.size:
        raise InputError(
            f"{name}, row {rows[bad[0]]}, column value",
            f"a reading; all others are {low:g} to {high:g}",
            f"{values[bad[0]]:g}, which often stands for a missing one",
            "remove the row if there is no reading",
        )
