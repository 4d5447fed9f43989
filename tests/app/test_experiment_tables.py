"""Problem files with several experiments and point sources."""

import copy

import jax
import numpy as np
import pytest
from problem_files import assert_named, readings, write_problem

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.errors import InputError
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.experiments import Experiments

SENSORS = (
    "x,y,value,experiment,name\n0.3,0.4,2.1,heated,a\n0.6,0.7,0.4,pushed,b\n"
    "0.8,0.2,3.1,heated,c\n0.6,0.2,0.5,pushed,d\n"
)
WELL = {"place": [0.5, 0.5], "strength": -0.3}
CHANGES = {
    "experiment": {
        "heated": {},
        "pushed": {"source": 0.0, "neumann": {"right": 1.0}, "point_source": [WELL]},
    }
}


def path_of(folder, changes=None, sensors=SENSORS):
    return write_problem(folder, copy.deepcopy(CHANGES) | (changes or {}), sensors=sensors)


def write(folder, changes=None):
    return read_problem(path_of(folder, changes))


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    return build_problem(write(tmp_path_factory.mktemp("experiments")))


def test_each_experiment_has_its_rows_and_the_keys_that_it_does_not_change(tmp_path, field):
    assert isinstance(field.model, LinearEquation)  # one matrix
    assert field.model.solutions == ("solution_heated", "solution_pushed")
    assert field.sensors.labels.tolist() == ["a", "c", "b", "d"]
    pushed = {"source": 0.0, "neumann": {"right": 1.0}, "point_source": [WELL]}
    changes = {"pde": {"dirichlet": {"left": 0.0}} | pushed}
    phi = np.linspace(-0.5, 0.5, 16)
    rows = [row for row in SENSORS.splitlines()[1:] if "pushed" in row]
    sensors = "x,y,value,experiment,name\n" + "\n".join(rows) + "\n"
    alone = build_problem(read_problem(write_problem(tmp_path, changes, sensors=sensors)))
    found = readings(field.model, phi)
    np.testing.assert_allclose(found[2:], readings(alone.model, phi), rtol=1e-12)


def test_fluxes_are_those_of_an_experiment(tmp_path, field):
    """Also where one holds other boundaries, and so has a matrix of its own."""
    changes = {"experiment.pushed.robin": {"top": {"coefficient": 1e-9}}}
    apart = build_problem(write(tmp_path, changes))
    assert isinstance(apart.model, Experiments)
    for problem, name, expected in ((field, "heated", -5.0), (apart, "pushed", -0.7)):
        on_mesh, phi = problem.model.on_mesh, np.zeros((1, 16))
        through = on_mesh.boundary_flux("left", name)
        assert through.solution == f"solution_{name}"
        solutions = jax.jit(problem.model.expand)(phi[0])[1].byproducts
        solved = np.asarray(solutions[through.solution])[None]
        for flux in (through.of_draws(phi), through.of_draws(phi, solved)):
            np.testing.assert_allclose(flux, [expected], rtol=1e-6)
        with pytest.raises(InputError, match=r"^flux, left: .*heated, pushed, found ''"):
            on_mesh.boundary_flux("left")


@pytest.mark.parametrize(
    ("changes", "sensors", "parts"),
    [
        ({"pde.point_source": [{"place": [3.0, 0.5], "strength": 1.0}]}, SENSORS,
         ["[pde] point_source.1", "inside the mesh", "[3.0, 0.5]"]),
        ({"experiment.pushed.neumann": {"left": 1.0}}, SENSORS,
         ["one condition", "'left' of experiment pushed"]),
        ({"experiment.two words": {}}, SENSORS, ["letters and digits", "'two words'"]),
        ({"experiment.third": {}}, SENSORS, ["readings of experiment 'third'"]),
        ({"experiment": {}}, SENSORS, ["column experiment", "of one experiment", "heated, pushed"]),
        ({}, "x,y,value\n0.3,0.4,2.1\n", ["column experiment", "heated, pushed", "none"]),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path, changes, sensors, parts):
    assert_named(path_of(tmp_path, changes, sensors), parts)
