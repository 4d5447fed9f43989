"""Linear elements in scikit-fem: bases, and the forms that forward map and prior share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import skfem
from skfem.helpers import dot

from invlift.fem.mesh.checks import find_rows
from invlift.fem.mesh.mesh import Mesh


@skfem.LinearForm
def load_form(v, w):
    """Integral of source * v over the cells."""
    return w.source * v


@skfem.LinearForm
def boundary_load(v, w):
    """Integral of v over facets."""
    return 1.0 * v


@skfem.BilinearForm
def mass_form(u, v, w):
    """Integral of u v over cells or facets."""
    return u * v


@skfem.BilinearForm
def weighted_mass_form(u, v, w):
    """Integral of weight u v over facets."""
    return w.weight * u * v


@skfem.BilinearForm
def stiffness_form(u, v, w):
    """Integral of grad u . grad v over the cells."""
    return dot(u.grad, v.grad)


class OfThickness(NamedTuple):
    """Thickness of a 2-D body, a weight in all integrals over cells and facets.

    Attributes
    ----------
    values : (num_nodes,) or (num_cells,) array
        Thickness, in the unit of length.
    is_nodal : bool
        Whether the values are at the nodes, and not in the cells.
    """

    values: np.ndarray
    is_nodal: bool

    def on(self, basis: skfem.assembly.basis.AbstractBasis) -> np.ndarray:
        """Return the thickness at the quadrature points of cells or facets, (E, Q).

        A facet between two cells of different thickness has their mean.
        """
        if self.is_nodal:
            return np.asarray(basis.interpolate(self.values))
        if basis.tind is None:
            return self.values[:, None]
        first, second = basis.mesh.f2t[:, basis.find]
        second = np.where(second < 0, first, second)
        return 0.5 * (self.values[first] + self.values[second])[:, None]


def cell_basis(mesh: Mesh, thickness: OfThickness | None = None) -> skfem.Basis:
    """Return linear elements on the cells, with the mesh's numbering and quadrature of degree 2.

    The quadrature weights include the thickness of the body, if it is given.
    """
    kind = skfem.MeshTri if mesh.dim == 2 else skfem.MeshTet
    element = skfem.ElementTriP1() if mesh.dim == 2 else skfem.ElementTetP1()
    fem_mesh = kind(np.ascontiguousarray(mesh.points.T), np.ascontiguousarray(mesh.cells.T))
    return _weighed(skfem.Basis(fem_mesh, element, intorder=2), thickness)


def _weighed(basis, thickness: OfThickness | None):
    basis.thickness = thickness
    if thickness is not None:
        basis.dx = basis.dx * thickness.on(basis)
    return basis


def facet_basis(basis: skfem.Basis, mesh: Mesh, group: str) -> skfem.FacetBasis:
    """Return the elements of a basis, and its thickness, on the facets of a named boundary.

    Raises
    ------
    InputError
        If the mesh has no such group.
    """
    facets = np.sort(mesh.facets(group), axis=1)
    numbers = find_rows(facets, np.sort(basis.mesh.facets.T, axis=1))
    facets = skfem.FacetBasis(basis.mesh, basis.elem, facets=numbers, intorder=2)
    return _weighed(facets, basis.thickness)
