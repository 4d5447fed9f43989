"""A round tank with electrodes on its rim, of rings of nodes (needs NumPy and SciPy)."""

from __future__ import annotations

import numpy as np
from msh import write_msh
from scipy.spatial import Delaunay


def ring(radius, angle):
    """Points of a circle, (n, 2), in the unit of its radius."""
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def write_tank(path, rings, num_electrodes, edges):
    """Write the mesh of rings of nodes, the rim first.

    Parameters
    ----------
    path : path-like
        File to write.
    rings : list of arrays of shape (n, 2)
        Nodes of each circle; the rim begins with the first electrode.
    num_electrodes : int
    edges : tuple of two int
        Edges of the rim on an electrode and between two, which are the group ``wall``.
    """
    points, num = np.concatenate(rings), len(rings[0])
    cells = Delaunay(points).simplices
    rim = np.column_stack([np.arange(num), (np.arange(num) + 1) % num])
    rim = rim.reshape(num_electrodes, sum(edges), 2)
    groups = {f"electrode_{k}": own for k, own in enumerate(rim[:, : edges[0]], start=1)}
    groups["wall"] = rim[:, edges[0] :].reshape(-1, 2)
    write_msh(path, points, cells, groups, {"tank": np.arange(len(cells))}, digits=".12g")
