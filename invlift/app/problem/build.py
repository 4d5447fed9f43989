"""Construction of the mesh, the sensors and the inverse problem of a problem file."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np

from invlift.app.problem.electrodes import read_electrodes
from invlift.app.problem.problem_file import ProblemSpec
from invlift.app.problem.schedule_tables import ScheduleTable
from invlift.app.problem.sections import (
    AT_MODE,
    ConditionsTable,
    PdeTable,
    StorageField,
    UnitsTable,
)
from invlift.app.runs.mesh_correction import corrected_at_mode
from invlift.errors import InputError, KeyPath, errors_at
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.equations.conditions import changed, entries
from invlift.fem.equations.experiments import Experiment, assemble_experiments
from invlift.fem.equations.surveys import as_one, join_surveys
from invlift.fem.mesh.construction import read_mesh, with_groups
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.locate import Observation, locate
from invlift.fem.readings.sensors import OF_SOLUTION, Sensors
from invlift.fem.time.assembly import LOG_STORAGE, STORAGE, assemble_transient
from invlift.models.base import ForwardModel
from invlift.noise import Noise, known_noise
from invlift.posterior.names import FIELD, PREDICTED, SIGMA
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.problem import InverseProblem
from invlift.tables.distributions import value_of
from invlift.tables.priors import PriorTable
from invlift.tables.sensors import read_sensors
from invlift.tables.times import Clock
from invlift.units import logarithmic, product
from invlift.unknowns.priors.base import Prior


def build_problem(spec: ProblemSpec, *, needs_values: bool = True) -> InverseProblem:
    """Read the files that a problem file names, and build the inverse problem.

    Parameters
    ----------
    spec : ProblemSpec
        As from :func:`read_problem`.
    needs_values : bool
        If True, the sensor table must have readings.  If False, missing readings are zero, and the
        noise is known.

    Returns
    -------
    InverseProblem
        The problem with its mesh, sensors and units.

    Raises
    ------
    InputError
        If a file, group, field or sensor is missing or not valid.
    """
    mesh, times = read_mesh_of(spec), spec.mesh.refine_solution
    is_corrected = times == AT_MODE and needs_values
    if times == AT_MODE:  # without readings there is no mode: simulate on a finer mesh instead
        times = 0 if needs_values else 1
    read = _read_points if spec.electrodes is None else read_electrodes
    mesh, readings, make = read(spec, mesh, needs_values)
    sensors, forward_map = _by_survey(spec, mesh, readings, make)
    with errors_at(partial(_key_of, spec, sensors)):
        prior = spec.prior.build(mesh, partial(spec.where, "prior"))
        options = {"known": spec.conductivity.known, "location": prior.location}
        forward = forward_map(**options, refine_solution=times)
        # The scale of the noise is not used without readings.
        noise = build_noise(spec, sensors) if needs_values else _limited(known_noise(1.0), sensors)
        problem = inverse_problem(forward, prior, noise, sensors.values)
        if is_corrected:
            problem = corrected_at_mode(problem)
        if units := _units_of_draws(spec, problem):
            problem = problem.with_units(units)
    return problem


def _units_of_draws(spec: ProblemSpec, problem: InverseProblem) -> dict[str, str]:
    """Return the units of draws: solutions, readings, noise, log-field, unknowns and time."""
    units = spec.units or UnitsTable()
    names = [*problem.model.solutions] if units.solution else []
    drawn, kinds = problem.shapes_of_draws(), problem.sensors.kinds
    if names and (kinds is None or OF_SOLUTION.issuperset(kinds.tolist())):
        names.append(PREDICTED)
    if names and SIGMA in drawn and not problem.noise.relative and kinds is None:
        names.append(SIGMA)
    angle = {"anisotropy_angle": "deg"} if spec.units and "anisotropy_angle" in drawn else {}
    has_field = units.conductivity is not None and FIELD in drawn
    of_field = {FIELD: logarithmic(units.conductivity)} if has_field else {}
    has_time = spec.pde is not None and spec.pde.time_unit is not None
    of_time = {"time": spec.pde.time_unit} if has_time and "time" in problem.axes else {}
    own = _units_of_unknowns(spec, problem) if spec.units and spec.pde else {}
    # A random field on a boundary has scores, which have no unit.
    own = {name: unit for name, unit in own.items() if unit and drawn.get(name) == ()}
    if LOG_STORAGE in drawn and (unit := _unit_of(STORAGE, spec, units, problem.mesh.dim)):
        own[LOG_STORAGE] = logarithmic(unit)
    return dict.fromkeys(names, units.solution) | of_field | of_time | angle | own


def _units_of_unknowns(spec: ProblemSpec, problem: InverseProblem) -> dict[str, str]:
    """Return the units of numbers that may be unknown, by their names among the draws."""
    dim, table, offsets = problem.mesh.dim, problem.sensors, set(spec.observations.offset)
    if offsets and table.kinds is not None:  # those of fluxes, say, have another unit
        offsets -= set(table.groups[~np.isin(table.kinds, [*OF_SOLUTION])].tolist())
    paths = [("offset", group) for group in offsets]
    paths += [("line", group) for group in spec.pde.lines]
    paths += [("barrier", group) for group in spec.pde.barriers]
    named = [((), path) for path in [*paths, (STORAGE,)]]
    for name, pde in spec.experiments.items():
        own = [path for path, _ in entries(_conditions_of(pde))]
        named += [(prefix, path) for prefix in ((), (name,)) for path in own]
    found = {}
    for prefix, path in named:
        name = "_".join(map(str, prefix + (path[:-1] if path[-1] == "strength" else path)))
        found[re.sub(r"\W", "_", name)] = _unit_of_condition(spec, dim, path)
    return found


def _unit_of_condition(spec: ProblemSpec, dim: int, path: KeyPath) -> str:
    """Return the unit of a number, by its place as in :func:`changed`; "" if it is not known."""
    kind = path[0] if path[0] in _POWERS else path[-1]
    return _unit_of(kind, spec, spec.units or UnitsTable(), dim)


#: Powers of conductivity, solution, length and time in the unit of each kind of number.
_POWERS = {
    "source": (1, 1, -2, 0), "neumann": (1, 1, -1, 0), "strength": (1, 1, -2, 0),
    "dirichlet": (0, 1, 0, 0), "ambient": (0, 1, 0, 0), "offset": (0, 1, 0, 0),
    "coefficient": (1, 0, -1, 0), "line": (1, 0, 1, 0), "barrier": (-1, 0, 1, 0),
    STORAGE: (1, 0, -2, 1),
}  # fmt: skip


def _unit_of(kind: str, spec: ProblemSpec, units: UnitsTable, dim: int) -> str:
    """Return the unit of a kind of number, "" if it is not known."""
    powers = list(_POWERS[kind])
    if kind == "strength":  # of a whole line, if the body has a thickness
        powers[2] += dim if spec.pde.thickness is None else 3
    of_all = units.conductivity, units.solution, units.length, spec.pde.time_unit
    return product(list(zip(of_all, powers, strict=True)))


def read_mesh_of(spec: ProblemSpec) -> Mesh:
    """Read the mesh of a problem file, in the problem's unit of length."""
    table = spec.mesh
    with errors_at(lambda path: spec.where("mesh", "unit") if path[-1] == "unit" else path):
        wanted = spec.units.length if spec.units else ""
        mesh = read_mesh(table.file, facets=table.facets, unit=table.unit, length_unit=wanted)
    groups = {"boundaries": table.boundaries, "subdomains": table.subdomains}
    return with_groups(mesh, **groups, where=partial(spec.where, "mesh"))


