"""Plane meshes and pixels for figures; a mesh in 3D is represented by a slice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from matplotlib.tri import Triangulation

AXIS_NAMES = "xyz"

# A plane separates the corners of a tetrahedron, sorted by signed distance, into 1 + 3, 2 + 2 or
# 3 + 1. For each case: the cut edges, in cyclic order, as pairs of sorted corners.
CUT_EDGES = {
    1: ((0, 1), (0, 2), (0, 3)),
    2: ((0, 2), (0, 3), (1, 3), (1, 2)),
    3: ((3, 0), (3, 1), (3, 2)),
}
#: Number of pixels along the longer side of a figure.
NUM_PIXELS = 800
#: Tolerance in pixels for a pixel centre inside a triangle, and number of rows in one block.
_CLOSE, _AT_ONCE = 1e-9, 2**20


class Pixels(NamedTuple):
    """A rectangle of pixels, the lowest row first, with the triangles at the pixel centres."""

    ends: np.ndarray  # (2, 2), the lower left and the upper right corner
    triangle: np.ndarray  # (rows, columns) of int, -1 without a triangle
    shares: np.ndarray  # (rows, columns, 3), barycentric coordinates there


def pixels_of(corners: np.ndarray, low: np.ndarray, high: np.ndarray, shape: np.ndarray) -> Pixels:
    """Find triangles, (m, 3, 2), at the centres of shape[0] columns, shape[1] rows of pixels."""
    size = (high - low) / shape
    triangle, shares = np.full(shape[::-1], -1), np.zeros((*shape[::-1], 3))
    in_pixels = (corners - low) / size - 0.5  # the centre of the first pixel is at 0
    first, last = _between(*_ends(in_pixels[:, :, 1]), shape[1])
    num_parts = 1 + int(np.maximum(last - first + 1, 0).sum()) // _AT_ONCE
    for part in np.array_split(np.arange(len(corners)), num_parts):
        of_row, row = _expanded(first[part], last[part])
        owner = part[of_row]
        of_pixel, column = _expanded(*_crossed(in_pixels[owner], row, shape[0]))
        owner, row = owner[of_pixel], row[of_pixel]
        origin = in_pixels[owner, 0]
        along, across = (in_pixels[owner, k] - origin for k in (1, 2))
        place, area = np.stack([column, row], axis=1) - origin, _cross(along, across)
        is_flat = area == 0.0
        area = np.where(is_flat, 1.0, area)
        weights = np.stack([_cross(place, across) / area, _cross(along, place) / area], axis=1)
        weights = np.concatenate([1.0 - weights.sum(axis=1, keepdims=True), weights], axis=1)
        at = row[~is_flat], column[~is_flat]
        triangle[at], shares[at] = owner[~is_flat], weights[~is_flat].clip(0.0, 1.0)
    return Pixels(np.stack([low, high]), triangle, shares)


def _ends(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values.min(axis=1), values.max(axis=1)


def _between(low: np.ndarray, high: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last integer of 0 ... num - 1 in an interval; last < first if none."""
    first = np.ceil(np.clip(low - _CLOSE, 0.0, num)).astype(int)
    return first, np.floor(np.clip(high + _CLOSE, -1.0, num - 1.0)).astype(int)


def _crossed(corners: np.ndarray, row: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last pixel of each row, (k,), in triangles, (k, 3, 2), of `num` columns."""
    starts, ends = corners, np.roll(corners, -1, axis=1)
    rise = ends[:, :, 1] - starts[:, :, 1]
    is_level = rise == 0.0
    share = (row[:, None] - starts[:, :, 1]) / np.where(is_level, 1.0, rise)
    is_crossed = (share >= -_CLOSE) & (share <= 1.0 + _CLOSE) & ~is_level
    at = starts[:, :, 0] + share * (ends[:, :, 0] - starts[:, :, 0])
    left = np.where(is_crossed, at, np.inf).min(axis=1)
    return _between(left, np.where(is_crossed, at, -np.inf).max(axis=1), num)


def _expanded(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of ranges, and all integers from first to last of each range."""
    num = np.maximum(last - first + 1, 0)
    owner = np.repeat(np.arange(len(num)), num)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(num) - num - first, num)


def _cross(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]


