"""All that a problem file can say of an equation, in the plane and in space, by a plain assembly.

Cases are made of the tables of the problem file and of the registry of readings: what is added to
either is refused here until `plain_assembly` has a counterpart of it.
"""

from dataclasses import replace
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

import jax
import numpy as np
import pytest
from choices import STAND_INS, choices_of
from plain_assembly import Body, mean_over, shapes_at
from scipy.spatial.distance import pdist
from structured import box_mesh

from invlift.app.problem.build import boundary_conditions
from invlift.app.problem.sections import ConditionsTable, ElectrodesTable
from invlift.fem.electrodes.complete import electrode_model, mesh_with_electrodes
from invlift.fem.electrodes.point_electrodes import point_electrode_model
from invlift.fem.electrodes.wave_numbers import wave_numbers
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.readings.kinds import KINDS
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.files.tables import OneOf, Table
from invlift.tables.distributions import DISTRIBUTIONS
from invlift.unknowns.distributions import lognormal, normal

read = jax.jit(lambda model, coefficients: model(coefficients))


def with_ramp(mesh):
    """A field that varies on every side."""
    return replace(mesh, point_fields={"ramp": 1.0 + mesh.points @ np.arange(1.0, mesh.dim + 1)})


MESHES = {2: with_ramp(box_mesh(2, 2)), 3: with_ramp(box_mesh(3, 1))}
LOCATIONS = "nodes", "cells"
BODIES = [(dim, location) for dim in MESHES for location in LOCATIONS]


def field_of(mesh, location):
    return np.random.default_rng(mesh.dim).standard_normal(len(mesh.places_of(location)))


# Conditions ---------------------------------------------------------------------------------------

#: Boundary groups of conditions that have any.
GROUPS = {"dirichlet": "left", "neumann": "top", "robin": "right"}
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def inside(mesh, number):
    """A place in one of the cells of the lower half."""
    shares = SHARES[: mesh.dim + 1] / SHARES[: mesh.dim + 1].sum()
    return shares @ mesh.points[mesh.cells[mesh.subdomains["low"][number]]]


def forms(annotation, metadata=()):
    """What a value can be."""
    if any(isinstance(each, OneOf) for each in metadata):
        return ["distribution"]
    if get_origin(annotation) is Annotated:
        kind, *rest = get_args(annotation)
        return forms(kind, rest)
    if get_origin(annotation) in (Union, UnionType):
        return [form for kind in get_args(annotation) for form in forms(kind)]
    names = {float: "number", str: "field", dict: "by subdomain", list: "list"}
    return [names[get_origin(annotation) or annotation]]


class Content:
    """Conditions of a problem file in which each value has a form of its own, and their numbers.

    Attributes
    ----------
    table, numbers : dict
        What the file says, and the same with a number or an array in the place of each value.
    unknown : dict of str to float
        Numbers in the place of distributions, by the names of what is unknown.
    """

    def __init__(self, mesh, turn):
        self.mesh, self.turn, self.unknown, self.table, self.numbers = mesh, turn, {}, {}, {}
        for key, field in ConditionsTable.model_fields.items():
            kind, below = get_origin(field.annotation), get_args(field.annotation)
            if kind is list:
                made = self._of_table(below[0], key, "1")
                self.table[key], self.numbers[key] = ([each] for each in made)
            elif kind is dict:
                group = GROUPS[key]
                of_table = isinstance(below[1], type) and issubclass(below[1], Table)
                make = self._of_table if of_table else self._value
                self.table[key], self.numbers[key] = (
                    {group: each} for each in make(below[1], key, group)
                )
            else:
                self.table[key], self.numbers[key] = self._value(field, key)

    def _of_table(self, table, *names):
        pairs = {key: self._value(field, *names, key) for key, field in table.model_fields.items()}
        return tuple({key: pair[k] for key, pair in pairs.items()} for k in (0, 1))

    def _value(self, kind, *names):
        """Of a field of a table, or of a type."""
        annotation = getattr(kind, "annotation", kind)
        known = forms(annotation, getattr(kind, "metadata", ()))
        form = known[self.turn % len(known)]
        number = 0.5 + 0.3 * len(" ".join(names))
        if form == "list":
            return (inside(self.mesh, 0).tolist(),) * 2
        # The text of a strength is a function of time: it has no place.
        if form == "field" and names[0] != "point_source":
            fields = self.mesh.point_fields | self.mesh.cell_fields
            is_in_cells = names == ("source",) and self.mesh.dim == 3
            name = "ramp_in_cells" if is_in_cells else "ramp"
            return name, fields[name]
        if form == "by subdomain":
            pairs = {name: self._value(float, *names, name) for name in self.mesh.subdomains}
            return tuple({name: pair[k] for name, pair in pairs.items()} for k in (0, 1))
        if form == "distribution":
            # Of a place in a list the number is the name.
            self.unknown["_".join(name for name in names if name != "strength")] = number
            (stand_in,) = STAND_INS
            own = {key: values[0] for key, values in choices_of(DISTRIBUTIONS[stand_in]).items()}
            return {"distribution": stand_in} | own, number
        return number, number


