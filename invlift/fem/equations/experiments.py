"""Several experiments on one body, with one conductivity field and separate readings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, KeyPath, errors_at
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.field_equation import (
    body_of,
    check_unknown,
    field_equation,
)
from invlift.fem.equations.on_refinement import conditions_on, observation_on, thickness_on
from invlift.fem.equations.unknown_conditions import Parts, parts_of
from invlift.fem.linalg import sparse
from invlift.fem.mesh.finer_mesh import Extrapolated, OnFinerMesh, refinable
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.readings.base import FLUXES, Weights
from invlift.fem.readings.locate import Observation
from invlift.fem.readings.sensors import concatenated, sensors_from_arrays
from invlift.models.base import first_of_same
from invlift.models.joined import Joined
from invlift.models.on_mesh import BoundaryFlux, OnMesh
from invlift.programs.compilation import Program
from invlift.programs.precision import require_float64
from invlift.programs.pytrees import aside, static
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.priors.base import Prior


class Experiment(NamedTuple):
    """An experiment: its name, readings and conditions.

    Attributes
    ----------
    name : str
        Name of the experiment, which is part of the name of its solution.
    observation : Observation
        The d_e located readings of the experiment, from :func:`invlift.locate`.
    conditions : mapping
        Source and boundary conditions, as arguments of :func:`invlift.assemble_poisson`; the
        default source is zero.
    """

    name: str
    observation: Observation
    conditions: Mapping[str, Any]


class Experiments(Joined):
    """Readings of several equations with the same coefficients and different matrices.

    Attributes
    ----------
    equations : tuple of LinearEquation
        The equations; or models such as :class:`~invlift.fem.equations.surveys.Survey`.
    places : tuple of (d_e,) int32
        Indices of each equation's readings among all d.
    solutions : tuple of str
        Names of all solutions.
    on_mesh : OnMesh
    """

    equations: tuple[LinearEquation, ...]
    places: tuple[jax.Array, ...]
    solutions: tuple[str, ...] = static()
    on_mesh: OnMesh = aside(OnMesh())

    def alike(self) -> np.ndarray:
        """As :meth:`ForwardModel.alike`: readings of one equation that are alike in it."""
        labels = np.zeros((2, sum(at.shape[0] for at in self.places)), dtype=int)
        for number, (equation, at) in enumerate(zip(self.equations, self.places, strict=True)):
            labels[:, at] = np.full(at.shape[0], number), equation.alike()
        return first_of_same(*labels)[1]

    def of_readings(self, rows: np.ndarray) -> Experiments:
        """As :meth:`ForwardModel.of_readings`, without the table of sensors."""
        place = np.full(sum(at.shape[0] for at in self.places), -1)
        place[rows] = np.arange(rows.size)
        new = [place[np.asarray(at)] for at in self.places]
        pairs = zip(self.equations, new, strict=True)
        equations = [each.of_readings(np.flatnonzero(of_model >= 0)) for each, of_model in pairs]
        places = [sparse.as_index(of_model[of_model >= 0]) for of_model in new]
        known = self.on_mesh._replace(sensors=None)
        return replace(self, equations=tuple(equations), places=tuple(places), on_mesh=known)

    @property
    def _models(self):
        return self.equations

    def _join(self, parts):
        """Join arrays of each equation's readings, (d_e, ...), in the order of all, (d, ...)."""
        size = sum(at.shape[0] for at in self.places)
        total = jnp.zeros((size, *parts[0].shape[1:]))
        return total.at[jnp.concatenate(self.places)].set(
            jnp.concatenate(parts), unique_indices=True, mode="promise_in_bounds"
        )

    def _weights(self, weighed):
        """Split columns of all readings into those of each equation."""
        return [sparse.gather(weighed.T, at).T for at in self.places]


