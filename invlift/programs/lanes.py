"""Chains that one program computes side by side, each in a lane of ``jax.vmap``.

What a lane computes does not depend on the others.  They share the time of their loops: a loop goes
on until the last lane is done, and a branch is taken where one lane needs it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, jaxprs_in_params

#: Primitives that are calls of LAPACK on a processor.
LAPACK = {
    "cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "ormqr",
    "qr", "schur", "svd", "triangular_solve", "tridiagonal", "tridiagonal_solve",
}  # fmt: skip
#: Rows up to which a matrix is factorised without LAPACK: up to 11 that takes no longer, at 25
#: twice as long.
FEW_ROWS = 32


@jax.custom_batching.custom_vmap
def any_lane(flag: jax.Array) -> jax.Array:
    """Whether a flag, () bool, is true in any lane: the same number in all of them.

    A loop or a branch that is decided by it remains one under ``jax.vmap``, where a flag of each
    lane has JAX compute both branches, and mask all that a loop carries.  What lanes without the
    flag make of it must be masked by hand, unless it is used no more.
    """
    return flag


@any_lane.def_vmap
def _any_lane(axis_size, in_batched, flag):
    del axis_size, in_batched
    return jnp.any(flag), False


def calls_lapack(operations: Jaxpr) -> bool:
    """Whether a program calls LAPACK.

    JAX 0.10 and 0.11.0 divide the calls for a batch of matrices, of several lanes say, among the
    threads of their pool, where programs that run side by side can wait for each other for good.
    """
    return any(
        each.primitive.name in LAPACK or any(map(calls_lapack, jaxprs_in_params(each.params)))
        for each in operations.eqns
    )


def eliminate(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """L^-1 A, which is upper triangular, and L^-1, (d, d) each, column by column.

    Without pivots and without LAPACK, of many matrices side by side.
    """
    size = matrix.shape[0]
    rows = jnp.arange(size)

    def of_column(index, both):
        row, column = both[index], both[:, index]
        factors = jnp.where(rows > index, column / row[index], 0.0)
        return both - factors[:, None] * row

    both = jnp.concatenate([matrix, jnp.eye(size)], axis=1)
    both = jax.lax.fori_loop(0, size, of_column, both)
    return both[:, :size], both[:, size:]
