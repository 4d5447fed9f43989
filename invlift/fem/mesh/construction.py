"""Construction of meshes from files and arrays, with all checks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh import checks as mesh_checks
from invlift.fem.mesh.expressions import holds
from invlift.fem.mesh.files import read_facet_groups, read_mesh_arrays
from invlift.fem.mesh.mesh import Mesh
from invlift.units import factor_between

#: Default unit to which coordinates are converted.
METRE = "m"


def read_mesh(
    path: str | os.PathLike,
    *,
    facets: str | os.PathLike | None = None,
    unit: str | None = None,
    length_unit: str = "",
) -> Mesh:
    """Read a triangle or tetrahedron mesh from a file of any format that meshio reads.

    Physical groups of gmsh (formats 2.2 and 4.1) become boundaries and subdomains. A group without
    a name is named by its number. Elements of lower dimension only define boundaries. If only some
    elements of the body are in groups, as gmsh saves them with Mesh.SaveAll = 1, the elements
    without a group are left out.

    Parameters
    ----------
    path : str or path-like
    facets : str or path-like, optional
        A second file with tags of facets, as FEniCS writes it in XDMF. The tags name the groups.
    unit : str, optional
        The unit of the file's coordinates, for example "mm", from which they are converted.
    length_unit : str
        The unit to which they are converted, by default metre; if given, it is shown on the axes
        of pictures.

    Returns
    -------
    Mesh
        A mesh with named boundaries and subdomains, and with notes on all changes.

    Raises
    ------
    InputError
        If the file cannot be read, or the mesh fails a check of `mesh_from_arrays`.

    Examples
    --------
    >>> mesh = invlift.read_mesh("meshes/disc.msh")
    >>> mesh.num_nodes, sorted(mesh.boundaries)
    (469, ['rim'])
    """
    name = os.fspath(path)
    arrays, notes = read_mesh_arrays(Path(path), name)
    if facets is not None:
        groups = read_facet_groups(Path(facets), os.fspath(facets), arrays["points"])
        arrays["boundaries"] = arrays["boundaries"] | groups
    if unit is not None:
        wanted = length_unit or METRE
        factor = factor_between(unit, wanted)
        if factor is None:
            expected, remedy = "a unit of length", "write mm, cm, m, km or ft, for example"
            raise InputError((name, "unit"), expected, repr(unit), remedy)
        arrays["points"] = factor * arrays["points"]
        notes += [f"converted from {unit} to {wanted}"] if factor != 1.0 else []
    mesh = mesh_from_arrays(**arrays, name=name)
    return replace(mesh, notes=(*notes, *mesh.notes), unit=length_unit)


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
        Nodes without a cell are left out. Triangles may have three coordinates if all z are equal;
        z is then left out. The mesh has a note on both.
    cells : array_like of int, shape (num_cells, 3 or 4)
        Negatively oriented (clockwise) cells are reversed.
    boundaries : mapping of str to array_like of int, shape (num_facets, dim), optional
        Facets by their nodes, in any order; repeated facets count once.
    subdomains : mapping of str to array_like of int, shape (num_cells_in_group,), optional
    point_fields, cell_fields : mapping of str to array_like, optional
        One number per node or per cell.
    name : str
        Name of the mesh in error messages.

    Returns
    -------
    Mesh
        A mesh with positively oriented cells, and with notes on all changes.

    Raises
    ------
    InputError
        For wrong shapes, coordinates that are not finite, nodes that do not exist, triangles that
        are not in a plane of constant z, degenerate or duplicate elements, overlapping elements,
        and groups or fields that do not fit the mesh.

    Examples
    --------
    >>> corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    >>> mesh = invlift.mesh_from_arrays(
    ...     corners, [[0, 1, 2], [0, 2, 3]], boundaries={"left": [[3, 0]]}
    ... )
    >>> mesh.num_cells, sorted(mesh.boundaries)
    (2, ['left'])
    """
    points, cells = _as_array(points, "points", name), _as_array(cells, "cells", name)
    mesh_checks.check_arrays(points, cells, name)
    # The copies keep a caller's later changes out of the mesh.
    points, cells = points.astype(np.float64), cells.astype(np.int64)
    points, notes = mesh_checks.drop_flat_coordinate(points, cells, name)
    points = np.ascontiguousarray(points)
    mesh_checks.check_degenerate(points, cells, name)
    mesh_checks.check_duplicates(points, cells, name)
    cells = mesh_checks.orient(points, cells)
    mesh_checks.check_overlaps(points, cells, name)
    fields = (
        {str(key): _checked_field(key, values, size, name) for key, values in (given or {}).items()}
        for given, size in ((point_fields, len(points)), (cell_fields, len(cells)))
    )
    mesh = Mesh(points, cells, {}, {}, *fields, name, tuple(notes))
    for key, facets in (boundaries or {}).items():
        mesh.boundaries[str(key)] = _checked_facets(mesh, key, facets)
    mesh = _without_orphans(mesh)
    points, cells = mesh.points, mesh.cells
    for key, index in (subdomains or {}).items():
        mesh.subdomains[str(key)] = _checked_cells(mesh, key, index)
    for array in (points, cells, *mesh.boundaries.values(), *mesh.subdomains.values()):
        array.setflags(write=False)
    return mesh


