"""What flows through a part of the boundary, given log-conductivity and solution.

Where u is held, the flux is found from the residual of the discrete equation there, not from the
gradient of u: this consistent flux is conserved exactly, and converges as the solution does, of
second order for linear elements (Carey 1982, "Derivative calculation from finite element
solutions", Comput. Methods Appl. Mech. Eng. 35; Hughes, Engel, Mazzei & Larson 2000, "The
continuous Galerkin method is locally conservative", J. Comput. Phys. 163, section 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from invlift.errors import InputError
from invlift.fem.conductivity import Conductivity
from invlift.fem.mesh.checks import row_ids
from invlift.fem.mesh.mesh import Mesh

#: Numbers worked on at a time.
_BATCH = 10**6


@dataclass(frozen=True, eq=False)
class BoundaryFlux:
    """What the flux through the boundary of a discrete equation is computed from.

    Attributes
    ----------
    mesh : Mesh
    conductivity : Conductivity
        phi -> conductivities of the cells, (num_cells,).
    cells : (dim + 1, num_cells) array of int
        Nodes of each cell, in an order of the equation's own.
    gradients : (dim + 1, dim, num_cells)
        Of the basis functions of these.
    load : (num_nodes,)
        Source, Neumann and Robin ambient terms of all nodes.
    robin : sparse array (num_nodes, num_nodes)
        Boundary matrix of Robin conditions.
    held : tuple of str
        Boundary groups on which u is held.
    known : (num_cells,)
        Log-conductivity where it is known, NaN elsewhere.
    """

    mesh: Mesh
    conductivity: Conductivity
    cells: np.ndarray
    gradients: np.ndarray
    load: np.ndarray
    robin: Any
    held: tuple[str, ...]
    known: np.ndarray

    def __call__(
        self, group: str, log_conductivity: np.ndarray, solution: np.ndarray
    ) -> np.ndarray:
        """Integral of exp(phi) du/dn over a boundary group, n outwards: what flows in.

        Parameters
        ----------
        group : str
        log_conductivity : (k, N) array
        solution : (k, num_nodes) array

        Returns
        -------
        (k,) array
            In C U L^(dim - 2), as docs/notation.md has the units; in the plane for each unit of
            thickness.

        Raises
        ------
        InputError
            If there is no such group, or a facet of it is inside the body.

        Notes
        -----
        On facets where u is held it is the residual ``sum_j A_ij u_j - b_i`` summed over their
        nodes. A node that other held facets share, at a corner, gives each its part: the flux of
        the adjacent cell's gradient against the node's basis function, and of what is then left a
        share by size; so parts add up to the whole. On all other facets it is the integral of the
        gradient in the cell behind, which is of first order.
        """
        by_cell, shares = self._functional(group)
        cells = np.flatnonzero(by_cell.any(axis=0))
        weights, basis = np.asarray(self.conductivity.weights), np.asarray(self.conductivity.basis)
        coefficients = np.asarray(self.conductivity.nodes)[:, cells]
        corners, gradients = self.cells[:, cells], self.gradients[:, :, cells]
        found = []
        for start in range(0, len(solution), step := max(1, _BATCH // max(1, cells.size))):
            phi, u = log_conductivity[start : start + step], solution[start : start + step]
            at_points = np.einsum("qk,bkc->bqc", basis, phi[:, coefficients])
            known = self.known[cells]
            at_points = np.exp(np.where(np.isnan(known), at_points, known))
            slopes = np.einsum("ndc,bnc->bdc", gradients, u[:, corners])
            flux = np.einsum("dc,q,bqc,bdc->b", by_cell[:, cells], weights, at_points, slopes)
            found.append(flux + u @ (self.robin @ shares) - shares @ self.load)
        return np.concatenate(found)

    def _functional(self, group: str) -> tuple[np.ndarray, np.ndarray]:
        """What each cell's flux density counts, (dim, num_cells), and each node's residual.

        The part of the residual that comes from the cells is among the former.
        """
        tests, shares = flux_weights(self.mesh, self.cells, self.gradients, group, self.held)
        by_cell = np.einsum("nc,ndc,c->dc", tests, self.gradients, self.mesh.volumes)
        return by_cell, shares


def flux_weights(
    mesh: Mesh, cells: np.ndarray, gradients: np.ndarray, group: str, held: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of residuals in the flux through a boundary group.

    Parameters
    ----------
    mesh : Mesh
    cells : (dim + 1, num_cells) array of int
        Nodes of each cell, in an order of the equation's own.
    gradients : (dim + 1, dim, num_cells)
        Of the basis functions of these.
    group : str
    held : sequence of str
        Boundary groups on which u is held.

    Returns
    -------
    tests : (dim + 1, num_cells)
        Of what each cell gives to the residuals of its corners.
    shares : (num_nodes,)
        Of what else there is in the residuals of the nodes.

    Raises
    ------
    InputError
        If there is no such group, or a facet of it is inside the body.
    """
    dim, exterior, behind = mesh.dim, mesh.boundary_facets, mesh.boundary_cells
    index = _exterior(mesh, group)
    if (index < 0).any():
        raise InputError(
            f"flux, {group}",
            "a group on the outer boundary",
            f"{np.count_nonzero(index < 0)} of {len(index)} facets inside the body",
            "name a group of the boundary",
        )
    is_of_group = np.zeros(len(exterior), dtype=bool)
    is_of_group[index] = True
    is_held = held_facets(mesh, held)
    corners = cells.T[behind]
    opposite = np.argmin((corners[:, :, None] == exterior[:, None, :]).any(axis=2), axis=1)
    # A basis function falls from 1 to 0 over its height: facet size = dim volume |gradient|.
    steepness = np.linalg.norm(gradients[opposite, :, behind], axis=1)
    sizes = dim * mesh.volumes[behind] * steepness

    def at_nodes(which):
        weights = np.repeat(np.where(which, sizes, 0.0), dim)
        return np.bincount(exterior.ravel(), weights, mesh.num_nodes)

    whole = at_nodes(is_held)
    shares = at_nodes(is_held & is_of_group) / np.where(whole > 0.0, whole, 1.0)
    tests = shares[cells]
    # Held facets: by how much their own flux counts more than their nodes' shares have it.
    counts = np.where(is_held, is_of_group - shares[exterior].mean(axis=1), is_of_group)
    np.add.at(tests, (opposite, behind), -dim * counts)
    return tests, shares


def held_facets(mesh: Mesh, held: Sequence[str]) -> np.ndarray:
    """Which of the exterior facets are in one of some boundary groups, (num_exterior,)."""
    is_held = np.zeros(len(mesh.boundary_facets), dtype=bool)
    for name in held:
        index = _exterior(mesh, name)
        is_held[index[index >= 0]] = True
    return is_held


def _exterior(mesh: Mesh, group: str) -> np.ndarray:
    """The number of each facet of a group among the exterior ones, -1 inside the body."""
    exterior = mesh.boundary_facets
    facets = np.sort(mesh.facets(group), axis=1)
    ids, first = row_ids(np.concatenate([exterior, facets]))
    index = first[ids[len(exterior) :]]
    return np.where(index < len(exterior), index, -1)
