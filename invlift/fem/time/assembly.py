"""Assembly of a field that changes in time, with readings at times and schedules of conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from invlift.errors import InputError, KeyPath, as_numbers, errors_at, positive_number
from invlift.fem.equations.conditions import changed, entries, numbers_of_subdomains
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.equation_assembly import Form
from invlift.fem.equations.experiments import (
    Experiment,
    check_readings,
    in_experiment,
    numbers_of,
    same_matrix,
)
from invlift.fem.equations.field_equation import (
    Body,
    body_of,
    check_unknown,
    field_equation,
)
from invlift.fem.equations.forms import reaction
from invlift.fem.equations.forms import storage as storage_of
from invlift.fem.equations.on_refinement import conditions_on, observation_on, thickness_on
from invlift.fem.equations.texts import without_texts
from invlift.fem.equations.unknown_conditions import Parts, parts_of
from invlift.fem.mesh.finer_mesh import refinable
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.readings.base import FLUXES, SOLUTION
from invlift.fem.readings.locate import Observation
from invlift.fem.readings.sensors import concatenated
from invlift.fem.time.equations import ShiftedEquations, SteadyAndShifted
from invlift.fem.time.initial import begun_at_zero
from invlift.fem.time.schedules import SCHEDULES, Schedule, terms_of
from invlift.fem.time.shifts import shifts_for
from invlift.models.base import AT_TIME
from invlift.models.base import SOLUTION as SOLUTION_NAME
from invlift.models.joined import Combinations
from invlift.programs.precision import require_float64
from invlift.unknowns.distributions import Distribution, is_distribution, one_number
from invlift.unknowns.priors.base import Prior

#: Names of an unknown storage among the draws: of a number, and of the logarithm of a field.
STORAGE, LOG_STORAGE = "storage", "log_storage"
#: Order of the values that change, by kind of condition.
ORDER = "source", "point_source", "neumann", "dirichlet", "robin"


class _FinerField(NamedTuple):
    """Location and shape of a storage field on a refined mesh."""

    location: str
    shape: tuple[int]


class _Equations(NamedTuple):
    """Equations of the steady state and of the response to one unit of each change.

    Attributes
    ----------
    steady, changing : LinearEquation
    of_changes : list
        Number of the experiment and schedule of each change.
    unknowns : dict
        Distributions of the coefficients behind those of the field.
    fields : dict of int to str
        First coefficient of each field -> its location, "nodes" or "cells".
    """

    steady: LinearEquation
    changing: LinearEquation
    of_changes: list[tuple[int, Schedule]]
    unknowns: dict[str, Distribution | Prior]
    fields: dict[int, str]


class _Change(NamedTuple):
    """A value of the conditions that changes: conditions with one unit of it, and its schedule."""

    unit: Mapping[str, Any]
    schedule: Schedule


def assemble_transient(
    mesh: Mesh,
    experiments: Sequence[Experiment],
    *,
    storage: float | Mapping[str, float] | Distribution | Prior,
    initial: float | None = None,
    solution_times: Sequence[float] = (),
    shared: Mapping[str, Any] | None = None,
    location: str = "nodes",
    refine_solution: int = 0,
    **of_body: Any,
) -> Combinations:
    """Assemble readings at times of a field with S du/dt - div(exp(phi) grad u) = f.

    Before the first change of an experiment the field is steady.  Each value that changes in time
    adds a response.  For :class:`~invlift.fem.time.schedules.Steps` this is a sum of responses to
    unit steps, for an :class:`~invlift.fem.time.schedules.Oscillation` the response to its cosines,
    and for a :class:`~invlift.fem.time.functions.FunctionOfTime` the response to its piecewise
    linear interpolant.  All responses are sums over steady solutions with a reaction term
    (:mod:`invlift.fem.time.shifts`).  So the number of solutions depends neither on the number of
    times nor on that of changes.

    Parameters
    ----------
    mesh : Mesh
    experiments : sequence of Experiment
        Experiments with different names, whose tables of readings have times.  Strengths of point
        sources, sources, fluxes, boundary values and ambient values may be
        :class:`~invlift.fem.time.schedules.Steps`,
        :class:`~invlift.fem.time.schedules.Oscillation`,
        :class:`~invlift.fem.time.functions.FunctionOfTime` or
        :class:`~invlift.fem.time.schedules.ChangingField`, or expressions in t.
    storage : float, mapping of str to float, Distribution or Prior
        S, in C T / L^2 for times in T: a number, a number for each of all subdomains, the
        distribution of an unknown number, or a prior, on this mesh, of the logarithm of a field.
    initial : float, optional
        Value of the field everywhere at time 0, when all conditions begin.  Without it the field is
        steady before the first change.
    solution_times : sequence of float
        Further times at which the solution is kept, also after the last reading.  The solution at
        the time of the last reading is always kept.
    shared, location, refine_solution, **of_body
        As for :func:`~invlift.fem.equations.experiments.assemble_experiments`.

    Returns
    -------
    Combinations
        Linear combinations of a :class:`~invlift.fem.time.equations.SteadyAndShifted`.

    Raises
    ------
    InputError
        As :func:`~invlift.fem.equations.experiments.assemble_experiments`; if readings have no
        times, nothing changes in time, a storage is not positive, or experiments have different
        Dirichlet groups or transfer coefficients.
    """
    require_float64(points=mesh.points)
    for each in experiments:
        check_readings(mesh, each)
        _check_times(each)
    solution_times = as_numbers("solution_times", solution_times)
    if solution_times.ndim != 1 or not np.isfinite(solution_times).all():
        expected, found = "a sequence of finite times", f"{solution_times.tolist()}"[:80]
        raise InputError("solution_times", expected, found, "give [60.0, 120.0], for example")
    distinct, which = zip(*(_distinct(each.observation) for each in experiments), strict=True)
    options = {"initial": initial, "location": location}
    conditions = {"storage": storage, "shared": shared or {}} | of_body
    equations = _equations(mesh, experiments, distinct, **options, **conditions)
    body, first = body_of(mesh, location, **of_body), 0
    for each in experiments:
        check_unknown(body, each.observation, first)
        first += len(each.observation.kept)

    of_changes = equations.of_changes
    times = [np.asarray(each.observation.sensors.times) for each in experiments]
    lengths = [_lengths(each, initial) for each in experiments]
    orders = [_orders(each) for each in experiments]
    frequencies = np.concatenate([schedule.frequencies for _, schedule in of_changes])
    spans = [schedule.spans(times[number]) for number, schedule in of_changes]
    if not (frequencies.size or any(each.size for each in spans)):
        expected, remedy = "a reading after the first change", "correct the times, or their unit"
        raise InputError("time", expected, "none", remedy)
    kept = [np.array([each.max(), *solution_times]) for each in times]
    spans += [schedule.spans(kept[number]) for number, schedule in of_changes]
    shifts, error = shifts_for(np.concatenate(spans), frequencies)
    responses = [
        schedule.weights(shifts, times[number], lengths[number], orders[number])
        for number, schedule in of_changes
    ]
    of_kept = [schedule.weights(shifts, kept[number]) for number, schedule in of_changes]
    matrix = _matrix(which, distinct, orders, of_changes, responses, len(shifts))
    num_kept, names = 1 + len(solution_times), []
    weights = np.zeros((len(experiments), num_kept, len(of_changes), len(shifts)))
    for k, (number, _) in enumerate(of_changes):
        weights[number, :, k] = of_kept[k]
    for each in experiments:
        name = f"{SOLUTION_NAME}_{each.name}" if each.name else SOLUTION_NAME
        names += [name, *(f"{name}{AT_TIME}{time:.6g}" for time in solution_times)]
    if twice := [name for name in names if names.count(name) > 1]:
        expected = "times that differ in their first six digits, as names of solutions have these"
        found, remedy = f"two of {twice[0]}", "give one of them, or a coarser unit of time"
        raise InputError("solution_times", expected, found, remedy)
    known = {
        "further": equations.unknowns,
        "sensors": concatenated({each.name: each.observation.sensors for each in experiments}),
    }

    def of_equations(equations: _Equations) -> SteadyAndShifted:
        return SteadyAndShifted(
            steady=equations.steady,
            shifted=ShiftedEquations(equations.changing, jax.device_put(shifts)),
            weights=jax.device_put(weights),
            solutions=tuple(names),
            on_mesh=equations.changing.on_mesh._replace(**known),
            error=error,
        )

    def again(refinement: Refinement) -> SteadyAndShifted:
        moved = [
            each._replace(conditions=conditions_on(refinement, each.conditions))
            for each in experiments
        ]
        read = [observation_on(refinement, each) for each in distinct]
        finer = _conditions_on(refinement, conditions)
        return of_equations(_equations(refinement.mesh, moved, read, **options, **finer))

    model = refinable(
        of_equations(equations), mesh, equations.fields, again, refine_solution, body.barriers
    )
    return Combinations(model, jax.device_put(matrix))


def _conditions_on(refinement: Refinement, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Transfer shared conditions, storage and thickness to a refined mesh."""
    interpolated = dict(conditions) | {"shared": conditions_on(refinement, conditions["shared"])}
    if isinstance(storage := interpolated["storage"], Prior):
        shape = refinement.of_field(storage.location).shape[:1]
        interpolated["storage"] = _FinerField(storage.location, shape)
    if "thickness" in interpolated:
        interpolated["thickness"] = thickness_on(refinement, interpolated["thickness"])
    return interpolated


