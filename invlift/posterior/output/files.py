"""Write the result files of a run: VTU files and series for ParaView, CSV and JSON."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import meshio
import numpy as np
import pandas as pd
from pydantic_core import from_json, to_json

from invlift.errors import InputError
from invlift.files.atomic import replace_on_success, write_bytes
from invlift.posterior.names import AT_TIME, FIELD, MESH_ERROR, SOLUTION
from invlift.posterior.output.folder_files import DRAWS, RECORD
from invlift.posterior.output.groups import groups_of
from invlift.posterior.output.with_units import (
    fields_with_units,
    readings_with_units,
    scalars_with_units,
)
from invlift.posterior.statistics.labelled import save_netcdf
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.parts import every_of, total
from invlift.posterior.statistics.quantity import PLACES
from invlift.posterior.verdict import verdict_of

CELL_TYPES = {1: "vertex", 3: "triangle", 4: "tetra"}  # meshio's names by the number of corners
#: Number of draws of the field that are written as a series and shown in a report.
NUM_DRAWS = 12
#: Attribute of the file of draws that identifies the record written with it.
RECORD_SHA256 = "record_sha256"
#: Row of the summary: number of readings that the draws cannot predict from all others.
UNRELIABLE = "num_loo_unreliable"
#: Statistics that only some kernels count.
_COUNTED = "num_divergences", "num_return_audits", "num_return_disagreements"


def in_three_dimensions(points: np.ndarray) -> np.ndarray:
    """Append z = 0 to points (k, 2), as VTK needs three coordinates; (k, 3) are unchanged."""
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

    Points are (num_nodes, dim), dim 2 or 3, in the length unit of the mesh. Cells are (num_cells,
    dim + 1), corners of triangles or tetrahedra; None writes points without cells. Fields,
    (num_nodes,) or (num_cells,), are given by name; NaN means "no value". `numbers` are numbers or
    arrays without a position, written as field data of VTK. Raises an InputError if a field does
    not fit the mesh.
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
        if numbers:  # meshio does not write field data
            grid = b"<UnstructuredGrid>"
            written = temporary.read_bytes().replace(grid, grid + _field_data(numbers), 1)
            temporary.write_bytes(written)


def _field_data(numbers: Mapping[str, np.ndarray | float]) -> bytes:
    text = ""
    for name, values in numbers.items():
        values = np.ravel(np.asarray(values, dtype=float)).tolist()
        size = f'Name={quoteattr(name)} NumberOfTuples="{len(values)}"'
        written = " ".join(map(repr, values))
        text += f'<DataArray type="Float64" {size} format="ascii">{written}</DataArray>'
    return f"<FieldData>{text}</FieldData>".encode()


def write_table(path: str | os.PathLike, table: pd.DataFrame) -> None:
    """Write a table as CSV, with all digits of its numbers."""
    with replace_on_success(path) as temporary:
        table.to_csv(temporary, lineterminator="\n")


def as_json(record: Mapping[str, Any]) -> bytes:
    """Return a record as strict JSON.

    A record may contain nested mappings, sequences, arrays, numbers, text, paths and dates. JSON
    has no NaN and no infinity: both become null.
    """
    settings = {"indent": 2, "inf_nan_mode": "null", "fallback": lambda x: x.__array__().tolist()}
    return to_json(record, **settings) + b"\n"


def write_json(path: str | os.PathLike, record: Mapping[str, Any]) -> None:
    """Write a record as strict JSON, complete or not at all: see `as_json`."""
    write_bytes(path, as_json(record))


def record_sha256(content: str | bytes) -> str:
    """Return the SHA-256 of the values of a record in JSON, independent of its line breaks."""
    return hashlib.sha256(to_json(from_json(content))).hexdigest()


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a series: fields on nodes and on cells, and numbers, by name."""

    on_nodes: Mapping[str, np.ndarray] = field(default_factory=dict)
    on_cells: Mapping[str, np.ndarray] = field(default_factory=dict)
    numbers: Mapping[str, np.ndarray | float] = field(default_factory=dict)


def write_series(
    path: str | os.PathLike,
    points: np.ndarray,
    cells: np.ndarray,
    steps: Sequence[Step],
    times: Sequence[float] | None = None,
) -> list[Path]:
    """Write steps that ParaView plays as an animation; return the files, the PVD file first.

    `times` are the times of the steps, by default 0, 1 and so on. The path ends in .pvd. The files
    of the steps are written to the folder with the same name without this ending.
    """
    path = Path(path)
    folder = path.with_suffix("")
    files = [folder / f"{path.stem}_{index:04d}.vtu" for index in range(len(steps))]
    for file, step in zip(files, steps, strict=True):
        write_fields(file, points, cells, step.on_nodes, step.on_cells, step.numbers)
    text = '<?xml version="1.0" encoding="utf-8"?>\n<VTKFile type="Collection" version="0.1">\n'
    text += "<Collection>\n"
    for time, file in zip(range(len(files)) if times is None else times, files, strict=True):
        name = quoteattr(f"{path.stem}/{file.name}")
        text += f'<DataSet timestep="{time}" part="0" file={name}/>\n'
    write_bytes(path, f"{text}</Collection>\n</VTKFile>\n".encode())
    return [path, *files]


# -- the results of a run -----------------------------------------------------------------------