@dataclass(frozen=True, eq=False)
class FlatMesh:
    """Triangles in a plane, with the interpolation of fields of the original mesh."""

    points: np.ndarray  # (k, 2), in the length unit of the mesh
    triangles: np.ndarray  # (m, 3) of int
    nodes: np.ndarray  # (k, 2) of int, the nodes of the original mesh between which a point lies
    weights: np.ndarray  # (k,), the share of the first of them
    cells: np.ndarray  # (m,) of int, the original cell of each triangle
    axes: tuple[int, int]  # which coordinates of space run along the two axes of the plane
    place: str  # text for the position of the plane; empty if the mesh is in 2D
    view: np.ndarray | None = None  # (2, 2), corners of the visible part; None for all

    def shown(self, values: np.ndarray, is_nodal: bool) -> np.ndarray:
        """Return a field at the points, interpolated linearly, (k,), or in the triangles, (m,)."""
        values = np.asarray(values, dtype=float)
        if not is_nodal:
            return values[self.cells]
        first, second = values[self.nodes[:, 0]], values[self.nodes[:, 1]]
        return self.weights * first + (1 - self.weights) * second

    @cached_property
    def triangulation(self) -> Triangulation:
        """The triangulation for matplotlib."""
        return Triangulation(*self.points.T, self.triangles)

    @cached_property
    def pixels(self) -> Pixels:
        """Pixels of the visible part, :data:`NUM_PIXELS` along its longer side."""
        corners = self.points[self.triangles]
        low, high = (self.points.min(axis=0), self.points.max(axis=0))
        low, high = (low, high) if self.view is None else self.view
        size = (high - low).max() / NUM_PIXELS
        shape = np.maximum(np.rint((high - low) / size), 1).astype(int)
        return pixels_of(corners, low, low + size * shape, shape)

    def on_pixels(self, shown: np.ndarray, is_nodal: bool) -> np.ndarray:
        """Evaluate values of :meth:`shown` at the centres of :attr:`pixels`, (rows, columns).

        Linear between nodes. NaN outside the body, and in triangles with a corner without a value.
        """
        triangle, shares = self.pixels.triangle, self.pixels.shares
        if is_nodal:
            values = np.einsum("pqi,pqi->pq", shares, shown[self.triangles[triangle]])
        else:
            values = shown[triangle]
        return np.where(triangle < 0, np.nan, values)

    def around(self, places: np.ndarray) -> FlatMesh:
        """Return the part near positions (d, 2), if the mesh is more than twice as wide and high.

        The part has a margin of half the extent of the positions on all sides.
        """
        places = places[np.isfinite(places).all(axis=1)]
        if not len(places):
            return self
        margin = 0.5 * np.ptp(places, axis=0).max()
        low = np.maximum(places.min(axis=0) - margin, self.points.min(axis=0))
        high = np.minimum(places.max(axis=0) + margin, self.points.max(axis=0))
        if margin == 0.0 or np.any(2.0 * (high - low) > np.ptp(self.points, axis=0)):
            return self
        corners = self.points[self.triangles]
        is_seen = ((corners.max(axis=1) >= low) & (corners.min(axis=1) <= high)).all(axis=1)
        used, triangles = np.unique(self.triangles[is_seen], return_inverse=True)
        parts = {name: getattr(self, name)[used] for name in ("points", "nodes", "weights")}
        parts |= {"triangles": triangles.reshape(-1, 3), "cells": self.cells[is_seen]}
        return replace(self, **parts, view=np.stack([low, high]))

    def outline(self) -> np.ndarray:
        """Return the end points, (e, 2, 2), of edges that belong to only one triangle."""
        edges = np.sort(self.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        edges, count = np.unique(edges, axis=0, return_counts=True)
        return self.points[edges[count == 1]]


def flatten(points: np.ndarray, cells: np.ndarray, near: np.ndarray | None = None) -> FlatMesh:
    """Make a plane mesh of points (num_nodes, dim) and cells, near positions ``near``, (d, dim).

    In 3D the plane is normal to the shortest side of the bounding box. It goes through the centre
    of the cell nearest to the middle of the box. So it cuts a body of any shape, and contains
    hardly any node.
    """
    if near is not None:
        flat = flatten(points, cells)
        return flat.around(np.asarray(near)[:, list(flat.axes)])
    points, cells = np.asarray(points, dtype=float), np.asarray(cells)
    if points.shape[1] == 2:
        nodes = np.repeat(np.arange(len(points))[:, None], 2, axis=1)
        weights, each = np.ones(len(points)), np.arange(len(cells))
        return FlatMesh(points, cells, nodes, weights, each, (0, 1), "")
    low, high = points.min(axis=0), points.max(axis=0)
    axis = int(np.argmin(high - low))
    middles = points[cells, axis].mean(axis=1)
    position = middles[np.argmin(np.abs(middles - (low[axis] + high[axis]) / 2))]
    distance = points[:, axis] - position
    corners = np.take_along_axis(cells, np.argsort(distance[cells], axis=1), axis=1)
    num_below = (distance[corners] < 0).sum(axis=1)
    edges, owners = [], []  # (m, 3, 2) node pairs and (m,) cells of the triangles
    for below, cut in CUT_EDGES.items():
        chosen = np.flatnonzero(num_below == below)
        polygon = corners[chosen][:, np.array(cut)]
        for second in range(1, len(cut) - 1):
            edges.append(polygon[:, [0, second, second + 1]])
            owners.append(chosen)
    pairs = np.sort(np.concatenate(edges).reshape(-1, 2), axis=1)
    nodes, triangles = np.unique(pairs, axis=0, return_inverse=True)
    first, second = distance[nodes].T
    weights = second / (second - first)
    crossing = weights[:, None] * points[nodes[:, 0]] + (1 - weights)[:, None] * points[nodes[:, 1]]
    axes = tuple(other for other in range(3) if other != axis)
    shown = crossing[:, axes], triangles.reshape(-1, 3), nodes, weights, np.concatenate(owners)
    return FlatMesh(*shown, axes, f"slice {AXIS_NAMES[axis]} = {position:.4g}")
