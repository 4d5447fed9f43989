"""Thickness of a plane body, and conductivities that depend on direction, against exact ones."""

import numpy as np
from problem_files import are_same, assert_named, build, readings, write_problem
from refusals import refused
from structured import box_mesh

import invlift
from invlift.fem.readings.sensors import sensors_from_arrays

POINTS = np.array([[0.3, 0.35], [0.5, 0.1], [0.8, 0.6]])


def readings_of(mesh, *groups, **options):
    """Of the solution at POINTS, then fluxes, for a log-conductivity of 0."""
    kinds = ["point"] * len(POINTS) + ["flux"] * len(groups)
    places = np.concatenate([POINTS, np.full((len(groups), 2), np.nan)])
    over = [""] * len(POINTS) + list(groups)
    sensors = sensors_from_arrays(places, np.zeros(len(places)), kinds=kinds, over=over)
    observation = invlift.locate(mesh, sensors)
    model = invlift.assemble_poisson(mesh, observation, **{"source": 0.0} | options)
    return np.asarray(readings(model, np.zeros(mesh.num_nodes)))


def test_a_thickness_that_grows_has_the_solution_of_its_equation():
    """(b u')' = 0 with b = 1 + x: u = log(1 + x) / log 2, and the same flux everywhere.

    Where the solution is refined; on a mesh of 6 cells per side the error is four times as large.
    """
    mesh, exact = box_mesh(2, 6), np.log1p(POINTS[:, 0]) / np.log(2.0)
    options = {"dirichlet": {"left": 0.0, "right": 1.0}, "thickness": 1.0 + mesh.points[:, 0]}
    found = readings_of(mesh, "right", "left", refine_solution=1, **options)
    assert np.abs(found[:3] - exact).max() < 1e-3
    assert abs(found[3] * np.log(2.0) - 1.0) < 2e-3
    assert abs(found[3] + found[4]) < 1e-12


def test_subdomains_of_two_thicknesses_are_in_series():
    """Exact on any mesh: the drops are as one over the thicknesses."""
    slope = 1.0 / (0.5 / 1.0 + 0.5 / 3.0)
    x = POINTS[:, 0]
    exact = np.where(x < 0.5, slope * x, 1.0 - slope / 3.0 * (1.0 - x))
    mesh, held = as_many_cells_as_nodes(), {"left": 0.0, "right": 1.0}
    found = readings_of(mesh, "right", dirichlet=held, thickness={"low": 1.0, "high": 3.0})
    np.testing.assert_allclose(found, [*exact, slope], rtol=1e-12)
    with refused("thickness", "by subdomain", "an array"):
        readings_of(mesh, dirichlet=held, thickness=np.ones(8))


def as_many_cells_as_nodes():
    """Two halves of a square, with two nodes between them inside."""
    points = [[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0], [0.5, 1], [0.5, 0.3], [0.5, 0.6]]
    low = [[0, 4, 6], [0, 6, 7], [0, 7, 3], [7, 5, 3]]
    high = [[4, 1, 6], [6, 1, 7], [1, 2, 7], [7, 2, 5]]
    return invlift.mesh_from_arrays(
        points,
        low + high,
        boundaries={"left": [[3, 0]], "right": [[1, 2]]},
        subdomains={"low": range(4), "high": range(4, 8)},
    )


def test_one_number_changes_what_enters_at_a_point_alone():
    mesh, conditions = box_mesh(2, 4), {"dirichlet": {"left": 1.0}, "source": 2.0}
    conditions |= {"neumann": {"right": 0.3}, "robin": {"top": (0.7, 2.0)}}
    thick = readings_of(mesh, **conditions, point_sources=[((0.5, 0.5), 1.0)], thickness=5.0)
    plain = readings_of(mesh, **conditions, point_sources=[((0.5, 0.5), 0.2)])
    np.testing.assert_allclose(thick, plain, rtol=1e-12)


def test_a_linear_solution_of_a_tensor_is_exact():
    """With the fluxes n . D grad u through three sides."""
    mesh, slope = box_mesh(2, 3), np.array([1.5, -0.7])
    along = np.array([np.cos(np.deg2rad(-140.0)), np.sin(np.deg2rad(-140.0))])
    flow = along * (along @ slope) + (slope - along * (along @ slope)) / 3.0
    conditions = {
        "dirichlet": {"left": mesh.points @ slope},
        "neumann": {"right": flow[0], "top": flow[1], "bottom": -flow[1]},
        "refine_solution": 1,
    }
    found, wrong = (
        readings_of(mesh, **conditions, anisotropy={"ratio": 3.0, "angle": angle})
        for angle in (-140.0, 140.0)
    )
    np.testing.assert_allclose(found, POINTS @ slope, rtol=1e-12)
    assert np.abs(wrong - found).max() > 0.05


def test_one_number_changes_nothing_in_time():
    mesh = box_mesh(2, 4)
    sensors = sensors_from_arrays(POINTS, np.zeros(3), times=[0.02, 0.1, 0.3])
    observation = invlift.locate(mesh, sensors)
    options = {"source": 0.0, "dirichlet": {"left": invlift.steps([[0.0, 1.0]])}, "storage": 1.0}
    found, other, plain = (
        readings(
            invlift.assemble_poisson(mesh, observation, **options, thickness=thickness),
            np.zeros(mesh.num_nodes),
        )
        for thickness in ({"low": 4.0, "high": 4.0}, {"low": 1.0, "high": 4.0}, None)
    )
    np.testing.assert_allclose(found, plain, rtol=1e-9)
    assert np.abs(other - plain).max() > 0.01


def test_what_is_wrong_is_told_by_its_key(tmp_path):
    for keys, parts in (
        ({"pde.thickness": "1 - 2 * x"}, ["[pde] thickness", "positive"]),
        ({"pde.thickness": {"low": 1.0}}, ["[pde] thickness", "name all"]),
        ({"pde.anisotropy": {"ratio": 3.0}}, ["[pde] anisotropy", "angle"]),
    ):
        assert_named(write_problem(tmp_path, keys), parts)


def test_a_problem_file_has_them(tmp_path):
    keys = {"pde.thickness": "1 + x", "pde.anisotropy": {"ratio": 3.0, "angle": 30.0}}
    problem = build(write_problem(tmp_path, keys))
    same = invlift.assemble_poisson(
        problem.mesh,
        invlift.locate(problem.mesh, problem.sensors),
        source=5.0,
        dirichlet={"left": 0.0},
        thickness=1.0 + problem.mesh.points[:, 0],
        anisotropy={"ratio": 3.0, "angle": 30.0},
    )
    assert are_same(problem.model, same)