def with_groups(
    mesh: Mesh,
    *,
    boundaries: Mapping[str, str] | None = None,
    subdomains: Mapping[str, str] | None = None,
    where: Callable[[str, str], str | tuple] | None = None,
) -> Mesh:
    """Add boundary groups and subdomains to a mesh, defined by conditions on their position.

    Parameters
    ----------
    mesh : Mesh
    boundaries : mapping of str to str, optional
        Groups of exterior facets whose midpoints satisfy a condition in x, y and z, such as
        "x < 0.001 and y > 0.5".
    subdomains : mapping of str to str, optional
        Groups of cells whose midpoints satisfy a condition. It may contain names of the mesh's
        cell fields, such as "marker == 2"; in them, _ replaces all characters that are no letters
        or digits.
    where : callable, optional
        Function of "boundaries" or "subdomains" and the name of a group that returns the place for
        error messages.

    Returns
    -------
    Mesh
        The mesh with these additional groups.

    Raises
    ------
    InputError
        If the mesh already has the group, a condition cannot be read, or nothing satisfies it.

    Examples
    --------
    >>> mesh = invlift.read_mesh("meshes/disc.msh")
    >>> mesh = invlift.with_groups(mesh, boundaries={"west": "x < 0"})
    >>> sorted(mesh.boundaries), len(mesh.facets("west"))
    (['rim', 'west'], 36)
    """
    where = where or (lambda kind, group: f"{mesh.name}, {kind}, {group}")
    fields = {re.sub(r"\W", "_", key): each for key, each in mesh.cell_fields.items()}
    kinds = {
        "boundaries": (boundaries, mesh.boundaries, mesh.boundary_facets, {}),
        "subdomains": (subdomains, mesh.subdomains, mesh.cells, fields),
    }
    groups = {}
    for kind, (conditions, given, corners, names) in kinds.items():
        middles, groups[kind] = mesh.points[corners].mean(axis=1), dict(given)
        for group, text in (conditions or {}).items():
            if group in given:
                remedy = "give it another name, or leave it out"
                raise InputError(where(kind, group), "a new name", f"{group!r} of the file", remedy)
            index = np.flatnonzero(holds(text, middles, names, where(kind, group)))
            if not index.size:
                raise _nothing_there(where(kind, group), kind, text, middles)
            groups[kind][group] = corners[index] if kind == "boundaries" else index
            groups[kind][group].setflags(write=False)
    return replace(mesh, **groups)


def _nothing_there(where, kind: str, text: str, middles: np.ndarray) -> InputError:
    """Return the error for a condition that nothing satisfies."""
    what = {"boundaries": "facets of the boundary", "subdomains": "cells"}[kind]
    ends = (
        mesh_checks.place(np.round(end, 12)) for end in (middles.min(axis=0), middles.max(axis=0))
    )
    found = f"none: their middles span {' to '.join(ends)}"
    remedy = "correct it; to be equal, allow for rounding: abs(x - 0.2) < 1e-6"
    return InputError(where, f"{what} with {text}", found, remedy)


def _without_orphans(mesh: Mesh) -> Mesh:
    """Remove nodes without a cell, such as centres of circles from gmsh, with a note.

    All facets are facets of cells here, so that none has such a node.
    """
    is_used = np.zeros(mesh.num_nodes, dtype=bool)
    is_used[mesh.cells] = True
    orphans = np.flatnonzero(~is_used)
    if not orphans.size:
        return mesh
    number = np.cumsum(is_used) - 1
    first = mesh_checks.place(mesh.points[orphans[0]])
    nodes = "nodes" if orphans.size > 1 else "node"
    note = f"{orphans.size} {nodes} of no element left out, the first at {first}"
    return replace(
        mesh,
        points=mesh.points[is_used],
        cells=number[mesh.cells],
        boundaries={key: number[each] for key, each in mesh.boundaries.items()},
        point_fields={key: each[is_used] for key, each in mesh.point_fields.items()},
        notes=(*mesh.notes, note),
    )


def _as_array(values, what: str, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as reason:
        raise InputError(
            f"{name}, {what}", "a rectangular array", f"{reason}", "give rows of equal length"
        ) from None


def _checked_facets(mesh: Mesh, group: str, facets) -> np.ndarray:
    """Return the unique facets of a group, with ascending nodes; check that cells have them."""
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
    # Only facets whose nodes are all in the group can match, which keeps the search small.
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
    """Return the unique cell indices of a subdomain, ascending, after checks."""
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
    """Return a field as float64; values that are not finite are an error only when used."""
    values = _as_array(values, f"field {field!r}", name)
    if values.shape != (size,) or values.dtype.kind not in "iuf":
        raise InputError(
            f"{name}, field {field!r}",
            f"{size} numbers",
            f"shape {values.shape} of {values.dtype}",
            "give one number per node or per cell",
        )
    return values.astype(np.float64)
