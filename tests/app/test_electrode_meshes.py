"""Edges across an electrode, and impedances that readings do not tell: notes of `check`."""

import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from problem_files import REMOVED, build, readings, with_sensors, write_problem
from structured import box_mesh

import invlift
from invlift.app.checks.electrodes import ADDED, REFINE, check_electrodes
from invlift.app.checks.information import check_information
from invlift.problems.starts.search import Fit

UNKNOWN = {"distribution": "lognormal", "median": 0.2, "factor": 2.0}
by_white = jax.jit(lambda problem, white: jax.jacrev(problem.predict)(white))
AT_DRIVEN = "1,2,1,2,1.0\n1,3,1,3,2.1\n"


def build_tank(folder, *, num, rows=AT_DRIVEN, impedance=UNKNOWN):
    """A square whose sides, of ``num`` edges, are the electrodes."""
    changes = {
        "pde": REMOVED,
        "electrodes": {"groups": ["left", "right", "bottom", "top"], "impedance": impedance},
        "noise": {"sigma": 0.01},
    }
    table, mesh = f"a,b,m,n,value\n{rows}", box_mesh(2, num)
    return build(write_problem(folder, changes, sensors=table, mesh=mesh))


def refined(problem):
    finer = replace(problem, model=problem.model.on_mesh.refined())
    return with_sensors(finer, problem.sensors)


def test_few_edges_across_an_electrode_are_noted(tmp_path):
    tank = build_tank(tmp_path, num=3)
    elsewhere = replace(tank.sensors, electrodes=np.array([["1", "2", "3", "4"]] * 2))
    coarse = build_tank(tmp_path, num=2, impedance=0.2)
    for problem, words in (
        (tank, "as if impedances were smaller by 0.033, a tenth of an edge"),
        (refined(tank), ""),
        (with_sensors(tank, elsewhere), ""),
        (coarse, "fewer than 3 edges are across an electrode"),
        (refined(coarse), ""),
    ):
        found = check_electrodes(problem)
        assert found.level == ("note" if words else "ok")
        assert words in found.detail
        assert found.detail.endswith(REFINE) == bool(words)


@pytest.mark.parametrize(("dim", "times"), [(2, 3), pytest.param(3, 2, marks=pytest.mark.slow)])
def test_a_tenth_of_an_edge_is_missing_of_impedances(dim, times):
    """Of electrodes a quarter wide, two edges each, whose impedances are a fiftieth of that."""
    mesh = box_mesh(dim, 8)
    facets = mesh.boundary_facets[mesh.points[mesh.boundary_facets][:, :, -1].max(axis=1) < 1e-9]
    own = {}
    for number, first in enumerate((0.0, 0.5)):
        middles = mesh.points[facets].mean(axis=1)[:, :-1] - first
        is_own = ((middles > 0.0) & (middles < 0.25)).all(axis=1)
        own[f"electrode_{number}"] = facets[is_own]
    mesh = replace(mesh, boundaries=own)
    pair, field = np.array([[1.0, -1.0]]), np.zeros(mesh.num_nodes)

    def reading(impedance, times=0):
        model = invlift.electrode_model(mesh, list(own), pair, pair, impedance=impedance)
        model = model.on_mesh.refined(times) if times else model
        return float(np.asarray(readings(model, field))[0])

    impedance = 0.02 / 4.0
    slope = (reading(1.01 * impedance) - reading(impedance)) / (0.01 * impedance)
    added = (reading(impedance, times) - reading(impedance)) / slope * 8.0
    assert 0.5 * ADDED < added < 2.0 * ADDED


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (AT_DRIVEN + "1,4,1,4,2.1\n", None),  # negative control
        (AT_DRIVEN, "of 1 of 4 impedances:"),
    ],
)
def test_impedances_that_readings_do_not_tell_are_noted(tmp_path, rows, words):
    """They are told at electrodes that drive."""
    wide = UNKNOWN | {"factor": 30.0}  # next to which what the field may be is little
    problem = build_tank(tmp_path, num=2, rows=rows, impedance=wide)
    white, sd = np.zeros(problem.prior.num_white), np.full(problem.num_observations, 0.01)
    scaled = np.asarray(by_white(problem, white)) / sd[:, None]
    white_sd = np.sqrt(np.diag(np.linalg.inv(np.eye(white.size) + scaled.T @ scaled)))
    fit = Fit(None, None, None, sd, white, white_sd)
    found = [each.detail for each in check_information(problem, fit) if "impedance" in each.name]
    assert bool(found) == (words is not None), found
    if found:
        assert words in found[0]
        assert re.search(r"stays (9\d(\.\d)?|100) %", found[0])
