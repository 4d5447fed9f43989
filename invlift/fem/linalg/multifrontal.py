"""Multifrontal Cholesky factorisation with a static pattern, in JAX.

Liu (1992), "The multifrontal method for sparse matrix solution: theory and practice", SIAM Review
34(1). Two changes suit a compiler of whole-array programs. First, the Schur complement of a front
is added at once to the panels of the ancestors that own its columns ("fan-out"), so that no front
stores a trailing block. Second, for each front with the matrix [[A11, .], [A21, .]], A11^-1 and
A21 A11^-1 are stored, so that both sweeps of a solve consist only of matrix products.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from invlift.errors import InputError
from invlift.programs.pytrees import Module

# All indices come from the symbolic analysis.
_IN_BOUNDS = {"mode": "promise_in_bounds", "wrap_negative_indices": False}

# Blocks of at most these sizes are factorised directly. LAPACK factorises at most this many blocks,
# one by one: JAX 0.10 divides a batch among the threads of its pool, where the factorisations of
# two programs can deadlock.
_LAPACK_BATCH, _LAPACK_SIZE = 2, 64
_LOOP_SIZE = 12
# Larger matrices are factorised by halves, up to this many such blocks. Each half is compiled
# separately. For still larger ones, a loop over blocks of columns takes half the compilation time
# and a tenth more run time.
_MOST_HALVED = 5


class Front(Module):
    """Part of the factor for a batch of b fronts of c columns and r rows.

    Attributes
    ----------
    rows : jax.Array
        (b, r) int32 places of the rows, counted from the first place after this level.
    half : jax.Array
        (b, c, c) W = L11^-1, where A11 = L11 L11^T; only half-solves need it.
    pivot_inverse : jax.Array
        (b, c, c) A11^-1 = W^T W.
    below, below_transpose : jax.Array
        (b, r, c) A21 A11^-1, and its transpose: batches of transposed products are slow.
    """

    rows: jax.Array
    half: jax.Array
    pivot_inverse: jax.Array
    below: jax.Array
    below_transpose: jax.Array


class Factor(Module):
    """A Cholesky factorisation.

    Attributes
    ----------
    levels : tuple of tuple of Front
    pulled : tuple of jax.Array
        `Level.pulled` of each level.
    places, unknowns : jax.Array
        (n,) and (num_places,) int32, as in `SymbolicAnalysis`.
    log_determinant : jax.Array
        () log determinant of the matrix; NaN if it is not positive definite.
    """

    levels: tuple
    pulled: tuple
    places: jax.Array
    unknowns: jax.Array
    log_determinant: jax.Array


@jax.jit
def factorise(structure, values):
    """Factorise the matrix with the given contributions.

    Parameters
    ----------
    structure : SymbolicAnalysis
        Result of `analyse`.
    values : jax.Array
        (num_values,) contributions in the order of the rows and cols of `analyse`.

    Returns
    -------
    Factor
        Its log determinant and all solves with it are NaN if the matrix is not finite, or not
        numerically positive definite.

    Raises
    ------
    InputError
        If it is differentiated.  Instead, wrap solves in `jax.lax.custom_linear_solve`, and the
        values in `jax.lax.stop_gradient`.
    """
    return _factorise(structure, _without_derivatives(jnp.asarray(values)))


@jax.custom_jvp
def _without_derivatives(values):
    return values


def _refuse_derivatives(primals, tangents):
    (values,), (tangent,) = primals, tangents
    if not isinstance(tangent, SymbolicZero):
        raise InputError(
            "fem.linalg.factorise",
            "values without derivatives",
            "a derivative, which would silently be 0",
            "wrap solves in jax.lax.custom_linear_solve, and values in jax.lax.stop_gradient",
        )
    return values, tangent


_without_derivatives.defjvp(_refuse_derivatives, symbolic_zeros=True)


def _factorise(structure, values):
    """Return the `Factor`, with derivatives."""
    panels = jnp.zeros_like(values, shape=(structure.panel_size,))
    panels = panels.at[structure.assembly].add(values, **_IN_BOUNDS)
    log_determinant = jnp.zeros_like(values, shape=())
    levels = []
    for level in structure.levels:
        factors = []
        for batch in level.batches:
            a11, a21 = _blocks(batch, panels)
            half = _inverse_cholesky(a11)
            log_determinant -= 2.0 * jnp.sum(jnp.log(jnp.diagonal(half, axis1=1, axis2=2)))
            upper = _transpose(half)
            l21 = a21 @ upper
            below = l21 @ upper.mT
            factors.append(Front(batch.rows, half, upper @ upper.mT, below, _transpose(below)))
            schur = (l21 @ l21.mT).ravel().at[batch.update_source].get(**_IN_BOUNDS)
            panels = panels.at[batch.update_target].add(-schur, **_IN_BOUNDS)
        levels.append(tuple(factors))
    log_determinant = jnp.where(jnp.isfinite(log_determinant), log_determinant, jnp.nan)
    pulled = tuple(level.pulled for level in structure.levels)
    return Factor(tuple(levels), pulled, structure.places, structure.unknowns, log_determinant)


@jax.jit
def solve(factor, rhs):
    """Return A^-1 rhs; rhs is (n,) or (n, k)."""
    columns, shape = _as_columns(rhs)
    parts = _forward(factor, columns)
    parts = _each(lambda front, part: front.pivot_inverse @ part, factor, parts)
    return _backward(factor, parts).reshape(shape)


@jax.jit
def half_solve(factor, rhs):
    """Return H rhs with A^-1 = H^T H; rhs is (n,) or (n, k).

    H = P^T L^-1 P, where P A P^T = L L^T and P is the order of elimination.
    """
    columns, shape = _as_columns(rhs)
    parts = _forward(factor, columns)
    parts = _each(lambda front, part: front.half @ part, factor, parts)
    solved = [part.reshape(-1, part.shape[2]) for part in _flat(parts)]
    return jnp.concatenate(solved).at[factor.places].get(**_IN_BOUNDS).reshape(shape)


@jax.jit
def half_solve_transpose(factor, rhs):
    """Return H^T rhs with the H of `half_solve`; rhs is (n,) or (n, k)."""
    columns, shape = _as_columns(rhs)
    parts = [_split(level, here) for level, here in _by_level(factor, columns)]
    parts = _each(lambda front, part: _transpose(front.half) @ part, factor, parts)
    return _backward(factor, parts).reshape(shape)


@jax.jit
def inverse_diagonal(structure, values):
    """Return the diagonal (n,) of A^-1 at the cost of a few factorisations.

    The arguments are those of `factorise`.  It can be differentiated with respect to the values in
    forward mode, any number of times.  It is NaN if the matrix is not finite, or not numerically
    positive definite.

    Takahashi, Fagan & Chen (1973), "Formation of a sparse bus impedance matrix and its application
    to short circuit study", by fronts: only the entries of Z = A^-1 in the pattern of the factor
    are computed, from the last front to the first, by Z21 = -Z22 M and Z11 = A11^-1 - M^T Z21 with
    M = A21 A11^-1.
    """
    values = jnp.asarray(values)
    factor = _factorise(structure, values)
    panels = jnp.zeros_like(values, shape=(structure.panel_size,))
    diagonals = []
    for level, fronts in zip(structure.levels[::-1], factor.levels[::-1], strict=True):
        here = []
        for batch, front in zip(level.batches, fronts, strict=True):
            b, r = front.rows.shape
            lower = jnp.zeros_like(values, shape=(b * r * r,)).at[batch.update_source]
            lower = lower.set(panels.at[batch.update_target].get(**_IN_BOUNDS), **_IN_BOUNDS)
            lower = lower.reshape(b, r, r)
            z21 = -((lower + jnp.tril(lower, -1).mT) @ front.below)
            z11 = front.pivot_inverse - front.below_transpose @ z21
            both = jnp.concatenate([z11.ravel(), z21.ravel()])
            panels = lax.dynamic_update_slice(panels, both, (batch.offset,))
            here.append(jnp.diagonal(z11, axis1=1, axis2=2).ravel())
        diagonals = here + diagonals
    diagonal = jnp.concatenate(diagonals).at[structure.places].get(**_IN_BOUNDS)
    return jnp.where(jnp.isnan(factor.log_determinant), jnp.nan, diagonal)


def _forward(factor, rhs):
    """Return T^-1 P rhs, for each batch of each level (num_fronts, num_columns, k).

    T is L with identities as diagonal blocks, so that P A P^T = T D T^T, where D contains the
    pivots, the blocks A11 of all fronts.

    The updates of a front to its rows are stored, and gathered when the rows are eliminated: a
    gather is several times faster than a scatter-add.
    """
    num_rows = sum(front.rows.size for front in _flat(factor.levels))
    updates = jnp.zeros_like(rhs, shape=(1 + num_rows, rhs.shape[1]))
    num_done = 1
    by_level = []
    for (level, here), pulled in zip(_by_level(factor, rhs), factor.pulled, strict=True):
        for rows in pulled:
            here = here - updates.at[rows].get(**_IN_BOUNDS)
        parts = _split(level, here)
        by_level.append(parts)
        for front, part in zip(level, parts, strict=True):
            update = (front.below @ part).reshape(-1, rhs.shape[1])
            updates = lax.dynamic_update_slice(updates, update, (num_done, 0))
            num_done += front.rows.size
    return by_level


def _backward(factor, by_level):
    """Return P^T T^-T parts, (n, k), for parts as `_forward` returns them."""
    behind = jnp.zeros_like(by_level[0][0], shape=(1, by_level[0][0].shape[2]))
    for level, parts in zip(factor.levels[::-1], by_level[::-1], strict=True):
        here = [
            part - front.below_transpose @ behind.at[front.rows].get(**_IN_BOUNDS)
            for front, part in zip(level, parts, strict=True)
        ]
        behind = jnp.concatenate([part.reshape(-1, part.shape[2]) for part in here] + [behind])
    return behind.at[factor.places].get(**_IN_BOUNDS)


def _each(apply, factor, by_level):
    """Apply `apply(front, part)` to the parts of all fronts."""
    return [
        [apply(front, part) for front, part in zip(level, parts, strict=True)]
        for level, parts in zip(factor.levels, by_level, strict=True)
    ]


def _transpose(matrices):
    """Return the transposes of a batch of matrices, in a new memory layout."""
    return lax.optimization_barrier(matrices.mT)


def _by_level(factor, rhs):
    """Yield each level with its part (num_columns, k) of the right-hand side (n, k).

    The part is NaN if the factorisation failed.
    """
    is_failed = jnp.isnan(factor.log_determinant)
    start = 0
    for level in factor.levels:
        end = start + sum(front.half.shape[0] * front.half.shape[1] for front in level)
        here = rhs.at[factor.unknowns[start:end]].get(**_IN_BOUNDS)
        yield level, jnp.where(is_failed, jnp.nan, here)
        start = end


def _split(level, here):
    """Split the columns of a level into those of its batches, (b, c, k) each."""
    parts = []
    for front in level:
        b, c, _ = front.half.shape
        parts.append(here[: b * c].reshape(b, c, -1))
        here = here[b * c :]
    return parts


def _flat(levels):
    """Return the items of all levels in one list."""
    return [part for level in levels for part in level]


def _as_columns(rhs):
    """Return the right-hand side as (n, k), and its shape."""
    rhs = jnp.asarray(rhs)
    return rhs.reshape(rhs.shape[0], -1), rhs.shape


def _blocks(batch, panels):
    """Return A11 (b, c, c), with ones on the diagonal of padded columns, and A21 (b, r, c)."""
    b, c, r = batch.num_fronts, batch.num_columns, batch.num_rows
    middle = batch.offset + b * c * c
    a11 = panels[batch.offset : middle].reshape(b, c, c)
    a21 = panels[middle : middle + b * r * c].reshape(b, r, c)
    column = jnp.arange(c)
    is_padding = (column >= batch.column_counts[:, None])[:, :, None]
    return jnp.where(is_padding & (column == column[:, None]), 1.0, a11), a21


@jax.custom_jvp
def _inverse_cholesky(matrix):
    """Return W = L^-1 with L the lower Cholesky factor of the batch (b, c, c) of matrices.

    Only the lower triangles are read. By halves: with W1 of the leading block, L21 = A21 W1^T, and
    W2 of A22 - L21 L21^T, the result is W = [[W1, 0], [-W2 L21 W1, W2]].
    """
    b, c, _ = matrix.shape
    size = _LAPACK_SIZE if b <= _LAPACK_BATCH else _LOOP_SIZE
    if c > _MOST_HALVED * size:
        return _by_blocks(matrix, -(-c // -(-c // size)))
    if c <= size:
        return _directly(matrix)
    half = -(-c // 2)
    first = _inverse_cholesky(matrix[:, :half, :half])
    l21 = matrix[:, half:, :half] @ first.mT
    second = _inverse_cholesky(matrix[:, half:, half:] - l21 @ l21.mT)
    top = jnp.concatenate([first, jnp.zeros_like(l21.mT)], axis=2)
    bottom = jnp.concatenate([-(second @ (l21 @ first)), second], axis=2)
    return jnp.concatenate([top, bottom], axis=1)


def _directly(matrix):
    """Compute `_inverse_cholesky` of few or small matrices (b, c, c)."""
    if len(matrix) <= _LAPACK_BATCH:
        return jnp.stack([_by_lapack(single) for single in matrix])
    return _by_columns(matrix)


def _by_lapack(matrix):
    """Compute `_inverse_cholesky` of one matrix (c, c) by LAPACK."""
    factor = lax.linalg.cholesky(matrix, symmetrize_input=False)
    identity = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    return lax.linalg.triangular_solve(factor, identity, left_side=True, lower=True)


def _by_columns(matrix):
    """Compute `_inverse_cholesky` of a batch (b, c, c) of small matrices, all at once.

    For each column of A, the row of the pivot reduces the rows below it. The same operations on an
    identity matrix turn it into W. Both matrices share one array: a column of W overwrites a column
    of A that is no longer needed.
    """
    number = jnp.arange(matrix.shape[-1])

    # Without support of negative indices, which would add four operations each.
    take = partial(lax.dynamic_index_in_dim, keepdims=False, allow_negative_indices=False)

    def eliminate(k, rows):
        column, pivot_row = take(rows, k, 1), take(rows, k, 0)
        scale = lax.rsqrt(take(column, k, 0))
        is_below, is_pivot = (number > k)[:, None], (number == k)[:, None]
        # The upper triangle of A is not stored: by symmetry the row of the pivot is its column.
        pivot_row = jnp.where(is_below, column, jnp.where(is_pivot, 1.0, pivot_row)) * scale
        multipliers = jnp.where(is_below, column * scale, 0.0)
        # One loop over all entries: writing row and column separately takes twice as long.
        reduced = jnp.where(is_pivot, 0.0, rows) - multipliers[:, None, :] * pivot_row
        return jnp.where(is_pivot[:, None], pivot_row, reduced)

    # The batch comes last: the processor works on several matrices at a time.
    rows = lax.fori_loop(0, number.size, eliminate, jnp.moveaxis(matrix, 0, -1))
    return jnp.tril(jnp.moveaxis(rows, -1, 0))


def _by_blocks(matrix, size):
    """Compute `_inverse_cholesky` of a batch (b, c, c) by blocks of ``size`` columns."""
    b, c, _ = matrix.shape
    padded = -(-c // size) * size
    identity = jnp.eye(padded, dtype=matrix.dtype)
    matrix = jnp.broadcast_to(identity, (b, padded, padded)).at[:, :c, :c].set(matrix)
    ones = jnp.tile(identity[:size, :size], (1, padded // size))
    number = jnp.arange(padded)[:, None]

    def eliminate(k, rows):
        start = k * size
        is_below = number >= start + size
        is_pivot = (number >= start) & ~is_below
        columns = lax.dynamic_slice_in_dim(rows, start, size, axis=2)
        pivot_rows = lax.dynamic_slice_in_dim(rows, start, size, axis=1)
        half = _directly(lax.dynamic_slice_in_dim(columns, start, size, axis=1))
        multipliers = jnp.where(is_below, columns, 0.0) @ half.mT
        pivot_rows = half @ jnp.where(is_pivot.T, ones, pivot_rows)
        pivot_rows = jnp.where(is_below.T, multipliers.mT, pivot_rows)
        rows = jnp.where(is_pivot.T & is_below, 0.0, rows) - multipliers @ pivot_rows
        return lax.dynamic_update_slice_in_dim(rows, pivot_rows, start, axis=1)

    rows = lax.fori_loop(0, padded // size, eliminate, matrix)
    return jnp.tril(rows)[:, :c, :c]


@_inverse_cholesky.defjvp
def _inverse_cholesky_jvp(primals, tangents):
    """Differentiate W A W^T = I: dW = -F W, F the lower half of W dA W^T with halved diagonal."""
    (inverse,), (change,) = map(_inverse_cholesky, primals), tangents
    scaled = inverse @ (jnp.tril(change) + jnp.tril(change, -1).mT) @ inverse.mT
    half = 0.5 * (jnp.tril(scaled) + jnp.tril(scaled, -1))
    return inverse, -(half @ inverse)
