"""Location of a sensor table on a mesh: the weighted sum of each reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.readings.base import FLUXES, SOLUTION, UNKNOWNS, Kind, Weights, at_row, scattered
from invlift.fem.readings.kinds import KINDS
from invlift.fem.readings.sensors import Sensors
from invlift.unknowns.distributions import Distribution, as_distribution


@dataclass(frozen=True, eq=False)
class Observation:
    """Observation operator: each kept reading as a weighted sum.

    Attributes
    ----------
    parts : mapping of str to Weights
        Weights by quantity, "solution", "log_conductivity", "fluxes" or "unknowns": see
        :mod:`invlift.fem.readings.base`.
    sensors : Sensors
        The table of the kept readings; its points are the positions at which they are shown.
    kept : (num_kept,) array of int
        Indices of the kept readings in the sensor table; all indices unless sensors were dropped.
    distances : (num_sensors,) array
        Distance outside the mesh of each sensor in the whole table, in length units; 0 inside.
    unknowns : mapping of str to Distribution
        Further unknowns in the readings, such as offsets of loggers.
    mesh : Mesh or None
        The mesh on which the readings were located.
    """

    parts: Mapping[str, Weights]
    sensors: Sensors
    kept: np.ndarray
    distances: np.ndarray
    unknowns: Mapping[str, Distribution] = field(default_factory=dict)
    mesh: Mesh | None = None

    @property
    def points(self) -> np.ndarray:
        """Positions at which the readings are shown, (num_kept, dim)."""
        return self.sensors.points

    @property
    def nodes(self) -> np.ndarray:
        """Nodes in the weighted sum of the solution of each reading, (num_kept, c)."""
        return self._of_solution.places

    @property
    def weights(self) -> np.ndarray:
        """Weights of the nodes, (num_kept, c); at a point, basis functions with the sum 1."""
        return self._of_solution.weights

    @property
    def _of_solution(self) -> Weights:
        nothing = Weights(np.zeros((len(self.kept), 1), dtype=int), np.zeros((len(self.kept), 1)))
        return self.parts.get(SOLUTION, nothing)

    @property
    def is_of_solution(self) -> np.ndarray:
        """Mask of the readings that depend on the solution of an experiment, (num_kept,)."""
        parts = [self.parts[name].weights for name in (SOLUTION, FLUXES) if name in self.parts]
        nothing = np.zeros((len(self.kept), 1))
        return np.hstack([nothing, *parts]).any(axis=1)

    def take(self, chosen: np.ndarray) -> Observation:
        """Return the readings with the indices `chosen` among the kept ones."""
        parts = {name: Weights(*(each[chosen] for each in part))
                 for name, part in self.parts.items()}  # fmt: skip
        return replace(self, parts=parts, sensors=self.sensors.take(chosen), kept=self.kept[chosen])


def locate(
    mesh: Mesh,
    sensors: Sensors,
    outside: Literal["error", "project", "drop"] = "error",
    *,
    offsets: Mapping[str, Distribution] | None = None,
) -> Observation:
    """Locate the readings of a sensor table on a mesh.

    Parameters
    ----------
    mesh : Mesh
    sensors : Sensors
    outside : {"error", "project", "drop"}
        Treatment of sensors outside the mesh by more than 1e-9 of its diameter: raise an error,
        read at the closest point of the mesh, or leave out.
    offsets : mapping of str to Distribution, optional
        Groups of the table whose readings have a common unknown offset, with its distribution, in
        the unit of the readings: a logger with an offset, or the datum of heads.  The unknown is
        named ``offset_GROUP``.

    Returns
    -------
    Observation

    Raises
    ------
    InputError
        If a row does not fit its kind; if a sensor is outside and `outside` is "error" (the message
        names its row and distance); if all sensors are dropped; or if a group does not exist.

    Examples
    --------
    >>> mesh = invlift.read_mesh("meshes/disc.msh")
    >>> observation = invlift.locate(mesh, invlift.read_sensors("examples/disc/sensors.csv", 2))
    >>> observation.weights.shape  # sensors, corners of a triangle
    (10, 3)
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
    size = len(sensors.values)
    points, distances = np.array(sensors.points), np.zeros(size)
    is_kept, parts = np.zeros(size, dtype=bool), {}
    for rows, kind, some in _by_kind(sensors):
        located = kind.locate(mesh, some, outside)
        points[rows], distances[rows], is_kept[rows] = located[1:]
        for name, part in located.parts.items():
            parts.setdefault(name, []).append((rows, part))
    if offsets:
        parts[UNKNOWNS] = [_offsets(sensors, offsets)]
    if not is_kept.any():
        raise InputError(
            sensors.name,
            f"at least one sensor inside the mesh {mesh.name!r}",
            f"all {len(distances)} outside, the closest by {distances.min():.6g}",
            f"check the units: the mesh spans {mesh.extent}",
        )
    unknowns = {
        offset_name(group): as_distribution(part) for group, part in (offsets or {}).items()
    }
    whole = {name: scattered(part, size) for name, part in parts.items()}
    note = ""
    if num := np.count_nonzero(distances):
        fate = "moved onto the mesh" if is_kept.all() else "left out"
        note = f"{num} outside the mesh by up to {distances.max():.3g}, {fate}"
    shown = replace(sensors, points=points, outside=note)
    every = Observation(whole, shown, np.arange(size), distances, unknowns, mesh)
    return every.take(np.flatnonzero(is_kept))


