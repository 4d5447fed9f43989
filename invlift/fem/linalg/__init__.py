"""Sparse symmetric positive definite solves that run under `jit`, `vmap` and on a GPU.

`analyse` the pattern once on the host, `factorise` for each set of values, then `solve`,
`half_solve` (H with A^-1 = H^T H), `half_solve_transpose` (H^T) or take the `log_determinant`;
`inverse_diagonal` goes from the values to the diagonal of A^-1.  `factorise_jet` also keeps the
factor's derivatives along a curve of matrices, for those of half-solves (`half_solve_jet`,
`half_solve_transpose_jet`).
These are compiled: one operation at a time they would take a hundred times as long.
"""

from invlift.fem.linalg.jets import (
    FactorJet,
    factorise_jet,
    half_solve_jet,
    half_solve_transpose_jet,
)
from invlift.fem.linalg.multifrontal import (
    Factor,
    factorise,
    half_solve,
    half_solve_transpose,
    inverse_diagonal,
    log_determinant,
    solve,
)
from invlift.fem.linalg.symbolic import Structure, analyse

__all__ = [
    "Factor",
    "FactorJet",
    "Structure",
    "analyse",
    "factorise",
    "factorise_jet",
    "half_solve",
    "half_solve_jet",
    "half_solve_transpose",
    "half_solve_transpose_jet",
    "inverse_diagonal",
    "log_determinant",
    "solve",
]
