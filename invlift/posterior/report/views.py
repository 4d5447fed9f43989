"""Triangles that a report draws: a flat body, slices through a body in space, its surface."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invlift.errors import InputError
from invlift.posterior.slices import FlatMesh, flatten, slice_tetrahedra

#: Triangles of one view; of a finer mesh the nodes that share a small square are drawn as one.
MAX_TRIANGLES = 40_000


@dataclass(frozen=True, eq=False)
class View:
    """Triangles, and how to read fields of the mesh on them.

    Attributes
    ----------
    points : (k, 2) array, or (k, 3) of a surface
        In the length unit of the mesh.
    triangles : (m, 3) array of int
    nodes : (k, 2) array of int
        The two nodes of the mesh between which a point lies.
    weights : (k,) array
        Share of the first of them.
    cells : (m,) array of int
        The cell of the mesh that each triangle is part of.
    axes : tuple of int
        Which coordinates of space run along the axes of the view.
    place : str
        Where it is, in words; empty if the mesh is itself flat.
    outline : (e, 2, 2) array
        End points of its edges; none of a surface.
    """

    points: np.ndarray
    triangles: np.ndarray
    nodes: np.ndarray
    weights: np.ndarray
    cells: np.ndarray
    axes: tuple[int, ...]
    place: str
    outline: np.ndarray

    def values_of(self, values: np.ndarray, is_nodal: bool) -> np.ndarray:
        """A field of the mesh, (num_nodes,) or (num_cells,), at the points or on the triangles."""
        if not is_nodal:
            return values[self.cells]
        first, second = values[self.nodes[:, 0]], values[self.nodes[:, 1]]
        return np.where(
            self.weights == 1, first, self.weights * first + (1 - self.weights) * second
        )


def flat_views(points: np.ndarray, cells: np.ndarray) -> list[View]:
    """Show a mesh in the plane: itself, or the three slices through the middle of its bounding box.

    Parameters
    ----------
    points : (num_nodes, dim) array
    cells : (num_cells, dim + 1) array of int

    Returns
    -------
    list of View
        Slices that miss the body are left out.
    """
    if points.shape[1] == 2:
        flats = [flatten(points, cells)]
    else:
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        flats = []
        for axis in (2, 1, 0):
            try:
                flats.append(slice_tetrahedra(points, cells, axis, float(middle[axis])))
            except InputError:  # a hollow body
                continue
    return [_of_flat(flat) for flat in flats]


def surface_view(points: np.ndarray, cells: np.ndarray) -> View:
    """The surface of a body of tetrahedra, seen from outside.

    Parameters
    ----------
    points : (num_nodes, 3) array
    cells : (num_cells, 4) array of int
    """
    corners = np.array([(1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)])
    facets = cells[:, corners].reshape(-1, 3)
    _, first, count = np.unique(
        np.sort(facets, axis=1), axis=0, return_index=True, return_counts=True
    )
    outer = first[count == 1]
    nodes, triangles = np.unique(facets[outer], return_inverse=True)
    kept, triangles, left = _coarsened(points[nodes], triangles.reshape(-1, 3))
    nodes = nodes[kept]
    return View(
        points[nodes],
        triangles,
        np.repeat(nodes[:, None], 2, axis=1),
        np.ones(len(nodes)),
        (outer // 4)[left],
        (0, 1, 2),
        "surface",
        np.zeros((0, 2, 2)),
    )


def groups_on_surface(view: View, facets: list[np.ndarray]) -> np.ndarray:
    """Number of the group that each triangle of a surface is in, (m,); -1 for none.

    Parameters
    ----------
    view : View
        From `surface_view`.
    facets : list of (num_facets, 3) arrays of int
        Nodes of the triangles of each group.
    """
    keys = {
        tuple(sorted(row)): index
        for index, row in enumerate(view.nodes[view.triangles, 0].tolist())
    }
    found = np.full(len(view.triangles), -1)
    for group, rows in enumerate(facets):
        for row in np.sort(rows, axis=1).tolist():
            if (index := keys.get(tuple(row))) is not None:
                found[index] = group
    return found


def _of_flat(flat: FlatMesh) -> View:
    kept, triangles, left = _coarsened(flat.points, flat.triangles)
    return View(
        flat.points[kept],
        triangles,
        flat.nodes[kept],
        flat.weights[kept],
        flat.cells[left],
        flat.axes,
        flat.place,
        flat.outline(),
    )


def _coarsened(
    points: np.ndarray, triangles: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge points that share a square or cube of a grid, until the triangles are few enough.

    Returns
    -------
    tuple
        Indices of the points that stay, the triangles between them, and the indices that these had
        (Rossignac & Borrel 1993, vertex clustering).
    """
    kept, left = np.arange(len(points)), np.arange(len(triangles))
    merged, num = triangles, np.sqrt(MAX_TRIANGLES)
    while len(merged) > MAX_TRIANGLES:
        size = np.ptp(points, axis=0).max() / num
        bins = np.floor((points - points.min(axis=0)) / size).astype(int)
        _, kept, number = np.unique(bins, axis=0, return_index=True, return_inverse=True)
        merged = number.reshape(-1)[triangles]
        is_proper = (merged != np.roll(merged, 1, axis=1)).all(axis=1)
        _, first = np.unique(np.sort(merged, axis=1), axis=0, return_index=True)
        left = np.intersect1d(first, np.flatnonzero(is_proper))
        merged, num = merged[left], num * 0.8
    return kept, merged, left
