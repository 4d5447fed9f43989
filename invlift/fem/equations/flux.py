"""Consistent flux through a part of the boundary.

Where u is held, the flux is computed from the residual of the discrete equation, not from the
gradient of u.  This consistent flux is exactly conservative.  It converges like the solution, with
second order for linear elements (Carey 1982, "Derivative calculation from finite element
solutions", Comput. Methods Appl. Mech. Eng. 35; Hughes, Engel, Mazzei & Larson 2000, "The
continuous Galerkin method is locally conservative", J. Comput. Phys. 163, section 2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh.checks import find_rows
from invlift.fem.mesh.mesh import Mesh


def flux_weights(
    mesh: Mesh, cells: np.ndarray, gradients: np.ndarray, group: str, held: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of residuals in the flux through a boundary group.

    Parameters
    ----------
    mesh : Mesh
    cells : (dim + 1, num_cells) array of int
        Nodes of each cell, in the order of the equation.
    gradients : (dim + 1, dim, num_cells)
        Gradients of the nodes' basis functions.
    group : str
    held : sequence of str
        Boundary groups on which u is held.

    Returns
    -------
    tests : (dim + 1, num_cells)
        Weights of the contributions of cells to the residuals at their corners.
    shares : (num_nodes,)
        Weights of all other contributions to the residuals at the nodes.

    Raises
    ------
    InputError
        If there is no such group, or a facet of it is inside the body.
    """
    dim, exterior, behind = mesh.dim, mesh.boundary_facets, mesh.boundary_cells
    index = _exterior(mesh, group)
    if (index < 0).any():
        raise InputError(
            ("flux", group),
            "a group on the outer boundary",
            f"{np.count_nonzero(index < 0)} of {len(index)} facets inside the body",
            "name a group of the boundary",
        )
    is_of_group = np.zeros(len(exterior), dtype=bool)
    is_of_group[index] = True
    is_held = held_facets(mesh, held)
    corners = cells.T[behind]
    opposite = np.argmin((corners[:, :, None] == exterior[:, None, :]).any(axis=2), axis=1)
    # A basis function decreases from 1 to 0 over its height: facet size = dim volume |gradient|.
    steepness = np.linalg.norm(gradients[opposite, :, behind], axis=1)
    sizes = dim * mesh.volumes[behind] * steepness

    def at_nodes(which):
        weights = np.repeat(np.where(which, sizes, 0.0), dim)
        return np.bincount(exterior.ravel(), weights, mesh.num_nodes)

    whole = at_nodes(is_held)
    shares = at_nodes(is_held & is_of_group) / np.where(whole > 0.0, whole, 1.0)
    tests = shares[cells]
    # Held facets: the weight of their flux minus the mean share of their nodes.
    counts = np.where(is_held, is_of_group - shares[exterior].mean(axis=1), is_of_group)
    np.add.at(tests, (opposite, behind), -dim * counts)
    return tests, shares


def held_facets(mesh: Mesh, held: Sequence[str]) -> np.ndarray:
    """Return the mask of the exterior facets in the given boundary groups, (num_exterior,)."""
    is_held = np.zeros(len(mesh.boundary_facets), dtype=bool)
    for name in held:
        index = _exterior(mesh, name)
        is_held[index[index >= 0]] = True
    return is_held


def _exterior(mesh: Mesh, group: str) -> np.ndarray:
    """Return the index of each facet of a group among the exterior ones, -1 inside the body."""
    return find_rows(np.sort(mesh.facets(group), axis=1), mesh.boundary_facets)
