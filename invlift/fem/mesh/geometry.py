"""Exact searches for the cells and facets of a simplex mesh near points, vectorised over points.

The searches are guaranteed, not heuristic. Simplices are sorted into classes by the radius of the
enclosing ball around their centroid; radii in a class differ by at most a factor of two. In each
class, a k-d tree of centroids with the largest radius of the class finds all simplices that can
matter, also in strongly graded meshes. There is no walk along neighbours, which could fail at a
hole or a reentrant corner.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree

#: Tolerance of "inside a simplex", relative to the diameter of the mesh.
RELATIVE_TOLERANCE = 1e-9
_PAIRS_AT_ONCE = 500_000  # bounds the memory of a search, about 100 MB


class SimplexSearch:
    """Search for the simplices within a distance of points; it may return a few more.

    Parameters
    ----------
    corners : ndarray, shape (num_simplices, num_corners, dim)
        Corners of the simplices; also an attribute.
    """

    def __init__(self, corners: np.ndarray) -> None:
        self.corners = corners
        centroids = corners.mean(axis=1)
        radii = np.linalg.norm(corners - centroids[:, None], axis=2).max(axis=1)
        classes = np.floor(np.log2(radii / radii.max())).astype(int)
        self._trees = []
        for number in np.unique(classes):
            members = np.flatnonzero(classes == number)
            self._trees.append((members, cKDTree(centroids[members]), radii[members].max()))

    def candidates(
        self, points: np.ndarray, distances: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs (point index, simplex index) in blocks, each of shape (num_pairs,).

        Every simplex within `distances` (shape (k,)) of `points` (shape (k, dim)) is among them.
        """
        for members, tree, radius in self._trees:
            # The factor covers the rounding of centroids and radii.
            reach = (distances + radius) * (1.0 + 1e-12)
            counts = tree.query_ball_point(points, reach, return_length=True)
            block = np.cumsum(counts) // _PAIRS_AT_ONCE
            for number in np.unique(block):
                some = np.flatnonzero((block == number) & (counts > 0))
                if len(some) == 0:
                    continue
                neighbours = tree.query_ball_point(points[some], reach[some])
                yield np.repeat(some, counts[some]), members[np.concatenate(neighbours).astype(int)]