def weights_on(refinement: Refinement, sensors: Sensors) -> dict[str, Weights]:
    """Return the weights of the d readings of a table on a refined mesh, by quantity.

    Points outside the mesh are read at the closest point.  On a mesh that was halved, readings at
    points are those of :func:`~invlift.fem.readings.base.at_halved`.

    Raises
    ------
    InputError
        As :func:`locate`.
    """
    parts = {}
    for rows, kind, some in _by_kind(sensors):
        if refinement.halved is None or kind.halved is None:
            found = kind.locate(refinement.mesh, some, "project").parts
        else:
            found = kind.halved(refinement, some)
        for quantity, part in found.items():
            parts.setdefault(quantity, []).append((rows, part))
    size = len(sensors.values)
    return {quantity: scattered(part, size) for quantity, part in parts.items()}


def _by_kind(sensors: Sensors) -> Iterator[tuple[np.ndarray, Kind, Sensors]]:
    """Yield the rows of each kind in a table, the kind, and the table of these rows."""
    sensors = _with_all_columns(sensors)
    kinds = _kinds(sensors)
    for name in dict.fromkeys(kinds.tolist()):
        rows = np.flatnonzero(kinds == name)
        yield rows, KINDS[name], sensors.take(rows)


def _with_all_columns(sensors: Sensors) -> Sensors:
    """Add empty columns for the columns of all kinds that the table lacks."""
    size, dim = sensors.points.shape
    empty = {
        "minus": np.full((size, dim), np.nan),
        "over": np.full(size, ""),
        "radius": np.full(size, np.nan),
    }
    missing = {name: column for name, column in empty.items() if getattr(sensors, name) is None}
    return replace(sensors, **missing)


def _kinds(sensors: Sensors) -> np.ndarray:
    """Return the kind of each reading, (d,), and check kinds and their columns."""
    filled = {
        "x2": ~np.isnan(sensors.minus[:, 0]),
        "over": sensors.over != "",
        "radius": ~np.isnan(sensors.radius),
    }
    kinds = sensors.kinds
    if kinds is None:
        kinds = np.where(filled["x2"], "difference", "point")
    for row, kind in enumerate(kinds.tolist()):
        if kind not in KINDS:
            remedy = "choose one, or rename the column if it means something else"
            where, expected = at_row(sensors, row, "kind"), f"one of {', '.join(KINDS)}"
            raise InputError(where, expected, repr(kind), remedy)
        for column, is_filled in filled.items():
            if is_filled[row] and column not in KINDS[kind].columns:
                takes = [name for name, each in KINDS.items() if column in each.columns]
                raise InputError(
                    at_row(sensors, row, column),
                    f"an empty entry, as the reading is of kind {kind}",
                    "one that is not",
                    f"leave it empty, or correct the kind ({' and '.join(takes)} have it)",
                )
    return kinds


def offset_name(group: str) -> str:
    """Return the name of the unknown offset of a group."""
    return f"offset_{group}"


def rows_with_offset(sensors: Sensors, offsets: Iterable[str]) -> np.ndarray:
    """Return the rows of groups with an offset, (k,).

    Raises
    ------
    InputError
        If a group does not exist.
    """
    groups = np.array([]) if sensors.groups is None else sensors.groups
    for group in offsets:
        if group not in groups:
            expected = f"groups of the column group of {sensors.name}"
            found = ", ".join(filter(None, np.unique(groups))) or "no such column"
            remedy = f"name one of these, or write {group} into rows"
            raise InputError(("offset", group), expected, found, remedy)
    return np.flatnonzero(np.isin(groups, list(offsets)))


def _offsets(sensors: Sensors, offsets: Mapping[str, Distribution]) -> tuple[np.ndarray, Weights]:
    """Return the rows with an offset, and the weights of the offsets."""
    rows = rows_with_offset(sensors, offsets)
    names = np.array([offset_name(group) for group in sensors.groups[rows]])
    return rows, Weights(names[:, None], np.ones((rows.size, 1)))
