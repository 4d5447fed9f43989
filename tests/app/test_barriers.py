"""Barriers, across which the solution jumps, against exact solutions and cracks."""

import jax.numpy as jnp
import numpy as np
import problem_files
import pytest
from problem_files import build, write_problem
from structured import box_mesh

import invlift
from invlift.app.runs.quantities import quantities_of
from invlift.errors import InputError
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.fem.mesh.refinement import refined
from invlift.fem.mesh.splitting import split
from invlift.fem.readings.sensors import sensors_from_arrays

HELD = {"left": 0.0, "right": 1.0}
RESISTANCE = 0.7


def with_wall(dim, num, top=1.0, bottom=0.0):
    """The unit square or cube with a wall at x = 1/2, from y = bottom to top."""
    box = box_mesh(dim, num)
    facets, _, _ = box.distinct_facets
    places = box.points[facets]
    x, y = places[..., 0], places[..., 1]
    is_wall = (np.isclose(x, 0.5) & (bottom - 1e-9 < y) & (y < top + 1e-9)).all(axis=1)
    groups = {**box.boundaries, "wall": facets[is_wall]}
    return mesh_from_arrays(box.points, box.cells, boundaries=groups, subdomains=box.subdomains)


def forward(mesh, points, groups=(), kind="point", **options):
    """The forward map: readings at points, then fluxes."""
    places = np.concatenate([points, np.full((len(groups), mesh.dim), np.nan)])
    kinds = [kind] * len(points) + ["flux"] * len(groups)
    over = [""] * len(points) + list(groups)
    sensors = sensors_from_arrays(places, np.zeros(len(places)), kinds=kinds, over=over)
    observation = invlift.locate(mesh, sensors)
    return invlift.assemble_poisson(
        mesh, observation, **{"source": 0.0, "dirichlet": HELD} | options
    )


def readings(model, *further):
    """Of a conductivity of 1, and further coefficients."""
    num = model.num_coefficients - len(further)
    return np.asarray(problem_files.readings(model, jnp.asarray([*np.zeros(num), *further])))


def bar(x, resistance=RESISTANCE):
    """A bar of conductivity 1 with a jump in its middle, and what flows through it."""
    flow = 1.0 / (1.0 + resistance)
    return flow * (x + resistance * (x > 0.5)), flow


def test_a_wall_across_a_bar():
    """Exact on any mesh; without the wall the solution does not jump."""
    mesh = with_wall(3, 2)
    points = np.array([[0.2, 0.3, 0.4], [0.49, 0.6, 0.7], [0.51, 0.6, 0.7], [0.9, 0.1, 0.2]])
    options = {"groups": ("right", "left"), "refine_solution": 1, "location": "cells"}
    found = readings(forward(mesh, points, barriers={"wall": RESISTANCE}, **options))
    exact, flow = bar(points[:, 0])
    np.testing.assert_allclose(found, [*exact, flow, -flow], atol=1e-12)
    plain = readings(forward(mesh, points, **options))
    np.testing.assert_allclose(plain[:4], points[:, 0], atol=1e-12)


def test_a_wall_between_two_thicknesses_has_their_mean():
    mesh, points = with_wall(2, 4), np.array([[0.25, 0.4]])
    options = {"groups": ("right",), "thickness": {"low": 1.0, "high": 3.0}}
    found = readings(forward(mesh, points, barriers={"wall": RESISTANCE}, **options))
    flow = 1.0 / (0.5 + 0.5 / 3.0 + RESISTANCE / 2.0)
    np.testing.assert_allclose(found, [0.25 * flow, flow], rtol=1e-12)


def test_thickness_and_a_part_held_by_the_wall_alone():
    """The right half is held by nothing but what flows through the wall."""
    mesh, points = with_wall(2, 4), np.array([[0.25, 0.4], [0.75, 0.4]])
    options = {"dirichlet": {"left": 2.0}, "source": {"high": 4.0}, "groups": ("left",)}
    found = readings(forward(mesh, points, barriers={"wall": 3.0}, thickness=5.0, **options))
    jump = 3.0 * 2.0  # what flows through each part of the wall's height: 4 over half the length
    assert found[2] == pytest.approx(-2.0 * 5.0)
    assert found[0] == pytest.approx(2.0 + 2.0 * 0.25, abs=1e-3)
    # u = 3 + jump + 2 (x - 1/2) - 2 (x - 1/2)^2, up to the error of the mesh.
    assert found[1] == pytest.approx(3.0 + jump + 0.5 - 0.125, abs=0.05)