def barycentric(corners: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return barycentric coordinates and signed distances to the facets' planes.

    Parameters
    ----------
    corners : ndarray, shape (k, dim + 1, dim)
    points : ndarray, shape (k, dim)

    Returns
    -------
    coordinates : ndarray, shape (k, dim + 1)
        Their sum is 1; inside the simplex all are in [0, 1].
    depths : ndarray, shape (k, dim + 1)
        Distance from the facet opposite to each corner, negative beyond it; in length units.
    """
    edges = corners[:, 1:] - corners[:, :1]
    gradients = np.linalg.inv(edges)  # columns: gradients of coordinates 1 ... dim
    offset = points - corners[:, 0]
    rest = np.einsum("ki,kij->kj", offset, gradients)
    coordinates = np.concatenate([1.0 - rest.sum(axis=1, keepdims=True), rest], axis=1)
    first = np.linalg.norm(gradients.sum(axis=2), axis=1)[:, None]
    slopes = np.concatenate([first, np.linalg.norm(gradients, axis=1)], axis=1)
    return coordinates, coordinates / slopes


def find_cells(
    cells: SimplexSearch, points: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Find the cell that holds each point.

    Parameters
    ----------
    cells : SimplexSearch
        Search over the num_cells cells.
    points : ndarray, shape (k, dim)
    tolerance : float
        Distance beyond a facet at which a point still counts as inside; in length units.

    Returns
    -------
    cell : ndarray of int, shape (k,)
        -1 for points outside. If several cells share the point, it is the cell in which the point
        lies deepest, and of equal ones the one with the lowest index.
    weights : ndarray, shape (k, dim + 1)
        Barycentric coordinates in [0, 1], with sum 1.
    """
    corners, cell = cells.corners, np.full(len(points), -1)
    depth = np.full(len(points), -np.inf)
    weights = np.zeros((len(points), corners.shape[1]))
    reach = np.full(len(points), tolerance)
    for owner, candidate in cells.candidates(points, reach):
        coordinates, depths = barycentric(corners[candidate], points[owner])
        least = depths.min(axis=1)
        order = np.lexsort((candidate, -least, owner))
        order = order[np.unique(owner[order], return_index=True)[1]]  # the best of each point
        new = owner[order]
        is_deeper = (least[order] > depth[new]) | (
            (least[order] == depth[new]) & (candidate[order] < cell[new])
        )
        order, new = order[is_deeper], new[is_deeper]
        depth[new], cell[new], weights[new] = least[order], candidate[order], coordinates[order]
    is_outside = depth < -tolerance
    cell[is_outside], weights[is_outside] = -1, 0.0
    weights = np.clip(weights, 0.0, None)
    return cell, weights / np.where(is_outside, 1.0, weights.sum(axis=1))[:, None]


def closest_on_segment(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the barycentric weights of the closest point on each segment to a given point.

    Parameters
    ----------
    corners : ndarray, shape (k, 2, dim)
    points : ndarray, shape (k, dim)

    Returns
    -------
    ndarray, shape (k, 2)
        Weights of the two ends, in [0, 1] with sum 1.
    """
    edge = corners[:, 1] - corners[:, 0]
    along = ((points - corners[:, 0]) * edge).sum(axis=1) / (edge**2).sum(axis=1)
    along = np.clip(along, 0.0, 1.0)
    return np.stack([1.0 - along, along], axis=1)


def closest_on_triangle(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the barycentric weights of the closest point on each triangle to a given point.

    If the foot of the perpendicular lies in the triangle, it is the closest point. Else the closest
    point is on an edge. All three edges are tried, which costs little and has no special cases.

    Parameters
    ----------
    corners : ndarray, shape (k, 3, 3)
    points : ndarray, shape (k, 3)

    Returns
    -------
    ndarray, shape (k, 3)
        Weights of the three corners, in [0, 1] with sum 1.
    """
    best = np.zeros((len(points), 3))
    smallest = np.full(len(points), np.inf)
    for ends in ([0, 1], [1, 2], [2, 0]):
        weights = np.zeros_like(best)
        weights[:, ends] = closest_on_segment(corners[:, ends], points)
        distance = distance_to(corners, weights, points)
        is_closer = distance < smallest
        best[is_closer], smallest[is_closer] = weights[is_closer], distance[is_closer]
    u, v = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(u, v)
    area = (normal**2).sum(axis=1)
    offset = points - corners[:, 0]
    foot = np.empty_like(best)
    foot[:, 1] = (np.cross(offset, v) * normal).sum(axis=1) / area
    foot[:, 2] = (np.cross(u, offset) * normal).sum(axis=1) / area
    foot[:, 0] = 1.0 - foot[:, 1] - foot[:, 2]
    is_within = (foot >= 0.0).all(axis=1)
    best[is_within] = foot[is_within]
    return best


def distance_to(corners: np.ndarray, weights: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the distances from points to weighted means of corners, shape (k,)."""
    return np.linalg.norm((weights[..., None] * corners).sum(axis=1) - points, axis=1)


def find_closest_facet(
    corners: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the facet nearest to each point, by exact point-segment or point-triangle distance.

    Parameters
    ----------
    corners : ndarray, shape (num_facets, dim, dim)
    points : ndarray, shape (k, dim)

    Returns
    -------
    facet : ndarray of int, shape (k,)
        One of the nearest facets, if there are several.
    weights : ndarray, shape (k, dim)
        Barycentric coordinates of the closest point on that facet.
    distance : ndarray, shape (k,)
        Distance, in length units.
    """
    closest_fn = closest_on_segment if corners.shape[1] == 2 else closest_on_triangle
    facet = np.zeros(len(points), dtype=int)
    weights = np.zeros((len(points), corners.shape[1]))
    distance = np.full(len(points), np.inf)
    # A facet's corner is on the facet, so the nearest corner bounds the distance from above.
    bound, _ = cKDTree(corners.reshape(-1, corners.shape[2])).query(points)
    for owner, candidate in SimplexSearch(corners).candidates(points, bound):
        closest = closest_fn(corners[candidate], points[owner])
        length = distance_to(corners[candidate], closest, points[owner])
        order = np.lexsort((candidate, length, owner))
        order = order[np.unique(owner[order], return_index=True)[1]]
        new = owner[order]
        is_closer = length[order] < distance[new]
        order, new = order[is_closer], new[is_closer]
        facet[new], weights[new], distance[new] = candidate[order], closest[order], length[order]
    return facet, weights, distance
