"""Sensor tables, and the rows of the observation matrix that belong to them.

A reading is the finite element solution at the sensor's own place: the weights are the values of
the linear basis functions there, not those of the nearest node. No sensor is moved or left out
unless the user chose that.
"""

from __future__ import annotations

import csv
import difflib
import io
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh.checks import listing, place
from invlift.fem.mesh.geometry import find_closest_facet
from invlift.fem.mesh.mesh import Mesh
from invlift.input_files import read_text

MAX_BYTES = 2**24  # of a table: some 300,000 sensors
MAX_SIZE = 1e50  # of coordinates and readings; their squares must be numbers too
#: Columns that mean something: numbers, and texts with what they are here.
_NUMBERS = "x", "y", "z", "x2", "y2", "z2", "value", "sigma"
_TEXTS = {"group": "groups", "name": "labels", "experiment": "experiments"}


@dataclass(frozen=True, eq=False)
class Sensors:
    """A table of d readings.

    Attributes
    ----------
    points : ndarray of float64, shape (d, dim)
        Places of the sensors, in the length unit of the mesh.
    values : ndarray of float64, shape (d,)
        Readings, in the unit of the solution.
    sigma : ndarray of float64, shape (d,), or None
        Standard deviation of each reading's noise, in the unit of the solution, if the table has
        the column.
    rows : ndarray of int, shape (d,)
        Line of each reading in the file; the header is line 1.
    name : str
        The file as the user gave it, for error messages.
    groups : ndarray of str, shape (d,), or None
        Name of the group whose noise scale each reading shares, if the table has the column.
    labels : ndarray of str, shape (d,), or None
        Name of each sensor, if the table has a column ``name``.
    experiments : ndarray of str, shape (d,), or None
        Name of the experiment that each reading is of, if the table has a column ``experiment``.
    minus : ndarray of float64, shape (d, dim), or None
        Second places, from columns ``x2``, ``y2`` and ``z2``: such a reading is the solution at the
        first place less that at the second. NaN where a reading has none.
    unused : tuple of str
        Columns of the table that mean nothing here.
    """

    points: np.ndarray
    values: np.ndarray
    sigma: np.ndarray | None
    rows: np.ndarray
    name: str
    groups: np.ndarray | None = None
    labels: np.ndarray | None = None
    experiments: np.ndarray | None = None
    minus: np.ndarray | None = None
    unused: tuple[str, ...] = ()

    def take(self, kept: np.ndarray) -> Sensors:
        """Return the table reduced to the readings at positions `kept`."""
        columns = "points", "values", "sigma", "rows", *_TEXTS.values(), "minus"
        given = {name: getattr(self, name) for name in columns}
        taken = {name: column[kept] for name, column in given.items() if column is not None}
        return replace(self, **taken)


@dataclass(frozen=True, eq=False)
class Observation:
    """The observation matrix B, one sparse row per kept sensor.

    Attributes
    ----------
    nodes : ndarray of int, shape (num_kept, c)
        Nodes of the cell that holds each sensor, c = dim + 1; behind these, where there are second
        places, those of the cells that hold them.
    weights : ndarray of float64, shape (num_kept, c)
        Values of their basis functions at the sensor, within [0, 1] and adding to 1; at second
        places less than zero, and zero where a reading has none.
    kept : ndarray of int, shape (num_kept,)
        Positions in the sensor table; all of them unless sensors were dropped.
    distances : ndarray of float64, shape (num_sensors,)
        How far outside the mesh each sensor of the whole table lies, in length units; 0 inside.
    """

    nodes: np.ndarray
    weights: np.ndarray
    kept: np.ndarray
    distances: np.ndarray

    def take(self, chosen: np.ndarray) -> Observation:
        """Return the rows at positions `chosen` among those kept."""
        rows = self.nodes[chosen], self.weights[chosen], self.kept[chosen]
        return Observation(*rows, self.distances)


