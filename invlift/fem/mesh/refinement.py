"""Uniform refinement of meshes: every edge is halved, groups and fields are transferred.

A triangle becomes four similar ones.  A tetrahedron becomes four similar ones at its corners, and
the octahedron between them becomes four more, around its shortest diagonal (Bey 1995, "Tetrahedral
grid refinement", Computing 55, sections 2 and 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, eye_array

from invlift.fem.mesh import checks as mesh_checks
from invlift.fem.mesh.mesh import Mesh

#: Edges by their local corners; their midpoints are the local nodes of a cell from dim + 1 on.
_EDGES = {
    2: np.array([[0, 1], [0, 2], [1, 2]]),
    3: np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]),
}
#: Cells at the corners, each with its corner first.
_AT_CORNERS = {
    2: np.array([[0, 3, 4], [1, 3, 5], [2, 4, 5]]),
    3: np.array([[0, 4, 5, 6], [1, 4, 7, 8], [2, 5, 7, 9], [3, 6, 8, 9]]),
}
#: Diagonals of the octahedron, between midpoints of opposite edges, and the ring around each.
_DIAGONALS = np.array([[4, 9], [5, 8], [6, 7]])
_RINGS = np.array([[5, 6, 8, 7], [4, 6, 9, 7], [4, 5, 9, 8]])


@dataclass(frozen=True, eq=False)
class Refinement:
    """A refined mesh, with the maps of nodes, cells and corners from the given mesh.

    Attributes
    ----------
    given : Mesh
    mesh : Mesh
        The refined mesh; its first nodes are those of the given mesh.
    nodes : (num_fine_nodes, num_nodes) sparse array
        Interpolation matrix of a field that is linear in the given cells.
    corners : (num_cells, dim + 1) array of int
        For each corner of the given cells the index of a corner of a fine cell: i (dim + 1) + j for
        corner j of fine cell i.
    times : int
        Number of times that each edge is halved.
    halved : Mesh or None
        The mesh whose edges were halved last; None if none were, or after :meth:`as_given`.
    """

    given: Mesh
    mesh: Mesh
    nodes: csr_array
    corners: np.ndarray
    times: int
    halved: Mesh | None = None

    @property
    def parents(self) -> np.ndarray:
        """The given cell that contains each fine cell, (num_fine_cells,)."""
        return parents_of(self.given, self.mesh)

    def after(self, first: Refinement) -> Refinement:
        """Compose with a first refinement; return the refinement of the first one's given mesh."""
        return replace(
            self,
            given=first.given,
            nodes=csr_array(self.nodes @ first.nodes),
            corners=self.corners.ravel()[first.corners],
            times=self.times + first.times,
            halved=self.halved or first.halved,
        )

    def as_given(self) -> Refinement:
        """Return the same maps, without the mesh that was halved last."""
        return replace(self, halved=None)

    def of_field(self, location: str) -> csr_array:
        """Return the matrix from a field on the given mesh to the refined mesh, (N_fine, N).

        The location of the field is "nodes" or "cells"; any other is an InputError.
        """
        self.given.places_of(location)
        if location == "nodes":
            return self.nodes
        size = self.mesh.num_cells
        entries = np.ones(size), (np.arange(size), self.parents)
        return csr_array(entries, shape=(size, self.given.num_cells))


