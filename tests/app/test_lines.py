"""Lines along which it flows more easily, against exact solutions."""

import numpy as np
import problem_files
import pytest
from problem_files import build, write_problem
from structured import box_mesh

import invlift
from invlift.errors import InputError
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.fem.readings.sensors import sensors_from_arrays

POINTS = np.array([[0.3, 0.35], [0.5, 0.1], [0.8, 0.6]])
NODES = np.array([[0.25, 0.25], [0.5, 0.25], [0.75, 0.75], [0.25, 0.5]])
HELD = {"left": 0.0, "right": 1.0}


def with_line(num):
    """The unit square with a group of edges from left to right in its middle."""
    box = box_mesh(2, num)
    facets, _, _ = box.distinct_facets
    in_middle = np.isclose(box.points[facets][..., 1], 0.5).all(axis=1)
    groups = {**box.boundaries, "fracture": facets[in_middle]}
    return mesh_from_arrays(box.points, box.cells, boundaries=groups, subdomains=box.subdomains)


def forward(mesh, points=POINTS, groups=(), **options):
    """The forward map: readings of the solution at points, then fluxes."""
    places = np.concatenate([points, np.full((len(groups), 2), np.nan)])
    kinds = ["point"] * len(points) + ["flux"] * len(groups)
    over = [""] * len(points) + list(groups)
    sensors = sensors_from_arrays(places, np.zeros(len(places)), kinds=kinds, over=over)
    observation = invlift.locate(mesh, sensors)
    return invlift.assemble_poisson(mesh, observation, **{"source": 0.0} | options)


def readings(model, mesh, *further):
    return np.asarray(problem_files.readings(model, np.append(np.zeros(mesh.num_nodes), further)))


def test_a_line_beside_a_bar():
    """In parallel: the solution is that of the bar, and the line carries T of 1 + T.

    Between two thicknesses, below and above it, the line has their mean.  An unknown line is one
    more coefficient, which a refined solution knows too.
    """
    mesh = with_line(4)
    is_above = mesh.points[mesh.cells][..., 1].mean(axis=1) > 0.5
    options = {"dirichlet": HELD, "thickness": np.where(is_above, 1.0, 5.0)}
    options |= {"groups": ("right", "left")}
    expected = [*POINTS[:, 0], 5.1, -5.1]
    line = forward(mesh, lines={"fracture": 0.7}, **options)
    np.testing.assert_allclose(readings(line, mesh), expected, atol=1e-12)
    unknown = invlift.lognormal(median=0.5, factor=3)
    model = forward(mesh, lines={"fracture": unknown}, refine_solution=1, **options)
    assert list(model.on_mesh.further) == ["line_fracture"]
    np.testing.assert_allclose(readings(model, mesh, 0.7), expected, atol=1e-12)


def exact(points, transmissivity):
    """sin(pi x) (cosh(pi y') + a sinh(pi y')), y' from the line: T u'' + [du/dy] = 0 along it."""
    away = np.pi * np.abs(points[:, 1] - 0.5)
    shape = np.cosh(away) + 0.5 * np.pi * transmissivity * np.sinh(away)
    return np.sin(np.pi * points[:, 0]) * shape


def test_what_a_line_takes_from_the_body_and_gives_back():
    """Errors fall to a fourth with the size of the elements; without the line they stay."""
    errors = []
    for num in (4, 8):
        mesh = with_line(num)
        held = dict.fromkeys(("left", "right", "bottom", "top"), exact(mesh.points, 0.7))
        found = readings(forward(mesh, NODES, dirichlet=held, lines={"fracture": 0.7}), mesh)
        errors.append(np.abs(found - exact(NODES, 0.7)).max())
    assert errors[1] < 0.08
    assert errors[1] < 0.3 * errors[0]
    plain = readings(forward(mesh, NODES, dirichlet=held), mesh)
    assert np.abs(plain - exact(NODES, 0.7)).max() > 0.2


def test_lines_inside_the_body_are_known():
    """Where subdomains meet, and groups of edges; none of a body of one part."""
    mesh = with_line(4)
    ends = mesh.points[mesh.inner_facets]
    is_fracture = np.isclose(ends[..., 1], 0.5).all(axis=1)
    is_border = np.isclose(ends[..., 0], 0.5).all(axis=1)
    assert (is_fracture.sum(), is_border.sum(), len(ends)) == (4, 4, 8)
    plain = mesh_from_arrays(mesh.points, mesh.cells, boundaries={"left": mesh.facets("left")})
    assert plain.inner_facets.shape == (0, 2)


def test_lines_of_a_problem_file(tmp_path):
    changes = {
        "pde.lines": {"fracture": {"distribution": "lognormal", "median": 0.5, "factor": 3.0}}
    }
    problem = build(write_problem(tmp_path, changes, mesh=with_line(4)))
    assert "line_fracture" in problem.shapes_of_draws()
    for changes, mesh, part in (
        ({"pde.lines": {"fault": 0.5}}, with_line(4), r"\[pde\] lines.fault"),
        ({"pde.lines": {"left": 0.5}}, with_line(4), r"lines.left: .*solution is given"),
        ({"pde.lines": {"fracture": -1.0}}, with_line(4), r"\[pde\] lines"),
        ({"pde.lines": {"left": 0.5}, "prior.smoothness": 0.5}, box_mesh(3, 2),
         "none of a body in space"),
        ({"pde.lines": {"fracture": {"distribution": "uniform", "low": -1.0, "high": 1.0}}},
         with_line(4), r"\[pde\] lines"),
    ):  # fmt: skip
        table = "x,y,z,value\n0.3,0.4,0.4,2.1\n" if mesh.dim == 3 else "x,y,value\n0.3,0.4,2.1\n"
        with pytest.raises(InputError, match=part):
            build(write_problem(tmp_path / "bad", changes, mesh=mesh, sensors=table))