def sensors_from_arrays(points, values, sigma=None, name: str = "sensors") -> Sensors:
    """Make a sensor table from arrays, with every check that a file gets.

    Parameters
    ----------
    points : array_like of float, shape (d, dim)
    values : array_like of float, shape (d,)
    sigma : array_like of float, shape (d,), optional
    name : str
        What error messages call the table; its rows count from 2, as if written to a file.

    Raises
    ------
    InputError
        For shapes that do not fit, no rows, values that are not finite and sigma <= 0.
    """
    columns = {"points": points, "values": values, "sigma": sigma}
    arrays = {}
    for key, given in columns.items():
        if given is None:
            continue
        try:
            arrays[key] = np.array(given, dtype=np.float64)
        except (ValueError, TypeError) as reason:
            raise InputError(
                f"{name}, {key}", "an array of numbers", str(reason), "give numbers only"
            ) from None
    shape = arrays["points"].shape
    expected = {"points": shape, "values": shape[:1], "sigma": shape[:1]}
    for key, array in arrays.items():
        if len(shape) != 2 or shape[1] not in (2, 3) or array.shape != expected[key]:
            raise InputError(
                f"{name}, {key}",
                "points of shape (d, 2) or (d, 3), values and sigma of shape (d,)",
                f"shape {array.shape}",
                "give one row of coordinates and one number per sensor",
            )
    rows = np.arange(2, shape[0] + 2)
    return _checked(arrays["points"], arrays["values"], arrays.get("sigma"), rows, name)


def read_sensors(path: str | os.PathLike, dim: int, *, needs_values: bool = True) -> Sensors:
    """Read a sensor table.

    Parameters
    ----------
    path : str or path-like
        Comma-separated text. Its first line names the columns, in any order: x, y, z (only for a
        three-dimensional mesh), value and, if wanted, sigma, group, name and experiment (texts),
        x2, y2 and z2 (second places, empty where a reading has none). Other columns are passed
        over, unless they look like one of these. Several rows may have one place: they are
        readings of their own.
    dim : int
        Dimension of the mesh, 2 or 3.
    needs_values : bool
        If False, the column value may be missing (positions for a simulation); it is then zero.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, repeated or nearly one of those above, a
        row has too few or too many entries, or an entry is not a finite number (for sigma: a
        positive one).
    """
    name = os.fspath(path)
    lines = _read_rows(Path(path), name)
    if not lines:
        raise InputError(name, "a header and one row per sensor", "an empty file", "add them")
    columns = _checked_header(lines[0][1], dim, name, needs_values)
    rows, table = [], []
    for row, entries in lines[1:]:
        if len(entries) != len(columns):
            raise InputError(
                f"{name}, row {row}",
                f"{len(columns)} entries ({','.join(columns)})",
                f"{len(entries)}",
                "write one number per column, with a point as decimal mark",
            )
        rows.append(row)
        table.append(
            [
                _entry(column, entry, f"{name}, row {row}, column {column}")
                for column, entry in zip(columns, entries, strict=True)
            ]
        )
    if not table:
        raise InputError(name, "at least one sensor", "only a header", "add one row per sensor")
    by_name = {
        column: np.array(entries, dtype=np.float64 if column in _NUMBERS else str)
        for column, entries in zip(columns, zip(*table, strict=True), strict=True)
    }
    points = np.stack([by_name[axis] for axis in "xyz"[:dim]], axis=1)
    seconds = [by_name[f"{axis}2"] for axis in "xyz"[:dim] if f"{axis}2" in by_name]
    return _checked(
        points,
        by_name.get("value", np.zeros(len(table))),
        by_name.get("sigma"),
        np.array(rows),
        name,
        **{attribute: by_name.get(column) for column, attribute in _TEXTS.items()},
        minus=np.stack(seconds, axis=1) if seconds else None,
        unused=tuple(column for column in columns if column not in (*_NUMBERS, *_TEXTS)),
    )


def write_sensors(path: str | os.PathLike, sensors: Sensors) -> None:
    """Write a sensor table that `read_sensors` reads back exactly."""
    axes = "xyz"[: sensors.points.shape[1]]
    columns, header = [*sensors.points.T], [*axes]
    if sensors.minus is not None:
        columns += [np.where(np.isnan(each), "", each.astype(str)) for each in sensors.minus.T]
        header += [f"{axis}2" for axis in axes]
    columns.append(sensors.values)
    header.append("value")
    texts = ((column, getattr(sensors, attribute)) for column, attribute in _TEXTS.items())
    for column, entries in (("sigma", sensors.sigma), *texts):
        if entries is not None:
            columns.append(entries)
            header.append(column)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(zip(*(column.tolist() for column in columns), strict=True))


