"""Kinds of readings: exact for solutions that are known, and errors by row and column."""

import jax
import numpy as np
import pytest
from refusals import refused
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.tables.sensors import read_sensors, write_sensors
from invlift.unknowns.distributions import normal

NAN = np.nan


def table(dim, *rows):
    """Rows of a kind, a place, and further columns by name."""
    kinds, points, others = zip(*((*row, {})[:3] for row in rows), strict=True)
    columns = {
        "over": [each.get("over", "") for each in others],
        "radius": [each.get("radius", NAN) for each in others],
        "groups": [each.get("group", "rest") for each in others],
        "minus": [each.get("minus", [NAN] * dim) for each in others],
    }
    points = [[NAN] * dim if each is None else each for each in points]
    return sensors_from_arrays(points, np.zeros(len(rows)), kinds=kinds, **columns)


def linear_readings(dim, *rows):
    """Of u = 1 + a . x, which linear elements have exactly."""
    mesh, slope = box_mesh(dim, 4), np.array([2.0, -1.0, 3.0])[:dim]
    found = locate(mesh, table(dim, *rows))
    field = 1.0 + mesh.points @ slope
    return np.sum(field[found.nodes] * found.weights, axis=1), lambda x: 1.0 + np.dot(x, slope)


def test_readings_of_the_solution_alone():
    dim = 3
    place, other = np.full(dim, 0.4), np.linspace(0.6, 0.8, dim)
    found, u = linear_readings(
        dim,
        ("point", place),
        ("difference", place, {"minus": other}),
        ("average", place, {"radius": 0.3}),
        ("average", None, {"over": "high"}),
        ("average", None, {"over": "top"}),
    )
    low, high = np.full(dim, 0.5), np.full(dim, 0.5)
    low[0], high[1] = 0.75, 1.0  # middles of the half in x and of the side in y
    expected = [u(place), u(place) - u(other), u(place), u(low), u(high)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("dim", "share"), [(2, 1 / 4), (3, 1 / 5)])
def test_a_round_average_is_that_over_the_disc_or_ball(dim, share):
    """The mean of (x - 1/2)^2 over a disc of radius r is r^2 / 4, over a ball r^2 / 5."""
    mesh = box_mesh(dim, {2: 60, 3: 24}[dim])
    found = locate(mesh, table(dim, ("average", np.full(dim, 0.5), {"radius": 0.35})))
    field = (mesh.points[:, 0] - 0.5) ** 2
    mean = np.sum(field[found.nodes] * found.weights)
    error = 0.5 / {2: 60, 3: 24}[dim] ** 2  # of linear interpolation
    assert abs(mean - share * 0.35**2) < error


def test_of_a_disc_only_what_is_inside_counts():
    mesh = box_mesh(2, 8)
    found = locate(mesh, table(2, ("average", [0.0, 0.5], {"radius": 0.3})))
    mean = np.sum(mesh.points[found.nodes] * found.weights[..., None], axis=1)
    np.testing.assert_allclose(mean, [[4 * 0.3 / (3 * np.pi), 0.5]], atol=1e-3)


@pytest.mark.parametrize(("dim", "share"), [(2, 1 / 3), (3, 1 / 4)])
def test_of_a_disc_or_ball_wider_than_the_body_only_its_layer_counts(dim, share):
    """The mean of x^2 where |z| < h is r^2 / 3 or r^2 / 4, but for terms in (h / r)^2 / 3."""
    mesh, radius = box_mesh(dim, {2: 60, 3: 20}[dim]), 0.45
    height = np.append(np.ones(dim - 1), 0.09)
    layer = mesh_from_arrays(mesh.points * height, mesh.cells)
    place = 0.5 * height
    found = locate(layer, table(dim, ("average", place, {"radius": radius})))
    field = (layer.points[:, 0] - 0.5) ** 2
    mean = np.sum(field[found.nodes] * found.weights)
    expected = share * radius**2 * (1 - 0.01 / 3)
    assert abs(mean - expected) < 0.01 * expected + 0.5 / {2: 60, 3: 20}[dim] ** 2


@pytest.mark.parametrize("dim", [2, 3])
def test_of_a_disc_or_ball_far_wider_than_the_body_all_the_body_counts(dim):
    mesh = box_mesh(dim, 2)
    found = locate(
        mesh, table(dim, *(("average", np.full(dim, 0.2), {"radius": r}) for r in (5, 500)))
    )
    mean = np.sum(mesh.points[found.nodes] * found.weights[..., None], axis=1)
    np.testing.assert_allclose(mean, np.full((2, dim), 0.5), atol=2e-3)


# Fluxes -------------------------------------------------------------------------------------------


