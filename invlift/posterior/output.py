"""What a posterior writes: which of its parts go into which file of a folder, and its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from invlift.posterior import files, labelled
from invlift.posterior.parts import recorded, total
from invlift.posterior.quantity import PLACES

if TYPE_CHECKING:
    from invlift.posterior.posterior import Posterior


#: Statistics that not every kernel counts.
_COUNTED = "num_divergences", "num_return_audits", "num_return_disagreements"


def record_of(posterior: Posterior) -> dict[str, Any]:
    """Sizes, times, counts and verdict of a run, for `run.json`; None for what is not known.

    Of divergences, audits and what the standards of the kernel call failures there are counts only
    where they were counted.
    """
    chains, stats = posterior.chains, recorded(posterior.chains, "stats")

    numbers = "step_size", "warmup_seconds", "sampling_seconds"
    totals = "num_steps", "num_factorisations", "num_projection_failures"
    failures = [posterior.standards.failures] if posterior.standards else []
    counts = {name: total(stats, name) for name in (*_COUNTED, *failures)}
    return {
        "num_chains": len(chains),
        "num_draws": posterior.num_draws,
        "num_draws_requested": posterior.num_draws_requested,
        **{name: [getattr(chain, name, None) for chain in chains] for name in numbers},
        "acceptance_rate": [_acceptance_rate(part) for part in stats],
        **{name: total(stats, name) for name in totals},
        **{name: count for name, count in counts.items() if count is not None},
        "verdict": asdict(posterior.verdict()),
        "compile_seconds": posterior.compile_seconds,
        "is_interrupted": posterior.is_interrupted,
        "misfit_p_value": posterior.misfit_p_value,
        "exceedance": list(posterior.exceedance),
        "objections": list(posterior.objections),
    }


def _acceptance_rate(stats: Mapping[str, np.ndarray]) -> float | None:
    rate = np.asarray(stats.get("acceptance_rate", np.nan))
    return float(np.nanmean(rate)) if np.isfinite(rate).any() else None


def write_results(posterior: Posterior, folder: Path, record: Mapping[str, Any]) -> list[Path]:
    """Write all results of a run to a folder, and return their paths: see `Posterior.write`."""
    mesh, sensors, written = posterior.mesh, posterior.sensors, []

    def new(name: str) -> Path:
        written.append(folder / name)
        return written[-1]

    if mesh is not None:
        fields = posterior.fields_by_place
        on_places = (fields[place] for place in PLACES)
        files.write_fields(new("posterior.vtu"), mesh.points, mesh.cells, *on_places)
    if sensors is not None:
        data = at_sensors(posterior)
        positions = () if sensors.points is None else np.transpose(sensors.points)
        labels = np.arange(len(sensors.values)) if sensors.labels is None else sensors.labels
        known = dict(sensors.coordinates) | dict(zip("xyz", positions, strict=False))
        columns = known | data
        table = pd.DataFrame(columns, index=pd.Index(labels, name="sensor"))
        files.write_table(new("sensor_fit.csv"), table)
        if sensors.points is not None:
            files.write_fields(new("sensors.vtu"), sensors.points, None, data)
    files.write_table(new("summary.csv"), summary_with_totals(posterior))
    labelled.save_netcdf(labelled.groups_of(posterior), new("posterior.nc"))
    files.write_json(new("run.json"), record)
    return written


def at_sensors(posterior: Posterior) -> dict[str, np.ndarray]:
    """Readings, and what is known of how well each is predicted: (d,) by name."""
    data = {"observed": np.asarray(posterior.sensors.values)}
    if posterior.has_fit:
        fit = vars(posterior.sensor_fit())
        data |= {name: values for name, values in fit.items() if name != "noise_sd"}
    if (loo := posterior.loo) is not None and posterior.is_loo_of_sensors:
        data |= {"loo_elpd": loo.elpd, "loo_pareto_k": loo.pareto_k, "loo_pit": loo.pit}
    return {name: values for name, values in data.items() if values is not None}


def summary_with_totals(posterior: Posterior) -> pd.DataFrame:
    """The summary with the totals of leave-one-out predictions, for `summary.csv`."""
    table, loo = posterior.summary(), posterior.loo
    if loo is not None:
        for name, (estimate, error) in loo.totals().items():
            table.loc[name, ["mean", "sd"]] = estimate, error
        table.loc["num_loo_unreliable", "mean"] = (~loo.is_reliable).sum()
    return table
