"""From the files of a run's folder to the content of its report."""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path

import h5py
import meshio
import numpy as np
import pandas as pd
import xarray as xr

from invlift.errors import InputError
from invlift.input_files import read_text
from invlift.posterior.files import CELL_TYPES
from invlift.posterior.labelled import SUMMARY_COLUMNS, discard_readers, quantity_of
from invlift.posterior.names import FIELD, NOISE_SCORE, PREDICTED, SOLUTION
from invlift.posterior.quantities import scalar_draws
from invlift.posterior.report.content import Body, Content, FieldDraws, SensorRows
from invlift.posterior.report.record import read_record

#: Draws of the field that the report shows.
NUM_DRAWS = 32
#: Largest text file of a run that is read.
MAX_BYTES = 2**24
#: What a run that is under way, or was stopped during warm-up, has in its folder.
SAVED_CHAINS = Path("chains", "run.json")
#: Largest numbers of a run that are shown: of any draw, and of a log-conductivity.
LARGEST, LARGEST_LOG = 1e100, 700.0
_REMEDY = "give the folder of a run, as invlift run --out names it"
_DAMAGED = "take the file from a copy of the run, or run again"


def gather(directory: Path) -> Content:
    """Read what a run has left in its folder.

    Parameters
    ----------
    directory : pathlib.Path

    Returns
    -------
    Content
        Without `groups` and `sensor_rows`, which are not in the folder.

    Raises
    ------
    InputError
        If the folder is not that of a run, or a file in it is damaged; the message names it.
    """
    if not directory.is_dir():
        found = "a file" if directory.exists() else "no such folder"
        raise InputError(str(directory), "the folder of a run", found, _REMEDY)
    results = {name: directory / name for name in ("run.json", "posterior.nc", "posterior.vtu")}
    if not any(file.exists() for file in (*results.values(), directory / SAVED_CHAINS)):
        found = f"none of {', '.join(results)}"
        raise InputError(str(directory), "the folder of a run", found, _REMEDY)

    missing = {}

    def text(name: str, part: str, what: str) -> str | None:
        return _text(directory / name, what) if _is_there(directory / name, part, missing) else None

    record = text("run.json", "record", "the record of a run")
    summary = text("summary.csv", "summary", "a table of scalars")
    name = "problem.py" if (directory / "problem.py").exists() else "problem.toml"
    problem = text(name, "problem", "a problem file")
    if record is None and (directory / SAVED_CHAINS).exists():
        missing["record"] = (
            "There is no run.json in the folder: the run is under way, or was stopped before it "
            "had draws from every chain. invlift run --resume goes on with it."
        )
    body = sensors = None
    if _is_there(results["posterior.vtu"], "body", missing):
        body = _body(results["posterior.vtu"])
        if name == "problem.py" and f"{FIELD}_mean" not in body.on_nodes | body.on_cells:
            body = None  # of fields of a user's own, which the page does not draw
    has_mesh = body is not None or name != "problem.py" or not results["posterior.nc"].exists()
    if not has_mesh and (directory / "sensor_fit.csv").exists():
        sensors = _readings(directory / "sensor_fit.csv")
    elif _is_there(directory / "sensors.vtu", "sensors", missing):
        sensors = _sensors(directory / "sensors.vtu")
    chains = {}
    if _is_there(results["posterior.nc"], "chains", missing):
        chains = _chains(results["posterior.nc"])
    if chains.get("draws") is None:
        missing["draws"] = missing.get("chains", "posterior.nc holds no draws of a field.")
    elif body is None:
        missing["draws"] = missing["body"]
    elif chains["draws"].values.shape[1] not in (len(body.points), len(body.cells)):
        raise InputError(
            str(results["posterior.nc"]),
            f"draws of a field on {len(body.points)} nodes or {len(body.cells)} cells",
            f"{chains['draws'].values.shape[1]} values in each",
            "put the files of one run together",
        )
    return Content(
        title=directory.resolve().name,
        record=None if record is None else read_record(record, str(directory / "run.json")),
        body=body,
        sensors=sensors,
        summary={} if summary is None else _summary(summary, str(directory / "summary.csv")),
        problem=problem,
        has_mesh=has_mesh,
        missing=missing,
        **chains,
    )


def _is_there(file: Path, part: str, missing: dict[str, str]) -> bool:
    if file.exists():
        return True
    missing[part] = f"There is no {file.name} in the folder."
    return False


def _text(file: Path, what: str) -> str:
    return read_text(file, str(file), what, remedy=_REMEDY, max_bytes=MAX_BYTES)


