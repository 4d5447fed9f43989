"""Symbolic analysis: from a sparse pattern to the static layout of a multifrontal factorisation.

Liu (1992), "The multifrontal method for sparse matrix solution: theory and practice", SIAM Review
34(1). A front is a set of unknowns eliminated together (its columns) and the later unknowns that
their elimination touches (its rows). The fronts are the nodes of a nested dissection tree, some
depths of which are merged into one level, and the fronts of a level are padded to a few common
shapes, so that each shape of each level is one batched dense computation.
"""

import jax
import numpy as np

from invlift.fem.linalg.ordering import nested_dissection
from invlift.fem.linalg.sparse import as_index
from invlift.programs.pytrees import Module, static

# Rough time model in nanoseconds for one CPU core; it only steers the choice of levels and shapes.
_BATCH_OVERHEAD = 100_000.0
# A batch must save at least this share of all time: each is compiled wherever there is a solve.
_BATCH_SHARE = 0.05
_FRONT_OVERHEAD = 300.0
_PER_MULTIPLY_ADD = 0.03
_PER_PANEL_ENTRY = 10.0
_PER_UPDATE_ENTRY = 2.0


class Batch(Module):
    """The fronts of one shape in one level.

    Attributes
    ----------
    rows : jax.Array
        (num_fronts, num_rows) int32 places of the rows, counted from the first place after this
        level; a padded row points after the last place, which belongs to no unknown.
    column_counts : jax.Array
        (num_fronts,) int32 numbers of columns that are not padding.
    update_source, update_target : jax.Array
        (num_updates,) int32: the entries `update_source` of the flattened Schur complements
        (num_fronts, num_rows, num_rows) belong to the entries `update_target` of the panels.
    offset : int
        Start of this batch's panels: first all diagonal blocks, then all blocks below.
    num_fronts, num_columns, num_rows : int
        Common padded size of the fronts.
    """

    rows: jax.Array
    column_counts: jax.Array
    update_source: jax.Array
    update_target: jax.Array
    offset: int = static()
    num_fronts: int = static()
    num_columns: int = static()
    num_rows: int = static()


class Level(Module):
    """Batches of fronts that do not depend on one another.

    Attributes
    ----------
    batches : tuple of Batch
        Each column, padding included, has a place: batch after batch, front after front.
    pulled : jax.Array
        (width, num_columns) int32: for each column of this level, the rows of fronts of earlier
        levels with the same unknown, counted from 1 over all fronts in order; 0 for padding.
    """

    batches: tuple
    pulled: jax.Array


class SymbolicAnalysis(Module):
    """Symbolic analysis of a pattern for factorisations; a picklable pytree.

    Attributes
    ----------
    levels : tuple of Level
        Levels in the order of elimination.
    assembly : jax.Array
        (num_values,) int32 entry of the panels to which each contribution is added.
    places : jax.Array
        (num_unknowns,) int32 place of each unknown among the columns of all fronts.
    unknowns : jax.Array
        (num_places,) int32 unknown at each place; 0 for padding, whose values are multiplied only
        by zeros.
    panel_size : int
        Number of entries of the flat array that holds all panels.
    """

    levels: tuple
    assembly: jax.Array
    places: jax.Array
    unknowns: jax.Array
    panel_size: int = static()


