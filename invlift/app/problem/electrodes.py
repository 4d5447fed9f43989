"""Electrodes of a problem file: tables of voltages, and functions that make their models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import jax
import numpy as np

from invlift.app.problem.problem_file import ProblemSpec
from invlift.errors import InputError, errors_at
from invlift.fem.electrodes.complete import (
    check_positions,
    electrode_groups,
    electrode_model,
    mesh_with_electrodes,
    positions_in,
)
from invlift.fem.electrodes.offsets import Offset, electrode_offsets, with_offsets
from invlift.fem.electrodes.point_electrodes import point_electrode_model
from invlift.fem.electrodes.quadrupoles import (
    Injections,
    electrode_numbers,
    injections_of,
    patterns_of,
    patterns_of_pairs,
    pseudo_places,
)
from invlift.fem.electrodes.reference import difference_to_reference, less_reference
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.sensors import Sensors
from invlift.models.base import ForwardModel
from invlift.models.joined import Combinations
from invlift.tables.distributions import value_of
from invlift.tables.voltages import read_voltages
from invlift.unknowns.named import Unknown


def read_electrodes(
    spec: ProblemSpec, mesh: Mesh, needs_values: bool
) -> tuple[Mesh, Sensors, Callable]:
    """Read the voltages, and find the electrodes on the mesh.

    Return the mesh with boundary groups of the electrodes, the table, and a function of a table.
    That function returns the table sorted by injection and a function that makes the model.
    """
    table, where = spec.electrodes, partial(spec.where, "electrodes")
    are_points = table.surface is not None
    options = {"needs_values": needs_values, "in_space": are_points or mesh.dim == 3}
    with errors_at(spec.where_of_table):
        own = spec.observations.columns
        sensors = read_voltages(spec.observations.file, mesh.dim, columns=own, **options)
    positions = sensors.positions
    if table.groups is not None:
        names = electrode_groups(mesh, table.groups, where("groups"))
        if positions is not None and len(positions) != len(names):
            expected = f"as many boundary groups as {sensors.name} has electrodes, {len(positions)}"
            raise InputError(where("groups"), expected, f"{len(names)}", "name that of each")
        if positions is not None:
            check_positions(mesh, names, positions, sensors.name, where("groups"))
    elif positions is None:
        expected, found = f"positions of the electrodes in {sensors.name}", "none"
        key = "surface" if are_points else "width"
        remedy = f"give groups in place of {key}, or readings in the unified data format"
        raise InputError(where(key), expected, found, remedy)
    elif are_points:
        names = [f"{number}" for number in range(1, len(positions) + 1)]
    else:
        mesh, names = mesh_with_electrodes(mesh, positions, table.width, sensors.name)
    if not are_points:
        sensors = replace(sensors, electrode_groups=tuple(names))
    laws = {name: each.build() for name, each in spec.observations.offset.items()}
    with errors_at(lambda path: spec.where("observations", *path)):
        offsets = electrode_offsets(sensors, laws, names)
    if are_points:
        make = partial(_point_electrodes, mesh, offsets=offsets, surface=table.surface)
        return mesh, sensors, make
    own = spec.observations.reference
    if own is not None:
        with errors_at(partial(spec.where_of_table, table="reference")):
            reference = read_voltages(own.file, mesh.dim, columns=own.columns)
        sensors = less_reference(sensors, reference, names)
    options = {"names": names, "impedance": value_of(table.impedance), "offsets": offsets}
    make = partial(_electrodes_with_area, spec, mesh, **options)
    return mesh, sensors, make


def _electrodes_with_area(
    spec: ProblemSpec,
    mesh: Mesh,
    sensors: Sensors,
    *,
    names: Sequence[str],
    impedance,
    offsets: Mapping[str, Offset],
):
    """Sort voltages by injection; return their table and a function that makes the model."""
    patterns = patterns_of(sensors, names)
    injections = injections_of(patterns)
    sensors, weights = sensors.take(injections.order), patterns.weights[injections.order]

    def forward_map(**options) -> ForwardModel:
        model = electrode_model(
            mesh, names, injections.currents, injections.voltages, impedance=impedance, **options
        )
        axes = {"electrode": names}
        known = model.on_mesh
        further = {
            name: Unknown(distribution, axes=axes) for name, distribution in known.further.items()
        }
        known = known._replace(further=further, sensors=sensors)
        model = replace(model, on_mesh=known)
        if (reference := spec.observations.reference) is not None:
            model = difference_to_reference(model, value_of(reference.conductivity))
        return _combined(model, injections, offsets, sensors, weights)

    return sensors, forward_map


def _point_electrodes(mesh: Mesh, sensors: Sensors, *, offsets: Mapping[str, Offset], surface: str):
    """Sort readings by injection; return their table and a function that makes the model."""
    positions = positions_in(mesh, sensors.positions, sensors.name)
    numbers = electrode_numbers(sensors, range(1, len(positions) + 1), are_points=True)
    patterns = patterns_of_pairs(numbers + 1, len(positions) + 1)  # the first is far away
    injections = injections_of(patterns)
    voltages = [each[:, 1:] for each in injections.voltages]
    is_upwards = np.mean(mesh.points[:, -1]) < np.mean(positions[:, -1])
    places = pseudo_places(positions, numbers, 0.2 if is_upwards else -0.2)
    sensors = replace(sensors, positions=positions, points=places).take(injections.order)
    weights = patterns.weights[injections.order, 1:]

    def forward_map(**options) -> ForwardModel:
        model = point_electrode_model(
            mesh, positions, injections.currents[:, 1:], voltages, surface=surface, **options
        )
        known = model.on_mesh._replace(sensors=sensors)
        return _combined(replace(model, on_mesh=known), injections, offsets, sensors, weights)

    return sensors, forward_map


def _combined(
    model: ForwardModel,
    injections: Injections,
    offsets: Mapping[str, Offset],
    sensors: Sensors,
    weights: np.ndarray,
) -> ForwardModel:
    """Combine the voltages of the injections to readings, and add the offsets."""
    if offsets:
        matrix = np.eye(len(weights)) if injections.matrix is None else injections.matrix
        return with_offsets(model, offsets, matrix, sensors, weights)
    if injections.matrix is None:
        return model
    return Combinations(model, jax.device_put(injections.matrix))