def _equations(
    mesh: Mesh,
    experiments: Sequence[Experiment],
    distinct: Sequence[Observation],
    *,
    storage,
    initial: float | None,
    shared: Mapping[str, Any],
    location: str,
    **of_body: Any,
) -> _Equations:
    """Assemble the equations of distinct readings on a mesh."""
    body = body_of(mesh, location, **of_body)
    steady, changes, of_changes, unknowns = [], [], [], dict(body.unknowns)
    for number, each in enumerate(experiments):
        given = {**shared, **each.conditions}
        prefix = _prefix(each, experiments)
        with errors_at(partial(in_experiment, each.name)):
            conditions = without_texts(mesh, given)
            if initial is not None:
                conditions = begun_at_zero(conditions, initial)
            parts = parts_of(mesh, body.basis, changed(conditions, _before), prefix)
            in_time = list(_changes(conditions))
            if not in_time:
                expected = "a number that changes in time: steps, in the place of a number"
                remedy = "give a strength or a boundary value as steps, or leave out the storage"
                found = f"none in experiment {each.name}" if each.name else "none"
                raise InputError("storage", expected, found, remedy)
            units = [parts_of(mesh, body.basis, change.unit, prefix) for change in in_time]
        steady.append(parts)
        changes += units
        of_changes += [(number, change.schedule) for change in in_time]
        unknowns |= parts.unknowns | each.observation.unknowns
    _check_same([*steady, *changes])
    storage_form, of_storage = _storage(body, storage)
    unknowns |= of_storage
    numbers, fields = numbers_of(unknowns, body.num_coefficients), {0: location}
    if STORAGE in of_storage:
        where = np.full(mesh.num_cells, numbers[STORAGE][0])
        storage_form = storage_form._replace(location=where)
    elif of_storage:
        storage_form = storage_form._replace(start=(start := int(numbers[LOG_STORAGE][0])))
        fields[start] = storage_form.location

    steady = field_equation(body, [each.name for each in experiments], distinct, steady, numbers)
    moving = [_of_solution(distinct[number]) for number, _ in of_changes]
    names = [f"change_{k}" for k in range(len(changes))]
    changing = field_equation(body, names, moving, changes, numbers, further=(storage_form,))
    return _Equations(steady, changing, of_changes, unknowns, fields)


