"""From a problem file's content to the objects that compute: mesh, sensors, inverse problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from invlift.app.problem_file import ProblemSpec
from invlift.app.sections import PdeTable
from invlift.errors import InputError
from invlift.fem.assembly import assemble_poisson
from invlift.fem.experiments import Experiment, assemble_experiments
from invlift.fem.field_equation import known_conductivity
from invlift.fem.mesh.mesh import Mesh, read_mesh
from invlift.fem.priors.partly_known import partly_known
from invlift.fem.random_field import BoundaryNormalTable
from invlift.fem.readings.locate import Observation, locate
from invlift.fem.sensors import Sensors, read_sensors
from invlift.inverse.distributions.tables import DistributionTable
from invlift.inverse.noise import Noise, known_noise
from invlift.inverse.priors.base import Prior
from invlift.inverse.priors.named import NamedPrior
from invlift.inverse.problem import InverseProblem, inverse_problem
from invlift.posterior.names import FIELD


@dataclass(frozen=True)
class FieldProblem:
    """An inverse problem for a conductivity field, with the mesh and the sensors it came from.

    Attributes
    ----------
    mesh : Mesh
    sensors : Sensors
        Those in use, d of them.
    observation : Observation
        Where each sensor of the table lies, those left out included.
    problem : InverseProblem
    """

    mesh: Mesh
    sensors: Sensors
    observation: Observation
    problem: InverseProblem
    exceedance: tuple[float, ...] = ()

    @property
    def prior(self) -> Prior:
        """The prior of the field, which that of the problem may hold beside further unknowns."""
        prior = self.problem.prior
        return prior.parts[FIELD] if isinstance(prior, NamedPrior) else prior

    @property
    def is_nodal(self) -> bool:
        """Whether the coefficients are at the nodes; else they are in the cells."""
        return self.prior.location == "nodes"

    @property
    def places(self) -> np.ndarray:
        """Where the coefficients are, (N, dim): nodes, or middles of cells."""
        points = self.mesh.points
        return points if self.is_nodal else points[self.mesh.cells].mean(axis=1)

    def by_place(self, coefficients: dict, solutions: dict) -> tuple[dict, dict]:
        """Fields by name on the nodes and in the cells: solutions, and those of coefficients."""
        return (solutions | coefficients, {}) if self.is_nodal else (solutions, coefficients)

    @property
    def outside(self) -> str:
        """How many sensors are outside the mesh and what becomes of them; empty if none are."""
        distances = self.observation.distances
        if not distances.any():
            return ""
        fate = "left out" if len(distances) > len(self.sensors.values) else "moved onto the mesh"
        num = np.count_nonzero(distances)
        return f"{num} outside the mesh by up to {distances.max():.3g}, {fate}"


def build_problem(spec: ProblemSpec, *, needs_values: bool = True) -> FieldProblem:
    """Read what a problem file names and put the inverse problem together.

    Parameters
    ----------
    spec : ProblemSpec
    needs_values : bool
        Whether the sensor table must have readings; if not, they are taken as zero wherever there
        are none, and the noise as known.

    Returns
    -------
    FieldProblem

    Raises
    ------
    InputError
        If a file, group, field or sensor is not what it should be.
    """
    mesh = read_mesh(spec.mesh.file)
    table = read_sensors(spec.observations.file, mesh.dim, needs_values=needs_values)
    offsets = {group: each.build() for group, each in spec.observations.offset.items()}
    with _keys_blamed(spec, table):
        observation = locate(mesh, table, spec.observations.outside, offsets=offsets)
    sensors = replace(table.take(observation.kept), points=observation.points)
    if spec.experiment:
        order = _order_by_experiment(spec, sensors, observation)
        sensors, observation = sensors.take(order), observation.take(order)
    elif sensors.experiments is not None and len(set(sensors.experiments)) > 1:
        expected = "readings of one experiment, as there is no table [experiment.NAME]"
        found, remedy = ", ".join(np.unique(sensors.experiments)), "add them, or rename the column"
        raise InputError(f"{sensors.name}, column experiment", expected, found, remedy)
    with _keys_blamed(spec, sensors):
        prior = spec.prior.build(mesh, partial(spec.where, "prior"))
        prior = partly_known(prior, mesh, known_conductivity(mesh, spec.conductivity.known))
        forward = _forward_map(spec, mesh, sensors, observation, prior.location)
        # Without readings there is no noise in them yet, of whatever scale.
        noise = build_noise(spec, sensors) if needs_values else known_noise(1.0)
        problem = inverse_problem(forward, prior, noise, sensors.values)
    return FieldProblem(mesh, sensors, observation, problem, tuple(spec.output.exceedance))


def _order_by_experiment(
    spec: ProblemSpec, sensors: Sensors, observation: Observation
) -> np.ndarray:
    """Positions of the readings, those of one experiment after those of the other.

    First come those that are of none, as of the conductivity itself.
    """
    names, where = list(spec.experiment), f"{sensors.name}, column experiment"
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


def _forward_map(spec: ProblemSpec, mesh: Mesh, sensors: Sensors, observation, location: str):
    """The model of the readings."""
    options = {"known": spec.conductivity.known, "location": location}
    shared = boundary_conditions(mesh, spec.pde, partial(spec.where, "pde"))
    if not spec.experiment:
        return assemble_poisson(mesh, observation, **shared, **options)
    experiments, first = [], next(iter(spec.experiment))
    for name, table in spec.experiment.items():
        is_own = np.isin(sensors.experiments, ["", name] if name == first else [name])
        own = boundary_conditions(mesh, table, partial(spec.where, "experiment", name))
        own = {_CONDITIONS[key]: own[_CONDITIONS[key]] for key in table.model_fields_set}
        experiments.append(Experiment(name, observation.take(is_own), own))
    return assemble_experiments(mesh, experiments, shared=shared, **options)


#: Conditions as the library calls them, by the keys of [pde].
_CONDITIONS = {key: key for key in PdeTable.model_fields} | {"point_source": "point_sources"}


def boundary_conditions(mesh: Mesh, pde: PdeTable, where: Callable[..., str]) -> dict:
    """Source and boundary conditions as :func:`assemble_poisson` takes them."""

    def built(value, *keys):
        """A number, a field of the mesh by its name, or a distribution."""
        if isinstance(value, BoundaryNormalTable):
            return value.on(mesh, where(*keys, "mean"))
        if isinstance(value, DistributionTable):
            return value.build()
        return mesh.point_field(value, where(*keys)) if isinstance(value, str) else value

    source = pde.source
    if isinstance(source, str):
        source = mesh.field(source, where("source"))
    elif isinstance(source, dict):
        source = {name: built(value) for name, value in source.items()}
    else:
        source = built(source)
    robin = {
        group: tuple(
            built(getattr(each, key), "robin", group, key) for key in ("coefficient", "ambient")
        )
        for group, each in pde.robin.items()
    }
    return {
        "source": source,
        "robin": robin,
        **{
            key: {group: built(value, key, group) for group, value in getattr(pde, key).items()}
            for key in ("dirichlet", "neumann")
        },
        "point_sources": [(each.place, built(each.strength)) for each in pde.point_source],
    }


def _blamed(spec: ProblemSpec, experiment: str, keys: Sequence[str]) -> tuple[str, ...]:
    """Where a key of the equation stands: in the experiment's table, or in that of all."""
    own = spec.experiment[experiment].model_fields_set if experiment else ()
    return ("experiment", experiment, *keys) if keys[:1] and keys[0] in own else ("pde", *keys)


