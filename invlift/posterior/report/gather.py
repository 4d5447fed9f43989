"""From the files of a run's folder to the content of its report."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import meshio
import numpy as np
import pandas as pd
import xarray as xr

from invlift.errors import InputError
from invlift.input_files import read_text
from invlift.posterior.along_axis import Series, series_of
from invlift.posterior.files import CELL_TYPES
from invlift.posterior.labelled import (
    SUMMARY_COLUMNS,
    coordinates_of,
    discard_readers,
    quantity_of,
    read_group,
)
from invlift.posterior.names import FIELD, NOISE_SCORE, OBSERVED, PREDICTED, SOLUTION
from invlift.posterior.quantities import scalar_draws
from invlift.posterior.quantity import Quantity
from invlift.posterior.report.content import Body, Content, FieldDraws
from invlift.posterior.run_folder import read_record

#: Draws of the field that the report shows.
NUM_DRAWS = 12
#: Largest text file of a run that is read.
MAX_BYTES = 2**24
#: What a run that is under way, or was stopped during warm-up, has in its folder.
SAVED_CHAINS = Path("chains", "run.json")
#: Largest numbers of a run that are shown: of any draw, and of a log-conductivity.
LARGEST, LARGEST_LOG = 1e100, 600.0
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
        Without `groups`, which are not in the folder.

    Raises
    ------
    InputError
        If the folder is not that of a run, or a file in it is damaged; the message names it.
    """
    if not directory.is_dir():
        found = "a file" if directory.exists() else "no such folder"
        raise InputError(str(directory), "the folder of a run", found, _REMEDY)
    results = ("run.json", "posterior.nc", "posterior.vtu")
    if not any((directory / name).exists() for name in (*results, SAVED_CHAINS)):
        found = f"none of {', '.join(results)}"
        raise InputError(str(directory), "the folder of a run", found, _REMEDY)

    missing: dict[str, str] = {}

    def read(name: str, part: str, reader):
        file = directory / name
        if file.exists():
            return reader(file)
        missing[part] = f"There is no {name} in the folder."
        return None

    is_python = (directory / "problem.py").exists()
    record = read("run.json", "record", lambda file: read_record(directory))
    if record is None and (directory / SAVED_CHAINS).exists():
        missing["record"] = (
            "There is no run.json in the folder: the run is under way, or was stopped before it "
            "had draws from every chain. invlift run --resume goes on with it."
        )
    summary = read("summary.csv", "summary", lambda file: _table(file, "name", SUMMARY_COLUMNS))
    problem = read("problem.py" if is_python else "problem.toml", "problem", _text)
    body = read("posterior.vtu", "body", _body)
    sensors = read("sensor_fit.csv", "sensors", lambda file: _table(file, "sensor", ["observed"]))
    chains = read("posterior.nc", "chains", _chains) or {}
    draws = chains.get("draws")
    if draws is None:
        missing["draws"] = missing.get("chains", "posterior.nc holds no draws of a field.")
    elif body is None:
        missing["draws"] = missing["body"]
    elif draws.values.shape[1] not in (len(body.points), len(body.cells)):
        raise InputError(
            str(directory / "posterior.nc"),
            f"draws of a field on {len(body.points)} nodes or {len(body.cells)} cells",
            f"{draws.values.shape[1]} values in each",
            "put the files of one run together",
        )
    return Content(
        title=directory.resolve().name,
        record=record,
        body=body,
        sensors=sensors,
        summary=summary,
        problem=problem,
        has_mesh=body is not None or not is_python or not chains,
        missing=missing,
        **chains,
    )


def _text(file: Path) -> str:
    return read_text(file, str(file), "a text of a run", remedy=_REMEDY, max_bytes=MAX_BYTES)


@contextlib.contextmanager
def _blaming(file: Path, what: str) -> Iterator[None]:
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
        points, cells = np.asarray(mesh.points, dtype=float)[:, :dim], np.asarray(block.data)
        # nothing is drawn from what is not there
        if not np.isfinite(points).all() or not 0 <= cells.min() <= cells.max() < len(points):
            raise ValueError
        return Body(
            points,
            cells,
            {name: np.asarray(values, dtype=float) for name, values in mesh.point_data.items()},
            {name: np.asarray(each[0], dtype=float) for name, each in mesh.cell_data.items()},
        )


