"""Linear functionals of a field on a mesh, as rows of a sparse matrix."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array


def rows_of(places: np.ndarray, weights: np.ndarray, size: int) -> csr_array:
    """Return the matrix of k weighted sums of a field's values.

    Parameters
    ----------
    places : (k, c) array of int
        Nodes or cells of each sum.
    weights : (k, c) array
    size : int
        Number of nodes or cells.

    Returns
    -------
    (k, size) sparse array
        Matrix to be multiplied by the field's values.
    """
    rows = np.repeat(np.arange(len(places)), places.shape[1])
    return csr_array((weights.ravel(), (rows, places.ravel())), shape=(len(places), size))


def mean_over(places: np.ndarray, sizes: np.ndarray, size: int) -> csr_array:
    """Return the matrix of the mean over simplices of a field that is linear on each simplex.

    Parameters
    ----------
    places : (k, c) array of int
        Corners of cells or facets; for a field that is constant in each cell, the cells, (k, 1).
    sizes : (k,) array
        Lengths, areas or volumes of the simplices.
    size : int
        Number of nodes or cells.

    Returns
    -------
    (1, size) sparse array
    """
    shares = np.repeat(sizes / sizes.sum() / places.shape[1], places.shape[1])
    return rows_of(places.reshape(1, -1), shares.reshape(1, -1), size)


def facet_sizes(corners: np.ndarray) -> np.ndarray:
    """Return the lengths or areas of facets, (k,), with corners (k, dim, dim)."""
    edges = corners[:, 1:] - corners[:, :1]
    gram = np.linalg.det(edges @ edges.transpose(0, 2, 1))
    return np.sqrt(gram) / math.factorial(edges.shape[1])
