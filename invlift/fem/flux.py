"""What flows through a part of the boundary, given log-conductivity and solution.

Where u is held, the flux is found from the residual of the discrete equation there, not from the
gradient of u: this consistent flux is conserved exactly, and converges as the solution does, of
second order for linear elements (Carey 1982, "Derivative calculation from finite element
solutions", Comput. Methods Appl. Mech. Eng. 35; Hughes, Engel, Mazzei & Larson 2000, "The
continuous Galerkin method is locally conservative", J. Comput. Phys. 163, section 2).
"""

from __future__ import annotations

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
    """

    mesh: Mesh
    conductivity: Conductivity
    cells: np.ndarray
    gradients: np.ndarray
    load: np.ndarray
    robin: Any
    held: tuple[str, ...]

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
            at_points = np.exp(np.einsum("qk,bkc->bqc", basis, phi[:, coefficients]))
            slopes = np.einsum("ndc,bnc->bdc", gradients, u[:, corners])
            flux = np.einsum("dc,q,bqc,bdc->b", by_cell[:, cells], weights, at_points, slopes)
            found.append(flux + u @ (self.robin @ shares) - shares @ self.load)
        return np.concatenate(found)

    def _functional(self, group: str) -> tuple[np.ndarray, np.ndarray]:
        """What each cell's flux density counts, (dim, num_cells), and each node's residual.

        The part of the residual that comes from the cells is among the former.
        """
        mesh, dim = self.mesh, self.mesh.dim
        exterior, behind = mesh.boundary_facets, mesh.boundary_cells
        index = self._exterior(group)
        if (index < 0).any():
            raise InputError(
                f"flux, {group}",
                "a group on the outer boundary",
                f"{np.count_nonzero(index < 0)} of {len(index)} facets inside the body",
                "name a group of the boundary",
            )
        is_held, is_of_group = np.zeros((2, len(exterior)), dtype=bool)
        is_of_group[index] = True
        for name in self.held:
            held = self._exterior(name)
            is_held[held[held >= 0]] = True
        corners = self.cells.T[behind]
        opposite = np.argmin((corners[:, :, None] == exterior[:, None, :]).any(axis=2), axis=1)
        # A basis function falls from 1 to 0 over its height: facet size = dim volume |gradient|.
        normals = -dim * mesh.volumes[behind, None] * self.gradients[opposite, :, behind]
        sizes = np.linalg.norm(normals, axis=1)

        def at_nodes(which):
            weights = np.repeat(np.where(which, sizes, 0.0), dim)
            return np.bincount(exterior.ravel(), weights, mesh.num_nodes)

        whole = at_nodes(is_held)
        shares = at_nodes(is_held & is_of_group) / np.where(whole > 0.0, whole, 1.0)
        by_cell = np.einsum("nc,ndc,c->dc", shares[self.cells], self.gradients, mesh.volumes)
        # Held facets: by how much their own flux counts more than their nodes' shares have it.
        counts = np.where(is_held, is_of_group - shares[exterior].mean(axis=1), is_of_group)
        np.add.at(by_cell.T, behind, counts[:, None] * normals)
        return by_cell, shares

    def _exterior(self, group: str) -> np.ndarray:
        """The number of each facet of a group among the exterior ones, -1 inside the body."""
        exterior = self.mesh.boundary_facets
        facets = np.sort(self.mesh.facets(group), axis=1)
        ids, first = row_ids(np.concatenate([exterior, facets]))
        index = first[ids[len(exterior) :]]
        return np.where(index < len(exterior), index, -1)
