"""Maps of the local contributions to the discretisation errors of readings.

Let u, u_h be the solutions on a refined and on the given mesh, and z, z_h those of the adjoint
equations.  The error of a reading is a(u - u_h, z - z_h), a sum over the refined elements
(dual-weighted residuals: Becker & Rannacher 2001, "An optimal control approach to a posteriori
error estimation in finite element methods", Acta Numerica 10, section 2), plus the quadrature
error of the given mesh.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_array

from invlift.fem.linalg import sparse
from invlift.fem.mesh.functionals import rows_of
from invlift.fem.mesh.geometry import barycentric
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import parents_of
from invlift.models.base import ForwardModel
from invlift.programs.compilation import Program

#: Number of sums of readings with random signs from which a map of errors is estimated.
NUM_SUMS = 8


class _Coarse(NamedTuple):
    """Solutions and adjoints of one equation on a mesh, or of several along a first axis.

    Attributes
    ----------
    solutions : (num_dofs, L)
        Solution for each load.
    adjoints : (num_dofs, Q L)
        Adjoint for each of Q sums of readings, and each load.
    tested : list of (Q, E)
        Adjoints times residuals, on the elements of each term.
    """

    solutions: jax.Array
    adjoints: jax.Array
    tested: list[jax.Array]


class _Nested(NamedTuple):
    """Maps from the given mesh to a finer mesh.

    Attributes
    ----------
    nodes : sparse.SparseMatrix
        Interpolation from the given nodes to the fine nodes.
    cells : (num_cells, dim + 1) int32
        Cells of the given mesh.
    parents : (num_fine_cells,) int32
        The given cell that contains each fine cell.
    """

    nodes: sparse.SparseMatrix
    cells: jax.Array
    parents: jax.Array


def sums_of_errors(
    model: ForwardModel, finer: ForwardModel, times: int, coefficients, sd
) -> np.ndarray:
    """Return the contributions of each node's surroundings to errors of sums of the readings.

    The signs of the readings in a sum are random: the expected square of a sum is the sum of
    squares over the readings.

    Parameters
    ----------
    model, finer, times, coefficients
        As of :func:`error_map`.
    sd : (d,)
        Standard deviations of the noise; infinite for a reading that does not count.

    Returns
    -------
    (NUM_SUMS, num_nodes)
        In standard deviations of the noise.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (NUM_SUMS, sd.size))
    weights = signs * np.nan_to_num(1.0 / sd, posinf=0.0)
    return error_map(model, finer, times, coefficients, weights)


def error_map(
    model: ForwardModel, finer: ForwardModel, times: int, coefficients, weights
) -> np.ndarray:
    """Return the contribution of each node's surroundings to the errors of sums of readings.

    Parameters
    ----------
    model : ForwardModel
        Model of equations on a mesh, possibly refined for the solution.
    finer : ForwardModel
        The same model with ``times`` more refinements.
    times : int
    coefficients : (N,)
    weights : (Q, d)
        Weights of the readings in each sum.

    Returns
    -------
    (Q, num_nodes)
        Contributions at the nodes on which ``model`` solves its equations, without readings of
        fluxes.  Their sum over the nodes is the error of the sum of readings, up to terms of higher
        order in the cell size.  Of a model that is extrapolated from two meshes it is the error on
        the finer one.
    """
    mesh, fine = model.on_mesh.solved_on.mesh, finer.on_mesh.solved_on.mesh
    parents = parents_of(mesh, fine)
    nested = _Nested(
        sparse.sparse_matrix(_interpolation(mesh, fine, parents)),
        sparse.as_index(mesh.cells),
        sparse.as_index(parents),
    )
    total = _differences(model, finer, nested, coefficients, np.asarray(weights))
    # Each refinement divides the error of linear elements by four.
    return np.asarray(total) / (1.0 - 0.25**times)


def _interpolation(mesh: Mesh, fine: Mesh, parents: np.ndarray) -> csr_array:
    """Return the matrix from the nodes of a mesh to those of a finer one, also on cut meshes."""
    _, first = np.unique(fine.cells, return_index=True)
    cells = mesh.cells[parents[first // fine.cells.shape[1]]]
    weights, _ = barycentric(mesh.points[cells], fine.points)
    weights = np.where(np.abs(weights) < 1e-9, 0.0, weights)
    matrix = rows_of(cells, weights, mesh.num_nodes)
    matrix.eliminate_zeros()
    return matrix


@partial(Program, effort="none")
def _differences(model, finer, nested, coefficients, weights):
    """Return the contributions without extrapolation, at the nodes of the model's solution."""
    coarse = model.of_equations(_coarse, coefficients, weights)
    fine = partial(_of_equation, nested)
    parts = jax.tree.leaves(finer.of_equations(fine, coefficients, weights, coarse))
    size = nested.nodes.shape[1]
    return sum(each.reshape(-1, len(weights), size).sum(axis=0) for each in parts)


def _coarse(equation, coefficients, weights):
    solutions, adjoints = equation.with_adjoints(coefficients, weights)
    tested = equation.tested(coefficients, adjoints, solutions)
    return _Coarse(solutions, adjoints, tested)


def _of_equation(nested, equation, coefficients, weights, given):
    """Return the contributions of each node's surroundings for one equation, (Q, num_nodes)."""
    solutions, adjoints = equation.with_adjoints(coefficients, weights)
    at_nodes = [_interpolated(nested.nodes, each) for each in (given.solutions, given.adjoints)]
    of_errors = equation.tested(coefficients, adjoints - at_nodes[1], solutions, at_nodes[0])
    of_given = equation.tested(coefficients, at_nodes[1], at_nodes[0])
    num_cells, (num_fine, num_nodes) = nested.cells.shape[0], nested.nodes.shape
    total = 0.0
    for term, change, residual, coarse in zip(
        equation.terms, of_errors, of_given, given.tested, strict=True
    ):
        if term.dofs.shape[1] == nested.parents.size:
            change = sparse.scatter_add(num_cells, nested.parents, (change - residual).T)
            total = total + _spread(num_nodes, nested.cells.T, change + coarse.T)
        else:  # a term on facets, whose integrals are equal on both meshes
            total = total + nested.nodes.T @ _spread(num_fine, term.dofs, change.T)
    return total.T


def _interpolated(nodes, values):
    """Interpolate values at degrees of freedom, nodes first, to the finer mesh."""
    size = nodes.shape[1]
    return jnp.concatenate([nodes @ values[:size], values[size:]])


def _spread(size, corners, values):
    """Distribute values of elements, (E, Q), equally to their corners, (m, E), that are nodes."""
    is_node = corners < size
    parts = (is_node / is_node.sum(axis=0))[:, :, None] * values
    return sparse.scatter_add_or_drop(size, jnp.where(is_node, corners, size), parts)