def _table(file: Path, index: str, required: Iterable[str]) -> pd.DataFrame:
    """A table of numbers, with names in its first column."""
    with _blaming(file, f"a table with columns {index}, {', '.join(required)}"):
        text = _text(file)
        if not text.endswith("\n"):
            raise ValueError("it is cut short")
        # names such as NA are names
        style = {"dtype": {index: str}, "keep_default_na": False, "na_values": [""]}
        table = pd.read_csv(io.StringIO(text), index_col=index, **style).astype(float)
        table[list(required)]  # are there
        return table


def _chains(file: Path) -> dict:
    """The parts of a `Content` that are made of draws, by name."""
    with _blaming(file, "draws in netCDF-4"):
        stats = read_group(file, "sample_stats") or {}  # refuses what is no netCDF-4 file
        constants = read_group(file, "constant_data") or xr.Dataset()
        with xr.open_dataset(file, group="posterior", engine="h5netcdf") as posterior:
            found = _posterior(posterior, constants)
            found["series"] = _series(file, posterior, found["quantities"], constants)
        energy = np.asarray(stats["energy"], dtype=float) if "energy" in stats else None
        _check_magnitude(file, LARGEST, *found["scalars"].values())
        for each in found["series"]:
            _check_magnitude(file, LARGEST, each.at, each.quantiles, each.read_at, each.observed)
        if energy is not None:
            _check_magnitude(file, LARGEST, energy)
        if found["draws"] is not None:
            _check_magnitude(file, LARGEST_LOG, found["draws"].values)
        return {**found, "energy": energy}


def _series(
    file: Path,
    posterior: xr.Dataset,
    quantities: Mapping[str, Quantity],
    constants: xr.Dataset,
) -> list[Series]:
    """What there is along axes of numbers; draws are read where they are needed."""
    of_readings = coordinates_of(constants)
    if not of_readings:  # nothing else of the file is needed
        return series_of(posterior, quantities, {}, None, {})
    names = ("observed_data", "posterior_predictive")
    observed, new = (read_group(file, name) or xr.Dataset() for name in names)
    values = observed[OBSERVED].to_numpy() if OBSERVED in observed else None
    return series_of(posterior, quantities, of_readings, values, new)


def _check_magnitude(file: Path, largest: float, *arrays: np.ndarray) -> None:
    """Check that numbers can be reckoned with: NaN and infinities are left out where they are."""
    for values in arrays:
        size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        if size > largest:
            raise InputError(str(file), f"draws up to {largest:g}", f"{size:.3g}", _DAMAGED)


def _posterior(posterior: xr.Dataset, constants: xr.Dataset) -> dict:
    """Quantities, draws of all scalars, a few of the field; a chain of it is in memory at a time.

    The second axis of each variable runs over its own draws: a field may have fewer than a scalar.
    """
    num_chains = posterior.sizes["chain"]
    chosen = None
    if FIELD in posterior:
        field = posterior[FIELD]
        chains, places = _spread(*field.shape[:2])
        numbers = np.asarray(field[field.dims[1]])[places]
        chosen = FieldDraws(np.empty((len(chains), field.shape[2])), chains, numbers)
    quantities = {name: quantity_of(each, constants) for name, each in posterior.data_vars.items()}
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
    scalars = {name: np.stack(chains) for name, chains in found.items()}
    return {"quantities": quantities, "scalars": scalars, "draws": chosen}


def _spread(num_chains: int, num_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Chains and numbers of at most `NUM_DRAWS` draws, spread evenly over all."""
    num = min(NUM_DRAWS, num_chains * num_draws)
    chains = np.arange(num) % num_chains
    each = -(-num // num_chains)
    numbers = (np.arange(num) // num_chains * num_draws + num_draws // 2) // each
    return chains, numbers
