"""Products of sparse matrices of a fixed pattern with dense columns, in pure JAX.

Products gather rows, so that many columns are processed at memory speed; a scatter would process
entry by entry.  Rows are stored up to a common width.  The few entries of longer rows are in a
separate list: the hybrid format of Bell & Garland (2009).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from invlift.programs.pytrees import Module

#: Largest share of the entries beyond the common width of the rows, and largest common width: the
#: row of a coefficient that all elements of a layer share is as long as the number of elements.
MAX_BEYOND, MAX_WIDTH = 0.02, 64
#: Numbers (rows times columns) in a block: an eighth of a megabyte.
BLOCK = 16_384
# All indices are built on the host and are valid: checks and wrap-around would double the time.
_IN_BOUNDS = {"mode": "promise_in_bounds", "wrap_negative_indices": False}


def as_index(indices) -> jax.Array:
    """Copy integers from the host to the device as int32.

    It avoids `jnp.asarray`, which compiles a program for every shape.
    """
    return jax.device_put(np.asarray(indices, dtype=np.int32))


def gather(values: jax.Array, indices: jax.Array) -> jax.Array:
    """Gather entries or rows of values (n, ...) at indices of any shape in 0 ... n - 1."""
    # The same as `values.at[indices].get`, which takes five times as long to trace.
    values, num_axes = jnp.asarray(values), jnp.ndim(indices)
    rest = tuple(range(num_axes, num_axes + values.ndim - 1))
    return jax.lax.gather(
        values,
        jax.lax.expand_dims(indices, (num_axes,)),
        jax.lax.GatherDimensionNumbers(rest, collapsed_slice_dims=(0,), start_index_map=(0,)),
        slice_sizes=(1, *values.shape[1:]),
        mode="promise_in_bounds",
    )


def gather_or_zero(values: jax.Array, indices: jax.Array) -> jax.Array:
    """Gather entries or rows of values (n, ...) at indices in 0 ... n, with zero at index n."""
    padding = jnp.zeros((1, *values.shape[1:]), values.dtype)
    return gather(jnp.concatenate([values, padding]), indices)


def scatter_add(size: int, indices: jax.Array, values: jax.Array) -> jax.Array:
    """Sum values (*indices.shape, ...) at indices in 0 ... size - 1 into (size, ...)."""
    flat = jnp.asarray(values).reshape((indices.size, *values.shape[indices.ndim :]))
    total = jnp.zeros((size, *flat.shape[1:]), flat.dtype)
    return total.at[indices.ravel()].add(flat, **_IN_BOUNDS)


def scatter_add_or_drop(size: int, indices: jax.Array, values: jax.Array) -> jax.Array:
    """Sum values as :func:`scatter_add`, but drop those at the index ``size``."""
    return scatter_add(size + 1, indices, values)[:-1]


class _Rows(Module):
    """Entries of a matrix by rows.

    Attributes
    ----------
    entries, sources : (width, num_rows) int32
        Entry at each place of each row, and the row of the dense columns that it multiplies;
        `num_entries` and 0 for padding.
    beyond : (3, num_beyond) int32
        Row, entry and source of the entries beyond the width.
    places : (num_entries,) int32
        Place of each entry in the intermediate result of :meth:`sampled_product`: (num_rows,
        width), ravelled, followed by the entries beyond the width.
    """

    entries: jax.Array
    sources: jax.Array
    beyond: jax.Array
    places: jax.Array

    def product(self, values, columns):
        """Return the product with columns (num_sources, k), (num_rows, k)."""
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
        """Return entries of left right^T, (num_entries,), of (num_rows, k) and (num_sources, k)."""

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
    """Evaluate rows(start, size), (size, ...), block by block; return (num_rows, ...).

    With num_columns numbers per row, a block is so small that the gathered numbers stay in the
    processor's cache until they are summed.
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
    """Positions of the entries of a sparse matrix; values are separate arrays (num_entries,).

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
        """Multiply the matrix by columns, (num_cols, k) to (num_rows, k)."""
        return self.by_row.product(values, columns)

    def transposed_product(self, values: jax.Array, columns: jax.Array) -> jax.Array:
        """Multiply the transposed matrix by columns, (num_rows, k) to (num_cols, k)."""
        return self.by_col.product(values, columns)

    def sampled_product(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """Return entries of left right^T, (num_entries,), of (num_rows, k) and (num_cols, k)."""
        return self.by_row.sampled_product(left, right)


class SparseMatrix(Module):
    """A sparse matrix that multiplies arrays with ``@``.

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
        """The transposed matrix."""
        pattern = self.pattern
        return SparseMatrix(
            Pattern(pattern.cols, pattern.rows, pattern.by_col, pattern.by_row), self.values
        )

    def __matmul__(self, columns: jax.Array) -> jax.Array:
        """Multiply by columns, (num_cols, k) to (num_rows, k)."""
        return self.pattern.product(self.values, columns)


def dense(matrix: jax.Array | SparseMatrix) -> jax.Array:
    """Return a matrix as a dense array."""
    if not isinstance(matrix, SparseMatrix):
        return matrix
    places = matrix.pattern.rows, matrix.pattern.cols
    return jnp.zeros(matrix.shape).at[places].set(matrix.values)


def sparse_matrix(matrix) -> SparseMatrix:
    """Copy a SciPy sparse array to the device."""
    matrix = matrix.tocoo()
    structure, entries = pattern(matrix.row, matrix.col, *matrix.shape)
    values = np.zeros(structure.rows.size)
    np.add.at(values, entries, matrix.data)
    return SparseMatrix(structure, jax.device_put(values))


def pattern(rows, cols, num_rows: int, num_cols: int) -> tuple[Pattern, np.ndarray]:
    """Build the pattern of a matrix from contributions (on the host).

    Parameters
    ----------
    rows, cols : int arrays that broadcast
        Rows and columns of the contributions; repeated places are one entry.
    num_rows, num_cols : int
        Size of the matrix; contributions outside are ignored.

    Returns
    -------
    Pattern
    int array
        The entry of each contribution; the number of entries for ignored contributions.
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
    """Return the lower half of a renumbered matrix (on the host), restricted to a size.

    Parameters
    ----------
    matrix : (m, m) SciPy sparse array
        A symmetric matrix.
    number : (m,) int array
        New number of each row and column.
    size : int
        Rows and columns with a new number from ``size`` are left out.

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