NUM_TURNS = max(
    len(forms(field.annotation))
    for field in ConditionsTable.model_fields.values()
    if get_origin(field.annotation) not in (dict, list)
)


# Readings -----------------------------------------------------------------------------------------


def rows_of(kind, mesh):
    """Rows that a kind of reading can have, as columns by name: each way to say what it is of."""
    columns, place = KINDS[kind].columns, inside(mesh, -1)
    if "x2" in columns:
        return [{"place": place, "minus": inside(mesh, 0)}]
    if "over" in columns:
        groups = [GROUPS["dirichlet"], GROUPS["robin"]]
        groups += ["high"] if "radius" in columns else []
        rows = [{"over": group} for group in groups]
        return rows + ([{"place": place, "radius": 1e-3}] if "radius" in columns else [])
    return [{"place": place}]


def table_of(mesh, rows, groups):
    missing = [np.nan] * mesh.dim
    return sensors_from_arrays(
        [row.get("place", missing) for _, row in rows],
        np.zeros(len(rows)),
        kinds=[kind for kind, _ in rows],
        over=[row.get("over", "") for _, row in rows],
        radius=[row.get("radius", np.nan) for _, row in rows],
        minus=[row.get("minus", missing) for _, row in rows],
        groups=groups,
    )


def plain_point(row, mesh, solved):
    return shapes_at(mesh, row["place"])[0] @ solved["solution"]


def plain_difference(row, mesh, solved):
    return plain_point(row, mesh, solved) - plain_point({"place": row["minus"]}, mesh, solved)


def plain_average(row, mesh, solved):
    if "radius" in row:  # within one cell, where the solution is linear
        return plain_point(row, mesh, solved)
    return mean_over(mesh, row["over"]) @ solved["solution"]


def plain_flux(row, mesh, solved):
    return solved["fluxes"][row["over"]](solved["solution"])


def plain_log_conductivity(row, mesh, solved):
    shapes, cell = shapes_at(mesh, row["place"])
    phi = solved["phi"]
    return shapes @ phi if len(phi) == mesh.num_nodes else phi[cell]


PLAIN = {
    "point": plain_point,
    "difference": plain_difference,
    "average": plain_average,
    "flux": plain_flux,
    "log_conductivity": plain_log_conductivity,
}


def plain_readings(mesh, rows, phi, location, known, numbers):
    """Of conditions of which each value is a number or an array."""
    body, fluxes = Body(mesh, phi, location, known), {}
    body.conduct()
    body.source(numbers.get("source", 0.0))
    for group, value in numbers["dirichlet"].items():
        body.hold(group, value)
        fluxes[group] = lambda u, group=group: body.flux_of_held(group, u)
    for group, value in numbers.get("neumann", {}).items():
        body.inflow(group, value)
    for group, value in numbers.get("robin", {}).items():
        fluxes[group] = body.exchange(group, value["coefficient"], value["ambient"])
    for value in numbers.get("point_source", ()):
        body.at_point(value["place"], value["strength"])
    fluxes = {"right": lambda u: 0.0} | fluxes
    solved = {"solution": body.solve(), "fluxes": fluxes, "phi": phi}
    return np.array([PLAIN[kind](row, mesh, solved) for kind, row in rows])


def test_all_has_a_plain_counterpart():
    """What a problem file can say of an equation, and each kind of reading."""
    assert set(PLAIN) == set(KINDS)
    assert {*GROUPS, "source", "point_source"} == set(ConditionsTable.model_fields)
    assert set(WAYS) == set(ElectrodesTable.model_fields) - {"impedance"}


