"""Meshes of files and of arrays, with every check on the way in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh import checks as mesh_checks
from invlift.fem.mesh.files import read_mesh_arrays
from invlift.fem.mesh.mesh import Mesh


def read_mesh(path: str | os.PathLike) -> Mesh:
    """Read a triangle or tetrahedron mesh from a file of any format that meshio reads.

    Named gmsh physical groups (formats 2.2 and 4.1) become boundaries and subdomains; a group
    without a name goes by its number, as text. Elements of lower dimension serve only to name
    boundaries.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    InputError
        If the file cannot be read, or the mesh fails a check of `mesh_from_arrays`.
    """
    name = os.fspath(path)
    return mesh_from_arrays(**read_mesh_arrays(Path(path), name), name=name)


def mesh_from_arrays(
    points,
    cells,
    *,
    boundaries: Mapping | None = None,
    subdomains: Mapping | None = None,
    point_fields: Mapping | None = None,
    cell_fields: Mapping | None = None,
    name: str = "mesh",
) -> Mesh:
    """Make a mesh from arrays, with every check that a mesh file gets.

    Parameters
    ----------
    points : array_like of float, shape (num_nodes, 2 or 3)
        Triangles may have three coordinates if all z are 0; z is then dropped.
    cells : array_like of int, shape (num_cells, 3 or 4)
        Clockwise (negatively oriented) meshes are turned round.
    boundaries : mapping of str to array_like of int, shape (num_facets, dim), optional
        Facets by their nodes, in any order; repeated facets count once.
    subdomains : mapping of str to array_like of int, shape (num_cells_in_group,), optional
    point_fields, cell_fields : mapping of str to array_like, optional
        One number per node or per cell.
    name : str
        What error messages call the mesh.

    Raises
    ------
    InputError
        For wrong shapes, non-finite coordinates, nodes that do not exist or belong to no element,
        triangles outside the plane z = 0, degenerate or duplicate elements, two on the same side
        of a facet, and groups or fields that do not fit the mesh.
    """
    points, cells = _as_array(points, "points", name), _as_array(cells, "cells", name)
    mesh_checks.check_arrays(points, cells, name)
    # The copies keep a caller's later changes out of the mesh.
    points, cells = points.astype(np.float64), cells.astype(np.int64)
    points = np.ascontiguousarray(mesh_checks.drop_flat_coordinate(points, cells, name))
    mesh_checks.check_degenerate(points, cells, name)
    mesh_checks.check_duplicates(points, cells, name)
    cells = mesh_checks.orient(points, cells)
    mesh_checks.check_overlaps(points, cells, name)
    fields = (
        {str(key): _checked_field(key, values, size, name) for key, values in (given or {}).items()}
        for given, size in ((point_fields, len(points)), (cell_fields, len(cells)))
    )
    mesh = Mesh(points, cells, {}, {}, *fields, name)
    for key, facets in (boundaries or {}).items():
        mesh.boundaries[str(key)] = _checked_facets(mesh, key, facets)
    for key, index in (subdomains or {}).items():
        mesh.subdomains[str(key)] = _checked_cells(mesh, key, index)
    for array in (points, cells, *mesh.boundaries.values(), *mesh.subdomains.values()):
        array.setflags(write=False)
    return mesh


def _as_array(values, what: str, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as reason:
        raise InputError(
            f"{name}, {what}", "a rectangular array", f"{reason}", "give rows of equal length"
        ) from None


def _checked_facets(mesh: Mesh, group: str, facets) -> np.ndarray:
    """Return a group's facets with ascending nodes, each once; all must be facets of cells."""
    where = f"{mesh.name}, boundary group {group!r}"
    facets = _as_array(facets, f"boundary group {group!r}", mesh.name)
    if facets.ndim != 2 or facets.shape[1] != mesh.dim or facets.dtype.kind not in "iu":
        raise InputError(
            where,
            f"integer node indices of shape (num_facets, {mesh.dim})",
            f"shape {facets.shape} of {facets.dtype}",
            "give the nodes of each facet",
        )
    facets = np.unique(np.sort(facets.astype(np.int64), axis=1), axis=0)
    known, _, _ = mesh.distinct_facets
    # Only facets made of the group's own nodes can match: this keeps the search small.
    is_near = np.zeros(mesh.num_nodes, dtype=bool)
    is_near[facets[(facets >= 0) & (facets < mesh.num_nodes)]] = True
    known = known[is_near[known].all(axis=1)]
    is_missing = mesh_checks.find_rows(facets, known) < 0
    if is_missing.any():
        missing = facets[is_missing]
        raise InputError(
            where,
            "facets of the mesh's elements",
            f"{len(missing)} that are not: nodes {mesh_checks.listing(missing.tolist())}",
            "mesh the group together with the body, or leave it out",
        )
    return facets


def _checked_cells(mesh: Mesh, group: str, index) -> np.ndarray:
    """Return a subdomain's cell indices, ascending, each once."""
    index = _as_array(index, f"subdomain {group!r}", mesh.name)
    is_index = index.ndim == 1 and index.size > 0 and index.dtype.kind in "iu"
    if not is_index or index.min() < 0 or index.max() >= mesh.num_cells:
        raise InputError(
            f"{mesh.name}, subdomain {group!r}",
            f"a list of cell indices from 0 to {mesh.num_cells - 1}",
            f"shape {index.shape} of {index.dtype}"
            + (f" from {index.min()} to {index.max()}" if is_index else ""),
            "name cells of the mesh",
        )
    return np.unique(index.astype(np.int64))


def _checked_field(field: str, values, size: int, name: str) -> np.ndarray:
    """Return a field as float64; a value that is not finite is an error only where it is used."""
    values = _as_array(values, f"field {field!r}", name)
    if values.shape != (size,) or values.dtype.kind not in "iuf":
        raise InputError(
            f"{name}, field {field!r}",
            f"{size} numbers",
            f"shape {values.shape} of {values.dtype}",
            "give one number per node or per cell",
        )
    return values.astype(np.float64)