def _check_times(experiment: Experiment) -> None:
    sensors = experiment.observation.sensors
    if sensors.times is None:
        expected = "a column time, as the field changes in time"
        remedy = "add the time of each reading, or leave out the storage"
        raise InputError(sensors.name, expected, "none", remedy)


def _lengths(experiment: Experiment, initial: float | None) -> np.ndarray | float:
    """Return the length of the interval each reading averages over, (d,); 0 without an average."""
    sensors = experiment.observation.sensors
    if sensors.averaged_over is None:
        return 0.0
    lengths = np.nan_to_num(sensors.averaged_over)
    early = np.flatnonzero((lengths > 0.0) & (sensors.times - lengths < -1e-9 * lengths))
    if initial is not None and early.size:
        row, begun = early[0], (sensors.times - lengths)[early[0]]
        where = f"{sensors.name}, row {sensors.rows[row]}, column averaged_over"
        expected = "a mean over times after 0, as there is an initial state"
        remedy = "shorten the interval, or leave out the row"
        raise InputError(where, expected, f"an interval from {begun:g} on", remedy)
    return lengths


def _orders(experiment: Experiment) -> np.ndarray:
    """Return the order of the temporal moment that each reading is, (d,); 0 of all others."""
    sensors = experiment.observation.sensors
    given = np.zeros(len(sensors.values)) if sensors.moment is None else sensors.moment
    return np.nan_to_num(given)


