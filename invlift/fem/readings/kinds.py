"""Kinds of readings by name, and all of them but means over a part of the body."""

from __future__ import annotations

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh import functionals
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.readings.average import AVERAGE
from invlift.fem.readings.base import (
    FIELD,
    FLUXES,
    SOLUTION,
    Kind,
    Located,
    Places,
    Weights,
    at_halved,
    at_row,
    find_places,
    shown_at,
)
from invlift.fem.readings.sensors import Sensors


def _check_beside_cuts(mesh: Mesh, sensors: Sensors, points: np.ndarray) -> None:
    if mesh.sides and (is_on := mesh.is_on_sides(points)).any():
        where = at_row(sensors, int(np.flatnonzero(is_on)[0]), "x")
        remedy = "move the place to one of its sides"
        raise InputError(where, "a place beside the barrier", "one on it", remedy)


def _weights(mesh: Mesh, sensors: Sensors, points: np.ndarray, places: Places) -> Weights:
    _check_beside_cuts(mesh, sensors, points)
    return Weights(mesh.cells[places.cells], places.shapes)


def _weights_at_halved(
    refinement: Refinement, sensors: Sensors, points: np.ndarray, suffix: str = ""
) -> Weights:
    _check_beside_cuts(refinement.mesh, sensors, points)
    return at_halved(refinement, find_places(refinement.halved, sensors, points, "project", suffix))


def _locate_points(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    places = find_places(mesh, sensors, sensors.points, outside)
    parts = {SOLUTION: _weights(mesh, sensors, sensors.points, places)}
    return Located(parts, sensors.points, places.distances, places.is_kept)


def _points_at_halved(refinement: Refinement, sensors: Sensors) -> dict[str, Weights]:
    return {SOLUTION: _weights_at_halved(refinement, sensors, sensors.points)}


def _locate_differences(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    first = find_places(mesh, sensors, sensors.points, outside)
    second = find_places(mesh, sensors, sensors.minus, outside, "2")
    weights = _difference(
        _weights(mesh, sensors, sensors.points, first),
        _weights(mesh, sensors, sensors.minus, second),
    )
    return Located(
        {SOLUTION: weights},
        sensors.points,
        np.maximum(first.distances, second.distances),
        first.is_kept & second.is_kept,
    )


def _differences_at_halved(refinement: Refinement, sensors: Sensors) -> dict[str, Weights]:
    first = _weights_at_halved(refinement, sensors, sensors.points)
    second = _weights_at_halved(refinement, sensors, sensors.minus, "2")
    return {SOLUTION: _difference(first, second)}


def _difference(first: Weights, second: Weights) -> Weights:
    places = np.hstack([first.places, second.places])
    return Weights(places, np.hstack([first.weights, -second.weights]))


#: The finite element solution at the position of the sensor, not at the nearest node.
POINT = Kind(_locate_points, halved=_points_at_halved)
#: The solution at the first point minus the solution at the second point.
DIFFERENCE = Kind(_locate_differences, ("x2",), _differences_at_halved)


def _locate_logarithms(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    places = find_places(mesh, sensors, sensors.points, outside)
    corners = places.cells[:, None] * (mesh.dim + 1) + np.arange(mesh.dim + 1)
    parts = {FIELD: Weights(corners, places.shapes)}
    return Located(parts, sensors.points, places.distances, places.is_kept)


LOG_CONDUCTIVITY = Kind(_locate_logarithms)


def _locate_fluxes(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    middles = []
    for row, group in enumerate(sensors.over.tolist()):
        where = at_row(sensors, row, "over")
        if not group:
            expected, remedy = "a boundary group", "name the one that the flux goes through"
            raise InputError(where, expected, "an empty entry", remedy)
        corners = mesh.points[mesh.facets(group, where)]
        sizes = functionals.facet_sizes(corners)
        middles.append(sizes @ corners.mean(axis=1) / sizes.sum())
    size = len(sensors.values)
    parts = {FLUXES: Weights(sensors.over[:, None], np.ones((size, 1)))}
    points = shown_at(sensors, np.array(middles))
    return Located(parts, points, np.zeros(size), np.ones(size, dtype=bool))


FLUX = Kind(_locate_fluxes, ("over",))


#: Kinds of readings by their name in the column ``kind`` of the sensor table; read whenever
#: readings are located.
KINDS: dict[str, Kind] = {
    "point": POINT,
    "difference": DIFFERENCE,
    "average": AVERAGE,
    "flux": FLUX,
    "log_conductivity": LOG_CONDUCTIVITY,
}
