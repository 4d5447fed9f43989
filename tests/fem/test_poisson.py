"""The forward map: exact solutions, an independent assembly, and derivatives of every kind."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.linalg
import skfem
from skfem.helpers import dot, grad
from structured import box_mesh, interior_points

from invlift.errors import InputError
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.fem.time.schedules import steps

readings = jax.jit(lambda forward, phi: forward(phi))
linearisation = jax.jit(lambda forward, phi: forward.linearise(phi))


@jax.jit
def readings_and_solution(forward, phi):
    value, expansion = forward.expand(phi)
    return value, expansion.byproducts["solution"]


readings_and_jacobian = jax.jit(lambda forward, phi: forward.value_and_jacobian(phi))


def observe(mesh, points):
    return locate(mesh, sensors_from_arrays(points, np.zeros(len(points))))


# --- convergence to a solution known in advance -------------------------------------------------
#
# u = sin(x) + (1 - x^2 b) s(y, z) and conductivity exp(phi), phi = x^2 / 2 + sin(pi x) g(y, z) / 2.
# At x = 0: phi = 0 and du/dx = 1, a constant flux of -1 into the body (the normal is -x).
# At x = 1: phi = 1/2, a constant, and exp(1/2) du/dx = coefficient (ambient - u) with the constants
# below for any s.  The other sides hold u itself, which is not constant there.
B = 0.4
EDGE = np.exp(0.5)
COEFFICIENT = 2 * B * EDGE / (1 - B)
AMBIENT = np.sin(1.0) + EDGE * np.cos(1.0) / COEFFICIENT


def exact_phi(x):
    return 0.5 * x[0] ** 2 + 0.5 * jnp.sin(jnp.pi * x[0]) * jnp.cos(2.0 * jnp.sum(x[1:]))


def exact_solution(x):
    return jnp.sin(x[0]) + (1 - B * x[0] ** 2) * jnp.sin(1.0 + 2.0 * x[1]) * jnp.exp(
        0.5 * jnp.sum(x[2:])
    )


def exact_source(x):
    flux = lambda x: jnp.exp(exact_phi(x)) * jax.grad(exact_solution)(x)  # noqa: E731
    return -jnp.trace(jax.jacfwd(flux)(x))


at_many = cache(lambda fn: jax.jit(jax.vmap(fn)))


def at(fn, points):
    """Values of fn at points (k, dim), padded to one shape: each shape would compile anew."""
    padded = np.zeros((6000, points.shape[1]))
    padded[: len(points)] = points
    return np.asarray(at_many(fn)(padded))[: len(points)]


def manufactured(dim, num, location="nodes", **changes):
    """The forward map on a mesh, the coefficients phi and 60 sensors."""
    mesh = box_mesh(dim, num)
    points = interior_points(dim, 60, seed=7)
    held = at(exact_solution, mesh.points)
    settings = {
        "source": at(exact_source, mesh.points),
        "dirichlet": {
            side: held for side in ("bottom", "top", "front", "back") if side in mesh.boundaries
        },
        "neumann": {"left": -1.0},
        "robin": {"right": (COEFFICIENT, AMBIENT)},
    } | changes
    forward = assemble_poisson(mesh, observe(mesh, points), location=location, **settings)
    places = mesh.points if location == "nodes" else mesh.points[mesh.cells].mean(axis=1)
    return mesh, points, forward, jnp.asarray(at(exact_phi, places))


def convergence_rates(dim, sizes, location="nodes", **changes):
    """Fitted rates of the root mean square error at the free nodes and at the sensors."""
    errors = []
    for num in sizes:
        mesh, points, forward, phi = manufactured(dim, num, location, **changes)
        value, solution = readings_and_solution(forward, phi)
        at_nodes = (solution - at(exact_solution, mesh.points))[forward.free]
        at_sensors = value - at(exact_solution, points)
        errors.append([np.sqrt(np.mean(e**2)) for e in (at_nodes, at_sensors)])
    return -np.polyfit(np.log(sizes), np.log(errors), 1)[0], np.array(errors)


def test_second_order_convergence():
    rates, errors = convergence_rates(2, (8, 16))
    assert np.all((rates > 1.8) & (rates < 2.3)), (rates, errors)
    assert np.all(errors[-1] < 5e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"neumann": {"left": -1.03}},
        {"robin": {"right": (COEFFICIENT, 1.02 * AMBIENT)}},
        {"robin": {"right": (1.2 * COEFFICIENT, AMBIENT)}},
    ],
    ids=["flux", "ambient", "coefficient"],
)
def test_a_slightly_wrong_condition_does_not_converge(changes):
    """Negative control: wrong data in one condition are far from second order."""
    rates, _ = convergence_rates(2, (8, 16), **changes)
    assert np.all(rates < 1.5)


# --- solutions that linear elements hold exactly ------------------------------------------------


def test_linear_solutions_are_exact_anywhere():
    """u = 1 + 2x - y + 3z under constant conductivity 2.5, with all three conditions."""
    dim = 3
    mesh = box_mesh(dim, 3)
    slope = np.array([2.0, -1.0, 3.0])[:dim]
    nodal = 1.0 + mesh.points @ slope
    # sensors inside, on a node, on facets, in corners
    points = np.concatenate(
        [interior_points(dim, 20), np.eye(dim), np.full((1, dim), 1 / 3), np.zeros((1, dim))]
    )
    forward = assemble_poisson(
        mesh,
        observe(mesh, points),
        source=0.0,
        # on the right side u varies, but y is held on most of its facets' edges all the same:
        # a flux there, the solution itself on the other sides
        dirichlet={side: nodal for side in mesh.boundaries if side not in ("left", "right")},
        neumann={"right": 2.5 * 2.0},
        robin={"left": (1e-9, 1.0 - 2.5 * 2.0 / 1e-9)},
    )
    phi = np.full(mesh.num_nodes, np.log(2.5))
    expected = 1.0 + points @ slope
    np.testing.assert_allclose(readings(forward, phi), expected, rtol=0, atol=1e-7)
    held = assemble_poisson(mesh, observe(mesh, points), source=0.0, dirichlet={"boundary": nodal})
    value = readings(held, phi)
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-13 * 10)
    # negative control: the nearest node is a far worse place to read
    nearest = np.argmin(np.linalg.norm(points[:, None] - mesh.points, axis=2), axis=1)
    assert np.abs(nodal[nearest] - expected).max() > 0.1


def test_a_body_at_ambient_values_that_vary_stays_there():
    """Exchange of which coefficient and ambient value are fields, with u = 1 + y outside."""
    mesh = box_mesh(2, 2)
    x, height = mesh.points.T
    outside = np.where(x < 1.0, np.nan, 1.0 + height)  # there alone is it looked at
    conditions = {
        "dirichlet": {"left": np.where(x > 0.0, np.nan, 1.0 + height)},
        "neumann": {"top": np.where(height < 1.0, np.nan, 1.0), "bottom": -1.0},
        "robin": {"right": (1.0 + 100.0 * height, outside)},
    }
    points = np.array([[1.0, 0.0], [1.0, 0.25], [0.4, 0.3]])
    forward = assemble_poisson(mesh, observe(mesh, points), source=0.0, **conditions)
    found = readings(forward, jnp.zeros(mesh.num_nodes))
    np.testing.assert_allclose(found, 1.0 + points[:, 1], rtol=1e-12)


# --- equality with a plain assembly -------------------------------------------------------------


def reference_readings(mesh, points, phi, *, source, dirichlet, neumann, robin, location):
    """The same equation assembled and solved by scikit-fem and SuperLU, sharing no code."""
    kind, element, constant = (
        (skfem.MeshTri, skfem.ElementTriP1(), skfem.ElementTriP0())
        if mesh.dim == 2
        else (skfem.MeshTet, skfem.ElementTetP1(), skfem.ElementTetP0())
    )
    grid = kind(np.array(mesh.points.T, order="C"), np.array(mesh.cells.T, order="C"))
    sides = {"left": (0, 0.0), "right": (0, 1.0), "bottom": (1, 0.0), "top": (1, 1.0)}
    if mesh.dim == 3:
        sides |= {"front": (2, 0.0), "back": (2, 1.0)}
    basis = skfem.Basis(grid, element, intorder=2)
    of_phi = basis if location == "nodes" else basis.with_element(constant)
    of_source = basis.with_element(constant) if np.shape(source) == (mesh.num_cells,) else basis
    source = np.broadcast_to(source, of_source.N)

    @skfem.BilinearForm
    def stiffness(u, v, w):
        return np.exp(w.phi) * dot(grad(u), grad(v))

    @skfem.LinearForm
    def load(v, w):
        return w.source * v

    matrix = stiffness.assemble(basis, phi=of_phi.interpolate(np.asarray(phi)))
    rhs = load.assemble(basis, source=of_source.interpolate(source))

    def on_side(side):
        axis, place = sides[side]
        facets = grid.facets_satisfying(lambda x: np.isclose(x[axis], place))
        return skfem.FacetBasis(grid, element, facets=facets)

    for side, flux in neumann.items():
        rhs += skfem.LinearForm(lambda v, w, g=flux: g * v).assemble(on_side(side))
    for side, (coefficient, ambient) in robin.items():
        here = on_side(side)
        matrix += skfem.BilinearForm(lambda u, v, w, c=coefficient: c * u * v).assemble(here)
        rhs += skfem.LinearForm(lambda v, w, g=coefficient * ambient: g * v).assemble(here)
    solution, held = np.zeros(mesh.num_nodes), np.zeros(mesh.num_nodes, dtype=bool)
    for side, value in dirichlet.items():
        axis, place = sides[side]
        on = np.isclose(mesh.points[:, axis], place)
        held |= on
        solution[on] = np.broadcast_to(value, mesh.num_nodes)[on]
    free = np.flatnonzero(~held)
    matrix = matrix.tocsc()
    rhs = (rhs - matrix @ solution)[free]
    solution[free] = scipy.sparse.linalg.spsolve(matrix[free][:, free], rhs)
    return basis.probes(points.T) @ solution


CONDITIONS = {
    "dirichlet": {"left": "field"},
    "neumann": {"bottom": 1.5},
    "robin": {"right": (2.0, 5.0), "top": (0.3, -2.0)},
}


def small_problem(dim, location, num=None, num_sensors=5):
    """A forward map with a varying source, a random phi and all that made them."""
    mesh = box_mesh(dim, num or {2: 5, 3: 3}[dim])
    rng = np.random.default_rng(11)
    field = 1.0 + mesh.points @ np.arange(1.0, dim + 1.0) ** 2
    settings = {key: dict(value) for key, value in CONDITIONS.items()}
    settings["dirichlet"]["left"] = field
    settings |= {
        "source": 5.0 * rng.standard_normal(mesh.num_nodes if dim == 2 else mesh.num_cells),
        "location": location,
    }
    points = interior_points(dim, num_sensors, seed=12)
    forward = assemble_poisson(mesh, observe(mesh, points), **settings)
    size = mesh.num_nodes if location == "nodes" else mesh.num_cells
    return mesh, points, settings, forward, rng.standard_normal(size)


@pytest.mark.parametrize(("dim", "location"), [(2, "nodes"), (3, "cells")])
def test_equals_a_plain_assembly(dim, location):
    mesh, points, settings, forward, phi = small_problem(dim, location, {2: 5, 3: 2}[dim], 20)
    expected = reference_readings(mesh, points, phi, **settings)
    value = readings(forward, phi)
    np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())
    # negative control: one coefficient of phi, changed a little, is seen
    changed = readings(forward, phi + 1e-3 * (np.arange(len(phi)) == len(phi) // 2))
    assert np.abs(changed - expected).max() > 1e-7 * np.abs(expected).max()


def test_sources_per_subdomain_at_nodes_and_in_cells():
    mesh = box_mesh(2, 6)
    observation = observe(mesh, interior_points(2, 8))
    phi = jnp.asarray(np.random.default_rng(1).standard_normal(mesh.num_nodes))
    held = {"boundary": 0.0}

    def value(source):
        return np.asarray(
            readings(assemble_poisson(mesh, observation, source=source, dirichlet=held), phi)
        )

    in_cells = np.zeros(mesh.num_cells)
    in_cells[mesh.subdomains["high"]] = 3.0
    per_subdomain = value({"high": 3.0})
    np.testing.assert_allclose(per_subdomain, value(in_cells), rtol=1e-13)
    assert np.abs(per_subdomain - value({"low": 3.0})).max() > 0.1 * np.abs(per_subdomain).max()
    np.testing.assert_allclose(value({"high": 3.0, "low": 3.0}), value(3.0), rtol=1e-13)
    np.testing.assert_allclose(value(np.full(mesh.num_nodes, 3.0)), value(3.0), rtol=1e-12)
    np.testing.assert_allclose(
        value({"low": 1.0, "high": -2.0}),
        value({"low": 1.0}) - 2.0 / 3.0 * per_subdomain,
        rtol=1e-11,
        atol=1e-13,
    )


def test_a_mesh_with_as_many_cells_as_nodes():
    """An array could be of either; a name, an expression and numbers by subdomain say which."""
    corners, inside = [[0, 0], [1, 0], [1, 1], [0, 1]], [[0.35, 0.4], [0.6, 0.7]]
    points = np.array(corners + inside, dtype=float)
    cells = scipy.spatial.Delaunay(points).simplices
    numbers = np.arange(1.0, 7.0)
    subdomains = {f"cell_{k}": np.array([k]) for k in range(6)}
    fields = {"cell_fields": {"own": numbers}, "point_fields": {"nodal": numbers}}
    mesh = mesh_from_arrays(points, cells, subdomains=subdomains, name="few", **fields)
    assert mesh.num_cells == mesh.num_nodes
    observation, held = observe(mesh, points[4:]), {"boundary": 0.0}

    def load(source, times=1):
        options = {"source": source, "dirichlet": held, "refine_solution": times}
        model = assemble_poisson(mesh, observation, **options)
        return np.asarray((model.model.model if times else model).inputs.load)

    by_cell = {name: numbers[cells[0]] for name, cells in subdomains.items()}
    for times in (0, 1):
        np.testing.assert_allclose(load("own", times), load(by_cell, times), rtol=1e-13)
        assert np.abs(load("nodal", times) - load("own", times)).max() > 0.01
        np.testing.assert_allclose(load("1 + 0 * x", times), load(1.0, times), rtol=1e-13)
    match = r"^source: .*a field of the mesh by its name, .*as many cells as nodes"
    refused(match, mesh, source=numbers, dirichlet=held)
    refused(match.replace("source", "thickness"), mesh, thickness=numbers, dirichlet=held)


def test_linearisation_brings_the_solution_along():
    mesh, points, settings, forward, phi = small_problem(2, "nodes")
    (value, jacobian), expansion = linearisation(forward, phi)
    byproducts = expansion.byproducts
    assert list(byproducts) == ["solution"]
    observation = observe(mesh, points)
    solution = np.asarray(byproducts["solution"])
    observed = np.sum(solution[observation.nodes] * observation.weights, axis=1)
    np.testing.assert_allclose(observed, value, rtol=1e-13)
    np.testing.assert_allclose(value, readings(forward, phi), rtol=1e-13)
    on_left = mesh.points[:, 0] == 0.0
    np.testing.assert_array_equal(solution[on_left], settings["dirichlet"]["left"][on_left])
    assert jacobian.shape == (len(value), len(phi))


# --- derivatives: those of higher orders are in the contract of models ---------------------------


class Case(NamedTuple):
    forward: object
    phi: jax.Array
    value: np.ndarray
    jacobian: np.ndarray


@pytest.fixture(scope="module")
def case():
    *_, forward, phi = small_problem(3, "cells", num=2)
    return Case(forward, phi, *map(np.asarray, readings_and_jacobian(forward, phi)))


@jax.jit
def by_columns_and_rows(forward, phi):
    return jax.jacfwd(lambda phi: forward(phi))(phi), jax.jacrev(lambda phi: forward(phi))(phi)


def test_jacobian_is_that_of_automatic_differentiation(case):
    np.testing.assert_allclose(case.value, readings(case.forward, case.phi), rtol=1e-12)
    assert case.jacobian.shape == (len(case.value), len(case.phi))
    tolerance = 1e-12 * np.abs(case.jacobian).max()
    for expected in by_columns_and_rows(case.forward, case.phi):
        np.testing.assert_allclose(case.jacobian, expected, rtol=0, atol=tolerance)


def test_vmap_gives_the_same_as_a_loop(case):
    many = np.stack([case.phi, 0.5 * case.phi, -case.phi])
    mapped = jax.jit(jax.vmap(readings_and_jacobian, in_axes=(None, 0)))
    values, jacobians = map(np.asarray, mapped(case.forward, many))
    for k in range(3):
        value, jacobian = readings_and_jacobian(case.forward, many[k])
        np.testing.assert_allclose(values[k], value, rtol=1e-11)
        tolerance = 1e-12 * np.abs(jacobian).max()
        np.testing.assert_allclose(jacobians[k], jacobian, rtol=0, atol=tolerance)
    assert np.abs(values[0] - values[1]).max() > 1e-3


# --- trouble ------------------------------------------------------------------------------------


def test_overflow_gives_nan_and_no_exception(case):
    phi = case.phi.copy()
    for value in (2000.0, np.nan, np.inf, 8.0):  # the last for a negative control
        phi[len(phi) // 2] = value
        for found in readings_and_jacobian(case.forward, phi):
            assert (np.isfinite(found) if value == 8.0 else np.isnan(found)).all()


def test_coefficients_of_another_mesh_are_refused():
    mesh = box_mesh(2, 3)
    place = observe(mesh, mesh.points[mesh.cells[:1]].mean(axis=1))
    forward = assemble_poisson(mesh, place, source=1.0, dirichlet={"left": 0.0})
    for evaluate in (forward, forward.linearise, forward.value_and_jacobian, forward.expand):
        jax.eval_shape(evaluate, jnp.zeros(forward.num_coefficients))
        with pytest.raises(InputError, match=r"expected 16 values.*found shape \(18,\)") as caught:
            evaluate(jnp.zeros(mesh.num_cells))
        assert "\n" not in str(caught.value)


def refused(match, mesh=None, **changes):
    mesh = mesh or box_mesh(2, 3)
    settings = {"source": 1.0, "dirichlet": {"left": 0.0}} | changes
    with pytest.raises(InputError, match=match) as caught:
        assemble_poisson(mesh, observe(mesh, mesh.points[mesh.cells[:1]].mean(axis=1)), **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        (r"^boundary conditions: .*a Dirichlet or Robin condition, found none", {"dirichlet": {}}),
        (r"'left'.*'top'.*found 'botom'; did you mean 'bottom'", {"dirichlet": {"botom": 0.0}}),
        (r"boundary group.*found 'low'; 'low' is a subdomain", {"neumann": {"low": 1.0}}),
        (r"'boundary' and 'left' overlapping", {"dirichlet": {"boundary": 0.0, "left": 1.0}}),
        (r"^source, low: expected a finite number", {"source": {"low": np.inf}}),
        (
            r"^source: expected finite values, found inf at \(",
            {"source": np.array([1.0, 0, np.inf] + 13 * [0.0])},
        ),
        (r"^source: expected a number, an expression .*found 'heat'", {"source": "heat"}),
        (r"^robin, top, coefficient: .*positive.*found 0", {"robin": {"top": (0.0, 1.0)}}),
        (r"^argument location: .*found 'edges'", {"location": "edges"}),
        (r"^robin, top: .*a pair \(coefficient, ambient\), found 2.0", {"robin": {"top": 2.0}}),
        (r"^point_source, 2: .*a pair .*found 1.0", {"point_sources": ([0.5, 0.5], 1.0)}),
        (r"^point_source, 1: .*2 coordinates, found 'here'", {"point_sources": [("here", 1.0)]}),
        (r"^point_sources: .*a list of pairs .*found 5", {"point_sources": 5}),
        (r"^dirichlet: expected values by names, found \['left'\]", {"dirichlet": ["left"]}),
        (r"^lines: expected values by names, found 1.0", {"lines": 1.0}),
        (r"^anisotropy: expected values by names, found 2.0", {"anisotropy": 2.0}),
        (r"^conductivity: expected values by names, found 0.0", {"known": 0.0}),
        (r"^source: expected numbers, found \['a'\]", {"source": ["a"]}),
        (r"^neumann, top: expected 16 nodal values, found \['a'\]", {"neumann": {"top": ["a"]}}),
        (r"^source: expected 16 values .*shape \(2,\)", {"source": (1.0, 2.0)}),
    ],
)
def test_bad_input_is_named(match, changes):
    refused(match, **changes)


def test_numbers_and_fields_are_those_of_jax_too():
    """And sequences of numbers, which a refined mesh interpolates."""
    mesh = box_mesh(2, 2)
    number, field = jnp.asarray(2.0), tuple(1.0 + mesh.points[:, 1])
    given = {"source": number, "dirichlet": {"left": field}, "robin": {"top": (number, number)}}
    plain = {"source": 2.0, "dirichlet": {"left": np.array(field)}, "robin": {"top": (2.0, 2.0)}}
    observation = observe(mesh, mesh.points[4:5])
    options = {"refine_solution": 1}
    one, other = (assemble_poisson(mesh, observation, **each, **options) for each in (given, plain))
    for name in ("load", "held"):
        of_one, of_other = (getattr(each.model.model.inputs, name) for each in (one, other))
        np.testing.assert_array_equal(of_one, of_other)


def two_parts():
    one = box_mesh(2, 2)
    return mesh_from_arrays(
        np.concatenate([one.points, one.points + np.array([3.0, 0.0])]),
        np.concatenate([one.cells, one.cells + one.num_nodes]),
        boundaries={"first": one.boundaries["left"], "second": one.boundaries["left"] + 9},
        name="pair",
    )


def test_every_part_must_be_held():
    mesh = two_parts()
    refused(r"^boundary conditions: .*1 of 2 parts", mesh=mesh, dirichlet={"first": 0.0})
    observation = observe(mesh, np.array([[0.3, 0.4], [3.3, 0.4]]))
    both = {"dirichlet": {"first": 1.0}, "robin": {"second": (1.0, 7.0)}}
    forward = assemble_poisson(mesh, observation, source=0.0, **both)
    np.testing.assert_allclose(readings(forward, jnp.zeros(18)), [1.0, 7.0], rtol=1e-12)


def test_a_mesh_held_everywhere_is_refused():
    mesh = box_mesh(2, 1)
    refused(r"^dirichlet: .*none left free", mesh=mesh, dirichlet={"boundary": 0.0})


def test_sources_of_overlapping_subdomains_add_up():
    mesh = box_mesh(2, 6)
    mesh = replace(mesh, subdomains=mesh.subdomains | {"body": np.arange(mesh.num_cells)})
    at_times = locate(mesh, sensors_from_arrays(np.full((1, 2), 0.5), np.zeros(1), times=[1.0]))
    observation, phi = observe(mesh, interior_points(2, 8)), jnp.zeros(mesh.num_nodes)

    def value(source):
        forward = assemble_poisson(mesh, observation, source=source, dirichlet={"boundary": 0.0})
        return np.asarray(readings(forward, phi))

    expected = value({"low": 1.0, "high": 3.0})
    np.testing.assert_allclose(value({"body": 1.0, "high": 2.0}), expected, rtol=1e-12)
    np.testing.assert_allclose(value({"high": 2.0, "body": 1.0}), expected, rtol=1e-12)
    # Other numbers of overlapping subdomains contradict each other.
    for key in ("thickness", "storage", "known"):
        held = steps([[0.0, 1.0]]) if key == "storage" else 1.0
        options = {key: {"body": 1.0, "high": 2.0}}
        with pytest.raises(InputError, match="high: expected a subdomain that no other overlaps"):
            assemble_poisson(mesh, at_times, source=0.0, dirichlet={"left": held}, **options)
