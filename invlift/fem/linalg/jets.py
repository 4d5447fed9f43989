"""Derivatives of half-solves along a curve A(t) of matrices.

Derivatives of a solve need only the factor, because (A^-1)' = -A^-1 A' A^-1.  Derivatives of the
factor have no such short form: with A = L L^T, L^-1 has the derivative -F L^-1, where F is the
lower half, with halved diagonal, of L^-1 A' L^-T (Murray 2016, "Differentiation of the Cholesky
decomposition").  They are computed front by front, in forward mode.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp

from invlift.fem.linalg import multifrontal
from invlift.fem.linalg.multifrontal import Factor
from invlift.programs.derivatives import derivatives_along
from invlift.programs.pytrees import Module


class FactorJet(Module):
    """The factor of A(0), and derivatives of the factor of A(t) at t = 0.

    Attributes
    ----------
    factor : Factor
    derivatives : tuple
        For each order from 1, the derivatives of the arrays that half-solves use, in the same
        shapes.
    """

    factor: Factor
    derivatives: tuple


@jax.jit
def factorise_jet(structure, values):
    """Factorise A(0), and differentiate the factor along A(t).

    Parameters
    ----------
    structure : SymbolicAnalysis
        Result of `analyse`.
    values : tuple of jax.Array
        (num_values,) each: the contributions to A(0), A'(0), A''(0), ...; at least one.

    Returns
    -------
    FactorJet
        The factor and ``len(values) - 1`` derivatives.
    """
    values = tuple(jnp.asarray(array) for array in values)
    factor = multifrontal._factorise(structure, values[0])
    path = derivatives_along(lambda here: _parts(multifrontal._factorise(structure, here)), values)
    return FactorJet(_with_parts(factor, path[0]), tuple(path[1:]))


@jax.jit
def half_solve_jet(jet, columns, along=1.0):
    """Return the derivatives of H(t) x(s) at s = 0, with the H of `half_solve`.

    Parameters
    ----------
    jet : FactorJet
        Factor with at least q - 1 derivatives.
    columns : jax.Array
        (q, n, k) derivatives x(0), x'(0), ... with respect to s, of order 0 to q - 1.
    along : float
        dt/ds, which is constant.

    Returns
    -------
    jax.Array
        (q, n, k).
    """
    return _differentiate(multifrontal.half_solve, jet, columns, along)


@jax.jit
def half_solve_transpose_jet(jet, columns, along=1.0):
    """Return the derivatives of H(t)^T x(s) at s = 0: see `half_solve_jet`."""
    return _differentiate(multifrontal.half_solve_transpose, jet, columns, along)


def _differentiate(apply, jet, columns, along):
    path = [(_parts(jet.factor), columns[0])]
    for order, column in enumerate(columns[1:], start=1):
        scale = along**order
        parts = jax.tree.map(lambda part, scale=scale: scale * part, jet.derivatives[order - 1])
        path.append((parts, column))
    values = derivatives_along(lambda both: apply(_with_parts(jet.factor, both[0]), both[1]), path)
    return jnp.stack(values)


def _parts(factor):
    """Return the arrays of each front that half-solves use."""
    return tuple(
        tuple((front.half, front.below, front.below_transpose) for front in level)
        for level in factor.levels
    )


def _with_parts(factor, parts):
    """Return the factor with these arrays in its fronts."""
    names = ("half", "below", "below_transpose")
    levels = tuple(
        tuple(
            replace(front, **dict(zip(names, arrays, strict=True)))
            for front, arrays in zip(level, here, strict=True)
        )
        for level, here in zip(factor.levels, parts, strict=True)
    )
    return replace(factor, levels=levels)
