"""Readings of the solution's mean over a group of the mesh, or over a disc or ball."""

from __future__ import annotations

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh.functionals import rows_of
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.base import (
    SOLUTION,
    Kind,
    Located,
    Weights,
    at_row,
    find_places,
    scattered,
    shown_at,
)
from invlift.fem.readings.sensors import Sensors

#: Numbers of quadrature points of a disc or ball: radii, azimuth angles and, in 3-D, polar angles.
NUM_RADII, NUM_AROUND, NUM_UP = 6, 24, 8
#: Number of Halton points in the box around the body's part of a disc or ball that is partly
#: outside.  Means over halves, corners, and layers of a tenth of the radius have errors up to 2 %.
NUM_SPREAD = 2**13


def _locate(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    size = len(sensors.values)
    is_round = ~np.isnan(sensors.radius)
    for row in range(size):
        if is_round[row] == bool(sensors.over[row]):
            found = "both" if is_round[row] else "neither"
            expected, remedy = "a group in the column over, or a radius", "give one of the two"
            raise InputError(at_row(sensors, row, "over"), expected, found, remedy)
        if is_round[row] and not sensors.radius[row] > 0.0:
            found, remedy = f"{sensors.radius[row]:g}", "give it in the unit of the mesh"
            raise InputError(at_row(sensors, row, "radius"), "a positive number", found, remedy)
    parts, points = [], np.array(sensors.points)
    for row in np.flatnonzero(~is_round):
        group, where = str(sensors.over[row]), at_row(sensors, row, "over")
        matrix = mesh.mean_over(group, "node", where)
        if mesh.sides and mesh.is_on_sides(mesh.middles_of(group)[0]).any():
            remedy = "name a group at one of its sides"
            raise InputError(where, "a group beside the barrier", "one on it", remedy)
        parts.append((np.array([row]), _weights_of(matrix)))
        points[row] = matrix @ mesh.points
    rows = np.flatnonzero(is_round)
    distances, is_kept = np.zeros(size), np.ones(size, dtype=bool)
    if rows.size:
        found = find_places(mesh, sensors.take(rows), sensors.points[rows], outside)
        distances[rows], is_kept[rows] = found.distances, found.is_kept
        corners = mesh.points[mesh.cells[found.cells]]
        middles = np.einsum("kc,kcd->kd", found.shapes, corners)
        parts += [
            (np.array([row]), _weights_of(_mean_round(mesh, middle, sensors.radius[row])))
            for row, middle in zip(rows, middles, strict=True)
        ]
    whole = {SOLUTION: scattered(parts, size)}
    return Located(whole, shown_at(sensors, points), distances, is_kept)


def _mean_round(mesh: Mesh, middle: np.ndarray, radius: float):
    """Return the mean over the part of a disc or ball in the body, as a matrix (1, num_nodes)."""
    offsets, weights = _points_of_ball(mesh.dim)
    cells, shapes = mesh.find_cells(middle + radius * offsets)
    if (cells < 0).any():
        cells, shapes = mesh.find_cells(_spread_in_ball(mesh, middle, radius))
        weights = np.ones(len(cells))
    inside = cells >= 0
    weights = weights[inside] / weights[inside].sum()
    shares = weights[:, None] * shapes[inside]
    return rows_of(mesh.cells[cells[inside]].reshape(1, -1), shares.reshape(1, -1), mesh.num_nodes)


def _points_of_ball(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points, (k, dim), and weights, (k,), of the mean over the unit disc or ball.

    Gauss points in the radius and in the polar direction, and equal azimuth steps.  In 2-D the rule
    is exact for polynomials of degree 9 and more.
    """
    ticks, sizes = np.polynomial.legendre.leggauss(NUM_RADII)
    radii = 0.5 + 0.5 * ticks
    sizes = sizes * radii ** (dim - 1)
    turns = 2.0 * np.pi * (np.arange(NUM_AROUND) + 0.5) / NUM_AROUND
    around = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    shares = np.ones(NUM_AROUND)
    if dim == 3:
        heights, shares = np.polynomial.legendre.leggauss(NUM_UP)
        flat = np.sqrt(1.0 - heights**2)[:, None, None] * around
        up = np.broadcast_to(heights[:, None, None], (*flat.shape[:2], 1))
        around = np.concatenate([flat, up], axis=2).reshape(-1, 3)
        shares = np.repeat(shares, NUM_AROUND)
    points = (radii[:, None, None] * around).reshape(-1, dim)
    weights = np.outer(sizes, shares).ravel()
    return points, weights / weights.sum()


def _spread_in_ball(mesh: Mesh, middle: np.ndarray, radius: float) -> np.ndarray:
    """Return the middle and many evenly spread points, (k, dim), for a disc or ball partly outside.

    They are within the extent of the body, so that many of a radius far above it are inside too.
    """
    from scipy.stats.qmc import Halton  # a second of import, that most commands do not need

    low = np.maximum(middle - radius, mesh.points.min(axis=0))
    high = np.minimum(middle + radius, mesh.points.max(axis=0))
    points = low + (high - low) * Halton(mesh.dim, scramble=False).random(NUM_SPREAD)
    is_near = np.sum((points - middle) ** 2, axis=1) <= radius**2
    return np.concatenate([middle[None], points[is_near]])


def _weights_of(matrix) -> Weights:
    """Return the weights in the only row of a matrix, (1, num_nodes)."""
    row = matrix.toarray()[0]
    nodes = np.flatnonzero(row)
    return Weights(nodes[None], row[None, nodes])


AVERAGE = Kind(_locate, ("over", "radius"))
