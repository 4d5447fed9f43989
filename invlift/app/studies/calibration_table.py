"""Table of a calibration: one row per simulation, each with a checksum."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd

from invlift.files.atomic import write_bytes
from invlift.posterior.statistics.calibration import Simulation

CHECKSUM = "checksum"
#: Digits of a checksum.
_NUM_DIGITS = 16


def write_simulations(
    path: Path, simulations: Iterable[Simulation], identity: Mapping[str, Any]
) -> None:
    """Write one row per simulation, in order: its numbers, the ranks, and a checksum.

    The checksum includes the identity of the calibration, whose ``names`` are the ranked
    quantities.
    """
    columns, names, settings = _own_columns(), identity["names"], json.dumps(identity)
    table = pd.DataFrame(
        [vars(each) | each.ranks for each in simulations], columns=[*columns, *names]
    )
    types = dict.fromkeys(names, "Int64")
    text = table.astype(types).set_index("simulation").sort_index().to_csv(lineterminator="\n")
    header, *rows = text.splitlines()
    lines = [f"{header},{CHECKSUM}", *(f"{row},{_checksum(row, settings)}" for row in rows)]
    write_bytes(path, ("\n".join(lines) + "\n").encode())


def read_simulations(path: Path, identity: Mapping[str, Any]) -> tuple[list[Simulation], int]:
    """Return the simulations of a table, bit for bit, and the number of damaged rows.

    Damaged rows are ignored: they are incomplete, changed, or belong to another calibration.
    """
    columns, names, settings = _own_columns(), identity["names"], json.dumps(identity)
    types = {"simulation": int, "outcome": str, "num_draws": int}
    lines, simulations = path.read_text("utf-8", "replace").splitlines()[1:], []
    for line in lines:
        row, _, checksum = line.rpartition(",")
        if checksum != _checksum(row, settings):
            continue
        texts = next(csv.reader([row]))
        fields = {
            name: types.get(name, float)(text or "nan")
            for name, text in zip(columns, texts, strict=False)
        }
        ranks = zip(names, texts[len(columns) :], strict=True)
        fields["ranks"] = {name: int(rank) for name, rank in ranks if rank}
        simulations.append(Simulation(**fields))
    return simulations, len(lines) - len(simulations)


def _own_columns() -> list[str]:
    return [each.name for each in fields(Simulation) if each.name != "ranks"]


def _checksum(row: str, settings: str) -> str:
    return hashlib.sha256((settings + row).encode()).hexdigest()[:_NUM_DIGITS]
