"""Simplex meshes in two or three dimensions, with named groups, checked at construction.

A `Mesh` has linear triangles or tetrahedra with positive orientation.  It has no orphan nodes, and
no degenerate, duplicate or overlapping elements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from invlift.errors import InputError, closest
from invlift.fem.mesh import checks as mesh_checks
from invlift.fem.mesh import functionals
from invlift.fem.mesh.expressions import evaluate, is_expression, unknown_name
from invlift.fem.mesh.geometry import (
    RELATIVE_TOLERANCE,
    SimplexSearch,
    find_cells,
    find_closest_facet,
)

#: The group of all exterior facets, unless the mesh has one of that name.
BOUNDARY = "boundary"


@dataclass(frozen=True, eq=False, repr=False)
class Mesh:
    """A checked simplex mesh; make one with `read_mesh` or `mesh_from_arrays`.

    Attributes
    ----------
    points : ndarray of float64, shape (num_nodes, dim)
        Coordinates, in the length unit of the mesh; dim is 2 or 3.
    cells : ndarray of int64, shape (num_cells, dim + 1)
        Nodes of the triangles or tetrahedra, positively oriented.
    boundaries : dict of str to ndarray of int64, shape (num_facets, dim)
        Named groups of facets (edges or triangles) by their nodes, ascending in each row. A group
        may hold facets inside the body, such as a fault.
    subdomains : dict of str to ndarray of int64, shape (num_cells_in_group,)
        Named groups of cells.
    point_fields : dict of str to ndarray of float64, shape (num_nodes,)
    cell_fields : dict of str to ndarray of float64, shape (num_cells,)
        Scalar fields that came with the mesh.
    name : str
        The file as the user gave it, for error messages.
    notes : tuple of str
        Parts of the file that were left out or changed.
    unit : str
        Unit of length, or "" if it is not known.
    sides : mapping of str to ndarray of int64, shape (2, num_facets, dim)
        Groups inside the body along which the mesh is cut: the facets of both sides, in the same
        order, with separate nodes.  See :mod:`invlift.fem.mesh.splitting`.
    """

    points: np.ndarray
    cells: np.ndarray
    boundaries: dict[str, np.ndarray]
    subdomains: dict[str, np.ndarray]
    point_fields: dict[str, np.ndarray]
    cell_fields: dict[str, np.ndarray]
    name: str
    notes: tuple[str, ...] = ()
    unit: str = ""
    sides: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def size(self) -> str:
        """Text with the numbers of nodes and cells."""
        kind = "triangles" if self.dim == 2 else "tetrahedra"
        return f"{self.num_nodes} nodes, {self.num_cells} {kind}"

    def __repr__(self) -> str:
        """Return sizes and names of groups and fields in one line, without the arrays."""
        kinds = {"boundary groups": self.boundaries, "subdomains": self.subdomains}
        kinds |= {"fields": self.point_fields | self.cell_fields}
        groups = (f"; {kind} {', '.join(named)}" for kind, named in kinds.items() if named)
        sizes = f"{self.num_nodes} nodes, {self.num_cells} cells in {self.dim}-D"
        return f"<Mesh {self.name!r}: {sizes}{''.join(groups)}>"

    @property
    def dim(self) -> int:
        """Dimension of the body, 2 or 3."""
        return self.points.shape[1]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.points)

    @property
    def num_cells(self) -> int:
        """Number of triangles or tetrahedra."""
        return len(self.cells)

    @property
    def extent(self) -> str:
        """Text with the corners of the bounding box."""
        return " to ".join(mesh_checks.place(end(self.points, axis=0)) for end in (np.min, np.max))

    @property
    def diameter(self) -> float:
        """Diagonal of the bounding box, in length units: the scale of geometric tolerances."""
        return float(np.linalg.norm(np.ptp(self.points, axis=0)))

    @cached_property
    def volumes(self) -> np.ndarray:
        """Areas (dim 2) or volumes (dim 3) of the cells, all positive, shape (num_cells,)."""
        return mesh_checks.signed_volumes(self.points, self.cells)

    def is_same(self, other: Mesh) -> bool:
        """Return whether another mesh has the same nodes and cells, in the same order."""
        return other is self or (
            np.array_equal(other.points, self.points) and np.array_equal(other.cells, self.cells)
        )

    def places_of(self, location: str) -> np.ndarray:
        """Return the positions of a field's coefficients, nodes or midpoints of cells, (N, dim).

        Raises
        ------
        InputError
            If the location is neither "nodes" nor "cells".
        """
        if location not in ("nodes", "cells"):
            remedy = "say where the coefficients of the field are"
            raise InputError("argument location", '"nodes" or "cells"', f"{location!r}", remedy)
        return self.points if location == "nodes" else self.points[self.cells].mean(axis=1)

    @cached_property
    def distinct_facets(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Distinct facets, (m, dim), one cell of each, (m,), and mask of exterior ones, (m,)."""
        rows, _ = mesh_checks.facets_of_cells(self.cells)
        ids, first = mesh_checks.row_ids(rows)
        return rows[first], first // (self.dim + 1), np.bincount(ids) == 1

    @cached_property
    def inner_facets(self) -> np.ndarray:
        """Facets inside the body between subdomains, or in a boundary group, by nodes, (k, dim)."""
        rows, _ = mesh_checks.facets_of_cells(self.cells)
        ids, first = mesh_checks.row_ids(rows)
        members = np.zeros((self.num_cells, len(self.subdomains)), dtype=bool)
        for k, cells in enumerate(self.subdomains.values()):
            members[cells, k] = True
        kind = np.unique(members, axis=0, return_inverse=True)[1].ravel()
        of_cells = np.repeat(kind, self.dim + 1)
        low, high = np.full((2, len(first)), 0)
        low[:] = len(members)
        np.minimum.at(low, ids, of_cells)
        np.maximum.at(high, ids, of_cells)
        between = rows[first[low != high]]
        inside = [
            facets[mesh_checks.find_rows(facets, self.boundary_facets) < 0]
            for facets in self.boundaries.values()
        ]
        return np.unique(np.concatenate([between, *inside]), axis=0)

    @cached_property
    def boundary_facets(self) -> np.ndarray:
        """Nodes of all exterior facets, shape (num_exterior, dim), in lexicographic order."""
        facets, _, is_exterior = self.distinct_facets
        return facets[is_exterior]

    @cached_property
    def boundary_cells(self) -> np.ndarray:
        """Cell of each facet in `boundary_facets`, shape (num_exterior,)."""
        _, cell, is_exterior = self.distinct_facets
        return cell[is_exterior]

    @cached_property
    def components(self) -> np.ndarray:
        """Index of the connected part of the body of each node, shape (num_nodes,).

        Both sides of a cut belong to the same part.
        """
        across = [each.reshape(2, -1) for each in self.sides.values()]
        within = np.stack([np.repeat(self.cells[:, 0], self.dim), self.cells[:, 1:].ravel()])
        start, end = np.concatenate([within, *across], axis=1)
        graph = coo_array((np.ones(len(start)), (start, end)), shape=(self.num_nodes,) * 2)
        return connected_components(graph, directed=False)[1]

    def facets(self, group: str, where: str | None = None) -> np.ndarray:
        """Return the facets of a named boundary.

        Parameters
        ----------
        group : str
            A boundary group of the mesh; "boundary" is all exterior facets, unless the mesh has a
            group of that name.
        where : str, optional
            Place for error messages, for example the key in the problem file.

        Returns
        -------
        ndarray, shape (num_facets, dim)

        Raises
        ------
        InputError
            If the mesh has no such group (the message lists those it has), or it is empty.
        """
        if group in self.boundaries:
            facets = self.boundaries[group]
            if not len(facets):
                raise InputError(
                    where or self.name,
                    f"facets in boundary group {group!r} of mesh {self.name!r}",
                    "none",
                    "put facets into it, or leave the condition out",
                )
            return facets
        if group == BOUNDARY:
            return self.boundary_facets
        raise _unknown(self, "boundary group", group, [*self.boundaries, BOUNDARY], where)

    def cells_of(self, subdomain: str, where: str | None = None) -> np.ndarray:
        """Return the indices of a named subdomain's cells, shape (num_cells_in_group,).

        Raises
        ------
        InputError
            If the mesh has no such subdomain; the message lists those it has.
        """
        if subdomain in self.subdomains:
            return self.subdomains[subdomain]
        raise _unknown(self, "subdomain", subdomain, list(self.subdomains), where)

    def values_at(self, points: np.ndarray, place: Literal["node", "cell"]) -> csr_array:
        """Return the interpolation matrix from a field's coefficients to its values at points.

        Parameters
        ----------
        points : (k, dim) array
            Positions, in length units.
        place : "node" or "cell"
            Location of the coefficients: the field is linear between nodes, or constant in cells.

        Returns
        -------
        (k, num_nodes) or (k, num_cells) sparse array

        Raises
        ------
        InputError
            If the points are not numbers, have the wrong dimension, or some are outside the mesh.
        """
        points = mesh_checks.checked_places(points, self.dim)
        cell, weights = self.find_cells(points)
        outside = np.flatnonzero(cell < 0)
        if outside.size:
            first, others = mesh_checks.place(points[outside[0]]), mesh_checks.listing(outside, 8)
            raise InputError(
                f"points, row {outside[0]}",
                f"points inside the mesh {self.name!r}",
                f"{first}, which is outside; rows outside: {others}",
                f"the mesh spans {self.extent}",
            )
        if place == "cell":
            return functionals.rows_of(cell[:, None], np.ones((len(cell), 1)), self.num_cells)
        return functionals.rows_of(self.cells[cell], weights, self.num_nodes)

    def find_cells(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the cell of each point, (k,), -1 outside, and barycentric weights, (k, dim + 1).

        A point outside by less than 1e-9 of the mesh's diameter counts as inside.
        """
        tolerance = RELATIVE_TOLERANCE * self.diameter
        return find_cells(self.cell_search, points, tolerance)

    def is_on_sides(self, points: np.ndarray) -> np.ndarray:
        """Return for points, (k, dim), whether they are on a cut, (k,), with two values there."""
        is_on = np.zeros(len(points), dtype=bool)
        for facets, _ in self.sides.values():
            distances = find_closest_facet(self.points[facets], points)[2]
            is_on |= distances <= RELATIVE_TOLERANCE * self.diameter
        return is_on

    @cached_property
    def cell_search(self) -> SimplexSearch:
        """Search for cells near points."""
        return SimplexSearch(self.points[self.cells])

    def mean_over(
        self, group: str | None, place: Literal["node", "cell"], where: str | None = None
    ) -> csr_array:
        """Return the matrix of a field's mean over a group, to be multiplied by its coefficients.

        Parameters
        ----------
        group : str or None
            A subdomain or else a boundary group; None for the whole body.
        place : "node" or "cell"
            Location of the field's coefficients.
        where : str, optional
            Place for error messages.

        Returns
        -------
        (1, num_nodes) or (1, num_cells) sparse array

        Raises
        ------
        InputError
            If there is no such group, or it is a boundary group and the field is on the cells.
        """
        if place == "node":
            return functionals.mean_over(*self._parts_of(group, where), self.num_nodes)
        if group is not None and group not in self.subdomains:
            raise _unknown(self, "subdomain", group, list(self.subdomains), where)
        cells = np.arange(self.num_cells) if group is None else self.subdomains[group]
        return functionals.mean_over(cells[:, None], self.volumes[cells], self.num_cells)

    def middles_of(self, group: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Return midpoints, (k, dim), of a group's cells or facets, and their share of it, (k,).

        Groups are those of :meth:`mean_over`.
        """
        corners, sizes = self._parts_of(group, None)
        return self.points[corners].mean(axis=1), sizes / sizes.sum()

    def _parts_of(self, group, where):
        """Return corners, (k, c), and sizes, (k,), of the cells or facets of a group."""
        if group is None:
            return self.cells, self.volumes
        if group in self.subdomains:
            cells = self.subdomains[group]
            return self.cells[cells], self.volumes[cells]
        known = [*self.subdomains, *self.boundaries, BOUNDARY]
        if group not in known:
            raise _unknown(self, "group", group, known, where)
        facets = self.facets(group, where)
        return facets, functionals.facet_sizes(self.points[facets])

    def point_field(
        self, field: str, where: str | None = None, group: str | None = None
    ) -> np.ndarray:
        """Return a field of the mesh, or the values of an expression, on the nodes, (num_nodes,).

        Raises
        ------
        InputError
            If the mesh has no such field (the message lists those it has) and it is not an
            expression in x, y and z (:mod:`invlift.fem.mesh.expressions`).  Or if a value is not
            finite; with a boundary group only its nodes count, because exports of boundary data
            have NaN elsewhere.
        """
        nodes = slice(None) if group is None else np.unique(self.facets(group, where))
        return self._field(field, "point field", self.point_fields, where, nodes)

    def field(self, field: str, where: str | None = None) -> np.ndarray:
        """Return a field on the nodes, shape (num_nodes,), or on the cells, shape (num_cells,).

        If both have the name, it is the field on the nodes. Raises as `point_field`.
        """
        both = {**self.cell_fields, **self.point_fields}
        return self._field(field, "point or cell field", both, where)

    def _field(self, field, kind, fields, where, nodes=slice(None)):
        is_own = field in fields
        if not is_own and not is_expression(field):
            raise _unknown(self, kind, field, list(fields), where)
        values = fields[field] if is_own else evaluate(field, self.points, where or self.name)
        needed = np.zeros(len(values), dtype=bool)
        needed[nodes] = True
        bad = np.flatnonzero(needed & ~np.isfinite(values))
        if len(bad):
            raise InputError(
                where or self.name,
                f"finite values in the field {field!r} of mesh {self.name!r}"
                if is_own
                else f"finite values of {field!r}",
                f"{values[bad[0]]} at position {bad[0]}, {len(bad)} such values in all",
                "repair the field in the mesh file" if is_own else "correct the expression",
            )
        return values


#: A number and a letter, as of a unit behind it.
_WITH_UNIT = re.compile(r"\s*[+-]?[\d.]+(e[+-]?\d+)?\s*[^\W\d]", re.IGNORECASE)


def _unknown(mesh: Mesh, kind: str, name: str, known: list[str], where: str | None) -> InputError:
    """Return the error for a name that the mesh does not have."""
    present = ", ".join(repr(k) for k in sorted(known)) or "none at all"
    if close := closest(str(name), known):
        remedy = f"did you mean {close!r}?"
    elif kind == "boundary group" and name in mesh.subdomains:
        remedy = f"{name!r} is a subdomain: a boundary condition needs a group of its facets"
    elif kind == "subdomain" and name in mesh.boundaries:
        remedy = f"{name!r} is a boundary group: name a group of cells"
    elif "field" in kind and _WITH_UNIT.match(name):
        remedy = "write a number without its unit, or an expression such as 1 + 2 * x"
    elif "field" in kind and (unknown := unknown_name(name)):
        found = f"the unknown name {unknown[0]!r} in {name!r}"
        return InputError(where or mesh.name, _of_fields(mesh, kind, present), found, unknown[1])
    elif "field" in kind:
        remedy = "use one of these names or save the field as scalars in the mesh file"
    else:
        remedy = "use one of these names, or add a physical group of that name to a gmsh .msh file"
        if Path(mesh.name).suffix == ".xdmf":
            remedy += "; if a second file has the tags of facets, name it: facets"
    expected = f"a {kind} of mesh {mesh.name!r} (it has: {present})"
    expected = _of_fields(mesh, kind, present) if "field" in kind else expected
    return InputError(where or mesh.name, expected, repr(name), remedy)


def _of_fields(mesh: Mesh, kind: str, present: str) -> str:
    """What may stand for a field."""
    allowed = f"a number, an expression in {', '.join('xyz'[: mesh.dim])}"
    return f"{allowed}, or a {kind} of mesh {mesh.name!r} (it has: {present})"
