"""Problem files of surveys at several dates."""

import copy

import numpy as np
import pytest
from problem_files import REMOVED, assert_named, build, readings, write_problem

from invlift.app.checks.field import check_sensors
from invlift.app.checks.times import check_times
from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.fem.equations.surveys import apart, as_one
from invlift.tables.sensors import read_sensors

SENSORS = "x,y,value,survey\n0.3,0.4,2.1,1998\n0.6,0.7,1.4,2004\n0.8,0.2,3.1,1998\n"
#: The last row reads the conductivity where it is known.
KNOWN = (
    "x,y,kind,value,survey\n0.3,0.4,point,2.1,1998\n0.3,0.4,point,1.4,2004\n"
    "0.8,0.8,log_conductivity,3.1,2004\n"
)
EXPERIMENTS = "east", "west", "east"
CHANGE = {"kind": "matern", "range": 0.5, "std": 0.4, "smoothness": 1.0}


def write(folder, changes=None, sensors=SENSORS):
    given = copy.deepcopy({"survey": {"2004": {"change": CHANGE}}}) | (changes or {})
    return write_problem(folder, given, sensors=sensors)


def test_rows_of_a_survey_are_read_at_its_own_field(tmp_path):
    problem = build(write(tmp_path))
    assert problem.sensors.rows.tolist() == [2, 4, 3]
    assert problem.model.solutions == ("solution_1998", "solution_2004")
    rng = np.random.default_rng(2)
    size = problem.mesh.num_nodes
    phi, change = rng.standard_normal((2, size))
    found = readings(problem.model, np.concatenate([phi, change]))
    plain = write_problem(tmp_path / "plain", {}, sensors=SENSORS.replace(",survey", ",other"))
    alone = build(plain).model
    before, after = readings(alone, phi), readings(alone, phi + change)
    np.testing.assert_allclose(found, [before[0], before[2], after[1]], rtol=1e-12)


def test_a_simulated_table_has_the_experiments_of_the_given_one(tmp_path):
    lines = SENSORS.replace("survey", "survey,experiment").split()
    rows = [f"{line},{name}" for line, name in zip(lines[1:], EXPERIMENTS, strict=True)]
    (tmp_path / "s.csv").write_text("\n".join([lines[0], *rows]) + "\n")
    table = read_sensors(tmp_path / "s.csv", 2)
    parts = {name: table.take(np.flatnonzero(table.surveys == name)) for name in ("1998", "2004")}
    assert apart(as_one(parts)).experiments.tolist() == ["east", "east", "west"]
    assert as_one(parts).experiments.tolist() == ["east_1998", "east_1998", "west_2004"]


def test_electrodes_have_surveys_of_which_impedances_are_one_unknown(tmp_path):
    rows = ["left,right,bottom,top,0.1", "right,top,left,bottom,-0.4", "left,top,left,top,2.1"]
    table = "a,b,m,n,value,survey\n"
    table += "".join(f"{row},{name}\n" for row in rows for name in ("first", "second"))
    unknown = {"distribution": "lognormal", "median": 0.1, "factor": 2.0}
    groups = {"groups": ["left", "right", "bottom", "top"], "impedance": unknown}
    sections = {"pde": REMOVED, "electrodes": groups, "survey": {"second": {"change": CHANGE}}}
    problem = build(write(tmp_path, sections, table))
    assert list(problem.model.on_mesh.further) == ["impedance", "change_second"]
    assert problem.sensors.rows.tolist()[:3] != problem.sensors.rows.tolist()[3:]
    assert problem.sensors.electrodes.shape == (6, 4)
    phi = np.linspace(-1.0, 1.0, problem.mesh.num_nodes)
    found = readings(problem.model, np.concatenate([phi, np.full(4, 0.2), 0.0 * phi]))
    np.testing.assert_allclose(found[:3], found[3:], rtol=1e-12)
    moved = readings(problem.model, np.concatenate([phi, np.full(4, 0.2), 0.0 * phi + 0.1]))
    np.testing.assert_allclose(moved[:3], found[:3], rtol=1e-12)
    assert np.all(moved[3:] != found[3:])


def test_a_field_in_time_has_surveys_of_which_the_storage_is_one_unknown(tmp_path):
    rows = ("0.3,0.4,-1.0,2.1", "0.3,0.4,0.1,2.0", "0.6,0.7,0.4,1.4")
    table = "x,y,time,value,survey\n"
    table += "".join(f"{row},{name}\n" for row in rows for name in ("1998", "2004"))
    well = {"place": [0.5, 0.5], "strength": {"steps": [[0.0, 1.0], [0.3, 0.0]]}}
    unknown = {"distribution": "lognormal", "median": 1.0, "factor": 2.0}
    pde = {"dirichlet": {"left": 0.0}, "storage": unknown, "point_source": [well]}
    problem = build(write(tmp_path, {"pde": pde}, table))
    assert list(problem.model.on_mesh.further) == ["storage", "change_2004"]
    told = check_times(problem)
    assert [each.name for each in told] == ["times of survey 1998", "times of survey 2004"]
    for each in told:  # each tells of its own readings
        assert each.level == "note"
        assert "3 from -1 to 0.4" in each.detail
        assert "1 readings are not later than the first change" in each.detail


def test_a_reading_beside_the_well_of_its_experiment_is_noted_in_each_survey(tmp_path):
    well = {"place": [0.5, 0.5], "strength": -0.3}
    rows = ("0.5,0.5,2.1,well,1998", "0.5,0.5,1.4,rest,2004", "0.5,0.5,3.1,well,2004")
    table = "\n".join(["x,y,value,experiment,survey", *rows, ""])
    experiments = {"experiment": {"well": {"point_source": [well]}, "rest": {"source": 1.0}}}
    spec = read_problem(write(tmp_path, experiments, table + "0.1,0.9,3.1,rest,1998\n"))
    problem = build_problem(spec)
    assert "row 2 reads within a cell" in check_sensors(problem, spec).detail
    assert "(and 1 more)" in check_sensors(problem, spec).detail


@pytest.mark.parametrize(
    ("changes", "sensors", "words"),
    [
        ({}, SENSORS.replace(",survey", ",date"), "column survey: expected the survey of each row"),
        ({}, SENSORS.replace("1.4,2004", "1.4,"), "row 3, column survey"),
        ({}, SENSORS.replace("2004", "2003"), "'2004', found those of 1998, 2003"),
        ({"survey": {"2004": {}}}, SENSORS, "[survey.2004] change"),
        ({"conductivity.known": {"high": 2.0}}, KNOWN, "row 4: expected a place where"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(tmp_path, changes, sensors, words):
    assert_named(write(tmp_path, changes, sensors), [words])
