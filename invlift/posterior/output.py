"""What a posterior writes: which of its parts go into which file of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from invlift.posterior import files, labelled
from invlift.posterior.agreement import Mesh
from invlift.posterior.leave_one_out import LeaveOneOut
from invlift.posterior.names import prior_density_name, prior_sd_name
from invlift.posterior.quantity import PLACES, Quantity
from invlift.posterior.readings import SensorTable, sensor_table
from invlift.posterior.statistics import SensorStatistics


def constants_of(
    quantities: Iterable[Quantity],
    shapes: Mapping[str, tuple[int, ...]],
    mesh: Mesh | None,
    sensors: SensorTable | None,
) -> tuple[dict[str, tuple], dict[str, Any]]:
    """What does not change from draw to draw, and labels along axes: for `build_groups`.

    Parameters
    ----------
    quantities : iterable of Quantity
    shapes : mapping of str to tuple of int
        Shape of a draw of each.
    mesh : Mesh or None
    sensors : SensorTable or None

    Returns
    -------
    dict of str to (axes, array), dict of str to sequence
        Nodes and cells, positions of sensors, scale of their noise, prior standard deviations and
        densities; coordinates by the name of their axis.
    """
    constants, coords = {}, {}
    if mesh is not None:
        constants["points"] = (("node", "axis"), mesh.points)
        constants["cells"] = (("cell", "corner"), mesh.cells)
        coords["axis"] = list("xyz")[: np.shape(mesh.points)[1]]
    if sensors is not None and sensors.points is not None:
        constants["sensor_points"] = (("sensor", "axis"), sensors.points)
        coords["axis"] = list("xyz")[: np.shape(sensors.points)[1]]
    if sensors is not None and sensors.sigma is not None:
        sigma = np.broadcast_to(sensors.sigma, np.shape(sensors.values))
        constants["sensor_sigma"] = (("sensor",), sigma)
    for name, values in getattr(sensors, "coordinates", {}).items():
        constants[f"sensor_{name}"] = (("sensor",), np.asarray(values))
    for quantity in quantities:
        coords |= {axis: labels for axis, labels in quantity.axes.items() if labels is not None}
        if quantity.prior_sd is not None:
            values = np.broadcast_to(quantity.prior_sd, shapes[quantity.name])
            constants[prior_sd_name(quantity.name)] = (tuple(quantity.axes), values)
        if quantity.prior_density is not None:
            axes = ("prior_curve", "prior_point")
            constants[prior_density_name(quantity.name)] = (axes, quantity.prior_density)
            coords["prior_curve"] = ["value", "density"]
    return constants, coords


def at_sensors(
    sensors: SensorTable, fit: SensorStatistics | None, loo: LeaveOneOut | None
) -> dict[str, np.ndarray | None]:
    """Readings, and what is known of how well each is predicted: (d,) by name."""
    data = {"observed": np.asarray(sensors.values)}
    if fit is not None:
        data |= {name: values for name, values in vars(fit).items() if name != "noise_sd"}
    if loo is not None:
        data |= {"loo_elpd": loo.elpd, "loo_pareto_k": loo.pareto_k, "loo_pit": loo.pit}
    return data


def with_totals(summary: pd.DataFrame, loo: LeaveOneOut | None) -> pd.DataFrame:
    """A copy of a summary with the totals of leave-one-out predictions, for `summary.csv`."""
    table = summary.copy()
    if loo is not None:
        for name, (estimate, error) in loo.totals().items():
            table.loc[name, ["mean", "sd"]] = estimate, error
        table.loc["num_loo_unreliable", "mean"] = (~loo.is_reliable).sum()
    return table


def write_results(
    directory: Path,
    *,
    mesh: Mesh | None,
    fields: Mapping[str, Mapping[str, np.ndarray]],
    sensors: SensorTable | None,
    fit: SensorStatistics | None,
    loo: LeaveOneOut | None,
    summary: pd.DataFrame,
    groups: Iterable[tuple[str, xr.Dataset]],
    record: Mapping[str, Any],
) -> list[Path]:
    """Write all results of a run to a folder: see `Posterior.write`.

    Parameters
    ----------
    directory : pathlib.Path
    mesh : Mesh or None
    fields : mapping of str to mapping of str to array
        On nodes and on cells, by "node" and "cell".
    sensors : SensorTable or None
    fit : SensorStatistics or None
    loo : LeaveOneOut or None
    summary : pandas.DataFrame
        Of the scalars.
    groups : iterable of pairs of str and xarray.Dataset
        From `labelled.build_groups`.
    record : mapping
        For `run.json`.

    Returns
    -------
    list of pathlib.Path
        The files written.
    """
    written = []

    def new(name: str) -> Path:
        written.append(directory / name)
        return written[-1]

    if mesh is not None:
        on_places = (fields[place] for place in PLACES)
        files.write_fields(new("posterior.vtu"), mesh.points, mesh.cells, *on_places)
    if sensors is not None:
        data = at_sensors(sensors, fit, loo)
        table = sensor_table(data, sensors.points, sensors.labels)
        files.write_table(new("sensor_fit.csv"), table)
        if sensors.points is not None:
            files.write_points(new("sensors.vtu"), sensors.points, data)
    files.write_table(new("summary.csv"), with_totals(summary, loo))
    labelled.save_netcdf(groups, new("posterior.nc"))
    files.write_json(new("run.json"), record)
    return written