def _read_points(spec: ProblemSpec, mesh: Mesh, needs_values: bool):
    """Read and locate the sensors; return the mesh, the observation and :func:`_experiments`."""
    clock = None
    if spec.pde.storage is not None:
        clock = spec.pde.clock._replace(written=spec.observations.time_unit)
    with errors_at(spec.where_of_table):
        table = read_sensors(
            spec.observations.file,
            mesh.dim,
            columns=spec.observations.columns,
            places=spec.observations.places,
            units=spec.units.model_dump(exclude_none=True) if spec.units else None,
            needs_values=needs_values,
            clock=clock,
        )
    offsets = {group: each.build() for group, each in spec.observations.offset.items()}
    with errors_at(partial(_key_of, spec, table)):
        observation = locate(mesh, table, spec.observations.outside, offsets=offsets)
    return mesh, observation, partial(_experiments, spec, mesh)


def _experiments(spec: ProblemSpec, mesh: Mesh, observation: Observation):
    """Sort readings by experiment; return their table and a function that makes the model."""
    sensors = observation.sensors
    if spec.experiment:
        observation = observation.take(_order_by_experiment(spec, observation))
    elif sensors.experiments is not None and len(set(sensors.experiments)) > 1:
        expected = "readings of one experiment, as there is no table [experiment.NAME]"
        found, remedy = ", ".join(np.unique(sensors.experiments)), "add them, or rename the column"
        raise InputError(f"{sensors.name}, column experiment", expected, found, remedy)
    return observation.sensors, partial(_forward_map, spec, mesh, observation)


