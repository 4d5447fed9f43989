"""Groups of a file of draws: all results of a run as labelled datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from invlift.posterior.names import (
    LIMITS,
    MESH_ERROR,
    known_cells_name,
    prior_density_name,
    prior_sd_name,
)
from invlift.posterior.statistics.labelled import coordinates_along, dataset, label, places_on
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.parts import every_of
from invlift.posterior.statistics.quantity import Quantity


def groups_of(posterior: PosteriorStatistics) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield all results of a run, group by group, as pairs of a name and a labelled dataset.

    The group `posterior` always exists. The others exist if they are not empty: `sample_stats`,
    `warmup_sample_stats`, `posterior_predictive` (new readings as variable `observed`, and along
    paths by their names), `log_likelihood` (as variable `observed`), `observed_data` and
    `constant_data`. Readings that are named arrays of a model have these names instead of
    `observed`.
    """
    chains, quantities = posterior.chains, dict(posterior.described)
    draws, places = posterior.all_draws, places_on(posterior.mesh)
    every = {name: every_of(chains, name) for name in draws}
    yield "posterior", label(draws, quantities, every, places)
    stats = _common([chain.stats for chain in chains])
    stats = {name: each for name, each in stats.items() if len(each[0]) == posterior.num_draws}
    warmup = _common([chain.warmup_stats for chain in chains])
    for name, each in (("sample_stats", stats), ("warmup_sample_stats", warmup)):
        if each:
            yield name, label(each, {})
    coords, arrays = coordinates_along(quantities), posterior.fit.arrays
    quantities |= {name: Quantity(name, dict(axes)) for name, (axes, _) in arrays.items()}
    if arrays:
        observed = {name: (tuple(axes), values) for name, (axes, values) in arrays.items()}
        yield "observed_data", dataset(observed, coordinates_along(quantities))
    fit = posterior.fit
    if new := fit.new_readings():
        yield "posterior_predictive", label(new, quantities, dict.fromkeys(new, fit.every))
    if logs := fit.log_likelihoods:
        along = {name: _along(quantities[name], logs) for name in logs}
        yield "log_likelihood", label(logs, along, dict.fromkeys(logs, fit.every))
    if constants := _constants(posterior):
        points = [values for axes, values, *_ in constants.values() if axes[1:] == ("axis",)]
        coords |= {"axis": list("xyz")[: len(points[0][0])]} if points else {}
        coords |= {"prior_curve": ["value", "density"]}
        yield "constant_data", dataset(constants, coords, places=places)


def _along(quantity: Quantity, draws: Mapping[str, Sequence[np.ndarray]]) -> Quantity:
    """Return the quantity with only as many of its first axes as its draws have."""
    axes = list(quantity.axes.items())[: draws[quantity.name][0].ndim - 1]
    return Quantity(quantity.name, dict(axes))


def _constants(posterior: PosteriorStatistics) -> dict[str, tuple]:
    """Return the data that are the same for all draws: axes, values and attributes by name."""
    mesh, sensors, constants = posterior.mesh, posterior.readings, {}
    if mesh is not None:
        unit = {"units": mesh.unit} if mesh.unit else {}
        constants["points"] = (("node", "axis"), np.asarray(mesh.points), unit)
        constants["cells"] = (("cell", "corner"), np.asarray(mesh.cells))
    if posterior.mesh_error is not None:
        constants[MESH_ERROR] = (("node",), posterior.mesh_error)
    if sensors.points is not None:
        constants["sensor_points"] = (("sensor", "axis"), np.asarray(sensors.points))
    if sensors.sigma is not None:
        sigma = np.broadcast_to(sensors.sigma, np.shape(sensors.values))
        constants["sensor_sigma"] = (("sensor",), sigma)
    for name, values in sensors.coordinates.items():
        constants[f"sensor_{name}"] = (("sensor",), np.asarray(values))
    if sensors.limits is not None:
        constants[LIMITS] = (("sensor",), np.asarray(sensors.limits))
    for name, quantity in posterior.described.items():
        if quantity.prior_sd is not None:
            values = np.broadcast_to(quantity.prior_sd, posterior.draws(name)[0].shape[1:])
            constants[prior_sd_name(name)] = (tuple(quantity.axes), values)
        if quantity.prior_density is not None:
            axes = ("prior_curve", "prior_point")
            constants[prior_density_name(name)] = (axes, np.asarray(quantity.prior_density))
        if quantity.known_cells is not None:
            constants[known_cells_name(name)] = (("cell",), np.asarray(quantity.known_cells))
    return constants


def _common(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, list[np.ndarray]]:
    """Return the statistics that all chains have with one shape.

    Chains may differ after an interruption.
    """
    return {
        name: [np.asarray(part[name]) for part in parts]
        for name, values in parts[0].items()
        if np.ndim(values) and np.size(values)
        and {np.shape(part.get(name)) for part in parts} == {np.shape(values)}
    }  # fmt: skip
