"""Reading of mesh files into arrays, by meshio.

meshio accepts many formats, but reports errors in many ways: it raises, prints, warns or exits.
Here all of them become one `InputError`. Names of gmsh physical groups are read directly from the
file: meshio uses only the name as key, and so loses one of two groups of different dimension with
the same name.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import warnings
from pathlib import Path
from typing import Any

import meshio
import numpy as np
from meshio.gmsh import _gmsh41
from scipy.spatial import cKDTree

from invlift.errors import InputError
from invlift.fem.mesh.foreign_formats import NO_GROUPS, ReadingFailed, read_foreign
from invlift.fem.mesh.gmsh_numbers import check_gmsh_numbers
from invlift.files.input_files import read_input

#: Largest mesh file that is read, bytes.
MAX_BYTES = 2**31
_NUM_NODES = {"vertex": 1, "line": 2, "triangle": 3, "tetra": 4}
#: meshio's names of the arrays of group numbers: of gmsh, Medit and FreeFEM, SU2, and MED.
_TAGS = "gmsh:physical", "medit:ref", "su2:tag", "cell_tags"
_CONVERT = "convert it to gmsh .msh (2.2 or 4.1), or to .vtu or .vtk, which keep no named groups"


def read_mesh_arrays(path: Path, name: str) -> tuple[dict[str, Any], list[str]]:
    """Read a mesh file by meshio; return the arguments of `mesh_from_arrays`, and notes.

    Parameters
    ----------
    path : Path
    name : str
        Name of the file in error messages.

    Raises
    ------
    InputError
        If the file is missing, unreadable, empty, not a mesh, or its elements are not all
        linear triangles or all linear tetrahedra.
    """
    file_mesh, content = _read_file(path, name)
    blocks = [(block.type, np.asarray(block.data)) for block in file_mesh.cells]
    cell_type = _element_type(blocks, name)
    facet_type = {"triangle": "line", "tetra": "triangle"}[cell_type]
    is_cell = [kind == cell_type and len(data) > 0 for kind, data in blocks]
    is_facet = [kind == facet_type and len(data) > 0 for kind, data in blocks]
    names = _physical_names(content)
    members = _group_members(file_mesh, names)
    if names and not members:
        listed = ", ".join(map(repr, names.values()))
        remedy = "save it as .msh 4.1 (gmsh leaves them out of 2.2 with Mesh.SaveAll = 1)"
        raise InputError(name, f"elements in the groups {listed}", "none in any", remedy)
    kept, notes = _cells_of_groups(file_mesh, is_cell, cell_type)

    cells = np.concatenate([data for (_, data), use in zip(blocks, is_cell, strict=True) if use])
    facets = [data for (_, data), use in zip(blocks, is_facet, strict=True) if use]
    facets = np.concatenate(facets) if facets else np.empty((0, cells.shape[1] - 1), dtype=int)
    boundaries = {
        group: facets[index] for group, index in _positions(members, blocks, is_facet).items()
    }
    cell_fields = {
        key: np.concatenate([np.asarray(v) for v, use in zip(values, is_cell, strict=True) if use])
        for key, values in file_mesh.cell_data.items()
    }
    number = np.cumsum(kept) - 1
    return {
        "points": np.asarray(file_mesh.points),
        "cells": cells[kept],
        "boundaries": boundaries,
        "subdomains": {
            group: number[index] for group, index in _positions(members, blocks, is_cell).items()
        },
        "point_fields": _scalar_fields(file_mesh.point_data),
        "cell_fields": {key: each[kept] for key, each in _scalar_fields(cell_fields).items()},
    }, notes


def read_facet_groups(path: Path, name: str, points: np.ndarray) -> dict[str, np.ndarray]:
    """Read groups of facets from a file of tagged facets; return their nodes in a mesh.

    Parameters
    ----------
    path : Path
        File as FEniCS writes it in XDMF, with one integer for each facet. 0 means no group.
    name : str
        Name of the file in error messages.
    points : ndarray, shape (num_nodes, 2 or 3)
        Nodes of the mesh; the nodes of the file are matched by their coordinates.

    Raises
    ------
    InputError
        If the file cannot be read, does not have exactly one array of integers, or has nodes that
        are not in the mesh.
    """
    file_mesh, _ = _read_file(path, name)
    whole = {
        key: np.concatenate([np.ravel(each) for each in values])
        for key, values in file_mesh.cell_data.items()
    }
    tags = {key: each for key, each in whole.items() if _are_integers(each)}
    kinds = sorted({block.type for block in file_mesh.cells})
    if len(tags) != 1 or len(kinds) != 1 or kinds[0] not in ("line", "triangle"):
        found = f"{', '.join(kinds)} with {', '.join(tags) or 'no integers'}"
        remedy = "save the facets of the boundary and their tags, and nothing else"
        raise InputError(name, "lines or triangles with one array of tags", found, remedy)
    size = max(points.shape[1], file_mesh.points.shape[1])
    mine, theirs = (np.pad(each, ((0, 0), (0, size - each.shape[1])))
                 for each in (points, np.asarray(file_mesh.points)))  # fmt: skip
    facets = np.concatenate([np.asarray(block.data) for block in file_mesh.cells])
    distance, node = cKDTree(mine).query(theirs)
    far = np.flatnonzero(distance[np.unique(facets)] > 1e-9 * np.ptp(mine, axis=0).max())
    if far.size:
        place = np.unique(facets)[far[0]]
        found = f"one {distance[place]:.3g} away from any, and {far.size - 1} more"
        remedy = "save facets and mesh from the same program, in the same unit"
        raise InputError(f"{name}, node {place}", "nodes of the mesh", found, remedy)
    (values,) = tags.values()
    return {str(int(tag)): node[facets[values == tag]] for tag in np.unique(values) if tag}


def _are_integers(values: np.ndarray) -> bool:
    return values.dtype.kind in "iu" or bool(
        values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1 == 0).all()
    )


def _cells_of_groups(
    file_mesh: meshio.Mesh, is_cell: list[bool], cell_type: str
) -> tuple[np.ndarray, list[str]]:
    """Return the mask of the cells to keep, those in groups or all if none is, and a note."""
    tags = file_mesh.cell_data.get("gmsh:physical", [])
    sizes = [len(block.data) for block, use in zip(file_mesh.cells, is_cell, strict=True) if use]
    kept = np.ones(sum(sizes), dtype=bool)
    if len(tags):
        of_cells = [np.asarray(each) for each, use in zip(tags, is_cell, strict=True) if use]
        is_grouped = np.concatenate(of_cells) != 0
        kept = is_grouped if is_grouped.any() else kept
    num = np.count_nonzero(~kept)
    kind = {"triangle": "triangles", "tetra": "tetrahedra"}[cell_type]
    return kept, [f"{num} {kind} without a group left out"] if num else []


def _read_file(path: Path, name: str) -> tuple[meshio.Mesh, bytes]:
    """Read a file by meshio; return meshio's mesh, and the content of the file."""
    content = read_input(
        path,
        name,
        "a mesh file",
        remedy="check the path (paths in a problem file are relative to that file)",
        max_bytes=MAX_BYTES,
    )
    if not content.strip():
        raise InputError(name, "a mesh", "an empty file", "write the mesh again")
    is_gmsh = content.startswith(b"$MeshFormat")
    if is_gmsh:
        check_gmsh_numbers(content, name)
    return _call_meshio(path, name, is_gmsh), content


