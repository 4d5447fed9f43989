"""What a report shows, and how it is read from the folder of a run."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from invlift.errors import InputError, first_line
from invlift.input_files import read_text
from invlift.posterior.files import read_fields
from invlift.posterior.names import FIELD
from invlift.posterior.parts import every_of
from invlift.posterior.posterior import Posterior
from invlift.posterior.run_folder import (
    DRAWS,
    MAX_BYTES,
    REMEDY,
    Record,
    problem_file,
    read_posterior,
    read_record,
)
from invlift.posterior.scalars import SUMMARY_COLUMNS

#: Draws of the field that the report shows.
NUM_DRAWS = 12
#: Largest numbers that can be drawn: of any draw, and of a log-conductivity.
LARGEST, LARGEST_LOG = 1e100, 600.0


@dataclass(frozen=True, eq=False)
class Body:
    """A mesh, of dim 2 or 3, with the fields of ``posterior.vtu`` at nodes and in cells."""

    points: np.ndarray
    cells: np.ndarray
    on_nodes: dict[str, np.ndarray]
    on_cells: dict[str, np.ndarray]

    @property
    def dim(self) -> int:
        """Dimension, 2 or 3."""
        return self.points.shape[1]

    def find(self, name: str) -> np.ndarray | None:
        """A field, wherever it lives; None if there is none of the name."""
        return self.on_nodes.get(name, self.on_cells.get(name))


class Group(NamedTuple):
    """A named part of the boundary: (num_facets, dim) nodes of its facets, and what holds there."""

    name: str
    facets: np.ndarray
    condition: str


class FieldDraws(NamedTuple):
    """A few draws of the log-conductivity, (num, N), with their chains and their numbers there."""

    values: np.ndarray
    chains: np.ndarray
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class Content:
    """Everything a report shows; None for what the folder does not hold.

    The title is the folder's name; the table of sensors has the column ``observed`` for certain,
    and NaN in the summary is "no value". Groups of the boundary are not in the folder. `missing`
    says in a sentence why a part is left out, by the part's name.
    """

    title: str
    record: Record
    posterior: Posterior
    body: Body | None = None
    draws: FieldDraws | None = None
    sensors: pd.DataFrame | None = None
    summary: pd.DataFrame | None = None
    problem: str | None = None
    groups: tuple[Group, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


def gather(directory: Path) -> Content:
    """Read what a run has left in its folder; an InputError names a file that is damaged."""
    posterior = read_posterior(directory)
    for name, chains in posterior.all_draws.items():
        largest = max(np.abs(draws[np.isfinite(draws)]).max(initial=0.0) for draws in chains)
        limit = LARGEST_LOG if name == FIELD else LARGEST
        if largest > limit:
            expected = f"draws of {name} up to {limit:g}"
            raise InputError(str(directory / DRAWS), expected, f"{largest:.3g}", REMEDY)
    files = {
        "body": ("posterior.vtu", lambda file: _body(file, posterior.mesh)),
        "sensors": ("sensor_fit.csv", lambda file: _table(file, "sensor", ["observed"])),
        "summary": ("summary.csv", lambda file: _table(file, "name", SUMMARY_COLUMNS)),
        "problem": (problem_file(directory).name, _text),
    }
    there = [part for part, (name, _) in files.items() if (directory / name).exists()]
    parts = {part: files[part][1](directory / files[part][0]) for part in there}
    missing = {
        part: f"There is no {files[part][0]} in the folder." for part in files.keys() - there
    }
    return Content(
        title=directory.resolve().name,
        record=read_record(directory),
        posterior=posterior,
        draws=_some_draws(posterior) if "body" in parts else None,
        missing=missing,
        **parts,
    )


def _text(file: Path) -> str:
    remedy = "give the folder of a run, as invlift run --out names it"
    return read_text(file, str(file), "a text of a run", remedy=remedy, max_bytes=MAX_BYTES)


def _body(file: Path, mesh) -> Body:
    found = read_fields(file)
    if found is None or mesh is None:
        raise InputError(str(file), "a mesh with fields", "what cannot be read as one", REMEDY)
    on_nodes = {name: np.asarray(each, float) for name, each in found.point_data.items()}
    on_cells = {name: np.asarray(each[0], float) for name, each in found.cell_data.items()}
    sizes = [(on_nodes, len(mesh.points)), (on_cells, len(mesh.cells))]
    if any(len(values) != size for fields, size in sizes for values in fields.values()):
        expected = f"fields on {len(mesh.points)} nodes and {len(mesh.cells)} cells"
        raise InputError(str(file), expected, "others", "put the files of one run together")
    return Body(mesh.points, mesh.cells, on_nodes, on_cells)


def _table(file: Path, index: str, required: Iterable[str]) -> pd.DataFrame:
    """A table with names in its first column, and numbers from its places or `required` on."""
    text = _text(file)
    try:
        if not text.endswith("\n"):
            raise ValueError("it is cut short")
        # names such as NA are names
        style = {"dtype": {index: str}, "keep_default_na": False, "na_values": [""]}
        table = pd.read_csv(io.StringIO(text), index_col=index, **style)
        table[list(required)]  # are there
        first = next(k for k, name in enumerate(table) if name in ("x", *required))
        table = table.astype(dict.fromkeys(table.columns[first:], float))
    except (ValueError, LookupError) as reason:
        what = f"a table with columns {index}, {', '.join(required)}"
        raise InputError(str(file), what, first_line(reason), REMEDY) from None
    return table


def _some_draws(posterior: Posterior) -> FieldDraws | None:
    """At most `NUM_DRAWS` draws of the field, spread evenly over chains and draws."""
    if FIELD not in posterior.described:
        return None
    fields = posterior.draws(FIELD)
    num_chains, num_draws = len(fields), len(fields[0])
    num = min(NUM_DRAWS, num_chains * num_draws)
    chains = np.arange(num) % num_chains
    each = -(-num // num_chains)
    places = (np.arange(num) // num_chains * num_draws + num_draws // 2) // each
    values = [fields[chain][place] for chain, place in zip(chains, places, strict=True)]
    return FieldDraws(np.stack(values), chains, places * every_of(posterior.chains, FIELD))
