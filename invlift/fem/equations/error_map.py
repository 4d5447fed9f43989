"""Where on a mesh the errors of readings are made.

With solutions u, u_h on a refined and the given mesh and solutions z, z_h of the adjoint equations
the error of a reading is a(u - u_h, z - z_h), a sum over the refined elements (dual-weighted
residuals: Becker & Rannacher 2001, "An optimal control approach to a posteriori error estimation in
finite element methods", Acta Numerica 10, section 2), and what the quadrature of the given mesh
adds.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.fem.equations.linearly_mapped import LinearlyMapped
from invlift.fem.equations.system import EquationSystem
from invlift.fem.linalg import sparse
from invlift.fem.mesh.finer_mesh import extrapolated
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import refined
from invlift.models.base import ForwardModel
from invlift.models.joined import Joined
from invlift.programs.compilation import Program


class _Coarse(NamedTuple):
    """What a mesh has of one equation, or of several along a first axis.

    Attributes
    ----------
    solutions : (num_dofs, L)
        For each load.
    adjoints : (num_dofs, Q L)
        For each of Q sums of readings, and each load.
    tested : list of (Q, E)
        Adjoints times residuals, on the elements of each term.
    """

    solutions: jax.Array
    adjoints: jax.Array
    tested: list[jax.Array]


class _Nested(NamedTuple):
    """How a finer mesh and its degrees of freedom stand to the given one.

    Attributes
    ----------
    nodes : sparse.SparseMatrix
        Values at its nodes from those at the given ones.
    cells : (num_cells, dim + 1) int32
        Of the given mesh.
    parents : (num_fine_cells,) int32
    """

    nodes: sparse.SparseMatrix
    cells: jax.Array
    parents: jax.Array


def error_map(
    model: ForwardModel, finer: ForwardModel, times: int, mesh: Mesh, coefficients, weights
) -> np.ndarray:
    """What the surroundings of each node add to the errors of sums of readings.

    Parameters
    ----------
    model : ForwardModel
        Of equations on the mesh as it is given, or as it is refined for the solution.
    finer : ForwardModel
        The same, with edges halved ``times`` more.
    times : int
    mesh : Mesh
        On which the fields are given.
    coefficients : (N,)
    weights : (Q, d)
        Of the readings in each sum.

    Returns
    -------
    (Q, num_nodes)
        Without readings of fluxes.  Its sums over the nodes are the sums of the errors of the
        readings, as :func:`~invlift.fem.mesh.finer_mesh.extrapolated`, but for terms of a higher
        order in the width of the cells.
    """
    here = refined(mesh, model.on_mesh.num_refined)
    there = refined(here.mesh, times)
    nested = _Nested(
        sparse.sparse_matrix(there.nodes),
        sparse.as_index(there.given.cells),
        sparse.as_index(there.parents),
    )
    total = np.asarray(_differences(model, finer, nested, coefficients, np.asarray(weights)))
    return extrapolated(total @ here.nodes, times)


@partial(Program, effort="none")
def _differences(model, finer, nested, coefficients, weights):
    """Not extrapolated, at the nodes of the mesh that the model's equations are solved on."""
    own = _of_equations(_coarse, model, coefficients, weights)
    fine = partial(_of_equation, nested)
    parts = jax.tree.leaves(_of_equations(fine, finer, coefficients, weights, own))
    size = nested.nodes.shape[1]
    return sum(each.reshape(-1, len(weights), size).sum(axis=0) for each in parts)


def _of_equations(fn, model, coefficients, weights, *parts):
    """What a function gives of each equation of a model, its weights and its parts."""
    if isinstance(model, EquationSystem):
        return fn(model, coefficients, weights, *parts)
    if isinstance(model, Joined):

        def of_each(model, weights, *parts):
            return _of_equations(fn, model, coefficients, weights, *parts)

        return model.of_each(of_each, weights, *parts)
    if isinstance(model, LinearlyMapped):
        coefficients = model.at(coefficients)
    return _of_equations(fn, model.model, coefficients, weights, *parts)


def _coarse(equation, coefficients, weights):
    solutions, adjoints = equation.with_adjoints(coefficients, weights)
    tested = equation.tested(coefficients, adjoints, solutions)
    return _Coarse(solutions, adjoints, tested)


def _of_equation(nested, equation, coefficients, weights, own):
    """Differences that the surroundings of each node make, (Q, num_nodes)."""
    solutions, adjoints = equation.with_adjoints(coefficients, weights)
    at_nodes = [_interpolated(nested.nodes, each) for each in (own.solutions, own.adjoints)]
    of_errors = equation.tested(coefficients, adjoints - at_nodes[1], solutions, at_nodes[0])
    of_given = equation.tested(coefficients, at_nodes[1], at_nodes[0])
    num_cells, (num_fine, num_nodes) = nested.cells.shape[0], nested.nodes.shape
    total = 0.0
    for term, change, residual, coarse in zip(
        equation.terms, of_errors, of_given, own.tested, strict=True
    ):
        if term.dofs.shape[1] == nested.parents.size:
            change = sparse.scatter_add(num_cells, nested.parents, (change - residual).T)
            total = total + _spread(num_nodes, nested.cells.T, change + coarse.T)
        else:  # of facets, whose own integrals are the same on both meshes
            total = total + nested.nodes.T @ _spread(num_fine, term.dofs, change.T)
    return total.T


def _interpolated(nodes, values):
    """Values at degrees of freedom, the nodes first, on the finer mesh."""
    size = nodes.shape[1]
    return jnp.concatenate([nodes @ values[:size], values[size:]])


def _spread(size, corners, values):
    """Values of elements, (E, Q), in equal parts at those of their corners, (m, E), below size."""
    is_node = corners < size
    parts = (is_node / is_node.sum(axis=0))[:, :, None] * values
    return sparse.scatter_add_or_drop(size, jnp.where(is_node, corners, size), parts)