def assemble_experiments(
    mesh: Mesh,
    experiments: Sequence[Experiment],
    *,
    shared: Mapping[str, Any] | None = None,
    location: str = "nodes",
    refine_solution: int = 0,
    **of_body: Any,
) -> LinearEquation | Experiments | OnFinerMesh | Extrapolated:
    """Assemble the forward map of several experiments, from one log-conductivity to readings.

    Experiments with the same held nodes and the same Robin coefficients share a matrix, so that
    their readings take one factorisation.

    Parameters
    ----------
    mesh : Mesh
    experiments : sequence of Experiment
        Experiments with different names.
    shared : mapping, optional
        Conditions of all experiments that do not have the same key.  A distribution among them is
        one unknown for all these experiments; a distribution in an experiment's conditions is an
        unknown of this experiment only.
    location : {"nodes", "cells"}
        Location of the coefficients.
    refine_solution : int, optional
        See :func:`invlift.assemble_poisson`.
    **of_body
        ``known``, ``thickness``, ``anisotropy``, ``lines`` and ``barriers`` of
        :func:`invlift.assemble_poisson`.

    Returns
    -------
    LinearEquation, Experiments, OnFinerMesh or Extrapolated
        The forward model, with the readings in the order of the experiments.  Its
        ``on_mesh.further`` are the distributions, by name, of the coefficients after the field.

    Raises
    ------
    InputError
        As :func:`invlift.assemble_poisson`, with the experiment's name in front of the place.  Also
        if there are no experiments, or two with the same name.
    """
    require_float64(points=mesh.points)
    names = [each.name for each in experiments]
    if not names or len(set(names)) < len(names):
        expected, found = "one or more with different names", ", ".join(names) or "none"
        raise InputError("experiments", expected, found, "give each its own name")
    for each in experiments:
        check_readings(mesh, each)
    body = body_of(mesh, location, **of_body)
    parts, unknowns = [], dict(body.unknowns)
    for each in experiments:
        begin = "" if names == [""] else f"{each.name}_"

        def prefix(key: str, each=each, text=begin) -> str:
            return text if key in each.conditions else ""

        with errors_at(partial(in_experiment, each.name)):
            conditions = {**(shared or {}), **each.conditions}
            parts.append(parts_of(mesh, body.basis, conditions, prefix))
        unknowns |= parts[-1].unknowns | each.observation.unknowns
    numbers = numbers_of(unknowns, body.num_coefficients)
    equations, places = [], []
    sizes = [len(each.observation.kept) for each in experiments]
    ends = np.cumsum(sizes)
    for each, end, size in zip(experiments, ends, sizes, strict=True):
        check_unknown(body, each.observation, end - size)
    for group in same_matrix(parts):
        members = [experiments[k] for k in group]
        with errors_at(partial(in_experiment, members[0].name)):
            equations.append(
                field_equation(
                    body,
                    [each.name for each in members],
                    [each.observation for each in members],
                    [parts[k] for k in group],
                    numbers,
                )
            )
        rows = [np.arange(ends[k] - sizes[k], ends[k]) for k in group]
        places.append(sparse.as_index(np.concatenate(rows)))
    of_all = equations[0].on_mesh._replace(
        further=unknowns,
        boundary_flux=partial(
            boundary_flux, mesh, experiments, shared=shared, location=location, **of_body
        ),
        sensors=concatenated({each.name: each.observation.sensors for each in experiments}),
    )
    solutions = tuple(name for each in equations for name in each.solutions)
    if len(equations) == 1:
        model = replace(equations[0], on_mesh=of_all)
    else:
        model = Experiments(
            equations=tuple(equations), places=tuple(places), solutions=solutions, on_mesh=of_all
        )
    refined = partial(_on_refinement, experiments, shared or {}, location=location, **of_body)
    return refinable(model, mesh, {0: location}, refined, refine_solution, body.barriers)


def _on_refinement(experiments, shared, refinement: Refinement, **options):
    """Assemble the same experiments on a refined mesh."""
    moved = [
        Experiment(
            each.name,
            observation_on(refinement, each.observation),
            conditions_on(refinement, each.conditions),
        )
        for each in experiments
    ]
    shared = conditions_on(refinement, shared)
    options["thickness"] = thickness_on(refinement, options.get("thickness"))
    return assemble_experiments(refinement.mesh, moved, shared=shared, **options)


