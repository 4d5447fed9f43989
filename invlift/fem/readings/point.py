"""Readings of the solution at a point, and of its difference between two points."""

from __future__ import annotations

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.base import (
    SOLUTION,
    Kind,
    Located,
    Places,
    Weights,
    at_row,
    find_places,
)
from invlift.fem.readings.sensors import Sensors


def _weights(mesh: Mesh, sensors: Sensors, points: np.ndarray, places: Places) -> Weights:
    if mesh.sides and (is_on := mesh.is_on_sides(points)).any():
        where = at_row(sensors, int(np.flatnonzero(is_on)[0]), "x")
        remedy = "move the place to one of its sides"
        raise InputError(where, "a place beside the barrier", "one on it", remedy)
    return Weights(mesh.cells[places.cells], places.shapes)


def _locate_points(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    places = find_places(mesh, sensors, sensors.points, outside)
    parts = {SOLUTION: _weights(mesh, sensors, sensors.points, places)}
    return Located(parts, sensors.points, places.distances, places.is_kept)


def _locate_differences(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    first = find_places(mesh, sensors, sensors.points, outside)
    second = find_places(mesh, sensors, sensors.minus, outside, "2")
    pairs = (sensors.points, first), (sensors.minus, second)
    places, weights = map(
        np.hstack, zip(*(_weights(mesh, sensors, *each) for each in pairs), strict=True)
    )
    weights[:, mesh.dim + 1 :] *= -1.0
    return Located(
        {SOLUTION: Weights(places, weights)},
        sensors.points,
        np.maximum(first.distances, second.distances),
        first.is_kept & second.is_kept,
    )


#: The finite element solution at the position of the sensor, not at the nearest node.
POINT = Kind(_locate_points)
#: The solution at the first point minus the solution at the second point.
DIFFERENCE = Kind(_locate_differences, ("x2",))
