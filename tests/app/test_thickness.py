"""Thickness of a plane body, and conductivities that depend on direction, against exact ones."""

import numpy as np
import pytest
from problem_files import build, write_problem
from refusals import refused
from structured import box_mesh

import invlift
from invlift.fem.readings.sensors import sensors_from_arrays

POINTS = np.array([[0.3, 0.35], [0.5, 0.1], [0.8, 0.6]])


def readings_of(mesh, *groups, points=POINTS, **options):
    """Of the solution at points, then fluxes, for a log-conductivity of 0."""
    observation = invlift.locate(mesh, sensors_from_arrays(points, np.zeros(len(points))))
    num = len(points)
    if groups:
        kinds = ["point"] * num + ["flux"] * len(groups)
        places = np.concatenate([points, np.full((len(groups), 2), np.nan)])
        over = [""] * num + list(groups)
        sensors = sensors_from_arrays(places, np.zeros(len(places)), kinds=kinds, over=over)
        observation = invlift.locate(mesh, sensors)
    model = invlift.assemble_poisson(mesh, observation, **{"source": 0.0} | options)
    return np.asarray(model(np.zeros(mesh.num_nodes)))


def test_a_thickness_that_grows_has_the_solution_of_its_equation():
    """(b u')' = 0 with b = 1 + x: u = log(1 + x) / log 2, and the same flux everywhere."""
    exact, errors = np.log1p(POINTS[:, 0]) / np.log(2.0), []
    for num in (6, 12):
        mesh = box_mesh(2, num)
        held = {"left": 0.0, "right": 1.0}
        thickness = 1.0 + mesh.points[:, 0]
        found = readings_of(mesh, "right", "left", dirichlet=held, thickness=thickness)
        errors.append(np.abs(found[:3] - exact).max())
        assert abs(found[3] * np.log(2.0) - 1.0) < 0.3 / num**2
        assert abs(found[3] + found[4]) < 1e-12
    assert errors[1] < 1e-3
    plain = readings_of(box_mesh(2, 6), dirichlet=held)
    assert np.abs(plain - exact).max() > 0.05  # without it


def test_subdomains_of_two_thicknesses_are_in_series():
    """Exact on any mesh: the drops are as one over the thicknesses."""
    slope = 1.0 / (0.5 / 1.0 + 0.5 / 3.0)
    x = POINTS[:, 0]
    exact = np.where(x < 0.5, slope * x, 1.0 - slope / 3.0 * (1.0 - x))
    for mesh in (box_mesh(2, 4), as_many_cells_as_nodes()):
        held, options = {"left": 0.0, "right": 1.0}, {"thickness": {"low": 1.0, "high": 3.0}}
        found = readings_of(mesh, "right", dirichlet=held, **options)
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
    plain, thick = (readings_of(mesh, **conditions, thickness=b) for b in (None, 5.0))
    np.testing.assert_allclose(thick, plain, rtol=1e-12)
    well = {"point_sources": [((0.5, 0.5), 1.0)]}
    with_well = readings_of(mesh, **conditions, **well, thickness=5.0)
    expected = readings_of(mesh, **conditions, point_sources=[((0.5, 0.5), 0.2)])
    np.testing.assert_allclose(with_well, expected, rtol=1e-12)


@pytest.mark.parametrize("angle", [30.0, -140.0])
def test_a_linear_solution_of_a_tensor_is_exact(angle):
    """With the fluxes n . D grad u through three sides."""
    mesh, slope = box_mesh(2, 3), np.array([1.5, -0.7])
    along = np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])
    flow = along * (along @ slope) + (slope - along * (along @ slope)) / 3.0
    conditions = {
        "dirichlet": {"left": mesh.points @ slope},
        "neumann": {"right": flow[0], "top": flow[1], "bottom": -flow[1]},
    }
    found = readings_of(mesh, **conditions, anisotropy={"ratio": 3.0, "angle": angle})
    np.testing.assert_allclose(found, POINTS @ slope, rtol=1e-12)
    if angle == 30.0:
        wrong = readings_of(mesh, **conditions, anisotropy={"ratio": 3.0, "angle": -30.0})
        assert np.abs(wrong - found).max() > 0.05


def test_one_number_changes_nothing_in_time():
    mesh = box_mesh(2, 4)
    sensors = sensors_from_arrays(POINTS, np.zeros(3), times=[0.02, 0.1, 0.3])
    observation, found = invlift.locate(mesh, sensors), []
    changing = {"left": invlift.steps([[0.0, 1.0]])}
    for thickness in (None, 4.0, {"low": 1.0, "high": 4.0}):
        model = invlift.assemble_poisson(
            mesh, observation, source=0.0, dirichlet=changing, storage=1.0, thickness=thickness
        )
        found.append(np.asarray(model(np.zeros(mesh.num_nodes))))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)
    assert np.abs(found[2] - found[0]).max() > 0.01


def test_a_refined_solution_has_both():
    mesh, held = box_mesh(2, 4), {"left": 0.0, "right": 1.0}
    options = {"thickness": 1.0 + mesh.points[:, 0], "anisotropy": {"ratio": 2.0, "angle": 90.0}}
    once = readings_of(mesh, dirichlet=held, refine_solution=1, **options)
    exact = np.log1p(POINTS[:, 0]) / np.log(2.0)
    coarse = readings_of(mesh, dirichlet=held, **options)
    assert np.abs(once - exact).max() < 0.5 * np.abs(coarse - exact).max()


@pytest.mark.parametrize(
    ("keys", "parts"),
    [
        ({"pde.thickness": "1 - 2 * x"}, ["[pde] thickness", "positive"]),
        ({"pde.thickness": {"low": 1.0}}, ["[pde] thickness", "name all"]),
        ({"pde.anisotropy": {"ratio": 3.0}}, ["[pde] anisotropy", "angle"]),
    ],
)
def test_what_is_wrong_is_told_by_its_key(tmp_path, keys, parts):
    with refused(*parts):
        build(write_problem(tmp_path, keys))


def test_a_problem_file_has_them(tmp_path):
    keys = {"pde.thickness": "1 + x", "pde.anisotropy": {"ratio": 3.0, "angle": 30.0}}
    problem, plain = (
        build(write_problem(tmp_path / "a", keys)),
        build(write_problem(tmp_path / "b")),
    )
    white = np.zeros(problem.num_unknowns)
    found, other = np.asarray(problem.predict(white)), np.asarray(plain.predict(white))
    mesh = plain.mesh
    expected = readings_of(
        mesh,
        points=plain.sensors.points,
        source=5.0,
        dirichlet={"left": 0.0},
        thickness=1.0 + mesh.points[:, 0],
        anisotropy={"ratio": 3.0, "angle": 30.0},
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.abs(found - other).min() > 1e-3
