"""Surveys of one body at several dates (time lapse): a field, and its changes since.

A contact impedance or the offset of a logger is one unknown for all surveys, so that it does not
appear as a change of the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import jax
import numpy as np
from scipy.sparse import csr_array

from invlift.errors import InputError
from invlift.fem.equations.experiments import Experiments, numbers_of
from invlift.fem.equations.linearly_mapped import LinearlyMapped
from invlift.fem.linalg import sparse
from invlift.fem.readings.sensors import Sensors, concatenated
from invlift.models.base import SOLUTION, ForwardModel
from invlift.models.on_mesh import FieldPlaces
from invlift.programs.pytrees import static
from invlift.unknowns.priors.base import Prior

#: Prefix of the name of a survey's change among the draws.
CHANGE = "change"


class Survey(LinearlyMapped):
    """Readings of one survey as a function of the coefficients of all surveys.

    Attributes
    ----------
    name : str
    """

    name: str = static(kw_only=True)

    @property
    def solutions(self) -> tuple[str, ...]:
        """Names of the model's solutions, with the survey's name inserted."""
        return tuple(map(self._called, self.model.solutions))

    def _called(self, solution: str) -> str:
        rest = solution.removeprefix(SOLUTION)
        return f"{SOLUTION}_{self.name}{rest}"

    def _byproducts(self, inner):
        """Return all byproducts of the inner model, by their names in the survey."""
        return {self._called(name): inner.byproducts[name] for name in self.model.solutions}


def join_surveys(
    surveys: Mapping[str, ForwardModel], changes: Mapping[str, Prior] | None = None
) -> Experiments:
    """Join surveys of one body at several dates, between which its field changes.

    The log-conductivity of survey s is phi + delta_s.  Without a prior of the change, delta_s is
    zero.

    Parameters
    ----------
    surveys : mapping of str to ForwardModel
        Model of each survey's readings, from :func:`invlift.assemble_poisson`,
        :func:`invlift.assemble_experiments`, :func:`invlift.electrode_model` or another function,
        all with a field on the same mesh.  Further unknowns with the same name are one unknown.
    changes : mapping of str to Prior, optional
        Priors of delta_s for some surveys, on this mesh and at the location of the field.  Their
        draws are named ``change_NAME``.

    Returns
    -------
    Experiments
        The joint model, with the d readings in the order of the surveys.  Its coefficients are
        those of phi, the further unknowns, and the changes.

    Raises
    ------
    InputError
        If there are no surveys, a model has no field on a mesh, the fields differ in their mesh, or
        a change belongs to no survey or to another mesh.
    """
    changes = changes or {}
    if not surveys:
        raise InputError("surveys", "one or more", "none", "give the model of each by its name")
    places = {name: _field_of(name, model) for name, model in surveys.items()}
    field = next(iter(places.values()))
    for name, own in places.items():
        if not np.array_equal(own.points, field.points):
            expected, remedy = "the field of the first survey", "make all models of one mesh"
            raise InputError(("surveys", name), expected, "that of another mesh", remedy)
    for name, prior in changes.items():
        _check_change(name, prior, surveys, len(field.points))
    unknowns = {}
    for model in surveys.values():
        unknowns |= model.on_mesh.further
    unknowns |= {f"{CHANGE}_{name}": prior for name, prior in changes.items()}
    numbers = numbers_of(unknowns, len(field.points))
    total = len(field.points) + sum(each.size for each in numbers.values())
    models = []
    for name, model in surveys.items():
        own = [np.arange(len(field.points)), *(numbers[each] for each in model.on_mesh.further)]
        cols = np.concatenate(own)
        rows = np.arange(cols.size)
        if name in changes:
            cols = np.concatenate([cols, numbers[f"{CHANGE}_{name}"]])
            rows = np.concatenate([rows, np.arange(len(field.points))])
        shape = sum(map(len, own)), total
        matrix = csr_array((np.ones(rows.size), (rows, cols)), shape=shape)
        models.append(Survey(model=model, matrix=sparse.sparse_matrix(matrix), name=name))
    coefficients = jax.ShapeDtypeStruct((total,), float)
    sizes = [jax.eval_shape(model.__call__, coefficients).shape[0] for model in models]
    ends = np.cumsum(sizes)
    known = next(iter(surveys.values())).on_mesh
    sensors = {name: model.on_mesh.sensors for name, model in surveys.items()}
    fields = {0: field}
    for model in surveys.values():
        own = numbers_of(model.on_mesh.further, len(field.points))
        begins = {each[0]: numbers[name][0] for name, each in own.items()}
        for each in model.on_mesh.fields[1:]:
            first = begins[each.first]
            fields[first] = each._replace(first=first)
    for name in changes:
        first = numbers[f"{CHANGE}_{name}"][0]
        fields[first] = FieldPlaces(first, field.points)
    again = [model.on_mesh.refined for model in surveys.values()]

    def refined(times: int = 1) -> Experiments:
        finer = {name: each(times) for name, each in zip(surveys, again, strict=True)}
        return join_surveys(finer, changes)

    return Experiments(
        equations=tuple(models),
        places=tuple(
            sparse.as_index(np.arange(end - size, end))
            for end, size in zip(ends, sizes, strict=True)
        ),
        solutions=tuple(name for model in models for name in model.solutions),
        on_mesh=known._replace(
            fields=tuple(fields.values()),
            further=unknowns,
            sensors=None if any(each is None for each in sensors.values()) else as_one(sensors),
            boundary_flux=None,
            refined=refined if all(again) else None,
        ),
    )


def as_one(tables: Mapping[str, Sensors]) -> Sensors:
    """Concatenate the tables of surveys, with names of experiments that include the survey's."""
    named = {}
    for name, table in tables.items():
        names = table.experiments
        if names is None or (names == name).all():
            experiments = np.full(len(table.values), name)
        else:
            experiments = np.array([f"{each}_{name}" if each else name for each in names])
        named[name] = replace(table, experiments=experiments)
    return concatenated(named)


def apart(sensors: Sensors) -> Sensors:
    """Return a table of :func:`as_one` with the experiments' own names, as its rows were given."""
    if sensors.surveys is None or sensors.experiments is None:
        return sensors
    pairs = zip(sensors.experiments.tolist(), sensors.surveys.tolist(), strict=True)
    own = ["" if each == survey else each.removesuffix(f"_{survey}") for each, survey in pairs]
    return replace(sensors, experiments=np.array(own) if any(own) else None)


def _field_of(name: str, model: ForwardModel) -> FieldPlaces:
    """Return the field places of a survey's model, or raise an error if it has no field."""
    fields = model.on_mesh.fields
    if not fields or fields[0].first != 0:
        expected, remedy = "a model of a field on a mesh", "make it with assemble_poisson, say"
        raise InputError(("surveys", name), expected, f"a {type(model).__name__}", remedy)
    return fields[0]


def _check_change(name: str, prior: Prior, surveys: Mapping, size: int) -> None:
    """Check that a change belongs to a survey, and has the size of the field."""
    where = ("changes", name)
    if name not in surveys:
        expected, remedy = f"one of the surveys {', '.join(surveys)}", "correct the name"
        raise InputError(where, expected, repr(name), remedy)
    shape = prior.shape if isinstance(prior, Prior) else None
    if shape != (size,):
        expected, remedy = f"a prior of {size} values, as the field has", "make it of the same mesh"
        what = f"{prior!r}"[:80] if shape is None else f"one of {shape[0]}"
        raise InputError(where, expected, what, remedy)