def _call_meshio(path: Path, name: str, is_gmsh: bool) -> meshio.Mesh:
    """Call meshio, and turn all its failures into an InputError."""
    try:
        return _read_gmsh(path) if is_gmsh else read_foreign(path)
    except ReadingFailed as reason:
        message = str(reason)
    if message == NO_GROUPS:
        expected, remedy = "groups in a MED file", "define groups (in SALOME: Mesh > Create Group)"
        raise InputError(name, expected, message, f"{remedy}, or {_CONVERT}")
    if "deduce file format" in message:
        found = f"the unknown file extension {path.suffix!r}"
        raise InputError(name, "a mesh format that meshio reads", found, _CONVERT)
    raise InputError(
        name,
        "a mesh file that meshio can read",
        f"content that does not parse as {'gmsh' if is_gmsh else path.suffix}"
        + (f" ({message[:150]})" if message else ""),
        f"the file may be cut short or of another format: write it again or {_CONVERT}",
    )


def _read_gmsh(path: Path) -> meshio.Mesh:
    """Read a gmsh file with checked numbers, and suppress the output of meshio."""
    printed, groups = io.StringIO(), []

    def read_entities(*arguments):
        """Read entities as meshio, but put entities without a group into group 0, unused by gmsh.

        meshio leaves them out, and then has fewer arrays of groups than of elements.
        """
        own, bounding = _GMSH_ENTITIES(*arguments)
        if any(any(each.values()) for each in own):
            own = tuple({tag: each or [0] for tag, each in entities.items()} for entities in own)
        groups.append(own)
        return own, bounding

    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("ignore")
            _gmsh41._read_entities = read_entities
            mesh = meshio.read(path, file_format="gmsh")
            mesh.groups_of_entities = groups[0] if groups else ({},) * 4
            return mesh
    except (Exception, SystemExit) as reason:
        is_telling = str(reason) and not isinstance(reason, SystemExit)
        raise ReadingFailed(f"{type(reason).__name__}: {reason}" if is_telling else "") from None
    finally:
        _gmsh41._read_entities = _GMSH_ENTITIES