def _read_rows(path: Path, name: str) -> list[tuple[int, list[str]]]:
    """Return (line number, stripped entries) of every line that is not blank."""
    text = read_text(
        path,
        name,
        "a sensor table",
        remedy="check the path (paths in a problem file are relative to that file)",
        max_bytes=MAX_BYTES,
    )
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        return [
            (reader.line_num, [entry.strip() for entry in entries])
            for entries in reader
            if any(entry.strip() for entry in entries)
        ]
    except csv.Error as reason:
        raise InputError(
            f"{name}, row {reader.line_num}",
            "numbers separated by commas",
            f"{reason}",
            "save the table as CSV in UTF-8",
        ) from None


def _checked_header(columns: list[str], dim: int, name: str, needs_values: bool) -> list[str]:
    """Return the column names if they are a table's for a mesh of this dimension."""
    axes = list("xyz"[:dim])
    seconds = [f"{axis}2" for axis in axes]
    needed = [*axes, "value"] if needs_values else axes
    if set(seconds) & set(columns):
        needed = needed + seconds
    allowed = [*axes, "value", "sigma", *_TEXTS, *seconds]
    further = ", ".join(["sigma", *_TEXTS])
    expected = f"the columns {','.join(needed)} and perhaps {further} or {','.join(seconds)}"
    where = f"{name}, row 1"
    found = ",".join(columns)
    if len(columns) == 1 and any(mark in found.strip() for mark in "; \t"):
        raise InputError(where, expected, repr(found), "separate the columns by commas")
    unknown = [column for column in columns if column not in allowed]
    missing = [column for column in needed if column not in columns]
    repeated = [column for column in columns if columns.count(column) > 1]
    if all(_is_number(column) for column in columns):
        raise InputError(where, expected, f"numbers ({found})", "add the header as first line")
    if unknown == ["z"]:
        remedy = "remove it: the mesh is two-dimensional"
        raise InputError(where, expected, "a column 'z'", remedy)
    for column in unknown:
        absent = [each for each in allowed if each not in columns]
        close = difflib.get_close_matches(column.lower(), absent, n=1)
        if close or not column:
            remedy = f"did you mean {close[0]!r}?" if close else "name it"
            raise InputError(where, expected, f"a column {column!r}", remedy)
    if missing:
        what = "the mesh is three-dimensional: add it" if missing == ["z"] else "add it"
        raise InputError(where, expected, f"no column {missing[0]!r}", what)
    if repeated:
        raise InputError(where, expected, f"column {repeated[0]!r} twice", "remove one of them")
    return columns


def _is_number(entry: str) -> bool:
    """Whether an entry is a number (Python also reads "1_000", which no table means)."""
    try:
        float(entry)
    except ValueError:
        return False
    return "_" not in entry


def _number(entry: str, where: str) -> float:
    """Return the number in an entry; whether it is finite is checked with the whole table."""
    if not _is_number(entry):
        found = repr(entry[:40]) if entry else "an empty entry"
        remedy = "write a number such as 12.5, or remove the row if there is no reading"
        raise InputError(where, "a number", found, remedy)
    return float(entry)


def _entry(column: str, entry: str, where: str) -> float | str:
    """Return the number or text in an entry."""
    if column.endswith("2") and not entry:
        return np.nan
    if column in _NUMBERS:
        return _number(entry, where)
    if column in _TEXTS and not entry:
        remedy = {
            "group": "name the group whose noise scale the reading shares",
            "name": "name the sensor",
            "experiment": "name the experiment that the reading is of",
        }
        raise InputError(where, "a name", "an empty entry", remedy[column])
    return entry


def _checked(points, values, sigma, rows, name: str, **others) -> Sensors:
    """Return the table if it has rows, all finite, with positive sigma."""
    if len(values) == 0:
        raise InputError(name, "at least one sensor", "none", "add one row per sensor")
    columns = dict(zip("xyz", points.T, strict=False)) | {"value": values}
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
    if sigma is not None and (sigma < 1.0 / MAX_SIZE).any():
        bad = np.flatnonzero(sigma < 1.0 / MAX_SIZE)[0]
        raise InputError(
            f"{name}, row {rows[bad]}, column sigma",
            "a positive standard deviation",
            f"{sigma[bad]:g}",
            "give the accuracy of the sensor, or remove the column and give one scale for all",
        )
    return Sensors(points, values, sigma, rows, name, **others)


