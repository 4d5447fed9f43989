"""The solution at a place, and the difference of two places."""

from __future__ import annotations

import numpy as np

from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.base import SOLUTION, Kind, Located, Places, Weights, find_places
from invlift.fem.readings.sensors import Sensors


def _weights(mesh: Mesh, found: Places) -> Weights:
    return Weights(mesh.cells[found.cells], found.shapes)


def _locate_points(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    found = find_places(mesh, sensors, sensors.points, outside)
    parts = {SOLUTION: _weights(mesh, found)}
    return Located(parts, sensors.points, found.distances, found.is_kept)


def _locate_differences(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    first = find_places(mesh, sensors, sensors.points, outside)
    second = find_places(mesh, sensors, sensors.minus, outside, "2")
    places, weights = map(
        np.hstack, zip(*(_weights(mesh, x) for x in (first, second)), strict=True)
    )
    weights[:, mesh.dim + 1 :] *= -1.0
    return Located(
        {SOLUTION: Weights(places, weights)},
        sensors.points,
        np.maximum(first.distances, second.distances),
        first.is_kept & second.is_kept,
    )


#: The finite element solution at the sensor's own place, not that of the nearest node.
POINT = Kind(_locate_points)
#: The solution at the first place less that at the second.
DIFFERENCE = Kind(_locate_differences, ("x2",))