_GMSH_ENTITIES = _gmsh41._read_entities


def _element_type(blocks: list[tuple[str, np.ndarray]], name: str) -> str:
    """Return "triangle" or "tetra", or raise if the elements are anything else."""
    counts: dict[str, int] = {}
    for kind, data in blocks:
        counts[kind] = counts.get(kind, 0) + len(data)
    counts = {kind: count for kind, count in counts.items() if count}
    listing = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no elements"
    unsupported = [kind for kind in counts if kind not in _NUM_NODES]
    expected = "linear triangles (2-D) or linear tetrahedra (3-D)"
    if unsupported:
        straight = {"triangle6", "triangle10", "tetra10", "tetra20", "line3", "line4"}
        remedy = (
            "save the mesh with first-order elements (in gmsh: Mesh.ElementOrder = 1)"
            if set(unsupported) <= straight
            else "mesh the body with triangles or tetrahedra only (in gmsh: no recombination)"
        )
        raise InputError(name, expected, listing, remedy)
    for kind in ("tetra", "triangle"):
        if kind in counts:
            return kind
    raise InputError(name, expected, listing, "mesh the body itself and put it in a physical group")


def _physical_names(content: bytes) -> dict[tuple[int, int], str]:
    """Return {(dimension, tag): name} from a gmsh file's $PhysicalNames section.

    Format: https://gmsh.info/doc/texinfo/gmsh.html#MSH-file-format (text in binary files too).
    """
    if not content.startswith(b"$MeshFormat"):
        return {}
    _, _, section = content.partition(b"$PhysicalNames")
    section, _, _ = section.partition(b"$EndPhysicalNames")
    names = {}
    for line in section.decode("utf-8", errors="replace").splitlines():
        try:
            dim, tag, group = shlex.split(line)
            names[int(dim), abs(int(tag))] = group
        except ValueError:  # the count of names, an empty line
            continue
    return names


def _group_members(
    file_mesh: meshio.Mesh, names: dict[tuple[int, int], str]
) -> dict[str, list[np.ndarray]]:
    """Return, for each group and each block of the file, the mask of the block's elements in it.

    A group without a name is named by its number.
    """
    lengths = [len(block.data) for block in file_mesh.cells]
    members: dict[str, list[np.ndarray]] = {}

    def masks_of(group: str) -> list[np.ndarray]:
        return members.setdefault(group, [np.zeros(length, dtype=bool) for length in lengths])

    for group, index_of_block in file_mesh.cell_sets.items():
        if not group.startswith("gmsh:"):
            for mask, index in zip(masks_of(group), index_of_block, strict=True):
                if index is not None:
                    mask[np.asarray(index, dtype=int)] = True
    # Of an entity in several groups, meshio keeps the first, and those whose name it knows.
    geometrical = file_mesh.cell_data.get("gmsh:geometrical", [])
    if entities := getattr(file_mesh, "groups_of_entities", None):
        for number, tags in enumerate(geometrical):
            dim = _NUM_NODES[file_mesh.cells[number].type] - 1
            own = {abs(group) for tag in tags[:1].tolist() for group in entities[dim].get(tag, ())}
            for group in sorted(own - {0}):
                masks_of(names.get((dim, group), f"{group}"))[number][:] = True
    families = getattr(file_mesh, "cell_tags", {})  # of MED: names of groups by number
    for key in _TAGS:
        for block_number, tags in enumerate(file_mesh.cell_data.get(key, [])):
            dim = _NUM_NODES[file_mesh.cells[block_number].type] - 1
            tags = np.asarray(tags).astype(int)
            for tag in np.unique(tags[tags != 0]).tolist():
                # gmsh stores a negative tag for an entity whose orientation the group reverses.
                known = names.get((dim, abs(tag)), str(abs(tag)))
                for group in families.get(tag, [known]):
                    masks_of(group)[block_number] |= tags == tag
    return members


def _positions(
    members: dict[str, list[np.ndarray]], blocks: list[tuple[str, np.ndarray]], use: list[bool]
) -> dict[str, np.ndarray]:
    """Return the positions of each non-empty group in the concatenation of the used blocks."""
    if not any(use):
        return {}
    positions = {}
    for group, masks in members.items():
        chosen = [mask for mask, used in zip(masks, use, strict=True) if used]
        index = np.flatnonzero(np.concatenate(chosen))
        if len(index):
            positions[group] = index
    return positions


def _scalar_fields(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the real scalar fields as float64, without gmsh's internal arrays."""
    fields = {}
    for key, values in data.items():
        values = np.asarray(values)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim == 1 and values.dtype.kind in "iuf" and not key.startswith("gmsh:"):
            fields[key] = values.astype(np.float64)
    return fields