def parents_of(given: Mesh, fine: Mesh) -> np.ndarray:
    """Return the given cell that contains each fine cell: the parts of a cell are in a row."""
    return np.repeat(np.arange(given.num_cells), fine.num_cells // given.num_cells)


def refined(mesh: Mesh, times: int = 1) -> Refinement:
    """Halve all edges of a mesh.

    Parameters
    ----------
    mesh : Mesh
    times : int
        Number of refinements, 0 or more.

    Returns
    -------
    Refinement
        Each cell is divided into 2^(dim times) cells of equal volume.  Boundary groups, subdomains,
        point fields (linear between nodes) and cell fields are those of the given mesh.
    """
    corners = np.arange(mesh.cells.size).reshape(mesh.cells.shape)
    refinement = Refinement(mesh, mesh, csr_array(eye_array(mesh.num_nodes)), corners, 0)
    for _ in range(times):
        refinement = _once(refinement.mesh).after(refinement)
    return refinement


def _once(mesh: Mesh) -> Refinement:
    dim, size = mesh.dim, mesh.num_nodes
    ends = np.sort(mesh.cells[:, _EDGES[dim]], axis=2).reshape(-1, 2)
    numbers, first = mesh_checks.row_ids(ends)
    edges = ends[first]
    rows = np.concatenate([np.arange(size), size + np.repeat(np.arange(len(edges)), 2)])
    columns = np.concatenate([np.arange(size), edges.ravel()])
    weights = np.concatenate([np.ones(size), np.full(edges.size, 0.5)])
    nodes = csr_array((weights, (rows, columns)), shape=(size + len(edges), size))
    points = np.concatenate([mesh.points, mesh.points[edges].mean(axis=1)])

    local = np.concatenate([mesh.cells, size + numbers.reshape(mesh.num_cells, -1)], axis=1)
    children = local[:, _AT_CORNERS[dim]]
    inner = local[:, None, 3:] if dim == 2 else _octahedra(points, local)
    children = np.concatenate([children, inner], axis=1)
    num = children.shape[1]  # of each cell
    cells = mesh_checks.orient(points, children.reshape(-1, dim + 1))
    first_corners = (dim + 1) * np.arange(num * mesh.num_cells).reshape(mesh.num_cells, num)
    parents = np.repeat(np.arange(mesh.num_cells), num)
    middles = _Middles(edges, size)
    fine = replace(
        mesh,
        points=points,
        cells=cells,
        boundaries={name: middles.halved(each) for name, each in mesh.boundaries.items()},
        subdomains={
            name: (num * each[:, None] + np.arange(num)).ravel()
            for name, each in mesh.subdomains.items()
        },
        point_fields={name: nodes @ each for name, each in mesh.point_fields.items()},
        cell_fields={name: each[parents] for name, each in mesh.cell_fields.items()},
        name=f"{mesh.name}, refined",
    )
    return Refinement(mesh, fine, nodes, first_corners[:, : dim + 1], 1, mesh)


def _octahedra(points: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Divide the octahedron in each cell into tetrahedra, (num_cells, 4, 4)."""
    ends = points[local[:, _DIAGONALS]]
    shortest = np.linalg.norm(ends[:, :, 0] - ends[:, :, 1], axis=2).argmin(axis=1)
    diagonal, ring = _DIAGONALS[shortest], _RINGS[shortest]
    sides = np.stack([ring, np.roll(ring, -1, axis=1)], axis=2)
    corners = np.concatenate([np.repeat(diagonal[:, None], 4, axis=1), sides], axis=2)
    return np.take_along_axis(local[:, None], corners, axis=2)


@dataclass(frozen=True)
class _Middles:
    """Nodes at the midpoints of sorted edges; the first node has the number ``start``."""

    edges: np.ndarray
    start: int

    def of(self, ends: np.ndarray) -> np.ndarray:
        """Return the nodes, (k,), at the midpoints of edges, (k, 2)."""
        return self.start + mesh_checks.find_rows(np.sort(ends, axis=1), self.edges)

    def halved(self, facets: np.ndarray) -> np.ndarray:
        """Divide facets, (k, dim), into (2^(dim - 1) k, dim), in the format of a mesh's groups."""
        if facets.shape[1] == 2:
            middle = self.of(facets)
            parts = [[facets[:, 0], middle], [facets[:, 1], middle]]
        else:
            a, b, c = facets.T
            ab, ac, bc = (self.of(np.stack(pair, axis=1)) for pair in ((a, b), (a, c), (b, c)))
            parts = [[a, ab, ac], [b, ab, bc], [c, ac, bc], [ab, ac, bc]]
        rows = np.concatenate([np.stack(part, axis=1) for part in parts])
        return np.unique(np.sort(rows, axis=1), axis=0)
