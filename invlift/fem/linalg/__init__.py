"""Sparse symmetric positive definite solves that run under `jit`, `vmap` and on a GPU.

`analyse` the pattern once on the host, `factorise` for each set of values, then `solve`,
`half_solve` (H with A^-1 = H^T H), `half_solve_transpose` (H^T) or take the `log_determinant`.
These are compiled: one operation at a time they would take a hundred times as long.

Two factorisations stand behind these: a block-tridiagonal one, whose program compiles in a third
of the time and which is as fast on small meshes, and a multifrontal one for everything larger.
"""

from __future__ import annotations

import jax
import numpy as np

from invlift.fem.linalg import block_tridiagonal, multifrontal, symbolic

#: Floating-point operations, n b^2 at bandwidth b, up to which the block-tridiagonal form is used.
#: Measured on one core: at 0.6e6 (397 unknowns) both take 0.2 ms, at 1e7 (1,791) 3 ms against 1 ms.
SMALL = 3e6

Structure = block_tridiagonal.Structure | symbolic.Structure
Factor = block_tridiagonal.Factor | multifrontal.Factor


def analyse(rows, cols, num_unknowns: int, coordinates: np.ndarray | None = None) -> Structure:
    """Symbolic analysis of the pattern of a symmetric matrix (on the host).

    Parameters
    ----------
    rows, cols : (num_contributions,) int
        Index pairs of the contributions, 0 <= index < n.  An off-diagonal pair is listed once, in
        either order, and stands for both halves; repeated pairs are summed.
    num_unknowns : int
        Order n of the matrix.
    coordinates : (n, dim), optional
        Positions of the unknowns, which make the analysis of large patterns faster.

    Returns
    -------
    Structure
        A pytree of index arrays; picklable.
    """
    places, bandwidth = block_tridiagonal.ordering(rows, cols, num_unknowns)
    if num_unknowns * bandwidth**2 <= SMALL:
        return block_tridiagonal.analyse(rows, cols, places, bandwidth)
    return symbolic.analyse(rows, cols, num_unknowns, coordinates)


@jax.jit
def factorise(structure: Structure, values: jax.Array) -> Factor:
    """Cholesky factor of the matrix with contributions (num_contributions,), in float64.

    Solves with it are NaN where the matrix is not positive definite or not finite.  Derivatives do
    not pass through: wrap solves in `jax.lax.custom_linear_solve`.
    """
    return _module(structure).factorise(structure, values)


@jax.jit
def solve(factor: Factor, rhs: jax.Array) -> jax.Array:
    """A^-1 rhs for right-hand sides of shape (n,) or (n, k)."""
    return _module(factor).solve(factor, rhs)


@jax.jit
def half_solve(factor: Factor, rhs: jax.Array) -> jax.Array:
    """H rhs, (n,) or (n, k), with A^-1 = H^T H; the order of the rows of H is the factor's own."""
    return _module(factor).half_solve(factor, rhs)


@jax.jit
def half_solve_transpose(factor: Factor, rhs: jax.Array) -> jax.Array:
    """H^T rhs, (n,) or (n, k), with the H of :func:`half_solve`."""
    return _module(factor).half_solve_transpose(factor, rhs)


@jax.jit
def log_determinant(factor: Factor) -> jax.Array:
    """log det A, ()."""
    return _module(factor).log_determinant(factor)


def _module(part: Structure | Factor):
    is_banded = isinstance(part, block_tridiagonal.Structure | block_tridiagonal.Factor)
    return block_tridiagonal if is_banded else multifrontal
