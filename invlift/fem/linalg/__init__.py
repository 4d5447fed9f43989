"""Sparse symmetric positive definite solves that run under `jit`, `vmap` and on a GPU.

`analyse` the pattern once on the host, `factorise` for each set of values, then `solve`,
`half_solve` (L^-1 P), `half_solve_transpose` (P^T L^-T) or take the `log_determinant`.
"""

from invlift.fem.linalg.block_tridiagonal import (
    Factor,
    Structure,
    analyse,
    factorise,
    half_solve,
    half_solve_transpose,
    log_determinant,
    solve,
)

__all__ = [
    "Factor",
    "Structure",
    "analyse",
    "factorise",
    "half_solve",
    "half_solve_transpose",
    "log_determinant",
    "solve",
]
