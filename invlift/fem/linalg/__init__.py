"""Sparse symmetric positive definite solves that run under `jit`, `vmap` and on a GPU.

`analyse` the pattern once on the host, `factorise` for each set of values, then `solve`,
`half_solve` (H with A^-1 = H^T H) or `half_solve_transpose` (H^T).  `inverse_diagonal` computes the
diagonal of A^-1 from the values.  `factorise_jet` also keeps the factor's derivatives along a curve
of matrices, for derivatives of half-solves (`half_solve_jet`, `half_solve_transpose_jet`).
These functions are compiled: operation by operation they would take a hundred times as long.

Matrices analysed within `iteratively` have no factor: `solve` then iterates, and there are no
half-solves.
"""

from invlift.fem.linalg import multifrontal, symbolic
from invlift.fem.linalg.iterative import (
    Entries,
    Iterations,
    entries_of,
    is_iterative,
    iterate,
    iteratively,
    with_values,
)
from invlift.fem.linalg.jets import (
    FactorJet,
    factorise_jet,
    half_solve_jet,
    half_solve_transpose_jet,
)
from invlift.fem.linalg.multifrontal import (
    Factor,
    half_solve,
    half_solve_transpose,
    inverse_diagonal,
)
from invlift.fem.linalg.symbolic import SymbolicAnalysis

__all__ = [
    "Factor",
    "FactorJet",
    "SymbolicAnalysis",
    "analyse",
    "factorise",
    "factorise_jet",
    "half_solve",
    "half_solve_jet",
    "half_solve_transpose",
    "half_solve_transpose_jet",
    "inverse_diagonal",
    "iteratively",
    "solve",
]


def analyse(rows, cols, num_unknowns, coordinates):
    """As :func:`invlift.fem.linalg.symbolic.analyse`, or return the entries for iterations."""
    if is_iterative():
        return entries_of(rows, cols, num_unknowns, coordinates)
    return symbolic.analyse(rows, cols, num_unknowns, coordinates)


def factorise(structure, values):
    """As :func:`invlift.fem.linalg.multifrontal.factorise`, or return the matrix for iterations."""
    factorise_entries = with_values if isinstance(structure, Entries) else multifrontal.factorise
    return factorise_entries(structure, values)


def solve(factor, rhs):
    """As :func:`invlift.fem.linalg.multifrontal.solve`, or solve by iterations."""
    solve_with = iterate if isinstance(factor, Iterations) else multifrontal.solve
    return solve_with(factor, rhs)