def _by_survey(
    spec: ProblemSpec, mesh: Mesh, readings: Observation | Sensors, make: Callable
) -> tuple[Sensors, Callable[..., ForwardModel]]:
    """Apply ``make`` to the readings of each survey, and join the tables and the models."""
    if not spec.survey:
        return make(readings)
    sensors = readings.sensors if isinstance(readings, Observation) else readings
    where, column = f"{sensors.name}, column survey", sensors.surveys
    if column is None:
        remedy = "add the column, or remove the tables [survey.NAME]"
        raise InputError(where, "the survey of each row", "none", remedy)
    for row, name in zip(sensors.rows, column, strict=True):
        if not (name and f"_{name}".isidentifier()):
            where = f"{sensors.name}, row {row}, column survey"
            expected, found = "the survey's name, of letters and digits", repr(str(name))
            raise InputError(where, expected, found, "correct it")
    names = [str(name) for name in dict.fromkeys(column)]
    for name in spec.survey:
        if name not in names:
            expected, remedy = f"readings of survey {name!r}", "add them, or remove its table"
            raise InputError(where, expected, f"those of {', '.join(names)}", remedy)
    parts = {name: make(readings.take(np.flatnonzero(column == name))) for name in names}

    def forward_map(**options) -> ForwardModel:
        changes = {
            name: _prior_at(table.change, mesh, partial(spec.where, "survey", name, "change"))
            for name, table in spec.survey.items()
        }
        models = {}
        for name, (table, forward) in parts.items():
            with errors_at(partial(_key_of, spec, table)):  # whose rows errors count
                models[name] = forward(**options)
        with errors_at(lambda path: spec.where("survey", path[-1], "change")):
            return join_surveys(models, changes)

    return as_one({name: table for name, (table, _) in parts.items()}), forward_map


def _order_by_experiment(spec: ProblemSpec, observation: Observation) -> np.ndarray:
    """Return the indices of the readings, sorted by experiment.

    Readings of no experiment, such as those of the conductivity, come first.
    """
    names, sensors = list(spec.experiment), observation.sensors
    where = f"{sensors.name}, column experiment"
    if sensors.experiments is None:
        remedy = "add the column, or remove the tables [experiment.NAME]"
        raise InputError(where, f"the experiment of each row: {', '.join(names)}", "none", remedy)
    is_of_none = (sensors.experiments == "") & ~observation.is_of_solution
    unknown = np.flatnonzero(~np.isin(sensors.experiments, names) & ~is_of_none)
    if unknown.size:
        row, found = sensors.rows[unknown[0]], sensors.experiments[unknown[0]]
        remedy = "correct it, or add the table [experiment.NAME]"
        where = f"{sensors.name}, row {row}, column experiment"
        raise InputError(where, f"one of {', '.join(names)}", repr(str(found)), remedy)
    for name in names:
        if name not in sensors.experiments:
            expected, remedy = f"readings of experiment {name!r}", "add them, or remove its table"
            raise InputError(where, expected, "none", remedy)
    return np.argsort([["", *names].index(each) for each in sensors.experiments], kind="stable")


def _forward_map(spec: ProblemSpec, mesh: Mesh, observation: Observation, **options):
    """Assemble the model of the readings."""
    in_time = spec.pde.clock, partial(_unit_of_condition, spec, mesh.dim)
    shared = boundary_conditions(spec.pde, partial(spec.where, "pde"), *in_time)
    storage = _storage(spec, mesh)
    initial = None if spec.pde.initial == "steady" else spec.pde.initial
    options |= {"thickness": spec.pde.thickness}
    if spec.pde.anisotropy is not None:
        own = spec.pde.anisotropy
        options["anisotropy"] = {"ratio": value_of(own.ratio), "angle": value_of(own.angle)}
    for key in ("lines", "barriers"):
        own = getattr(spec.pde, key).items()
        options[key] = {group: value_of(entry) for group, entry in own}
    of_time = {
        "storage": storage, "initial": initial, "solution_times": sorted(spec.output.times)
    }  # fmt: skip
    if not spec.experiment:
        options |= of_time
        return assemble_poisson(mesh, observation, **shared, **options)
    experiments, first = [], next(iter(spec.experiment))
    for name, table in spec.experiment.items():
        is_own = np.isin(observation.sensors.experiments, ["", name] if name == first else [name])
        own = boundary_conditions(table, partial(spec.where, "experiment", name), *in_time)
        own = {_CONDITIONS[key]: own[_CONDITIONS[key]] for key in table.model_fields_set}
        experiments.append(Experiment(name, observation.take(is_own), own))
    if storage is not None:
        return assemble_transient(mesh, experiments, shared=shared, **options, **of_time)
    return assemble_experiments(mesh, experiments, shared=shared, **options)


