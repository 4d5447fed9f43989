"""Multifrontal Cholesky factorisation with a static pattern, in JAX.

Liu (1992), "The multifrontal method for sparse matrix solution: theory and practice", SIAM Review
34(1). Two departures suit a compiler of whole-array programs. The Schur complement of a front is
added at once to the panels of those ancestors that own its columns ("fan-out"), so no front
stores a trailing block. And of each front with the matrix [[A11, .], [A21, .]] the panel
[W; -A21 W^T W] is kept, where W = L11^-1 is the inverse of the Cholesky factor of A11: both
sweeps of a solve are then nothing but products with panels.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

# All indices come from the symbolic analysis.
_IN_BOUNDS = {"mode": "promise_in_bounds", "wrap_negative_indices": False}

# Blocks of at most this size are factorised directly, larger ones by halves.
_BASE_SIZE = 64


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Factor:
    """A Cholesky factorisation.

    Attributes
    ----------
    levels : tuple of tuple of (jax.Array, jax.Array, jax.Array)
        For each batch of each level `rows` of the batch, (num_fronts, num_rows); W = L11^-1,
        (num_fronts, num_columns, num_columns); A21 A11^-1, (num_fronts, num_rows, num_columns).
    places : jax.Array
        (n,) int32 place of each unknown among the columns of all fronts.
    log_determinant : jax.Array
        () log determinant of the matrix; NaN if it is not positive definite.
    """

    levels: tuple
    places: jax.Array
    log_determinant: jax.Array


def factorise(structure, values):
    """Factorise the matrix with the given contributions.

    Parameters
    ----------
    structure : Structure
        From `analyse`.
    values : jax.Array
        (num_values,) contributions in the order of the rows and cols given to `analyse`. No
        derivatives pass through the factorisation: wrap solves in `jax.lax.custom_linear_solve`.

    Returns
    -------
    Factor
        Its log determinant and all solves with it are NaN if the matrix is not numerically
        positive definite or not finite.
    """
    values = lax.stop_gradient(jnp.asarray(values))
    panels = jnp.zeros_like(values, shape=(structure.panel_size,))
    panels = panels.at[structure.assembly].add(values, **_IN_BOUNDS)
    log_determinant = jnp.zeros_like(values, shape=())
    levels = []
    for level in structure.levels:
        factors = []
        for batch in level:
            a11, a21 = _blocks(batch, panels)
            inverse = _inverse_cholesky(a11)
            log_determinant -= 2.0 * jnp.sum(jnp.log(jnp.diagonal(inverse, axis1=1, axis2=2)))
            l21 = a21 @ inverse.mT
            factors.append((batch.rows, inverse, l21 @ inverse))
            schur = (l21 @ l21.mT).ravel().at[batch.update_source].get(**_IN_BOUNDS)
            panels = panels.at[batch.update_target].add(-schur, **_IN_BOUNDS)
        levels.append(tuple(factors))
    log_determinant = jnp.where(jnp.isfinite(log_determinant), log_determinant, jnp.nan)
    return Factor(tuple(levels), structure.places, log_determinant)


def solve(factor, rhs):
    """Return A^-1 rhs; rhs is (n,) or (n, k)."""
    columns, shape = _as_columns(factor, rhs)
    return _backward(factor, _forward(factor, columns)).reshape(shape)


def half_solve(factor, rhs):
    """Return H rhs with A^-1 = H^T H; rhs is (n,) or (n, k).

    H = P^T L^-1 P, where P A P^T = L L^T and P is the order of elimination.
    """
    columns, shape = _as_columns(factor, rhs)
    solved = [
        part.reshape(-1, part.shape[2]) for level in _forward(factor, columns) for part in level
    ]
    return jnp.concatenate(solved).at[factor.places].get(**_IN_BOUNDS).reshape(shape)


def half_solve_transpose(factor, rhs):
    """Return H^T rhs with the H of `half_solve`; rhs is (n,) or (n, k)."""
    columns, shape = _as_columns(factor, rhs)
    behind = _spread(factor, columns)
    solved = []
    for level in factor.levels:
        parts, behind = _split(level, behind)
        solved.append(parts)
    return _backward(factor, solved).reshape(shape)


def log_determinant(factor):
    """Return the log determinant () of the factorised matrix."""
    return factor.log_determinant


def _forward(factor, rhs):
    """Return L^-1 P rhs, for each batch of each level (num_fronts, num_columns, k)."""
    behind = _spread(factor, rhs)
    solved = []
    for level in factor.levels:
        parts, behind = _split(level, behind)
        solved.append([inverse @ part for (_, inverse, _), part in zip(level, parts, strict=True)])
        for (rows, _, below), part in zip(level, parts, strict=True):
            behind = behind.at[rows].add(-(below @ part), **_IN_BOUNDS)
    return solved


def _backward(factor, solved):
    """Return P^T L^-T of what `_forward` returns, (n, k)."""
    behind = jnp.zeros_like(solved[0][0], shape=(1, solved[0][0].shape[2]))
    for level, parts in zip(factor.levels[::-1], solved[::-1], strict=True):
        here = [
            inverse.mT @ part - below.mT @ behind.at[rows].get(**_IN_BOUNDS)
            for (rows, inverse, below), part in zip(level, parts, strict=True)
        ]
        behind = jnp.concatenate([part.reshape(-1, part.shape[2]) for part in here] + [behind])
    return behind.at[factor.places].get(**_IN_BOUNDS)


def _spread(factor, rhs):
    """Return the right-hand side (n, k) at the places of the columns, and one more for padding."""
    num_places = sum(
        inverse.shape[0] * inverse.shape[1] for level in factor.levels for _, inverse, _ in level
    )
    zeros = jnp.zeros_like(rhs, shape=(num_places + 1, rhs.shape[1]))
    return zeros.at[factor.places].set(rhs, unique_indices=True, **_IN_BOUNDS)


def _split(level, behind):
    """Split the places off that belong to the batches of a level: (b, c, k) each, and the rest."""
    parts = []
    for _, inverse, _ in level:
        b, c, _ = inverse.shape
        parts.append(behind[: b * c].reshape(b, c, -1))
        behind = behind[b * c :]
    return parts, behind


def _as_columns(factor, rhs):
    """Return the right-hand side as (n, k), NaN if the factorisation failed, and its shape."""
    rhs = jnp.asarray(rhs)
    is_failed = jnp.isnan(factor.log_determinant)
    return jnp.where(is_failed, jnp.nan, rhs).reshape(rhs.shape[0], -1), rhs.shape


def _blocks(batch, panels):
    """Return A11 (b, c, c), with ones on the diagonal of padded columns, and A21 (b, r, c)."""
    b, c, r = batch.num_fronts, batch.num_columns, batch.num_rows
    middle = batch.offset + b * c * c
    a11 = panels[batch.offset : middle].reshape(b, c, c)
    a21 = panels[middle : middle + b * r * c].reshape(b, r, c)
    column = jnp.arange(c)
    is_padding = (column >= batch.column_counts[:, None])[:, :, None]
    return jnp.where(is_padding & (column == column[:, None]), 1.0, a11), a21


def _inverse_cholesky(matrix):
    """Return W = L^-1 with L the lower Cholesky factor of the batch (b, c, c) of matrices.

    Only the lower triangles are read. By halves: with W1 of the leading block,
    L21 = A21 W1^T and W2 of A22 - L21 L21^T, W = [[W1, 0], [-W2 L21 W1, W2]].
    """
    c = matrix.shape[-1]
    if c <= _BASE_SIZE:
        factor = lax.linalg.cholesky(matrix, symmetrize_input=False)
        identity = jnp.broadcast_to(jnp.eye(c, dtype=matrix.dtype), matrix.shape)
        return lax.linalg.triangular_solve(factor, identity, left_side=True, lower=True)
    half = -(-c // 2)
    first = _inverse_cholesky(matrix[:, :half, :half])
    l21 = matrix[:, half:, :half] @ first.mT
    second = _inverse_cholesky(matrix[:, half:, half:] - l21 @ l21.mT)
    top = jnp.concatenate([first, jnp.zeros_like(l21.mT)], axis=2)
    bottom = jnp.concatenate([-(second @ (l21 @ first)), second], axis=2)
    return jnp.concatenate([top, bottom], axis=1)
