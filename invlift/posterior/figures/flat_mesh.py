"""Meshes as they are drawn: triangles in a plane, of a body in space of a slice, and pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from matplotlib.tri import Triangulation

AXIS_NAMES = "xyz"

# A plane leaves a tetrahedron's corners, sorted by signed distance, on two sides: 1 + 3, 2 + 2 or
# 3 + 1. For each, the edges it cuts, in cyclic order, as pairs of sorted corners.
CUT_EDGES = {
    1: ((0, 1), (0, 2), (0, 3)),
    2: ((0, 2), (0, 3), (1, 3), (1, 2)),
    3: ((3, 0), (3, 1), (3, 2)),
}
#: Pixels along the longer side of what is drawn.
NUM_PIXELS = 800
#: Distance in pixels within which a middle counts as inside, and rows looked at at once.
_CLOSE, _AT_ONCE = 1e-9, 2**20


class Pixels(NamedTuple):
    """A rectangle in pixels, the lowest row first, and in which triangles their middles are."""

    ends: np.ndarray  # (2, 2), the lower left and the upper right corner
    triangle: np.ndarray  # (rows, columns) of int, -1 where there is none
    shares: np.ndarray  # (rows, columns, 3), barycentric coordinates there


def pixels_of(corners: np.ndarray, low: np.ndarray, high: np.ndarray, shape: np.ndarray) -> Pixels:
    """Find triangles, (m, 3, 2), at the middles of shape[0] columns and shape[1] rows of pixels."""
    size = (high - low) / shape
    triangle, shares = np.full(shape[::-1], -1), np.zeros((*shape[::-1], 3))
    in_pixels = (corners - low) / size - 0.5  # the middle of the first pixel is at 0
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
    """The first and the last of the numbers 0 ... num - 1 between two; the last is less if none."""
    first = np.ceil(np.clip(low - _CLOSE, 0.0, num)).astype(int)
    return first, np.floor(np.clip(high + _CLOSE, -1.0, num - 1.0)).astype(int)


def _crossed(corners: np.ndarray, row: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last pixel of each row, (k,), in triangles, (k, 3, 2), of num in a row."""
    starts, ends = corners, np.roll(corners, -1, axis=1)
    rise = ends[:, :, 1] - starts[:, :, 1]
    is_level = rise == 0.0
    share = (row[:, None] - starts[:, :, 1]) / np.where(is_level, 1.0, rise)
    is_crossed = (share >= -_CLOSE) & (share <= 1.0 + _CLOSE) & ~is_level
    at = starts[:, :, 0] + share * (ends[:, :, 0] - starts[:, :, 0])
    left = np.where(is_crossed, at, np.inf).min(axis=1)
    return _between(left, np.where(is_crossed, at, -np.inf).max(axis=1), num)


def _expanded(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All numbers from the first to the last of each range, and which range each is of."""
    num = np.maximum(last - first + 1, 0)
    owner = np.repeat(np.arange(len(num)), num)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(num) - num - first, num)


def _cross(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]


@dataclass(frozen=True, eq=False)
class FlatMesh:
    """Triangles in a plane, and how to read fields of the original mesh on them."""

    points: np.ndarray  # (k, 2), in the length unit of the mesh
    triangles: np.ndarray  # (m, 3) of int
    nodes: np.ndarray  # (k, 2) of int, the nodes of the original mesh between which a point lies
    weights: np.ndarray  # (k,), the share of the first of them
    cells: np.ndarray  # (m,) of int, the original cell of each triangle
    axes: tuple[int, int]  # which coordinates of space run along the two axes of the plane
    place: str  # of the plane, in words; empty if the mesh is itself flat
    view: np.ndarray | None = None  # (2, 2), corners of what is drawn; without it all is

    def shown(self, values: np.ndarray, is_nodal: bool) -> np.ndarray:
        """A field at the nodes, interpolated linearly, (k,), or in the cells, (m,), as seen."""
        values = np.asarray(values, dtype=float)
        if not is_nodal:
            return values[self.cells]
        first, second = values[self.nodes[:, 0]], values[self.nodes[:, 1]]
        return self.weights * first + (1 - self.weights) * second

    @cached_property
    def triangulation(self) -> Triangulation:
        """The triangles as matplotlib draws them."""
        return Triangulation(*self.points.T, self.triangles)

    @cached_property
    def pixels(self) -> Pixels:
        """What is drawn as pixels, :data:`NUM_PIXELS` along its longer side."""
        corners = self.points[self.triangles]
        low, high = (self.points.min(axis=0), self.points.max(axis=0))
        low, high = (low, high) if self.view is None else self.view
        size = (high - low).max() / NUM_PIXELS
        shape = np.maximum(np.rint((high - low) / size), 1).astype(int)
        return pixels_of(corners, low, low + size * shape, shape)

    def on_pixels(self, shown: np.ndarray, is_nodal: bool) -> np.ndarray:
        """What :meth:`shown` gives at the middles of :attr:`pixels`, (rows, columns).

        Linear between nodes; NaN outside the body, and in triangles that have a corner without a
        value.
        """
        triangle, shares = self.pixels.triangle, self.pixels.shares
        if is_nodal:
            values = np.einsum("pqi,pqi->pq", shares, shown[self.triangles[triangle]])
        else:
            values = shown[triangle]
        return np.where(triangle < 0, np.nan, values)

    def around(self, places: np.ndarray) -> FlatMesh:
        """The part round places (d, 2), if a mesh goes on for more than twice its width and height.

        Half the extent of the places is shown on all sides.
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
        """(e, 2, 2) end points of the edges that belong to one triangle only."""
        edges = np.sort(self.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        edges, count = np.unique(edges, axis=0, return_counts=True)
        return self.points[edges[count == 1]]


def flatten(points: np.ndarray, cells: np.ndarray, near: np.ndarray | None = None) -> FlatMesh:
    """Show points (num_nodes, dim) and cells in a plane: the part round places ``near``, (d, dim).

    In space it is the plane across the shortest side of the bounding box through the middle of the
    cell that is nearest to the box's own: it cuts something, whatever the shape of the body, and
    passes through hardly a node.
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
