"""Readings of the natural logarithm of the conductivity at a point: a core, or a well test."""

from __future__ import annotations

import numpy as np

from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.base import FIELD, Kind, Located, Weights, find_places
from invlift.fem.readings.sensors import Sensors


def _locate(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    places = find_places(mesh, sensors, sensors.points, outside)
    corners = places.cells[:, None] * (mesh.dim + 1) + np.arange(mesh.dim + 1)
    parts = {FIELD: Weights(corners, places.shapes)}
    return Located(parts, sensors.points, places.distances, places.is_kept)


LOG_CONDUCTIVITY = Kind(_locate)