def locate(
    mesh: Mesh, sensors: Sensors, outside: Literal["error", "project", "drop"] = "error"
) -> Observation:
    """Find the cell and the basis function values of each sensor.

    Parameters
    ----------
    mesh : Mesh
    sensors : Sensors
    outside : {"error", "project", "drop"}
        What to do with sensors further outside than 1e-9 of the mesh's diameter: refuse, observe
        at the closest point of the mesh, or leave out.

    Returns
    -------
    Observation

    Raises
    ------
    InputError
        If a sensor is outside and `outside` is "error" (its row and distance are named), or all
        sensors are dropped.
    """
    if outside not in ("error", "project", "drop"):
        raise InputError(
            "outside", "'error', 'project' or 'drop'", repr(outside), "choose one of the three"
        )
    if sensors.points.shape[1] != mesh.dim:
        raise InputError(
            sensors.name,
            f"{mesh.dim} coordinates for the {mesh.dim}-dimensional mesh {mesh.name!r}",
            f"{sensors.points.shape[1]}",
            "give x,y for a flat mesh and x,y,z for a body",
        )
    found = _locate(mesh, sensors, outside)
    if not found.kept.size:
        _raise_all_dropped(mesh, sensors, found.distances)
    return found


def _locate(mesh: Mesh, sensors: Sensors, outside: str) -> Observation:
    """The same, perhaps without any that are kept."""
    cell, weights = mesh.find_cells(sensors.points)
    nodes = mesh.cells[cell]
    distances = np.zeros(len(cell))
    is_outside = cell < 0
    if is_outside.any():
        away = np.flatnonzero(is_outside)
        facet, on_facet, distances[away] = find_closest_facet(
            mesh.points[mesh.boundary_facets], sensors.points[away]
        )
        if outside == "error":
            closest = (on_facet[0, :, None] * mesh.points[mesh.boundary_facets[facet[0]]]).sum(0)
            _raise_outside(mesh, sensors, away, distances, closest)
        # A point on a facet has the weights of the facet's nodes and 0 at the cell's other node.
        nodes[away] = mesh.cells[mesh.boundary_cells[facet]]
        is_same = nodes[away][:, :, None] == mesh.boundary_facets[facet][:, None, :]
        weights[away] = (is_same * on_facet[:, None, :]).sum(axis=2)
    is_kept = ~is_outside if outside == "drop" else np.ones(len(cell), dtype=bool)
    if sensors.minus is not None:
        has_second = np.flatnonzero(~np.isnan(sensors.minus[:, 0]))
        seconds = replace(sensors, points=sensors.minus, minus=None).take(has_second)
        found = _locate(mesh, seconds, outside)
        distances[has_second] = np.maximum(distances[has_second], found.distances)
        both = has_second[found.kept]
        is_kept[np.setdiff1d(has_second, both)] = False
        nodes, weights = np.tile(nodes, 2), np.concatenate([weights, 0.0 * weights], axis=1)
        nodes[both, mesh.dim + 1 :], weights[both, mesh.dim + 1 :] = found.nodes, -found.weights
    kept = np.flatnonzero(is_kept)
    return Observation(nodes[kept], weights[kept], kept, distances)


def _raise_outside(mesh, sensors, away, distances, closest):
    first = away[0]
    rows = sensors.rows[away]
    others = f"; rows outside: {listing(rows, 8)}" if len(away) > 1 else ""
    if len(away) == len(sensors.values):
        box = f"{place(mesh.points.min(axis=0))} to {place(mesh.points.max(axis=0))}"
        remedy = f"all rows are outside: check the units, the mesh spans {box}"
    else:
        remedy = 'correct it, or choose outside = "project" or "drop"'
    raise InputError(
        f"{sensors.name}, row {rows[0]}",
        f"a sensor inside the mesh {mesh.name!r}",
        f"{place(sensors.points[first])}, which is {distances[first]:.6g} outside "
        f"(closest point {place(closest)}){others}",
        remedy,
    )


def _raise_all_dropped(mesh, sensors, distances):
    box = f"{place(mesh.points.min(axis=0))} to {place(mesh.points.max(axis=0))}"
    raise InputError(
        sensors.name,
        f"at least one sensor inside the mesh {mesh.name!r}",
        f"all {len(distances)} outside, the closest by {distances.min():.6g}",
        f"check the units: the mesh spans {box}",
    )
