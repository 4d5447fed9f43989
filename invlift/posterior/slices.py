"""Flat pieces of a mesh for a page: all of it in the plane, a slice through it in space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from matplotlib.tri import Triangulation

from invlift.errors import InputError

AXIS_NAMES = "xyz"

# Where a plane passes a node by less than this share of its shortest edge it is taken to meet the
# node: the triangles that it would cut off are so thin that they cannot be drawn.
SNAP = 0.05
# A plane leaves a tetrahedron's corners, sorted by signed distance, on two sides: 1 + 3, 2 + 2 or
# 3 + 1. For each, the edges it cuts, in cyclic order, as pairs of sorted corners.
CUT_EDGES = {
    1: ((0, 1), (0, 2), (0, 3)),
    2: ((0, 2), (0, 3), (1, 3), (1, 2)),
    3: ((3, 0), (3, 1), (3, 2)),
}


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

    def triangulation_of(self, shown: np.ndarray) -> Triangulation:
        """Those without a corner at which a field has no value."""
        is_missing = np.isnan(shown[self.triangles]).any(axis=1)
        if not is_missing.any():
            return self.triangulation
        return Triangulation(*self.points.T, self.triangles, mask=is_missing)

    def outline(self) -> np.ndarray:
        """(e, 2, 2) end points of the edges that belong to one triangle only."""
        edges = np.sort(self.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        edges, count = np.unique(edges, axis=0, return_counts=True)
        return self.points[edges[count == 1]]


def flatten(points: np.ndarray, cells: np.ndarray) -> FlatMesh:
    """Show points (num_nodes, dim) and cells in a plane: all, or the middle slice of a body."""
    points, cells = np.asarray(points, dtype=float), np.asarray(cells)
    if points.shape[1] == 2:
        nodes = np.repeat(np.arange(len(points))[:, None], 2, axis=1)
        weights, each = np.ones(len(points)), np.arange(len(cells))
        return FlatMesh(points, cells, nodes, weights, each, (0, 1), "")
    low, high = points.min(axis=0), points.max(axis=0)
    axis = int(np.argmin(high - low))
    return slice_tetrahedra(points, cells, axis, float(low[axis] + high[axis]) / 2)


def slice_tetrahedra(points: np.ndarray, cells: np.ndarray, axis: int, position: float) -> FlatMesh:
    """Cut tetrahedra with a plane across a coordinate axis, 0, 1 or 2, into conforming triangles.

    Where the plane passes close to a node, the cut goes through it.

    An InputError if the plane misses the mesh.
    """
    distance = points[:, axis] - position
    distance[np.abs(distance) < SNAP * _shortest_edges(points, cells)] = 0.0
    order = np.argsort(distance[cells], axis=1)
    corners = np.take_along_axis(cells, order, axis=1)
    num_below = (distance[corners] < 0).sum(axis=1)

    edges, owners = [], []  # (m, 3, 2) node pairs and (m,) cells of the triangles
    for below, cut in CUT_EDGES.items():
        chosen = np.flatnonzero(num_below == below)
        polygon = corners[chosen][:, np.array(cut)]
        for second in range(1, len(cut) - 1):
            edges.append(polygon[:, [0, second, second + 1]])
            owners.append(chosen)
    owner = np.concatenate(owners)
    name, along = AXIS_NAMES[axis], points[:, axis]
    if not owner.size:
        where, expected = f"slice at {name} = {position:g}", "a plane that cuts the mesh"
        found = f"{name} between {along.min():g} and {along.max():g}"
        raise InputError(where, expected, found, "choose a position between these")
    pairs = np.sort(np.concatenate(edges).reshape(-1, 2), axis=1)
    is_met = distance[pairs] == 0.0
    pairs[is_met[:, 0], 1] = pairs[is_met[:, 0], 0]
    pairs[is_met[:, 1], 0] = pairs[is_met[:, 1], 1]
    nodes, inverse = np.unique(pairs, axis=0, return_inverse=True)
    first, second = distance[nodes[:, 0]], distance[nodes[:, 1]]
    is_node = nodes[:, 0] == nodes[:, 1]
    weights = np.where(is_node, 1.0, second / np.where(is_node, 1.0, second - first))
    crossing = weights[:, None] * points[nodes[:, 0]] + (1 - weights)[:, None] * points[nodes[:, 1]]
    triangles = inverse.reshape(-1, 3)
    is_left = (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
    axes = tuple(other for other in range(3) if other != axis)
    shown = crossing[:, axes], triangles[is_left], nodes, weights, owner[is_left]
    return FlatMesh(*shown, axes, f"slice {name} = {position:.4g}")


def _shortest_edges(points, cells):
    """Length of the shortest edge at each node, (num_nodes,)."""
    shortest = np.full(len(points), np.inf)
    for one, other in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
        ends = cells[:, [one, other]]
        length = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
        np.minimum.at(shortest, ends, length[:, None])
    return shortest
