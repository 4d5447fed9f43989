"""Models whose equation is solved on a refined mesh, and whose coefficients stay as they are."""

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

#: How often edges may be halved for the solution: cells become 64 in the plane and 512 in space.
MAX_TIMES = 3


class OnFinerMesh(LinearlyMapped):
    """The readings of a model on a refined mesh as a function of coefficients on the given one.

    The field is interpolated, exactly as the given mesh has it; further coefficients are passed on.
    ``on_mesh`` is as of the model on the given mesh; its ``boundary_flux`` is of the equation on
    the refined one.

    Attributes
    ----------
    num_nodes : int
        Nodes of the given mesh, the first of the refined one.
    """

    num_nodes: int = static(kw_only=True)

    def _byproducts(self, inner):
        """Of the first nodes."""
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
    """The same model, told by ``on_mesh.refined`` how it is with its equation on a refined mesh.

    Parameters
    ----------
    model : ForwardModel
        Assembled on the mesh.
    mesh : Mesh
    fields : mapping of int to {"nodes", "cells"}
        Where each field among its coefficients is, by the first of them, in their order.
    assemble : callable
        A refinement of the mesh to the model on that.
    times : int
        How often the mesh is refined in the model that is returned, 0 to MAX_TIMES.
    barriers : collection of str
        Groups across which the solution jumps: it is solved on a mesh that is cut along them.

    Raises
    ------
    InputError
        If it is another number.
    """
    checked_integer("refine_solution", times, 0, MAX_TIMES, "say how often edges are halved")
    barriers = () if mesh.sides else tuple(barriers)  # a mesh that is cut already
    refined = partial(_on_finer_mesh, model, mesh, fields, assemble, barriers)
    if times or barriers:
        return refined(times)
    return replace(model, on_mesh=model.on_mesh._replace(refined=refined))


def _on_finer_mesh(model, mesh, fields, assemble, barriers, times: int = 1) -> OnFinerMesh:
    refinement = refined(mesh, times)
    if barriers:
        refinement = split(refinement.mesh, barriers, "barriers").after(refinement)
    finer = assemble(refinement)
    parts, end = [], 0
    for first, location in fields.items():
        of_field = refinement.of_field(location)
        parts += [eye_array(first - end), of_field]
        end = first + of_field.shape[1]
    parts.append(eye_array(finer.num_coefficients - sum(each.shape[0] for each in parts)))
    matrix = csr_array(block_diag(parts))
    flux = finer.on_mesh.boundary_flux
    known = model.on_mesh._replace(
        boundary_flux=None if flux is None else partial(_boundary_flux, flux, matrix),
        refined=lambda more=1: _on_finer_mesh(
            model, mesh, fields, assemble, barriers, times + more
        ),
        num_refined=times,
    )
    return OnFinerMesh(
        model=finer,
        matrix=sparse_matrix(matrix),
        num_nodes=mesh.num_nodes,
        on_mesh=known,
    )


def _boundary_flux(flux: Callable, matrix: csr_array, *group: str) -> tuple[Any, Callable]:
    """As on the refined mesh, of draws on the given one."""
    further, solution, flux_of = flux(*group)

    def of_draws(draws, solutions=None):
        del solutions  # which are known at the given nodes alone
        return flux_of((matrix @ np.asarray(draws).T).T)

    return further, solution, of_draws


def extrapolated(change, times: int):
    """The error of linear elements, from what a mesh with edges halved ``times`` changes.

    Where the solution is smooth each halving leaves a fourth of it (Richardson's extrapolation).
    """
    return change / (1.0 - 0.25**times)
