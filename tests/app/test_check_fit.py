"""What `check` says of data that the model does not explain: one cause, one line."""

from dataclasses import replace

import numpy as np
import pytest
from command_line import call
from problem_files import build, write_problem
from structured import box_mesh

from invlift.app.checks import check_problem
from invlift.app.checks.field import check_places
from invlift.app.checks.fit import check_fit
from invlift.app.problem.problem_file import read_problem
from invlift.problems.starts.search import Fit, Start

HEADER = "name,x,y,value\n"
PLACES = ((0.2, 0.3), (0.4, 0.6), (0.5, 0.5), (0.7, 0.2), (0.8, 0.8))
HELD = {"pde.source": 0.0, "pde.dirichlet": {"left": 100.0, "right": 110.0}}
UNKNOWN = {"distribution": "lognormal", "median": 0.1, "factor": 3.0}


def table(values, places=PLACES):
    rows = (f"W{k},{x},{y},{v}" for k, ((x, y), v) in enumerate(zip(places, values, strict=True)))
    return HEADER + "\n".join(rows) + "\n"


def findings(tmp_path, values, noise, places=PLACES):
    path = write_problem(tmp_path, HELD | {"noise.sigma": noise}, sensors=table(values, places))
    report = check_problem(build(path), read_problem(path))
    return report, {each.name: each for each in report.findings}


GOOD = (102.1, 103.9, 105.0, 107.1, 107.9)
IN_FEET = (102.1, 103.9, 344.48, 107.1, 107.9)


def test_a_reading_in_another_unit_is_the_only_thing_that_is_bad(tmp_path):
    report, found = findings(tmp_path, IN_FEET, 0.5)
    assert [each.name for each in report.findings if each.level == "bad"] == ["fit"]
    assert "sensor W2, 344.48" in found["fit"].detail
    assert "the others are 102.1 to 107.9 (105 if it is in feet)" in found["fit"].detail
    assert found["derivative of the forward map"].level == "ok"


def test_an_unknown_scale_does_not_hide_it(tmp_path):
    report, found = findings(tmp_path, IN_FEET, UNKNOWN)
    assert not report.is_good
    assert found["fit"].level == "bad"
    assert "above its prior (" in found["fit"].detail
    assert "the model fits no better than a constant" in found["fit"].detail
    assert "sensor W2" in found["fit"].detail


@pytest.mark.parametrize("noise", [0.5, UNKNOWN])
def test_readings_that_are_explained_pass(tmp_path, noise):
    """Negative control."""
    report, found = findings(tmp_path, GOOD, noise)
    assert report.is_good
    assert found["fit"].level == "ok"


def test_misfit_is_judged_by_groups_too(tmp_path):
    """All readings together may hide one of two groups that is not explained."""
    places = np.random.default_rng(1).uniform(0.1, 0.9, (40, 2)).round(3)
    header, *rows = table(np.full(40, 105.0), places).splitlines()
    groups = np.repeat(["new", "old"], [4, 36])
    rows = [f"{row},{group}" for row, group in zip(rows, groups, strict=True)]
    text = "\n".join([f"{header},group", *rows, ""])
    problem = build(write_problem(tmp_path, HELD, sensors=text))
    for size, level in ((3.0, "note"), (1.0, "ok")):
        eta = np.where(groups == "new", size, 0.0)
        fit = Fit(np.full(40, 105.0), eta, *np.full((2, 40), 0.1), *np.zeros((2, 1)))
        found = check_fit(problem, Start(np.zeros(1), eta, eta, fit))
        assert found.level == level
        assert ("group new" in found.detail) == (level == "note")
        assert "group old" not in found.detail


def test_sensors_in_metres_on_a_mesh_in_millimetres_are_refused(tmp_path):
    mesh = box_mesh(2, 3)
    path = write_problem(tmp_path, mesh=replace(mesh, points=1000.0 * mesh.points))
    (found,) = check_places(build(path))
    assert found.level == "bad"
    assert "0.05 % of the mesh" in found.detail
    assert call("run", path) == 2
    assert check_places(build(write_problem(tmp_path / "right"))) == []
