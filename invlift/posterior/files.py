"""Files of results: VTU and series of them for ParaView, CSV for tables, JSON for records."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import meshio
import numpy as np
import pandas as pd
from pydantic_core import PydanticSerializationError, to_json

from invlift.atomic import replace_on_success
from invlift.errors import InputError

CELL_TYPES = {1: "vertex", 3: "triangle", 4: "tetra"}  # meshio's names by the number of corners


def in_three_dimensions(points: np.ndarray) -> np.ndarray:
    """Append z = 0 to (k, 2) points, as VTK knows only space; (k, 3) points pass unchanged."""
    points = np.asarray(points, dtype=float)
    return np.column_stack([points, np.zeros((len(points), 3 - points.shape[1]))])


def write_fields(
    path: str | os.PathLike,
    points: np.ndarray,
    cells: np.ndarray | None,
    point_data: Mapping[str, np.ndarray],
    cell_data: Mapping[str, np.ndarray] | None = None,
    numbers: Mapping[str, np.ndarray | float] | None = None,
) -> None:
    """Write fields on a mesh, or at points such as sensors, as a compressed binary VTU file.

    Points are (num_nodes, dim), dim 2 or 3, in the length unit of the mesh; cells are (num_cells,
    dim + 1), corners of triangles or tetrahedra, None for points alone. Fields, (num_nodes,) or
    (num_cells,), are by name; NaN marks "no value". Numbers, or (k,) arrays, belong to no place:
    they are VTK's field data. An InputError if a field does not fit the mesh.
    """
    cells = np.arange(len(points))[:, None] if cells is None else np.asarray(cells)
    for kind, data, size in ("point", point_data, len(points)), ("cell", cell_data, len(cells)):
        for name, values in (data or {}).items():
            if np.shape(values) != (size,):
                expected, found = f"{size} values, one per {kind}", f"shape {np.shape(values)}"
                remedy = "pass the mesh that was used in the run"
                raise InputError(f"{kind} field {name}", expected, found, remedy)
    on_nodes, on_cells = (
        {name: np.ascontiguousarray(values, dtype=float) for name, values in (data or {}).items()}
        for data in (point_data, cell_data)
    )
    mesh = meshio.Mesh(
        in_three_dimensions(points),
        [(CELL_TYPES[cells.shape[1]], cells.astype(np.int64))],
        point_data=on_nodes,
        cell_data={name: [values] for name, values in on_cells.items()},
    )
    with replace_on_success(path) as temporary:
        meshio.write(temporary, mesh, file_format="vtu", binary=True, compression="zlib")
        if numbers:  # which meshio reads, but does not write
            grid = b"<UnstructuredGrid>"
            written = temporary.read_bytes().replace(grid, grid + _field_data(numbers), 1)
            temporary.write_bytes(written)


def read_fields(path: str | os.PathLike) -> meshio.Mesh | None:
    """What `write_fields` has written, its `field_data` the numbers; None if it cannot be read."""
    printed = io.StringIO()  # by meshio, which says what is wrong
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            return meshio.read(path, file_format="vtu")
    except (Exception, SystemExit):
        return None


def _field_data(numbers: Mapping[str, np.ndarray | float]) -> bytes:
    text = ""
    for name, values in numbers.items():
        values = np.atleast_1d(np.asarray(values, dtype=float)).tolist()
        size = f'Name={quoteattr(name)} NumberOfTuples="{len(values)}"'
        written = " ".join(map(repr, values))
        text += f'<DataArray type="Float64" {size} format="ascii">{written}</DataArray>'
    return f"<FieldData>{text}</FieldData>".encode()


def write_table(path: str | os.PathLike, table: pd.DataFrame) -> None:
    """Write a table as CSV, with every digit of its numbers."""
    with replace_on_success(path) as temporary:
        table.to_csv(temporary, lineterminator="\n")


def write_json(path: str | os.PathLike, record: Mapping[str, Any]) -> None:
    """Write a record as strict JSON, complete or not at all.

    Nested mappings, sequences, arrays, numbers, text, paths and dates; an InputError if there is
    anything else. JSON has no NaN and no infinity: both become null.
    """
    try:
        content = to_json(record, inf_nan_mode="null", fallback=lambda x: x.__array__().tolist())
    except PydanticSerializationError as error:
        expected, found = "text, numbers, lists or mappings of them", f"others ({error})"
        raise InputError("record of a run", expected, found, "convert them to text") from None
    text = json.dumps(json.loads(content), indent=2, ensure_ascii=False)
    with replace_on_success(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True, eq=False)
class Step:
    """What a step of a series shows: fields on nodes and on cells, and numbers, by name."""

    on_nodes: Mapping[str, np.ndarray] = field(default_factory=dict)
    on_cells: Mapping[str, np.ndarray] = field(default_factory=dict)
    numbers: Mapping[str, np.ndarray | float] = field(default_factory=dict)


def write_series(
    path: str | os.PathLike, points: np.ndarray, cells: np.ndarray, steps: Sequence[Step]
) -> list[Path]:
    """Write steps that ParaView plays as an animation; return the files, the PVD file first.

    The path ends in .pvd; the files of the steps go to the folder of that name without the ending.
    An InputError if that is a link, which may lead to what is anybody's.
    """
    path = Path(path)
    folder = path.with_suffix("")
    if folder.is_symlink():
        raise InputError(f"{folder}", "a folder of its own", "a link to another", "remove the link")
    files = [folder / f"{path.stem}_{index:04d}.vtu" for index in range(len(steps))]
    for file, step in zip(files, steps, strict=True):
        write_fields(file, points, cells, step.on_nodes, step.on_cells, step.numbers)
    text = '<?xml version="1.0" encoding="utf-8"?>\n<VTKFile type="Collection" version="0.1">\n'
    text += "<Collection>\n"
    for index, file in enumerate(files):
        name = quoteattr(f"{path.stem}/{file.name}")
        text += f'<DataSet timestep="{index}" part="0" file={name}/>\n'
    with replace_on_success(path) as temporary:
        temporary.write_text(f"{text}</Collection>\n</VTKFile>\n", encoding="utf-8")
    return [path, *files]