@contextlib.contextmanager
def _blaming(file: Path, what: str):
    """Turn whatever a reader does about a damaged file into one error."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield
    except InputError:
        raise
    except (Exception, SystemExit) as reason:  # meshio exits where it cannot read
        discard_readers(reason)
        found = f"content that cannot be read as one ({type(reason).__name__})"
        raise InputError(str(file), what, found, _DAMAGED) from None


def _body(file: Path) -> Body:
    with _blaming(file, "a mesh with fields"):
        mesh = meshio.read(file, file_format="vtu")
        (block,) = mesh.cells
        (dim,) = (dim for (dim, _), kind in CELL_TYPES.items() if kind == block.type)
        body = Body(
            np.asarray(mesh.points, dtype=float)[:, :dim],
            np.asarray(block.data),
            {name: _checked(values, len(mesh.points)) for name, values in mesh.point_data.items()},
            {name: _checked(each[0], len(block.data)) for name, each in mesh.cell_data.items()},
        )
        _check_corners(body.points, body.cells)
        return body


def _sensors(file: Path) -> SensorRows:
    with _blaming(file, "sensors with their readings"):
        mesh = meshio.read(file, file_format="vtu")
        points = np.asarray(mesh.points, dtype=float)
        columns = {name: _checked(values, len(points)) for name, values in mesh.point_data.items()}
        _check_corners(points, np.zeros((0, 1)))
        return SensorRows(points, {"observed": columns.pop("observed"), **columns})


def _readings(file: Path) -> SensorRows:
    with _blaming(file, "readings with their predictions"):
        table = pd.read_csv(file, index_col="sensor")
        columns = {name: _checked(values, len(table)) for name, values in table.items()}
        return SensorRows(
            np.zeros((len(table), 0)), {"observed": columns.pop("observed"), **columns}
        )


def _checked(values, size: int) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if values.shape != (size,):
        raise ValueError
    return values


def _check_corners(points: np.ndarray, cells: np.ndarray) -> None:
    """Check that nothing is drawn from what is not there."""
    if not len(points) or not np.isfinite(points).all():
        raise ValueError
    if cells.size and not 0 <= cells.min() <= cells.max() < len(points):
        raise ValueError


def _summary(text: str, name: str) -> dict[str, dict[str, float]]:
    lines = csv.reader(io.StringIO(text))
    header = next(lines, [])
    if header[:1] != ["name"] or not set(SUMMARY_COLUMNS) <= set(header):
        found = ", ".join(header)[:80] or "nothing"
        expected = f"columns name, {', '.join(SUMMARY_COLUMNS)}"
        raise InputError(name, expected, found, _DAMAGED)
    rows = {}
    for line in lines:
        try:
            cells = dict(zip(header, line, strict=True))
            rows[cells["name"]] = {
                column: float(cells[column] or math.nan) for column in SUMMARY_COLUMNS
            }
        except ValueError:
            where = f"{name}, line {lines.line_num}"
            expected = f"a name and {len(header) - 1} numbers"
            raise InputError(where, expected, ",".join(line)[:80], _DAMAGED) from None
    return rows


def _chains(file: Path) -> dict:
    """The parts of a `Content` that are made of draws, by name."""
    with _blaming(file, "draws in netCDF-4"):
        h5py.File(file).close()  # of a file that is none, the other library leaves half a reader
        with xr.open_dataset(file, group="posterior", engine="h5netcdf") as posterior:
            scalars, draws = _posterior(posterior)
        found = {
            "scalars": scalars,
            "draws": draws,
            "energy": _statistic(file, "sample_stats", "energy"),
            "warmup_step_size": _statistic(file, "warmup_sample_stats", "step_size"),
        }
    statistics = (found["energy"], found["warmup_step_size"])
    _check_magnitude(file, LARGEST, *scalars.values(), *(x for x in statistics if x is not None))
    if draws is not None:
        _check_magnitude(file, LARGEST_LOG, draws.values)
    return found


def _check_magnitude(file: Path, largest: float, *arrays: np.ndarray) -> None:
    """Check that numbers can be reckoned with: NaN and infinities are left out where they are."""
    for values in arrays:
        size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        if size > largest:
            raise InputError(str(file), f"draws up to {largest:g}", f"{size:.3g}", _DAMAGED)


def _posterior(
    posterior: xr.Dataset,
) -> tuple[dict[str, np.ndarray], FieldDraws | None]:
    """Draws of all scalars, and a few of the field; one chain of the field is in memory at a time.

    The second axis of each variable runs over its own draws: a field may have fewer than a scalar.
    """
    num_chains = posterior.sizes["chain"]
    chosen = None
    if FIELD in posterior:
        field = posterior[FIELD]
        chains, places = _spread(*field.shape[:2])
        numbers = np.asarray(field[field.dims[1]])[places]
        chosen = FieldDraws(np.empty((len(chains), field.shape[2])), chains, numbers)
    quantities = {name: quantity_of(each) for name, each in posterior.data_vars.items()}
    found: dict[str, list[np.ndarray]] = {}
    for chain in range(num_chains):
        draws = {
            name: [np.asarray(variable[chain])]
            for name, variable in posterior.data_vars.items()
            if variable.dims[:1] == ("chain",) and name not in (PREDICTED, NOISE_SCORE, SOLUTION)
        }
        for name, (values,) in scalar_draws(draws, quantities).items():
            found.setdefault(name, []).append(values)
        if chosen is not None:
            is_here = chosen.chains == chain
            chosen.values[is_here] = draws[FIELD][0][places[is_here]]
    return {name: np.stack(chains) for name, chains in found.items()}, chosen


def _spread(num_chains: int, num_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Chains and numbers of at most `NUM_DRAWS` draws, spread evenly over all."""
    num = min(NUM_DRAWS, num_chains * num_draws)
    chains = np.arange(num) % num_chains
    each = -(-num // num_chains)
    numbers = (np.arange(num) // num_chains * num_draws + num_draws // 2) // each
    return chains, numbers


def _statistic(file: Path, group: str, name: str) -> np.ndarray | None:
    try:
        with xr.open_dataset(file, group=group, engine="h5netcdf") as stats:
            found: Mapping = stats
            return np.asarray(found[name], dtype=float) if name in found else None
    except OSError as reason:
        if "group" in str(reason):
            return None
        raise