def analyse(rows, cols, num_unknowns, coordinates):
    """Analyse the pattern of a symmetric positive definite matrix given by contributions.

    Parameters
    ----------
    rows, cols : array_like
        (num_values,) integers: contribution k is added to the entry (rows[k], cols[k]) and, off
        the diagonal, also to (cols[k], rows[k]). Repeated entries are summed.
    num_unknowns : int
        Size n of the matrix.
    coordinates : array_like
        (n, dim) positions of the unknowns, for the ordering.

    Returns
    -------
    SymbolicAnalysis

    Raises
    ------
    ValueError
        If the panels have too many entries for 32-bit indices.
    """
    rows, cols = (np.asarray(index, dtype=np.int64) for index in (rows, cols))
    is_off_diagonal = rows != cols
    pairs = np.sort(np.stack([rows, cols], axis=1)[is_off_diagonal], axis=1)
    keys = np.unique(pairs[:, 0] * num_unknowns + pairs[:, 1])
    edges = np.stack([keys // num_unknowns, keys % num_unknowns], axis=1)
    node = nested_dissection(num_unknowns, edges, np.asarray(coordinates, dtype=float))
    layout = _Layout(node, edges)
    if layout.panel_size >= 2**31:
        raise ValueError("the factor of this matrix is too large for 32-bit indices")
    unknowns = np.zeros(layout.num_places, dtype=np.int64)
    unknowns[layout.places] = np.arange(num_unknowns)
    structure = SymbolicAnalysis(
        levels=layout.levels(),
        assembly=layout.entry(rows, cols),
        places=layout.places,
        unknowns=unknowns,
        panel_size=layout.panel_size,
    )
    return jax.tree.map(as_index, structure)


def _depth(node):
    return np.frexp(node.astype(np.float64))[1].astype(np.int64) - 1


def _row_pairs(node, edges):
    """Return for each depth of the tree the unique row pairs (tree nodes, unknowns).

    An unknown is a row of a tree node if an edge joins it to a column of the node, or if it is a
    row of a child and not a column of the node.
    """
    n = node.size
    depth = _depth(node)
    lower = np.where(depth[edges[:, 0]] > depth[edges[:, 1]], edges[:, 0], edges[:, 1])
    upper = edges.sum(axis=1) - lower
    is_between = node[lower] != node[upper]
    lower, upper = lower[is_between], upper[is_between]
    pairs = []
    keys = np.zeros(0, dtype=np.int64)
    for d in range(depth.max(), -1, -1):
        parent, row = keys // n >> 1, keys % n
        is_kept = node[row] != parent
        is_here = depth[lower] == d
        keys = np.unique(
            np.concatenate(
                [parent[is_kept] * n + row[is_kept], node[lower[is_here]] * n + upper[is_here]]
            )
        )
        pairs.append((keys // n, keys % n))
    return pairs[::-1]


def _model_time(num_fronts, num_columns, num_rows, overhead):
    """Return the modelled time of a batch of fronts of one padded shape, in nanoseconds.

    `overhead` is the time of a batch that does not depend on its number of fronts.
    """
    c, r = num_columns, num_rows
    multiply_adds = c * c * c + 2 * c * c * r + c * r * r
    return overhead + num_fronts * (
        _FRONT_OVERHEAD
        + _PER_MULTIPLY_ADD * multiply_adds
        + _PER_PANEL_ENTRY * c * (c + r)
        + _PER_UPDATE_ENTRY * r * r
    )


def _choose_shapes(columns, rows, overhead):
    """Split fronts of the given sizes into one or two batches of padded shapes.

    Returns
    -------
    float
        Modelled time.
    list of np.ndarray
        The fronts of each batch, ascending.
    """
    whole = _model_time(columns.size, columns.max(), rows.max(), overhead)
    best = whole, [np.arange(columns.size)]
    if columns.size == 1:
        return best
    order = np.argsort(columns + rows, kind="stable")
    c, r = columns[order], rows[order]
    small_c, small_r = np.maximum.accumulate(c), np.maximum.accumulate(r)
    large_c, large_r = (np.maximum.accumulate(size[::-1])[::-1] for size in (c, r))
    num = np.arange(1, c.size)
    time = _model_time(num, small_c[:-1], small_r[:-1], overhead)
    time = time + _model_time(c.size - num, large_c[1:], large_r[1:], overhead)
    cut = int(np.argmin(time))
    if time[cut] < whole:
        best = float(time[cut]), [np.sort(order[: cut + 1]), np.sort(order[cut + 1 :])]
    return best


def _choose_levels(node, row_counts, overhead):
    """Merge the depths of the tree into levels with the smallest modelled time.

    Returns
    -------
    list of (int, int)
        First and last depth of each level, the deepest level first.
    float
        Modelled time.
    """
    depth = _depth(node)
    num_depths = len(row_counts)
    best_time = np.zeros(num_depths + 1)
    best_last = np.zeros(num_depths, dtype=np.int64)
    for top in range(num_depths - 1, -1, -1):
        times = []
        for last in range(top, num_depths):
            inside = (depth >= top) & (depth <= last)
            fronts, counts = np.unique(node[inside] >> (depth[inside] - top), return_counts=True)
            time = 0.0
            if fronts.size:
                time = _choose_shapes(counts, row_counts[top][fronts - (1 << top)], overhead)[0]
            times.append(time + best_time[last + 1])
        best_last[top] = top + int(np.argmin(times))
        best_time[top] = min(times)
    levels = []
    top = 0
    while top < num_depths:
        levels.append((top, int(best_last[top])))
        top = levels[-1][1] + 1
    return levels[::-1], float(best_time[0])


class _Layout:
    """Places of all unknowns, and of all entries of the factor; used only in `analyse`.

    Attributes
    ----------
    rank : np.ndarray
        (n,) place of each unknown in the order of elimination.
    front, column : np.ndarray
        (n,) number of the front that eliminates the unknown, and the unknown's column in it.
    places : np.ndarray
        (n,) place of each unknown among the columns of all fronts, padding included.
    stride, diagonal, below : np.ndarray
        For each front its padded number of columns, and the starts of its two blocks.
    row_keys, row_numbers : np.ndarray
        Sorted keys front * n + rank of all rows of all fronts, and their row numbers in the front.
    batches : list of list of (np.ndarray, int, np.ndarray, int)
        For each batch of each level the column counts (b,), the padded number of columns, the
        unknowns of the padded rows (b, r), -1 for padding, and the offset of its panels.
    ends : list of int
        For each level the first place after it.
    """

    def __init__(self, node, edges):
        n = node.size
        depth = _depth(node)
        pairs = _row_pairs(node, edges)
        row_counts = [
            np.bincount(nodes - (1 << d), minlength=1 << d) for d, (nodes, _) in enumerate(pairs)
        ]
        level, name = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        tops = []
        overhead = _BATCH_OVERHEAD
        levels, time = _choose_levels(node, row_counts, overhead)
        if _BATCH_SHARE * time > overhead:
            overhead = _BATCH_SHARE * time
            levels, _ = _choose_levels(node, row_counts, overhead)
        for top, last in levels:
            inside = (depth >= top) & (depth <= last)
            if inside.any():
                level[inside] = len(tops)
                name[inside] = node[inside] >> (depth[inside] - top)
                tops.append(top)
        # Level by level, front by front (a merged front is named by its topmost tree node), and
        # the deeper tree nodes of a front first.
        order = np.lexsort((node, -depth, name, level))
        self.rank = np.empty(n, dtype=np.int64)
        self.rank[order] = np.arange(n)

        self.front, self.column, self.places = (np.empty(n, dtype=np.int64) for _ in range(3))
        self.batches, self.ends = [], []
        self.panel_size = self.num_places = num_fronts = 0
        stride, diagonal, below, row_keys, row_numbers = [], [], [], [], []
        for index, top in enumerate(tops):
            columns = order[level[order] == index]
            names, column_front, column_counts = np.unique(
                name[columns], return_inverse=True, return_counts=True
            )
            tree_nodes, rows = pairs[top]
            is_used = np.isin(tree_nodes, names)
            row_front, rows = np.searchsorted(names, tree_nodes[is_used]), rows[is_used]
            by_rank = np.lexsort((self.rank[rows], row_front))
            row_front, rows = row_front[by_rank], rows[by_rank]
            counts = np.bincount(row_front, minlength=names.size)
            row_number = _number_within(counts)
            number, first_place = np.empty((2, names.size), dtype=np.int64)
            batches = []
            for members in _choose_shapes(column_counts, counts, overhead)[1]:
                b, c, r = members.size, column_counts[members].max(), counts[members].max()
                slot = np.full(names.size, -1)
                slot[members] = np.arange(b)
                padded_rows = np.full((b, r), -1)
                is_mine = slot[row_front] >= 0
                padded_rows[slot[row_front[is_mine]], row_number[is_mine]] = rows[is_mine]
                batches.append((column_counts[members], c, padded_rows, self.panel_size))
                number[members] = num_fronts + np.arange(b)
                first_place[members] = self.num_places + np.arange(b) * c
                stride.append(np.full(b, c))
                diagonal.append(self.panel_size + np.arange(b) * c * c)
                below.append(self.panel_size + b * c * c + np.arange(b) * r * c)
                num_fronts += b
                self.num_places += int(b * c)
                self.panel_size += int(b * c * (c + r))
            self.batches.append(batches)
            self.ends.append(self.num_places)
            self.front[columns] = number[column_front]
            self.column[columns] = _number_within(column_counts)
            self.places[columns] = first_place[column_front] + self.column[columns]
            row_keys.append(number[row_front] * n + self.rank[rows])
            row_numbers.append(row_number)
        self.stride, self.diagonal, self.below = map(np.concatenate, (stride, diagonal, below))
        row_keys, row_numbers = np.concatenate(row_keys), np.concatenate(row_numbers)
        by_key = np.argsort(row_keys)
        self.row_keys, self.row_numbers = row_keys[by_key], row_numbers[by_key]

    def entry(self, first, second):
        """Return the places in the flat panels of the entries (first, second) of the factor."""
        is_swapped = self.rank[first] < self.rank[second]
        row, col = np.where(is_swapped, second, first), np.where(is_swapped, first, second)
        front = self.front[col]
        start = self.diagonal[front]
        number = self.column[row]
        outside = np.flatnonzero(self.front[row] != front)
        start[outside] = self.below[front[outside]]
        key = front[outside] * self.rank.size + self.rank[row[outside]]
        number[outside] = self.row_numbers[np.searchsorted(self.row_keys, key)]
        return start + number * self.stride[front] + self.column[col]

    def levels(self):
        """Return the tuple of `Level`."""
        # The place of each row of each front so far; padding is after the last place.
        places_of_rows = np.zeros(0, dtype=np.int64)
        levels = []
        start = 0
        for index, end in enumerate(self.ends):
            is_here = np.flatnonzero((places_of_rows >= start) & (places_of_rows < end))
            pulled = _lists(places_of_rows[is_here] - start, is_here + 1, end - start)
            levels.append(Level(self._batches(index), pulled))
            rows = [batch.rows.ravel() + end for batch in levels[-1].batches]
            places_of_rows = np.concatenate([places_of_rows, *rows])
            start = end
        return tuple(levels)

    def _batches(self, index):
        """Return the tuple of `Batch` of level `index`."""
        batches = []
        for column_counts, num_columns, rows, offset in self.batches[index]:
            num_fronts, num_rows = rows.shape
            is_real = rows >= 0
            behind = np.where(is_real, self.places[rows], self.num_places) - self.ends[index]
            # Only the lower triangles of the Schur complements are needed.
            i, j = np.tril_indices(num_rows)
            is_real = is_real[:, i]
            source = np.arange(num_fronts)[:, None] * num_rows**2 + (i * num_rows + j)
            batches.append(
                Batch(
                    rows=behind,
                    column_counts=column_counts,
                    update_source=source[is_real],
                    update_target=self.entry(rows[:, i][is_real], rows[:, j][is_real]),
                    offset=offset,
                    num_fronts=num_fronts,
                    num_columns=int(num_columns),
                    num_rows=num_rows,
                )
            )
        return tuple(batches)


def _lists(keys, values, num_keys):
    """Return the values of each key 0 ... num_keys - 1 as a column, padded with 0."""
    counts = np.bincount(keys, minlength=num_keys)
    order = np.argsort(keys, kind="stable")
    lists = np.zeros((counts.max(initial=0), num_keys), dtype=np.int64)
    lists[_number_within(counts), keys[order]] = values[order]
    return lists


def _number_within(counts):
    """Return 0 ... counts[0] - 1, 0 ... counts[1] - 1 and so on, in one array."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
