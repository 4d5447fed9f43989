"""Models that solve their equation on a refined mesh, with coefficients on the given mesh."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import block_diag, csr_array, eye_array

from invlift.errors import checked_integer
from invlift.fem.equations.linearly_mapped import LinearlyMapped
from invlift.fem.linalg.sparse import sparse_matrix
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement, refined
from invlift.fem.mesh.splitting import split
from invlift.models.base import ForwardModel
from invlift.programs.pytrees import static

#: Largest number of refinements for the solution: a cell becomes 64 cells in 2-D and 512 in 3-D.
MAX_TIMES = 3


class OnFinerMesh(LinearlyMapped):
    """A model on a refined mesh as a function of the coefficients on the given mesh.

    Fields are interpolated exactly to the refined mesh, and further coefficients are passed on.
    ``on_mesh`` is that of the model on the given mesh, except for ``boundary_flux``, which uses the
    equation on the refined mesh.

    Attributes
    ----------
    num_nodes : int
        Number of nodes of the given mesh, which are the first nodes of the refined mesh.
    """

    num_nodes: int = static(kw_only=True)

    def _byproducts(self, inner):
        """Return the byproducts at the nodes of the given mesh."""
        names = self.solutions
        return {name: inner.byproducts[name][: self.num_nodes] for name in names}


def refinable(
    model: ForwardModel,
    mesh: Mesh,
    fields: Mapping[int, str],
    assemble: Callable[[Refinement], ForwardModel],
    times: int = 0,
    barriers: Collection[str] = (),
) -> ForwardModel:
    """Return a model whose ``on_mesh.refined`` solves the equation on a refined mesh.

    Parameters
    ----------
    model : ForwardModel
        Model assembled on the mesh.
    mesh : Mesh
    fields : mapping of int to {"nodes", "cells"}
        Location of each field among the coefficients, by the index of its first coefficient, in
        order.
    assemble : callable
        Function of a refinement that assembles the model on the refined mesh.
    times : int
        Number of refinements in the returned model, 0 to MAX_TIMES.
    barriers : collection of str
        Groups across which the solution jumps; the mesh of the solution is cut along them.

    Raises
    ------
    InputError
        If ``times`` is not an integer from 0 to MAX_TIMES.
    """
    checked_integer("refine_solution", times, 0, MAX_TIMES, "say how often edges are halved")
    barriers = () if mesh.sides else tuple(barriers)  # a mesh that is cut already
    if barriers:  # nodes on them have the solution of one side
        model = replace(model, on_mesh=model.on_mesh._replace(is_linear=False))
    first = refined(mesh, 0)
    again = partial(_on_finer_mesh, model, fields, assemble, barriers, first)
    if times or barriers:
        return again(times)
    return replace(model, on_mesh=model.on_mesh._replace(refined=again, solved_on=first))


def _on_finer_mesh(model, fields, assemble, barriers, done: Refinement, times=1) -> OnFinerMesh:
    solved_on = refinement = refined(done.mesh, times).after(done)
    if barriers:
        solved_on = split(refinement.mesh, barriers, "barriers").after(refinement)
    finer = assemble(solved_on)
    parts, end = [], 0
    for first, location in fields.items():
        of_field = solved_on.of_field(location)
        parts += [eye_array(first - end), of_field]
        end = first + of_field.shape[1]
    parts.append(eye_array(finer.num_coefficients - sum(each.shape[0] for each in parts)))
    matrix = csr_array(block_diag(parts))
    flux = finer.on_mesh.boundary_flux
    known = model.on_mesh._replace(
        boundary_flux=flux and partial(_boundary_flux, flux, solved_on.of_field(fields[0])),
        refined=partial(_on_finer_mesh, model, fields, assemble, barriers, refinement),
        solved_on=solved_on,
    )
    return OnFinerMesh(
        model=finer,
        matrix=sparse_matrix(matrix),
        num_nodes=done.given.num_nodes,
        on_mesh=known,
    )


def _boundary_flux(flux: Callable, of_field: csr_array, *group: str) -> tuple[Any, Callable]:
    """Return the boundary flux of the refined mesh, for draws on the given mesh.

    The draws are of the field and of those further coefficients on which this flux depends.
    """
    further, solution, flux_of = flux(*group)

    def of_draws(draws, solutions=None):
        del solutions  # they are known only at the nodes of the given mesh
        field, rest = np.split(np.asarray(draws), [of_field.shape[1]], axis=1)
        return flux_of(np.hstack([(of_field @ field.T).T, rest]))

    return further, solution, of_draws


def extrapolated(change, times: int):
    """Return the error of linear elements, from the change after ``times`` refinements.

    For a smooth solution each refinement divides the error by four (Richardson's extrapolation).
    """
    return change / (1.0 - 0.25**times)