def _prior_at(table: PriorTable, mesh: Mesh, where: Callable[..., str]) -> Prior:
    """Build the prior of a table other than [prior]; errors name the keys of that table."""
    with errors_at(lambda path: where(*path[path[0] == "prior" :])):
        return table.build(mesh, where)


def _storage(spec: ProblemSpec, mesh: Mesh):
    """Return the storage in the form that :func:`assemble_poisson` needs."""
    storage = spec.pde.storage
    if isinstance(storage, StorageField):
        return _prior_at(storage.field, mesh, partial(spec.where, "pde", "storage", "field"))
    return value_of(storage)


#: Keys of [pde] -> names of conditions in the library.
_CONDITIONS = {key: key for key in ConditionsTable.model_fields} | {"point_source": "point_sources"}


def boundary_conditions(
    pde: ConditionsTable,
    where: Callable[..., str],
    clock: Clock | None = None,
    unit_of: Callable[[KeyPath], str] = lambda keys: "",
) -> dict:
    """Return source and boundary conditions in the form that :func:`assemble_poisson` needs."""

    def built(keys, value):
        """Build a value: a number, a text, a schedule or a distribution."""
        if isinstance(value, ScheduleTable):
            return value.build(where(*keys), clock, unit_of(keys))
        return value_of(value)

    return changed(_conditions_of(pde), built)


def _conditions_of(pde: ConditionsTable) -> dict:
    """Return source and boundary conditions by their names in the library."""
    given = {key: getattr(pde, key) for key in ("source", "dirichlet", "neumann")}
    given["robin"] = {group: (x.coefficient, x.ambient) for group, x in pde.robin.items()}
    given["point_sources"] = [(each.place, each.strength) for each in pde.point_source]
    return given


def build_noise(spec: ProblemSpec, sensors: Sensors) -> Noise:
    """Build the noise of the sensors in use.

    Raises
    ------
    InputError
        If the noise needs a column that the sensor table does not have.
    """
    with errors_at(partial(_key_of, spec, sensors)):
        return _limited(spec.noise.build(sensors, partial(spec.where, "noise")), sensors)


def _limited(noise: Noise, sensors: Sensors) -> Noise:
    """Return the noise, with the limits of censored readings if there are any."""
    return noise if sensors.limits is None else noise.with_limits(sensors.limits)


#: Names in errors of the library -> tables of the problem file.
_TABLES = {
    "offset": ("observations", "offset"),
    "conductivity": ("conductivity", "known"),
    "refine_solution": ("mesh", "refine_solution"),
    "solution_times": ("output", "times"),
}


def _key_of(spec: ProblemSpec, sensors: Sensors, path: KeyPath) -> str | KeyPath:
    """Translate the place in an error of the library to a key of the file or a row of the table.

    Errors of the library name a key of the prior, the noise or the electrodes, the argument of a
    source or boundary condition, or the index of a reading.  Any other place is unchanged.
    """
    keys, equation = (), ("electrodes",) if spec.electrodes else ("pde",)
    if path[0] == "experiment":
        (_, experiment), path = path[:2], path[2:]
        keys, equation = spec.experiment[experiment].model_fields_set, ("experiment", experiment)
    name, *entries = path
    if name == "observed":
        return (sensors.name, *(f"row {sensors.rows[each]}" for each in entries[1:]))
    if name == "flux":
        return (sensors.name, "column over", *entries)
    if name == "boundary conditions":
        return spec.where(*equation)
    if name in PdeTable.model_fields:
        return spec.where(*(equation if name in keys else ("pde",)), *path)
    if path[1:] and isinstance(path[1], int):  # places of electrodes are the table's
        return (sensors.name, f"electrode {path[1]}")
    if name in _TABLES:
        return spec.where(*_TABLES[name], *entries)
    return spec.where(*path) if name in ("prior", "noise", "electrodes") else path
