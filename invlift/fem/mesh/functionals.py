"""Linear functionals of a field on a mesh: its values at points, its means over groups."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from invlift.errors import InputError
from invlift.fem.mesh.checks import listing, place
from invlift.fem.mesh.geometry import RELATIVE_TOLERANCE, find_cells


def values_at(points: np.ndarray, cells: np.ndarray, where: np.ndarray, name: str) -> csr_array:
    """Values at points of a field that is linear between the nodes.

    Parameters
    ----------
    points : (num_nodes, dim) array
    cells : (num_cells, dim + 1) array of int
    where : (k, dim) array
        Positions, in the length unit of the mesh.
    name : str
        What the mesh is called.

    Returns
    -------
    (k, num_nodes) sparse array
        To be multiplied with the field's values at the nodes.

    Raises
    ------
    InputError
        If the points have another dimension, or some are outside the mesh.
    """
    cell, weights = _find(points, cells, where, name)
    rows = np.repeat(np.arange(len(cell)), cells.shape[1])
    entries = weights.ravel(), (rows, cells[cell].ravel())
    return csr_array(entries, shape=(len(cell), len(points)))


def cells_at(points: np.ndarray, cells: np.ndarray, where: np.ndarray, name: str) -> csr_array:
    """Values at points of a field that is constant in each cell: as :func:`values_at`."""
    cell, _ = _find(points, cells, where, name)
    entries = np.ones(len(cell)), (np.arange(len(cell)), cell)
    return csr_array(entries, shape=(len(cell), len(cells)))


def mean_over(simplices: np.ndarray, sizes: np.ndarray, num_nodes: int) -> csr_array:
    """Mean over cells or facets of a field that is linear between the nodes.

    Parameters
    ----------
    simplices : (k, c) array of int
        Their nodes.
    sizes : (k,) array
        Their lengths, areas or volumes.
    num_nodes : int

    Returns
    -------
    (1, num_nodes) sparse array
    """
    weights = np.repeat(sizes / sizes.sum() / simplices.shape[1], simplices.shape[1])
    entries = weights, (np.zeros(weights.size, int), simplices.ravel())
    return csr_array(entries, shape=(1, num_nodes))


def facet_sizes(corners: np.ndarray) -> np.ndarray:
    """Lengths or areas of facets, (k,), with corners (k, dim, dim)."""
    edges = corners[:, 1:] - corners[:, :1]
    gram = np.linalg.det(edges @ edges.transpose(0, 2, 1))
    return np.sqrt(gram) / math.factorial(edges.shape[1])


def _find(points, cells, where, name) -> tuple[np.ndarray, np.ndarray]:
    where, dim = np.asarray(where, dtype=float), points.shape[1]
    if where.ndim != 2 or where.shape[1] != dim:
        raise InputError(
            "points", f"an array (k, {dim})", f"shape {where.shape}", "give x, y[, z] of each"
        )
    diameter = float(np.linalg.norm(np.ptp(points, axis=0)))
    cell, weights = find_cells(points[cells], where, RELATIVE_TOLERANCE * diameter)
    outside = np.flatnonzero(cell < 0)
    if outside.size:
        raise InputError(
            f"points, row {outside[0]}",
            f"points inside the mesh {name!r}",
            f"{place(where[outside[0]])}, which is outside; rows outside: {listing(outside, 8)}",
            f"the mesh spans {place(points.min(axis=0))} to {place(points.max(axis=0))}",
        )
    return cell, weights