@pytest.mark.parametrize("turn", range(NUM_TURNS))
@pytest.mark.parametrize(("dim", "location"), BODIES)
def test_conditions_and_readings(dim, location, turn):
    """The first time of numbers and the solution alone."""
    mesh, is_plain = MESHES[dim], turn == 0
    content, phi = Content(mesh, turn), field_of(mesh, location)
    kinds = ["point", "difference", "average"] if is_plain else KINDS
    rows = [(kind, row) for kind in kinds for row in rows_of(kind, mesh)]
    is_off = np.arange(len(rows)) % 2 == 1 if not is_plain else np.zeros(len(rows), bool)
    known = {"high": 2.0} if turn == NUM_TURNS - 1 else None
    sensors = table_of(mesh, rows, np.where(is_off, "loggers", "others"))
    offsets = {"loggers": normal(0.0, 1.0)} if is_off.any() else {}
    table = ConditionsTable.model_validate(content.table)
    conditions = boundary_conditions(table, lambda *keys: ", ".join(map(str, keys)))
    observation = locate(mesh, sensors, offsets=offsets)
    model = assemble_poisson(mesh, observation, known=known, location=location, **conditions)
    unknown = content.unknown | {"offset_loggers": 0.7} if offsets else content.unknown
    further = model.on_mesh.further
    assert set(further) == set(unknown)
    found = np.asarray(read(model, np.append(phi, [unknown[name] for name in further])))
    expected = plain_readings(mesh, rows, phi, location, known, content.numbers)
    expected += np.where(is_off, 0.7, 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    # Negative control: each condition, and what is known, is seen.
    for key in content.numbers.keys() - {"dirichlet"}:
        numbers = {name: value for name, value in content.numbers.items() if name != key}
        others = plain_readings(mesh, rows, phi, location, known, numbers)
        assert np.abs(others + np.where(is_off, 0.7, 0.0) - found).max() > 1e-3, key


# Electrodes ---------------------------------------------------------------------------------------

DRIVEN = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
IMPEDANCE = np.array([0.2, 0.5, 1.0])


def by_groups(mesh):
    return mesh, ["left", "top", "right"]


def by_width(mesh):
    positions = np.full((3, mesh.dim), 0.5)
    positions[[0, 1, 2], [0, 1, 0]] = 0.0, 1.0, 1.0
    width = 0.8
    made, names = mesh_with_electrodes(mesh, positions, width, "v.ohm")
    for name, position in zip(names, positions, strict=True):
        away = np.linalg.norm(mesh.points[mesh.boundary_facets].mean(axis=1) - position, axis=1)
        assert len(made.boundaries[name]) == np.sum(away <= width / 2)
    return made, names


def contacts(place_fn, dim, location, form):
    """Model, its coefficients, and voltages by the plain assembly."""
    mesh, names = place_fn(MESHES[dim])
    phi, number = field_of(mesh, location), IMPEDANCE
    impedance, further = number, []
    if form == "distribution":
        impedance, further = lognormal(median=1.0, factor=2.0), number
    elif form == "number":
        impedance, number = 0.3, np.full(3, 0.3)
    known = {"high": 2.0} if form == "list" else None
    options = {"impedance": impedance, "known": known, "location": location}
    model = electrode_model(mesh, names, DRIVEN, DRIVEN, **options)
    size = mesh.num_nodes
    body = Body(mesh, phi, location, known, num_more=3)
    body.conduct()
    for k, name in enumerate(names):
        body.contact(name, number[k], size + k)
    body.held["first"] = np.array([size]), np.zeros((1, 2))
    potentials = body.solve(np.vstack([np.zeros((size, 2)), DRIVEN.T]))[size:]
    return model, np.append(phi, further), (DRIVEN @ potentials).T.ravel()


def at_points(dim, location, form):
    """On the ground, whose surface is one side."""
    mesh = MESHES[dim]
    phi, at = field_of(mesh, location), np.full((3, dim), 0.4)
    at[:, 0], at[:, 1] = [0.2, 0.5, 0.9], 1.0
    known = {"high": 2.0} if form == "list" else None
    unit = np.eye(3)
    model = point_electrode_model(mesh, at, unit, unit, surface="top", known=known,
                                  location=location)  # fmt: skip
    places = np.array([shapes_at(mesh, each)[0] for each in at])
    near, far = pdist(at).min(), pdist(at).max()
    waves = zip(*wave_numbers(near, 2.0 * far), strict=True) if dim == 2 else [(0.0, np.pi)]
    total = np.zeros((3, 3))
    for wave, weight in waves:
        body = Body(mesh, phi, location, known)
        body.conduct(wave)
        body.goes_on("top", at.mean(axis=0), wave)
        total += weight / np.pi * places @ body.solve(places.T)
    return model, phi, total.ravel()


WAYS = {
    "groups": lambda *body: contacts(by_groups, *body),
    "width": lambda *body: contacts(by_width, *body),
    "surface": at_points,
}


def form_of_impedance(turn):
    known = forms(ElectrodesTable.model_fields["impedance"].annotation)
    return known[turn % len(known)]


@pytest.mark.parametrize(
    ("way", "dim", "location", "form"),
    [
        (way, dim, location, form_of_impedance(turn + place))
        for turn, way in enumerate(WAYS)
        for place, (dim, location) in enumerate(BODIES)
    ],
)
def test_electrodes(way, dim, location, form):
    """Each way to say where they are; of their impedances, each form with some of these."""
    model, coefficients, expected = WAYS[way](dim, location, form)
    found = read(model, coefficients)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    # Negative control: another field has other voltages.
    others = read(model, coefficients + 1e-3)
    assert np.abs(np.asarray(others) - expected).max() > 1e-5 * np.abs(expected).max()