def test_a_wall_that_ends_inside_the_body():
    """Very tight it is a crack, of a mesh with nodes of its own there; very leaky it is none."""
    mesh = with_wall(2, 4, top=0.5)
    options = {"dirichlet": HELD, "source": 1.0}
    points = np.array([[0.45, 0.1], [0.55, 0.1], [0.45, 0.9]])
    cut = split(mesh, ["wall"], "barriers").mesh
    groups = {name: cut.boundaries[name] for name in box_mesh(2, 2).boundaries}
    crack = mesh_from_arrays(cut.points, cut.cells, boundaries=groups)
    assert crack.num_nodes > mesh.num_nodes
    tight = readings(forward(mesh, points, barriers={"wall": 1e9}, **options))
    np.testing.assert_allclose(tight, readings(forward(crack, points, **options)), rtol=1e-7)
    leaky = readings(forward(mesh, points, barriers={"wall": 1e-9}, **options))
    np.testing.assert_allclose(leaky, readings(forward(mesh, points, **options)), rtol=1e-7)
    assert np.abs(tight - leaky).max() > 0.02
    unknown = {"wall": invlift.lognormal(median=0.5, factor=3)}  # a coefficient more
    model = forward(mesh, points, barriers=unknown, **options)
    assert list(model.on_mesh.further) == ["barrier_wall"]
    np.testing.assert_allclose(readings(model, 1e9), tight, rtol=1e-7)


def test_copies_are_of_the_nodes_between_the_facets():
    """On the outer boundary nodes are doubled, at an end inside the body they are not."""
    for top, num in ((1.0, 5), (0.5, 2)):
        mesh = with_wall(2, 4, top)
        found = split(mesh, ["wall"], "barriers")
        assert found.mesh.num_nodes - mesh.num_nodes == num
        one, other = found.mesh.points[found.mesh.sides["wall"]]
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(found.mesh.points, found.nodes @ mesh.points)
        np.testing.assert_allclose(found.mesh.volumes, mesh.volumes)
        np.testing.assert_array_equal(found.mesh.facets("left"), mesh.facets("left"))
        assert len(found.mesh.facets("boundary")) == len(mesh.boundary_facets)
        assert found.mesh.components.max() == 0
    twice = split(refined(mesh).mesh, ["wall"], "barriers").after(refined(mesh))
    np.testing.assert_allclose(twice.mesh.points, twice.nodes @ mesh.points, atol=1e-15)
    corners = twice.mesh.cells.ravel()[twice.corners]
    np.testing.assert_array_equal(twice.mesh.points[corners], mesh.points[mesh.cells])


def test_a_field_in_time_behind_a_wall():
    """Long after the change the solution is that of the steady problem."""
    mesh, points = with_wall(2, 4), np.array([[0.25, 0.4], [0.75, 0.4]])
    sensors = sensors_from_arrays(points, np.zeros(2), times=[200.0, 200.0])
    held = {"left": 0.0, "right": invlift.steps([[0.0, 1.0]])}
    model = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=0.0, dirichlet=held, storage=1.0,
        barriers={"wall": RESISTANCE},
    )  # fmt: skip
    found = problem_files.readings(model, jnp.zeros(mesh.num_nodes))
    np.testing.assert_allclose(found, bar(points[:, 0])[0], atol=1e-3)


def test_barriers_of_a_problem_file(tmp_path):
    law = {"distribution": "lognormal", "median": 0.5, "factor": 3.0}
    path = write_problem(tmp_path, {"pde.barriers": {"wall": law}}, mesh=with_wall(2, 4))
    problem = build(path)
    assert "barrier_wall" in problem.shapes_of_draws()
    # A node on the wall has the solution of one side, so that nothing is known at points near it.
    by_name = {each.name: each for each in quantities_of(problem)}
    assert by_name["log_conductivity"].is_linear
    assert not by_name["solution"].is_linear
    wall, on_wall = {"pde.barriers": {"wall": 1.0}}, {"place": [0.5, 0.3], "strength": 1.0}
    mean = "x,y,kind,over,value\n,,average,wall,2.1\n"
    for changes, files, part in (
        ({"pde.barriers": {"fault": 0.5}}, {}, r"\[pde\] barriers.fault: .*'wall'"),
        ({"pde.barriers": {"wall": -1.0}}, {}, r"\[pde\] barriers"),
        ({"pde.barriers": {"top": 1.0}}, {}, "4 of 4 on its outer boundary"),
        (wall, {"mesh": with_wall(2, 4, 0.5, 0.25)}, "a group with a node between its facets"),
        (wall | {"pde.lines": {"wall": 1.0}}, {}, "a group that is no line"),
        (wall | {"pde.neumann": {"wall": 1.0}}, {}, "neumann.wall: .* beside the bar"),
        (wall, {"sensors": "x,y,value\n0.5,0.4,2.1\n"}, "row 2, column x: .* beside the barrier"),
        (wall, {"sensors": mean}, "row 2, column over: expected a group beside the barrier"),
        (wall | {"pde.point_source": [on_wall]}, {}, "point_source.*a place beside the barrier"),
    ):
        with pytest.raises(InputError, match=part):
            build(write_problem(tmp_path, changes, **{"mesh": with_wall(2, 4)} | files))
