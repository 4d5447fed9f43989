"""The truth behind simulated readings, and how well a posterior covers it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from invlift.app.build import FieldProblem
from invlift.app.simulate import PriorDraw
from invlift.fem.sensors import Sensors
from invlift.posterior import Posterior
from invlift.posterior.coverage import crps, normal_crps, quantile_of, share_inside
from invlift.posterior.files import read_fields, write_fields
from invlift.posterior.names import FIELD

#: What the readings are called in the file of their truth, by which it is known to be theirs.
READINGS = "readings"


def truth_file(table: Path) -> Path:
    """Where `simulate` keeps the truth behind a sensor table."""
    return table.with_name(f"{table.stem}_truth.vtu")


@dataclass(frozen=True, eq=False)
class Truth:
    """What readings were simulated from."""

    file: Path
    #: The log-conductivity, (N,).
    field: np.ndarray
    #: What was drawn of noise and prior, by name.
    scalars: dict[str, float]


def write_truth(table: Path, field: FieldProblem, sensors: Sensors, draw: PriorDraw) -> None:
    """Write the truth behind the readings of a sensor table to a file beside it."""
    fields = field.by_place({FIELD: draw.log_conductivity}, draw.solutions)
    numbers = draw.numbers | {READINGS: sensors.values}
    write_fields(truth_file(table), field.mesh.points, field.mesh.cells, *fields, numbers=numbers)


def find_truth(field: FieldProblem, table: Path) -> Truth | None:
    """The truth behind the readings of a problem, if it is beside their table.

    It is taken only if the file has these very readings and this mesh.
    """
    file = truth_file(table)
    mesh = read_fields(file) if file.is_file() else None
    if mesh is None:  # also another program's file, or a damaged one
        return None
    numbers = {name: np.asarray(values) for name, values in mesh.field_data.items()}
    readings = np.atleast_1d(numbers.pop(READINGS, ()))
    values = mesh.point_data.get(FIELD)
    if not field.is_nodal:
        values = mesh.cell_data.get(FIELD, [None])[0]
    is_same_mesh = np.array_equal(mesh.points[:, : field.mesh.dim], field.mesh.points)
    if values is None or not is_same_mesh or not np.array_equal(readings, field.sensors.values):
        return None
    scalars = {name: float(values.item()) for name, values in numbers.items() if values.size == 1}
    return Truth(file, np.asarray(values, dtype=float), scalars)


def compare_with_truth(field: FieldProblem, posterior: Posterior, truth: Truth) -> dict[str, Any]:
    """How well a posterior covers the truth.

    Returns
    -------
    dict
        ``file``; ``share_inside_90``, the share of nodes or cells inside their 90 % band; ``crps``,
        averaged over these, and ``prior_crps`` for a normal prior; ``scalars``, by name the
        ``truth`` and the ``quantile`` of the posterior that it is at.
    """
    prior, prior_sd = field.prior, field.prior.pointwise_std()
    is_unknown = prior_sd > 0.0
    draws = [chain[:, is_unknown] for chain in posterior.draws(FIELD)]
    band = (posterior.fields()[f"{FIELD}_{name}"][is_unknown] for name in ("q05", "q95"))
    record = {
        "file": truth.file,
        "share_inside_90": share_inside(*band, truth.field[is_unknown]),
        "crps": float(np.mean(crps(draws, truth.field[is_unknown]))),
    }
    if prior.is_affine:
        known = np.asarray(prior.mean), prior_sd, truth.field
        before = normal_crps(*(each[is_unknown] for each in known))
        record["prior_crps"] = float(np.mean(before))
    scalars = {
        f"{FIELD}_field_mean": float(np.mean(truth.field)),
        f"{FIELD}_field_std": float(np.std(truth.field)),
        **truth.scalars,
    }
    record["scalars"] = {
        name: {"truth": value, "quantile": quantile_of(posterior.scalars[name], value)}
        for name, value in scalars.items()
        if name in posterior.scalars
    }
    return record


def describe_coverage(record: dict[str, Any], place: str) -> str:
    """The same in a line; ``place`` is what a coefficient belongs to, in the plural."""
    text = (
        f"Truth ({record['file'].name}): {record['share_inside_90']:.0%} of the {place} inside "
        f"their 90 % band, CRPS {record['crps']:.3g}"
    )
    if "prior_crps" in record:
        text += f" (prior: {record['prior_crps']:.3g})"
    parts = [f"{name} at {each['quantile']:.0%}" for name, each in record["scalars"].items()]
    return f"{text}; quantiles of the truth: {', '.join(parts)}"
