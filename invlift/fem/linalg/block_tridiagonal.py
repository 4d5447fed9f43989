"""Sparse Cholesky factorisation as a block-tridiagonal one, in pure JAX.

Reverse Cuthill-McKee ordering gathers a symmetric matrix around its diagonal; cut into blocks no
smaller than the bandwidth it is block-tridiagonal, and one `lax.scan` factorises it (George & Liu
1981, chapter 4).  The cost is n b^2 for n unknowns and half-bandwidth b: right for thin or small
meshes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee


@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True)
class Structure:
    """Where each contribution to the matrix goes; made once per sparsity pattern.

    Attributes
    ----------
    order : (n,) int32
        Position ``k`` of the permuted matrix holds unknown ``order[k]``.
    inverse_order : (n,) int32
        The inverse permutation.
    slots : (num_contributions,) int32
        Place of each contribution in the flattened storage of the blocks.
    mirrored : (num_mirrored,) int32
        Off-diagonal contributions that fall into a diagonal block, where both halves are stored.
    mirrored_slots : (num_mirrored,) int32
        Their places in the other half.
    padding : (num_padding,) int32
        Diagonal places past the last unknown, which hold a one.
    num_blocks, block_size : int
        Static sizes.
    """

    order: jax.Array
    inverse_order: jax.Array
    slots: jax.Array
    mirrored: jax.Array
    mirrored_slots: jax.Array
    padding: jax.Array
    num_blocks: int = field(metadata={"static": True})
    block_size: int = field(metadata={"static": True})

    @property
    def num_unknowns(self) -> int:
        """Order n of the matrix."""
        return self.order.shape[0]


@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True)
class Factor:
    """P A P^T = L L^T with L block-bidiagonal.

    Attributes
    ----------
    structure : Structure
    inverse_diagonal : (num_blocks, block_size, block_size)
        Inverses of the diagonal blocks of L: solves are matrix products only.
    subdiagonal : (num_blocks, block_size, block_size)
        Blocks of L below the diagonal; the first is zero.
    """

    structure: Structure
    inverse_diagonal: jax.Array
    subdiagonal: jax.Array


def ordering(rows, cols, num_unknowns: int) -> tuple[np.ndarray, int]:
    """Reverse Cuthill-McKee ordering of a pattern, and the half-bandwidth it leads to.

    Parameters
    ----------
    rows, cols : (num_contributions,) int
    num_unknowns : int
        As for :func:`invlift.fem.linalg.analyse`.

    Returns
    -------
    (n,) int64
        Place of each unknown in the ordering.
    int
        Half-bandwidth b of the permuted matrix, at least 1.
    """
    pattern = sp.csr_matrix((np.ones(np.size(rows)), (rows, cols)), shape=(num_unknowns,) * 2)
    order = reverse_cuthill_mckee((pattern + pattern.T).tocsr(), symmetric_mode=True)
    places = np.empty(num_unknowns, dtype=np.int64)
    places[order] = np.arange(num_unknowns)
    return places, max(1, int(np.abs(places[rows] - places[cols]).max(initial=0)))


def analyse(rows, cols, places: np.ndarray, bandwidth: int) -> Structure:
    """Where the contributions go in blocks as wide as the band.

    Parameters
    ----------
    rows, cols : (num_contributions,) int
    places : (n,) int64
    bandwidth : int
        What :func:`ordering` returned for these contributions.

    Returns
    -------
    Structure
    """
    num_unknowns, size = places.size, bandwidth
    low = np.maximum(places[rows], places[cols])
    high = np.minimum(places[rows], places[cols])
    num_blocks = -(-num_unknowns // size)

    def place(i, j):
        """Diagonal blocks first, then the blocks below them, each of shape (size, size)."""
        block = (j // size) + np.where(i // size == j // size, 0, num_blocks + 1)
        return (block * size + i % size) * size + j % size

    same_block = low // size == high // size
    mirrored = np.flatnonzero(same_block & (low != high))
    beyond = np.arange(num_unknowns, num_blocks * size)
    as_index = partial(jnp.asarray, dtype=jnp.int32)
    return Structure(
        order=as_index(np.argsort(places)),
        inverse_order=as_index(places),
        slots=as_index(place(low, high)),
        mirrored=as_index(mirrored),
        mirrored_slots=as_index(place(high[mirrored], low[mirrored])),
        padding=as_index(place(beyond, beyond)),
        num_blocks=num_blocks,
        block_size=size,
    )


def factorise(structure: Structure, values: jax.Array) -> Factor:
    """Cholesky factor of the matrix with the given contributions.

    Parameters
    ----------
    structure : Structure
    values : (num_contributions,) float64
        Contributions in the order given to :func:`analyse`.

    Returns
    -------
    Factor
        Holds NaN where the matrix is not positive definite.
    """
    s = structure
    values = jax.lax.stop_gradient(values)
    flat = jnp.zeros(2 * s.num_blocks * s.block_size**2, dtype=values.dtype)
    flat = flat.at[s.slots].add(values, mode="promise_in_bounds")
    flat = flat.at[s.mirrored_slots].add(values[s.mirrored], mode="promise_in_bounds")
    flat = flat.at[s.padding].set(1.0, mode="promise_in_bounds")
    blocks = flat.reshape(2, s.num_blocks, s.block_size, s.block_size)
    identity = jnp.eye(s.block_size, dtype=values.dtype)

    def eliminate(inverse_above, block):
        diagonal, below_above = block
        coupling = below_above @ inverse_above.T
        lower = jnp.linalg.cholesky(diagonal - coupling @ coupling.T, symmetrize_input=False)
        inverse = jax.scipy.linalg.solve_triangular(lower, identity, lower=True)
        return inverse, (inverse, coupling)

    _, (inverse_diagonal, subdiagonal) = jax.lax.scan(
        eliminate, jnp.zeros_like(identity), (blocks[0], blocks[1])
    )
    return Factor(s, inverse_diagonal, subdiagonal)


def _in_blocks(structure: Structure, columns: jax.Array) -> jax.Array:
    """Pad (n,) or (n, k) with zeros and cut it into (num_blocks, block_size, 1 or k)."""
    beyond = structure.num_blocks * structure.block_size - structure.num_unknowns
    columns = columns.reshape(structure.num_unknowns, -1)
    columns = jnp.pad(columns, ((0, beyond), (0, 0)))
    return columns.reshape(structure.num_blocks, structure.block_size, -1)


def half_solve(factor: Factor, rhs: jax.Array) -> jax.Array:
    """L^-1 P rhs.

    Parameters
    ----------
    factor : Factor
    rhs : (n,) or (n, k)

    Returns
    -------
    (n,) or (n, k)
        In the order of elimination, not of the unknowns.
    """
    s = factor.structure
    blocks = _in_blocks(s, rhs[s.order])

    def substitute(above, block):
        inverse, coupling, right = block
        here = inverse @ (right - coupling @ above)
        return here, here

    _, solved = jax.lax.scan(
        substitute,
        jnp.zeros_like(blocks[0]),
        (factor.inverse_diagonal, factor.subdiagonal, blocks),
    )
    return solved.reshape((-1, *rhs.shape[1:]))[: s.num_unknowns]


def half_solve_transpose(factor: Factor, rhs: jax.Array) -> jax.Array:
    """P^T L^-T rhs.

    Parameters
    ----------
    factor : Factor
    rhs : (n,) or (n, k)
        In the order of elimination, as :func:`half_solve` returns it.

    Returns
    -------
    (n,) or (n, k)
    """
    s = factor.structure
    blocks = _in_blocks(s, rhs)

    def substitute(carried, block):
        inverse, coupling, right = block
        here = inverse.T @ (right - carried)
        return coupling.T @ here, here

    _, solved = jax.lax.scan(
        substitute,
        jnp.zeros_like(blocks[0]),
        (factor.inverse_diagonal, factor.subdiagonal, blocks),
        reverse=True,
    )
    return solved.reshape((-1, *rhs.shape[1:]))[s.inverse_order]


def solve(factor: Factor, rhs: jax.Array) -> jax.Array:
    """A^-1 rhs for right-hand sides of shape (n,) or (n, k)."""
    return half_solve_transpose(factor, half_solve(factor, rhs))


def log_determinant(factor: Factor) -> jax.Array:
    """log det A, a scalar."""
    diagonal = jnp.diagonal(factor.inverse_diagonal, axis1=1, axis2=2)
    return -2.0 * jnp.sum(jnp.log(diagonal))
