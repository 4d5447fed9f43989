"""Sparse matrices of a fixed pattern times dense columns, in pure JAX.

Rows are gathered, so that many columns are worked on at the speed of memory, where a scatter goes
entry by entry.  Up to a common width the entries of the rows stand side by side, the few beyond it
(rows differ in length) in a list of their own: the hybrid format of Bell & Garland (2009).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from invlift.programs.pytrees import Module

#: Share of the entries that may lie beyond the common width of the rows, and the largest width:
#: the rows of a coefficient that all elements of a layer share are as long as the layer is large.
MAX_BEYOND, MAX_WIDTH = 0.02, 64
#: Numbers (rows times columns) worked on at a time: an eighth of a megabyte.
BLOCK = 16_384
# All indices are built on the host: checks and wrap-around at each use would double the time.
_IN_BOUNDS = {"mode": "promise_in_bounds", "wrap_negative_indices": False}


def as_index(indices) -> jax.Array:
    """Integers from the host as int32 on the device.

    `jnp.asarray` compiles a program for every shape.
    """
    return jax.device_put(np.asarray(indices, dtype=np.int32))


def gather(values: jax.Array, indices: jax.Array) -> jax.Array:
    """Entries or rows of values (n, ...) at indices of any shape, which must be in 0 ... n - 1."""
    return jnp.asarray(values).at[indices].get(**_IN_BOUNDS)


def gather_or_zero(values: jax.Array, indices: jax.Array) -> jax.Array:
    """The same for indices in 0 ... n, and zero at those equal to n."""
    padding = jnp.zeros((1, *values.shape[1:]), values.dtype)
    return gather(jnp.concatenate([values, padding]), indices)


def scatter_add(size: int, indices: jax.Array, values: jax.Array) -> jax.Array:
    """Sums (size, ...) of values (*indices.shape, ...) at indices in 0 ... size - 1."""
    flat = jnp.asarray(values).reshape((indices.size, *values.shape[indices.ndim :]))
    total = jnp.zeros((size, *flat.shape[1:]), flat.dtype)
    return total.at[indices.ravel()].add(flat, **_IN_BOUNDS)


def scatter_add_or_drop(size: int, indices: jax.Array, values: jax.Array) -> jax.Array:
    """The same for indices in 0 ... size, without those equal to size."""
    return scatter_add(size + 1, indices, values)[:-1]


class _Rows(Module):
    """Entries of a matrix by rows.

    Attributes
    ----------
    entries, sources : (width, num_rows) int32
        The entry that each row has at each place, and which row of the dense columns it meets;
        `num_entries` and 0 where there is none.
    beyond : (3, num_beyond) int32
        Row, entry and source of those beyond the width.
    places : (num_entries,) int32
        Where each entry is in what :meth:`sampled_product` computes: (num_rows, width), ravelled,
        and then those beyond.
    """

    entries: jax.Array
    sources: jax.Array
    beyond: jax.Array
    places: jax.Array

    def product(self, values, columns):
        """Rows of the product, (num_rows, k), with columns (num_sources, k)."""
        padded = jnp.concatenate([values, jnp.zeros(1, values.dtype)])

        def rows(start, size):
            entries, sources = (
                _slice(part, start, size, 1) for part in (self.entries, self.sources)
            )
            terms = [
                gather(padded, entry)[:, None] * gather(columns, source)
                for entry, source in zip(entries, sources, strict=True)
            ]
            return sum(terms, jnp.zeros((size, columns.shape[1]), columns.dtype))

        total = _in_blocks(rows, self.sources.shape[1], columns.shape[1])
        if self.beyond.shape[1]:
            row, entry, source = self.beyond
            part = gather(values, entry)[:, None] * gather(columns, source)
            total = total.at[row].add(part, **_IN_BOUNDS)
        return total

    def sampled_product(self, left, right):
        """Entries of left right^T, (num_entries,), with (num_rows, k) and (num_sources, k)."""

        def rows(start, size):
            sources = _slice(self.sources, start, size, 1).T
            return jnp.einsum("rk,rwk->rw", _slice(left, start, size, 0), gather(right, sources))

        inside = _in_blocks(rows, *left.shape)
        row, _, source = self.beyond
        beyond = jnp.sum(gather(left, row) * gather(right, source), axis=1)
        return gather(jnp.concatenate([inside.ravel(), beyond]), self.places)


def _slice(array, start, size, axis):
    return jax.lax.dynamic_slice_in_dim(array, start, size, axis)


def _in_blocks(rows, num_rows, num_columns):
    """Results (num_rows, ...) of rows(start, size), (size, ...), by blocks of rows.

    A block is so small, with num_columns numbers to a row, that what it gathers stays in the
    processor's cache until it is summed.
    """
    size = max(16, BLOCK // num_columns)
    num_blocks = num_rows // size
    if num_blocks < 2:
        return rows(0, num_rows)
    inside = num_blocks * size
    by_block = jax.lax.map(lambda start: rows(start, size), jnp.arange(num_blocks) * size)
    total = by_block.reshape(inside, *by_block.shape[2:])
    if inside == num_rows:
        return total
    return jnp.concatenate([total, rows(inside, num_rows - inside)])


class Pattern(Module):
    """Where the entries of a sparse matrix are; their values come as arrays (num_entries,).

    Attributes
    ----------
    rows, cols : (num_entries,) int32
    by_row, by_col
        The entries of each row, and of each column.
    """

    rows: jax.Array
    cols: jax.Array
    by_row: _Rows
    by_col: _Rows

    def product(self, values: jax.Array, columns: jax.Array) -> jax.Array:
        """The matrix times columns, (num_cols, k) to (num_rows, k)."""
        return self.by_row.product(values, columns)

    def transposed_product(self, values: jax.Array, columns: jax.Array) -> jax.Array:
        """The transposed matrix times columns, (num_rows, k) to (num_cols, k)."""
        return self.by_col.product(values, columns)

    def sampled_product(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """Entries of left right^T, (num_entries,), of (num_rows, k) and (num_cols, k)."""
        return self.by_row.sampled_product(left, right)


class SparseMatrix(Module):
    """A sparse matrix in products, as an array is.

    Attributes
    ----------
    pattern : Pattern
    values : (num_entries,)
    """

    pattern: Pattern
    values: jax.Array

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.pattern.by_row.sources.shape[1], self.pattern.by_col.sources.shape[1]

    @property
    def T(self) -> SparseMatrix:
        """Transposed."""
        pattern = self.pattern
        return SparseMatrix(
            Pattern(pattern.cols, pattern.rows, pattern.by_col, pattern.by_row), self.values
        )

    def __matmul__(self, columns: jax.Array) -> jax.Array:
        """Times columns, (num_cols, k) to (num_rows, k)."""
        return self.pattern.product(self.values, columns)


def dense(matrix: jax.Array | SparseMatrix) -> jax.Array:
    """A matrix as an array."""
    if not isinstance(matrix, SparseMatrix):
        return matrix
    places = matrix.pattern.rows, matrix.pattern.cols
    return jnp.zeros(matrix.shape).at[places].set(matrix.values)


def sparse_matrix(matrix) -> SparseMatrix:
    """The same on the device, of a SciPy sparse array."""
    matrix = matrix.tocoo()
    structure, entries = pattern(matrix.row, matrix.col, *matrix.shape)
    values = np.zeros(structure.rows.size)
    np.add.at(values, entries, matrix.data)
    return SparseMatrix(structure, jax.device_put(values))


def pattern(rows, cols, num_rows: int, num_cols: int) -> tuple[Pattern, np.ndarray]:
    """Pattern of a matrix given by contributions (on the host).

    Parameters
    ----------
    rows, cols : int arrays that broadcast
        Places of the contributions; repeated places are one entry.
    num_rows, num_cols : int
        Contributions at larger places are none.

    Returns
    -------
    Pattern
    int array
        The entry that each contribution belongs to; the number of entries for those that are none.
    """
    rows, cols = np.broadcast_arrays(np.asarray(rows, dtype=np.int64), cols)
    is_inside = (rows < num_rows) & (cols < num_cols)
    flat = rows[is_inside] * num_cols + cols[is_inside]
    places, inside = np.unique(flat, return_inverse=True)
    row, col = np.divmod(places, num_cols)
    structure = Pattern(row, col, _by_row(row, col, num_rows), _by_row(col, row, num_cols))
    entries = np.full(rows.shape, places.size)
    entries[is_inside] = inside
    return jax.tree.map(as_index, structure), entries


def lower_half(matrix, number: np.ndarray, size: int):
    """Lower half of a matrix (on the host) in other numbers, without those from a size on.

    Parameters
    ----------
    matrix : (m, m) SciPy sparse array
        Symmetric.
    number : (m,) int array
        New number of each row and column.
    size : int

    Returns
    -------
    rows, cols, values : (num_kept,) arrays
    """
    matrix = matrix.tocoo()
    rows, cols = number[matrix.row], number[matrix.col]
    is_kept = (rows >= cols) & (rows < size) & (cols < size)
    return rows[is_kept], cols[is_kept], matrix.data[is_kept]


def _by_row(row, col, num_rows) -> _Rows:
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=num_rows)
    place = np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)
    beyond_width = np.cumsum(np.bincount(place)[::-1])[::-1]
    width = int(np.argmax(np.append(beyond_width, 0) <= MAX_BEYOND * row.size))
    width = min(width, MAX_WIDTH)
    entries = np.full((width, num_rows), row.size)
    sources = np.zeros((width, num_rows), dtype=np.int64)
    inside = place < width
    entries[place[inside], row[order[inside]]] = order[inside]
    sources[place[inside], row[order[inside]]] = col[order[inside]]
    outside = order[~inside]
    places = np.empty(row.size, dtype=np.int64)
    places[order[inside]] = place[inside] + width * row[order[inside]]
    places[outside] = width * num_rows + np.arange(outside.size)
    return _Rows(entries, sources, np.stack([row[outside], outside, col[outside]]), places)