def _prefix(experiment: Experiment, experiments: Sequence[Experiment]):
    prefix = f"{experiment.name}_" if len(experiments) > 1 else ""
    return lambda key: prefix if key in experiment.conditions else ""


def _before(where: KeyPath, value: Any) -> Any:
    """Return the value before the first change, for :func:`changed`."""
    return value.before if isinstance(value, SCHEDULES) else value


def _changes(conditions: Mapping[str, Any]) -> Iterator[_Change]:
    """Yield each value that changes, with conditions where it is 1 and all others are 0.

    A field that changes yields one of each of its terms, with the field in the place of 1.
    """
    for at, value in sorted(entries(conditions), key=lambda entry: ORDER.index(entry[0][0])):
        for factor, schedule in terms_of(value):

            def unit(where, value, at=at, factor=factor):
                if where[2:] == ("coefficient",):
                    return value
                return factor if where == at else 0.0

            yield _Change(changed(conditions, unit), schedule)


def _check_same(parts: Sequence[Parts]) -> None:
    if len(same_matrix(parts)) > 1:
        expected = "experiments with the same Dirichlet groups and transfer coefficients, as the "
        expected += "field changes in time"
        remedy = "give these in [pde], and run the other experiments separately"
        raise InputError("experiments", expected, "different ones", remedy)


def _storage(body: Body, storage) -> tuple[Form, dict[str, Distribution | Prior]]:
    """Return the form of the storage, and its distribution by name if it is unknown."""
    form = partial(Form, body.basis, storage_of)
    if isinstance(storage, _FinerField):
        return Form(body.basis, reaction, location=storage.location), {LOG_STORAGE: storage}
    if isinstance(storage, Prior):
        if storage.mesh is None or not storage.mesh.is_same(body.mesh):
            expected, remedy = "a prior of a field on this mesh", "make it of the same mesh"
            raise InputError(STORAGE, expected, "another", remedy)
        return Form(body.basis, reaction, location=storage.location), {LOG_STORAGE: storage}
    if is_distribution(storage):
        return form(), {STORAGE: one_number(STORAGE, storage, is_positive=True)}
    if isinstance(storage, Mapping):
        values = numbers_of_subdomains(body.mesh, STORAGE, storage)
    else:
        values = np.full(body.mesh.num_cells, positive_number(STORAGE, storage))
    if np.isnan(values).any():
        expected = "the storage of each subdomain"
        found = f"{np.count_nonzero(np.isnan(values))} cells without one"
        raise InputError(STORAGE, expected, found, "name all subdomains, or give one number")
    return form(known=values), {}


def _distinct(observation: Observation) -> tuple[Observation, np.ndarray]:
    """Return the readings that differ in more than their time, and the index of each reading's."""
    num = len(observation.kept)
    columns = [np.zeros((num, 1))]
    for _, part in sorted(observation.parts.items()):
        places = np.unique(part.places, return_inverse=True)[1].reshape(part.places.shape)
        columns += [np.where(part.weights != 0.0, places, -1), part.weights]
    rows = np.concatenate(columns, axis=1)
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return observation.take(first), which.ravel()


def _of_solution(observation: Observation) -> Observation:
    """Keep the parts of readings from solution and fluxes: coefficients do not change in time."""
    parts = {key: part for key, part in observation.parts.items() if key in (SOLUTION, FLUXES)}
    return replace(observation, parts=parts)


def _matrix(which, distinct, orders, of_changes, responses, num_shifts: int) -> np.ndarray:
    """Return the matrix from readings of the steady state and of each shift, (d, p + K r).

    The moment of order k of a constant is 1 / (k + 1) of it.
    """
    sizes = [len(each.kept) for each in distinct]
    of_loads = [sizes[number] for number, _ in of_changes]
    firsts, starts = np.cumsum([0, *sizes]), np.cumsum([0, *of_loads])
    num = [len(each) for each in which]
    rows = np.cumsum([0, *num])
    matrix = np.zeros((rows[-1], firsts[-1] + num_shifts * starts[-1]))
    for number, readings in enumerate(which):
        at = np.arange(rows[number], rows[number + 1])
        matrix[at, firsts[number] + readings] = 1.0 / (1.0 + orders[number])
        for k, (of_number, _) in enumerate(of_changes):
            if of_number == number:
                columns = firsts[-1] + starts[k] + readings[:, None]
                columns = columns + starts[-1] * np.arange(num_shifts)
                matrix[at[:, None], columns] = responses[k]
    return matrix
