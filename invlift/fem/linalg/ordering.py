"""Nested dissection of a sparse symmetric pattern.

George (1973), "Nested dissection of a regular finite element mesh", SIAM J. Numer. Anal. 10(2):
remove a small separator that splits the graph in two, number it last, and do the same to both
halves. All parts of one depth of the tree are split together by whole-array operations, so the
cost on the host is a few passes over the graph per depth.
"""

import numpy as np
from scipy.sparse import coo_array, csgraph

# Parts of at most this many unknowns are not split further: one dense front each.
LEAF_SIZE = 16


def nested_dissection(num_unknowns, edges, coordinates, leaf_size=LEAF_SIZE):
    """Place every unknown in a binary tree of separators and leaves.

    Each part is cut at its median along several directions. The separator of a cut is a minimum
    vertex cover of the edges it crosses, and the direction with the smallest separator is kept.

    Parameters
    ----------
    num_unknowns : int
        Number of vertices n of the graph.
    edges : np.ndarray
        (m, 2) integer pairs of different vertices, each pair once.
    coordinates : np.ndarray
        (n, dim) positions of the vertices, along which the parts are cut.
    leaf_size : int
        Largest part that is not split.

    Returns
    -------
    np.ndarray
        (n,) int64 tree node of each unknown. Nodes are numbered as in a heap: the root is 1 and the
        children of node t are 2 t and 2 t + 1. The two ends of an edge are in the same node, or in
        a node and one of its ancestors.
    """
    part = np.ones(num_unknowns, dtype=np.int64)
    node = np.zeros(num_unknowns, dtype=np.int64)
    while True:
        is_active = node == 0
        _, compact, sizes = np.unique(part[is_active], return_inverse=True, return_counts=True)
        is_leaf = (sizes <= leaf_size)[compact]
        active = np.flatnonzero(is_active)
        node[active[is_leaf]] = part[active[is_leaf]]
        active = active[~is_leaf]
        if active.size == 0:
            return node
        local = np.full(num_unknowns, -1)
        local[active] = np.arange(active.size)
        inner = local[edges]
        inner = inner[(inner >= 0).all(axis=1)]
        inner = inner[part[active[inner[:, 0]]] == part[active[inner[:, 1]]]]
        is_right, is_separator = _bisect(part[active], inner, coordinates[active])
        node[active[is_separator]] = part[active[is_separator]]
        part[active] = 2 * part[active] + is_right


def _bisect(part, edges, positions):
    """Split every part in two; return the masks (num_active,) of the right sides and separators."""
    _, part, sizes = np.unique(part, return_inverse=True, return_counts=True)
    keys = positions @ _directions(positions.shape[1]).T
    starts = np.cumsum(sizes) - sizes
    best_size = np.full(sizes.size, part.size + 1)
    best_right = np.zeros(part.size, dtype=bool)
    best_separator = np.zeros(part.size, dtype=bool)
    for key in keys.T:
        order = np.lexsort((key, part))
        rank = np.empty(part.size, dtype=np.int64)
        rank[order] = np.arange(part.size)
        is_right = rank - starts[part] >= sizes[part] // 2
        is_separator = _vertex_cover(
            edges[is_right[edges[:, 0]] != is_right[edges[:, 1]]], is_right
        )
        size = np.bincount(part[is_separator], minlength=sizes.size)
        is_better = (size < best_size)[part]
        best_size = np.minimum(size, best_size)
        best_right = np.where(is_better, is_right, best_right)
        best_separator = np.where(is_better, is_separator, best_separator)
    return best_right, best_separator


def _directions(dim):
    """Return the (num_directions, dim) cut directions: half the vectors with entries -1, 0, 1.

    In two dimensions the four directions in between are added.
    """
    grid = np.stack(np.meshgrid(*[[0.0, 1.0, -1.0]] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    first = np.array([row[np.flatnonzero(row)[0]] if row.any() else 0.0 for row in grid])
    directions = grid[first > 0]
    if dim == 2:
        directions = np.concatenate([directions, [[2, 1], [1, 2], [2, -1], [1, -2]]])
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def _vertex_cover(edges, is_right):
    """Return the mask (num_vertices,) of a minimum vertex cover of a bipartite graph's edges.

    Koenig's theorem: with Z the vertices reached by alternating paths from the unmatched left
    vertices, the left vertices outside Z and the right ones in Z form a minimum cover.
    """
    is_cover = np.zeros(is_right.size, dtype=bool)
    if len(edges) == 0:
        return is_cover
    swap = is_right[edges[:, 0]]
    left, left_local = np.unique(np.where(swap, edges[:, 1], edges[:, 0]), return_inverse=True)
    right, right_local = np.unique(np.where(swap, edges[:, 0], edges[:, 1]), return_inverse=True)
    num_left, num_right = left.size, right.size
    graph = coo_array((np.ones(len(edges)), (left_local, right_local)), (num_left, num_right))
    mate = csgraph.maximum_bipartite_matching(graph.tocsr(), perm_type="column")  # left -> right
    matched = np.flatnonzero(mate >= 0)
    unmatched = np.flatnonzero(mate < 0)
    source = num_left + num_right
    tail = np.concatenate([left_local, num_left + mate[matched], np.full(unmatched.size, source)])
    head = np.concatenate([num_left + right_local, matched, unmatched])
    alternating = coo_array((np.ones(tail.size), (tail, head)), (source + 1, source + 1)).tocsr()
    reached = np.zeros(source + 1, dtype=bool)
    reached[csgraph.breadth_first_order(alternating, source, return_predecessors=False)] = True
    is_cover[left] = ~reached[:num_left]
    is_cover[right] = reached[num_left:source]
    return is_cover