def check_readings(mesh: Mesh, experiment: Experiment) -> None:
    """Check that readings were located on the mesh, and belong to this experiment."""
    name, sensors = experiment.name, experiment.observation.sensors
    if not mesh.is_same(experiment.observation.mesh or mesh):
        expected, found = f"readings located on the mesh {mesh.name!r}", "those of another mesh"
        raise InputError("observation", expected, found, "call locate with this mesh")
    names = np.unique(() if sensors.experiments is None else sensors.experiments).tolist()
    others = [each for each in names if each not in ("", name)]
    if others[0 if name else 1 :]:
        expected = f"readings of experiment {name!r} alone" if name else "those of one experiment"
        remedy = "take the rows of each: observation.take(rows)"
        where = f"{sensors.name}, column experiment"
        raise InputError(where, expected, ", ".join(others), remedy)


def boundary_flux(
    mesh: Mesh, experiments: Sequence[Experiment], group: str, experiment: str = "", **options
) -> BoundaryFlux:
    """Return the map to the total flux into the body through a boundary group.

    Parameters
    ----------
    mesh, experiments
        As in :func:`assemble_experiments`, also the options.
    group : str
    experiment : str
        Name of the experiment; optional if there is only one.

    Returns
    -------
    BoundaryFlux
        Its unit is C U L^(dim - 2), and C U L in the plane with a thickness.

    Raises
    ------
    InputError
        If there is no such experiment or group, or the flux through the group is prescribed.
    """
    names = [each.name for each in experiments]
    if not experiment and len(names) == 1:
        experiment = names[0]
    if experiment not in names:
        expected, found = f"one of the experiments {', '.join(names)}", repr(experiment)
        raise InputError(("flux", group), expected, found, "name one of them")
    chosen = experiments[names.index(experiment)]
    mesh.facets(group, ("flux", group))
    sensors = sensors_from_arrays(np.zeros((1, mesh.dim)), np.zeros(1))
    parts = {FLUXES: Weights(np.array([[group]]), np.ones((1, 1)))}
    observation = Observation(parts, sensors, np.zeros(1, dtype=int), np.zeros(1))
    model = assemble_experiments(mesh, [chosen._replace(observation=observation)], **options)

    def flux_of(coefficients, solutions=None):
        if solutions is None:
            return np.asarray(_first_readings(model, coefficients))
        return np.asarray(_first_readings_of(model, coefficients, solutions))

    lengths = mesh.dim - 2 + (options.get("thickness") is not None)
    return BoundaryFlux(tuple(model.on_mesh.further), model.solutions[0], lengths, flux_of)


@partial(Program, effort="some")
def _first_readings(model: LinearEquation, coefficients: jax.Array) -> jax.Array:
    """Return the first reading for each of the coefficients (k, N), in sequence: (k,)."""
    return jax.lax.map(lambda each: model(each)[0], coefficients)


@partial(Program, effort="some")
def _first_readings_of(
    model: LinearEquation, coefficients: jax.Array, solutions: jax.Array
) -> jax.Array:
    """Return the first reading for known solutions, (k, num_nodes): (k,)."""

    def flux(pair):
        at, solution = pair
        return model.readings_of(at, solution[None])[0]

    return jax.lax.map(flux, (coefficients, solutions))


def numbers_of(unknowns: Mapping[str, Distribution | Prior], first: int) -> dict[str, np.ndarray]:
    """Return the indices of each unknown among the coefficients, (k,) int, from ``first`` on."""
    sizes = [math.prod(each.shape) for each in unknowns.values()]
    ends = first + np.cumsum(sizes, dtype=int)
    pairs = zip(unknowns, sizes, ends, strict=True)
    return {name: np.arange(end - size, end) for name, size, end in pairs}


def in_experiment(name: str, path: KeyPath) -> KeyPath:
    """Return a key path with the experiment in front, if the experiment has a name."""
    return ("experiment", name, *path) if name else path


def same_matrix(parts: Sequence[Parts]) -> list[list[int]]:
    """Return groups of experiments, by index, that share a matrix."""
    groups: dict[Any, list[int]] = {}
    for k, each in enumerate(parts):
        coefficients = [
            (group, value if isinstance(value, str) else np.asarray(value, dtype=float).tobytes())
            for group, (value, _) in sorted(each.robin.items())
        ]
        groups.setdefault((each.held.tobytes(), *coefficients), []).append(k)
    return list(groups.values())