def record_of(posterior: PosteriorStatistics) -> dict[str, Any]:
    """Return sizes, times, counts and verdict of a run, for `run.json`; None where unknown.

    Counts of divergences, audits and failures (as defined by the standards of the kernel) are
    included only if the kernel counts them.
    """
    chains, stats = posterior.chains, [chain.stats for chain in posterior.chains]

    numbers = "step_size", "warmup_seconds", "sampling_seconds"
    totals = "num_steps", "num_factorisations", "num_projection_failures"
    names = filter(None, (*_COUNTED, posterior.standards.failures))
    counts = {name: total(stats, name) for name in names}
    return {
        "num_chains": len(chains),
        "num_draws": posterior.num_draws,
        "num_draws_requested": posterior.num_draws_requested,
        "num_chains_requested": posterior.num_chains_requested,
        **{name: [getattr(chain, name) for chain in chains] for name in numbers},
        "acceptance_rate": [_acceptance_rate(part) for part in stats],
        **{name: total(stats, name) for name in totals},
        **{name: count for name, count in counts.items() if count is not None},
        "verdict": asdict(verdict_of(posterior)),
        "compile_seconds": posterior.compile_seconds,
        "is_interrupted": posterior.is_interrupted,
        "misfit_p_value": posterior.fit.misfit_p_value,
        "exceedance": list(posterior.exceedance),
        "materials": dict(posterior.materials),
        "objections": list(posterior.objections),
        "doubts": [list(each) for each in posterior.doubts],
    }


def _acceptance_rate(stats: Mapping[str, np.ndarray]) -> float | None:
    rate = np.asarray(stats.get("acceptance_rate", np.nan))
    return float(np.nanmean(rate)) if np.isfinite(rate).any() else None


def write_results(
    posterior: PosteriorStatistics, folder: Path, record: Mapping[str, Any]
) -> list[Path]:
    """Write all results of a run to a folder, and return their paths: see `Posterior.write`."""
    mesh, sensors, field, written = posterior.mesh, posterior.sensors, posterior.field, []

    def new(name: str) -> Path:
        written.append(folder / name)
        return written[-1]

    if mesh is not None:
        fields = posterior.fields_by_place
        on_places = (fields_with_units(fields[place], posterior) for place in PLACES)
        write_fields(new("posterior.vtu"), mesh.points, mesh.cells, *on_places)
    if sensors is not None:
        table = posterior.fit.table()
        write_table(new("sensor_fit.csv"), readings_with_units(table, posterior))
        if posterior.readings.points is not None:
            names = [name for name in (MESH_ERROR, *posterior.fit.by_sensor()) if name in table]
            data = readings_with_units(table[names], posterior).to_dict("series")
            write_fields(new("sensors.vtu"), sensors.points, None, data)
    summary = scalars_with_units(summary_with_totals(posterior), posterior)
    write_table(new("summary.csv"), summary)
    attributes = {RECORD_SHA256: record_sha256(as_json(record))}
    save_netcdf(groups_of(posterior), new(DRAWS), attributes)
    write_json(new(RECORD), record)
    if mesh is not None and field is not None:
        steps = []
        for _, _, values in some_draws(posterior):
            columns = {field.name: values}
            columns |= {"conductivity": np.exp(values)} if field.name == FIELD else {}
            columns = fields_with_units(columns, posterior)
            steps.append(Step(columns) if field.place == "node" else Step({}, columns))
        write_series(new("draws.pvd"), mesh.points, mesh.cells, steps)
        for name, at in solutions_in_time(posterior).items():
            steps = [Step(fields_with_units(on_nodes, posterior)) for on_nodes in at.values()]
            write_series(new(f"{name}.pvd"), mesh.points, mesh.cells, steps, list(at))
    return written


def solutions_in_time(
    posterior: PosteriorStatistics,
) -> dict[str, dict[float, dict[str, np.ndarray]]]:
    """Return statistics at the nodes of solutions stored at times, by name and by time."""
    solutions: dict[str, dict[float, dict[str, np.ndarray]]] = {}
    fields = posterior.fields_by_place["node"]
    for described in posterior.described:
        name, mark, time = described.rpartition(AT_TIME)
        if not mark or not name.startswith(SOLUTION):
            continue
        statistics = {
            f"{name}_{end}": fields[f"{described}_{end}"]
            for end in ("mean", "sd", "q05", "q50", "q95")
            if f"{described}_{end}" in fields
        }
        solutions.setdefault(name, {})[float(time)] = statistics
    return {name: dict(sorted(at.items())) for name, at in solutions.items()}


def some_draws(posterior: PosteriorStatistics) -> list[tuple[int, int, np.ndarray]]:
    """Return at most `NUM_DRAWS` evenly spread draws of the field: chain, draw number, values."""
    name = posterior.field.name
    fields, every = posterior.draws(name), every_of(posterior.chains, name)
    num_chains, num_draws = len(fields), len(fields[0])
    num = min(NUM_DRAWS, num_chains * num_draws)
    chains, each = np.arange(num) % num_chains, -(-num // num_chains)
    places = (np.arange(num) // num_chains * num_draws + num_draws // 2) // each
    pairs = zip(chains.tolist(), places.tolist(), strict=True)
    return [(chain, place * every, fields[chain][place]) for chain, place in pairs]


def number_style(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the number format of a table in pandas: four digits, for coordinates nine.

    Coordinates of a map in metres need nine digits.
    """
    places = frame.select_dtypes("number").columns.intersection([*"xyz"])
    formats = dict.fromkeys(places, "{:.9g}".format)
    return {"float_format": "{:.4g}".format, "formatters": formats}


def summary_with_totals(posterior: PosteriorStatistics) -> pd.DataFrame:
    """Return the summary with the totals of leave-one-out predictions, for `summary.csv`."""
    table = posterior.summary()
    if posterior.fit.has_leave_one_out:
        loo = posterior.fit.leave_one_out()
        for name, (estimate, error) in loo.totals().items():
            table.loc[name, ["mean", "sd"]] = estimate, error
        table.loc[UNRELIABLE, "mean"] = (~loo.is_reliable).sum()
    return table
