"""A round tank with electrodes on its rim, of rings of nodes (needs SciPy and scikit-fem)."""

from __future__ import annotations

import numpy as np
from msh import write_msh
from scipy.spatial import Delaunay
from skfem import MeshTri


def ring(radius, angle):
    """Points of a circle, (n, 2), in the unit of its radius."""
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def triangulated(rings):
    """Points, triangles and edges of the rim, (n, 2), of rings of nodes, the rim first."""
    points, num = np.concatenate(rings), len(rings[0])
    rim = np.column_stack([np.arange(num), (np.arange(num) + 1) % num])
    return points, Delaunay(points).simplices, rim


def write_tank(path, points, cells, rim, num_electrodes, edges, times=0):
    """Write the mesh of a tank.

    Parameters
    ----------
    path : path-like
        File to write.
    points, cells : arrays of shape (num_nodes, 2), (num_cells, 3)
        A disc around the origin.
    rim : array of shape (n, 2)
        Edges of the rim in turn, from the beginning of the first electrode on.
    num_electrodes : int
    edges : tuple of two int
        Edges of the rim on an electrode and between two, which are the group ``wall``.
    times : int
        How often the cells at the ends of the electrodes are halved.
    """
    parts = rim.reshape(num_electrodes, sum(edges), 2)
    names = np.full(parts.shape[:2], "wall", dtype=object)
    names[:, : edges[0]] = [[f"electrode_{k}"] for k in range(1, num_electrodes + 1)]
    ends = np.append(parts[:, 0, 0], parts[:, edges[0], 0])
    fine, cells, of_rim = _graded(points, cells, ends, times) if times else (points, cells, rim)
    # An edge of the rim has the name of the one that it is a part of.
    begins = np.sort(_angles(points[rim[:, 0]]))
    places, parents = (
        np.searchsorted(begins, _angles(at[each].mean(axis=1))) % len(begins)
        for at, each in ((fine, of_rim), (points, rim))
    )
    own = names.ravel()[np.argsort(parents)][places]
    groups = {name: of_rim[own == name] for name in dict.fromkeys(names[:, 0]) | {"wall": None}}
    write_msh(path, fine, cells, groups, {"tank": np.arange(len(cells))}, digits=".12g")


def _graded(points, cells, ends, times):
    """Halve cells at nodes of the rim, where the current density is largest, again and again.

    New nodes of the rim are on its circle.  Return points, cells and edges of the rim.
    """
    radius = np.linalg.norm(points[ends[0]])
    mesh = MeshTri(points.T.copy(), cells.T.copy())
    for _ in range(times):
        size = mesh.nvertices
        mesh = mesh.refined(np.flatnonzero(np.isin(mesh.t, ends).any(axis=0)))
        moved, new = mesh.p.copy(), mesh.boundary_nodes()
        new = new[new >= size]
        moved[:, new] *= radius / np.linalg.norm(moved[:, new], axis=0)
        mesh = MeshTri(moved, mesh.t)
    return mesh.p.T, mesh.t.T, mesh.facets[:, mesh.boundary_facets()].T


def _angles(points):
    return np.arctan2(points[:, 1], points[:, 0]) % (2.0 * np.pi)
