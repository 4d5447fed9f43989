"""Mesh files as arrays, from meshio's reading of them.

meshio accepts many formats, but reports trouble in many ways: it raises, prints, warns or exits.
Here all of them become one `InputError`. Names of gmsh physical groups are read from the file
itself, because meshio keys them by name alone and so forgets one of two groups of different
dimension that share a name.
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

from invlift.errors import InputError
from invlift.fem.mesh.foreign_formats import NO_GROUPS, ReadingFailed, read_foreign
from invlift.fem.mesh.gmsh_numbers import check_gmsh_numbers
from invlift.files.input_files import read_input

#: Largest mesh file that is read.
MAX_BYTES = 2**31
_NUM_NODES = {"vertex": 1, "line": 2, "triangle": 3, "tetra": 4}
_CONVERT = "convert it to gmsh .msh (2.2 or 4.1), or to .vtu or .vtk, which keep no named groups"


def read_mesh_arrays(path: Path, name: str) -> dict[str, Any]:
    """Read the arguments of `mesh_from_arrays` from any file that meshio reads.

    Parameters
    ----------
    path : Path
    name : str
        How error messages call the file.

    Raises
    ------
    InputError
        If the file is missing, unreadable, empty, not a mesh, or its elements are not all
        linear triangles or all linear tetrahedra.
    """
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
    file_mesh = _call_meshio(path, name, is_gmsh)
    blocks = [(block.type, np.asarray(block.data)) for block in file_mesh.cells]
    cell_type = _element_type(blocks, name)
    facet_type = {"triangle": "line", "tetra": "triangle"}[cell_type]
    is_cell = [kind == cell_type and len(data) > 0 for kind, data in blocks]
    is_facet = [kind == facet_type and len(data) > 0 for kind, data in blocks]
    members = _group_members(file_mesh, _physical_names(content))

    cells = np.concatenate([data for (_, data), use in zip(blocks, is_cell, strict=True) if use])
    facets = [data for (_, data), use in zip(blocks, is_facet, strict=True) if use]
    facets = np.concatenate(facets) if facets else np.empty((0, cells.shape[1] - 1), dtype=int)
    boundaries = {
        group: facets[index] for group, index in _positions(members, blocks, is_facet).items()
    }
    return {
        "points": np.asarray(file_mesh.points),
        "cells": cells,
        "boundaries": boundaries,
        "subdomains": _positions(members, blocks, is_cell),
        "point_fields": _scalar_fields(file_mesh.point_data),
        "cell_fields": _scalar_fields(
            {
                key: np.concatenate(
                    [np.asarray(v) for v, use in zip(values, is_cell, strict=True) if use]
                )
                for key, values in file_mesh.cell_data.items()
            }
        ),
    }


def _call_meshio(path: Path, name: str, is_gmsh: bool) -> meshio.Mesh:
    """Call meshio, with its ways of failing turned into one."""
    try:
        return _read_gmsh(path) if is_gmsh else read_foreign(path)
    except ReadingFailed as reason:
        message = str(reason)
    if "gmsh:physical" in message:
        raise InputError(
            name,
            "a gmsh file whose elements all belong to physical groups",
            "elements with and without a physical group",
            "put every surface (volume) in a physical group, or save it with Mesh.SaveAll = 0",
        )
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
    """Read a gmsh file whose numbers have been checked, with meshio's printing silenced."""
    printed = io.StringIO()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("ignore")
            return meshio.read(path, file_format="gmsh")
    except (Exception, SystemExit) as reason:
        is_telling = str(reason) and not isinstance(reason, SystemExit)
        raise ReadingFailed(f"{type(reason).__name__}: {reason}" if is_telling else "") from None


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
    """Return, for each group and each block of the file, which elements of the block are in it.

    A group without a name goes by its tag, written as text.
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
    for block_number, tags in enumerate(file_mesh.cell_data.get("gmsh:physical", [])):
        dim = _NUM_NODES[file_mesh.cells[block_number].type] - 1
        # gmsh stores a negative tag for an entity whose orientation the group reverses.
        tags = np.abs(np.asarray(tags).astype(int))
        for tag in np.unique(tags[tags != 0]).tolist():
            group = names.get((dim, tag), str(tag))
            masks_of(group)[block_number] |= tags == tag
    return members


def _positions(
    members: dict[str, list[np.ndarray]], blocks: list[tuple[str, np.ndarray]], use: list[bool]
) -> dict[str, np.ndarray]:
    """Return each group's positions in the concatenation of the used blocks, if it has any."""
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
    """Keep the real scalar fields, as float64; gmsh's own bookkeeping is left out."""
    fields = {}
    for key, values in data.items():
        values = np.asarray(values)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim == 1 and values.dtype.kind in "iuf" and not key.startswith("gmsh:"):
            fields[key] = values.astype(np.float64)
    return fields