def build_noise(spec: ProblemSpec, sensors: Sensors) -> Noise:
    """Noise that a problem file gives to the readings of the sensors in use.

    Raises
    ------
    InputError
        If it needs a column that the sensor table lacks.
    """
    with _keys_blamed(spec, sensors):
        return spec.noise.build(sensors, partial(spec.where, "noise"))


@contextmanager
def _keys_blamed(spec: ProblemSpec, sensors: Sensors) -> Iterator[None]:
    """Let an error about something that the library was given name the key it came from.

    The library calls it "prior std" or "noise sigma", the source or a boundary condition by its
    argument, what belongs to a group after a comma, "dirichlet, left", and readings by their index
    among those in use, "observed, row 3".
    """
    try:
        yield
    except InputError as error:
        name, *entries = error.where.split(", ")
        section, _, key = name.partition(" ")
        if name == "observed":
            (row,) = entries
            where = f"{sensors.name}, row {sensors.rows[int(row.removeprefix('row '))]}"
            raise error.at(where) from None
        experiment = ""
        if section == "experiment":
            experiment, (name, *entries) = key, entries
        if name == "boundary conditions":
            path = ("experiment", experiment) if experiment else ("pde",)
        elif name in PdeTable.model_fields:
            path = _blamed(spec, experiment, (name, *entries))
        elif name == "flux":
            raise error.at(f"{sensors.name}, column over, {', '.join(entries)}") from None
        elif name == "offset":
            path = ("observations", "offset", *entries)
        elif name == "conductivity":
            path = ("conductivity", "known", *entries)
        elif section in ("prior", "noise") and key:
            path = (section, key, *entries)
        else:
            raise
        where = spec.where(*path)
        raise error.at(where) from None
