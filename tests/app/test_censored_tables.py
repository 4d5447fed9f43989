"""Readings written as limits, from the table to results, by the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import call
from crafted import run_from_prior
from problem_files import build, write_problem
from refusals import refused

import invlift
from invlift.app.checks.field import check_sensors
from invlift.app.checks.fit import check_limits
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.problems.starts.search import Fit, Start
from invlift.tables.sensors import read_sensors, write_sensors

SENSORS = "x;y;value\n0,3;0,4;< 2,1\n0,6;0,7;2,9\n0,8;0,2;3,1\n0,7;0,5;>1,25\n0,2;0,2;2\n"


def test_limits_are_read_and_written_as_they_are(tmp_path):
    (tmp_path / "a.csv").write_text(SENSORS, encoding="utf-8")
    found = read_sensors(tmp_path / "a.csv", 2)
    assert found.limits.tolist() == ["<", "", "", ">", ""]
    assert found.values.tolist() == [2.1, 2.9, 3.1, 1.25, 2.0]
    assert "2 censored readings" in found.notes[0]
    write_sensors(tmp_path / "b.csv", found)
    again = read_sensors(tmp_path / "b.csv", 2)
    assert again.limits.tolist() == found.limits.tolist()
    assert again.values.tolist() == found.values.tolist()
    assert found.take(np.array([3, 4])).limits.tolist() == [">", ""]
    frame = pd.DataFrame({"x": [0.1, 0.2], "y": 0.5, "value": ["≤0.05", 3.0]})
    assert read_sensors(frame, 2).limits.tolist() == ["<", ""]
    assert read_sensors(frame.assign(value=[1.0, 2.0]), 2).limits is None


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ("<0,3;0,4;2,1", ["row 2, column x", "only readings"]),
        ("0,3;0,4;<LOD", ["row 2, column value", "a number", "'<LOD'"]),
        ("0,3;0,4;<-9999", ["row 2, column value", "9999"]),
    ],
)
def test_what_is_no_limit_is_refused_with_its_row(tmp_path, row, parts):
    lines = SENSORS.splitlines()
    (tmp_path / "a.csv").write_text("\n".join([lines[0], row, *lines[2:]]), encoding="utf-8")
    with refused(*parts):
        read_sensors(tmp_path / "a.csv", 2)


def test_arrays_have_limits_too():
    points = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert sensors_from_arrays(points, [1.0, 2.0], limits=["", ">"]).limits.tolist() == ["", ">"]
    with pytest.raises(invlift.InputError, match="row 3, limits"):
        sensors_from_arrays(points, [1.0, 2.0], limits=["", "under"])


def test_noise_without_a_distribution_function_is_refused_by_its_key(tmp_path):
    changes = {"noise.kind": "student-t"}
    with pytest.raises(invlift.InputError, match=r"\[noise\] kind.*censored"):
        build(write_problem(tmp_path, changes, sensors=SENSORS))


def test_limits_alone_are_refused_by_the_name_of_their_table(tmp_path):
    sensors = "x,y,value,sigma\n0.3,0.4,<2.1,0.1\n0.6,0.7,<2.9,0.1\n"
    path = write_problem(tmp_path, sensors=sensors)
    with pytest.raises(invlift.InputError, match=r"sensors.csv: .*found limits alone"):
        build(path)


def test_results_keep_limits(tmp_path):
    path = write_problem(tmp_path, sensors=SENSORS)
    problem = build(path)
    assert "2 censored readings" in check_sensors(problem, None).detail
    for size, beyond in ((-3.0, "sensor 0"), (0.0, ""), (3.0, "sensor 3")):
        fit = Fit(*[None] * 4, np.full(problem.prior.num_white, size), None)
        (found,) = check_limits(problem, Start(None, None, None, fit))
        assert f"2 censored readings, not lifted: {int(size != 0.0)} beyond" in found.detail
        assert f"most {beyond}, " in found.detail or not beyond
    posterior = problem.posterior(run_from_prior(problem, 30))
    posterior.write(tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "sensor_fit.csv", keep_default_na=False)
    assert table["limit"].tolist() == ["<", "", "", ">", ""]
    assert np.isfinite(table["loo_elpd"].astype(float)).all()
    residuals = table["standardised_residual"].astype(float)
    assert abs(residuals[3]) < 0.7  # far within its limit: the median of all such readings
    loaded = invlift.load(tmp_path / "out").fit  # as invlift report has it
    assert loaded.table()["limit"].tolist() == table["limit"].tolist()
    np.testing.assert_allclose(loaded.sensors().standardised_residual, residuals, rtol=1e-6)
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert loaded.misfit_p_value == pytest.approx(record["misfit_p_value"])
    out = tmp_path / "made.csv"
    assert call("simulate", path, "--seed", 1, "--sigma", 1e-9, "--out", out) == 0
    made = read_sensors(out, 2)
    assert made.limits[0] == "<"  # the body with a source of 5 is far below
    is_limit = made.limits != ""
    assert (made.values[is_limit] == np.array([2.1, 0, 0, 1.25, 0])[is_limit]).all()