def test_fluxes_balance_the_source_for_any_field():
    """And are those that a posterior finds of draws of field and solution."""
    mesh = box_mesh(2, 5)
    outside = 4.0 + mesh.points[:, 0]
    conditions = {
        "source": {"low": 3.0},
        "dirichlet": {"left": 1.0, "top": 0.5},
        "neumann": {"right": 0.7},
        "robin": {"bottom": (2.0, outside)},
    }
    sensors = table(2, *(("flux", None, {"over": each}) for each in ("left", "top", "bottom")))
    model = assemble_poisson(mesh, locate(mesh, sensors), location="cells", **conditions)
    phi = np.random.default_rng(1).standard_normal(model.num_coefficients)
    found, expansion = jax.jit(lambda phi: model.expand(phi))(phi)
    left, top, bottom = found = np.asarray(found)
    source = 3.0 * mesh.volumes[mesh.subdomains["low"]].sum()
    np.testing.assert_allclose(found.sum() + source + 0.7, 0.0, atol=1e-11)
    solution = np.asarray(expansion.byproducts["solution"])
    for group, value in (("left", left), ("top", top), ("bottom", bottom)):
        flux = model.on_mesh.boundary_flux(group)
        assert flux.solution == "solution"
        for of_draws in (flux.of_draws(phi[None]), flux.of_draws(phi[None], solution[None])):
            np.testing.assert_allclose(of_draws, value, rtol=1e-11)
    ends = mesh.facets("bottom")
    np.testing.assert_allclose(bottom, np.sum(2.0 * (outside - solution)[ends].mean(1) * 0.2))


# Tables -------------------------------------------------------------------------------------------

TABLE = (
    "kind,x,y,x2,y2,over,radius,value,sigma\n"
    "point,0.2,0.3,,,,,1,0.1\n"
    "difference,0.2,0.3,0.6,0.6,,,2,0.1\n"
    "average,,,,,top,,3,0.1\n"
    "average,0.5,0.5,,,,0.2,3,0.1\n"
    "flux,,,,,left,,4,0.1\n"
    "log_conductivity,0.5,0.4,,,,,5,0.1\n"
)


def of_text(folder, text):
    path = folder / "s.csv"
    path.write_text(text)
    return read_sensors(path, 2)


def test_a_table_of_all_kinds(tmp_path):
    sensors, mesh = of_text(tmp_path, TABLE), box_mesh(2, 3)
    found = locate(mesh, sensors)
    assert set(found.parts) == {"solution", "fluxes", "log_conductivity"}
    np.testing.assert_allclose(found.points[[2, 4]], [[0.5, 1.0], [0.0, 0.5]])
    write_sensors(tmp_path / "again.csv", sensors)
    again = read_sensors(tmp_path / "again.csv", 2)
    for name in ("kinds", "over", "radius", "minus", "points", "values", "sigma"):
        np.testing.assert_array_equal(getattr(again, name), getattr(sensors, name))


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("point,0.2,0.3", "point,0.2,"), ["row 2, column y", "an empty entry"]),
        (("point,0.2,0.3,,,,", "point,0.2,0.3,,,,0.1"), ["row 2, column radius", "kind point"]),
        (("point,0.2,0.3,,,,", "point,0.2,0.3,,,top,"), ["row 2, column over", "average and flux"]),
        (("difference,0.2,0.3,0.6,0.6", "difference,0.2,0.3,,"), ["row 3, column x2", "empty"]),
        (("average,,,,,top", "average,,,,,"), ["row 4, column over", "neither"]),
        (("top", "tip"), ["row 4, column over", "'tip'", "did you mean 'top'?"]),
        (("average,0.5", "average,3.5"), ["row 5", "inside the mesh", "outside"]),
        (("left", "low"), ["row 6, column over", "'low' is a subdomain"]),
    ],
)
def test_mistakes_name_row_and_column(tmp_path, change, parts):
    assert change[0] in TABLE
    with refused(*parts):
        locate(box_mesh(2, 3), of_text(tmp_path, TABLE.replace(*change, 1)))


def test_what_cannot_be_read():
    mesh, sensors = box_mesh(2, 3), table(2, ("flux", None, {"over": "right"}))
    with pytest.raises(InputError, match=r"^flux, right: .*Dirichlet or a Robin condition: left"):
        assemble_poisson(mesh, locate(mesh, sensors), source=1.0, dirichlet={"left": 0.0})
    with pytest.raises(InputError, match=r"^offset, tools: .*the column group.*found rest"):
        locate(mesh, sensors, offsets={"tools": normal(0.0, 1.0)})
    with pytest.raises(InputError, match=r"^sensors, colour: "):
        sensors_from_arrays([[0.0, 0.0]], [1.0], colour=["red"])
    core = table(2, ("point", [0.2, 0.2]), ("log_conductivity", [0.9, 0.5]))
    with pytest.raises(InputError, match=r"^observed, index 1: .*unknown"):
        assemble_poisson(
            mesh, locate(mesh, core), source=1.0, dirichlet={"left": 0.0}, known={"high": 2.0}
        )
