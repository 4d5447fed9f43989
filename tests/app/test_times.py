"""Problem files of fields that change in time: commands, results, and mistakes by their keys."""

import copy

import numpy as np
import pandas as pd
import pytest
import pyvista
from command_line import call
from problem_files import are_same, assert_named, build, readings, write_problem

import invlift
from invlift.app.checks.information import check_information
from invlift.app.checks.times import check_times
from invlift.app.commands.simulate import in_unit_of_table
from invlift.app.problem.problem_file import read_problem
from invlift.problems.problem import prediction
from invlift.problems.starts.search import Fit
from invlift.tables.sensors import read_sensors, write_sensors
from invlift.tables.times import Clock

TIMES = [0.02, 0.1, 0.4]
PLACES = {"a": (0.3, 0.4), "b": (0.6, 0.7)}
SENSORS = "name,x,y,time,value\n" + "".join(
    f"{name},{x},{y},{time},{0.1 * k}\n"
    for name, (x, y) in PLACES.items()
    for k, time in enumerate(TIMES)
)
WELL = {"place": [0.5, 0.5], "strength": {"steps": [[0.0, 1.0], [0.3, 0.0]]}}
CHANGES = {
    "pde": {"dirichlet": {"left": 0.0}, "storage": 1.0, "point_source": [WELL]},
    "noise.sigma": 0.01,
    "sampler.draws": 6,
    "sampler.warmup": 6,
}
WITHOUT_STORAGE = {key: value for key, value in CHANGES["pde"].items() if key != "storage"}
AT_ONCE = "x,y,value\n0.3,0.4,0.1\n0.6,0.7,0.2\n"


def write(folder, changes=None, sensors=SENSORS):
    return write_problem(folder, copy.deepcopy(CHANGES | (changes or {})), sensors=sensors)


FIELD = {"kind": "matern", "range": 0.5, "std": 0.5, "smoothness": 1.0, "median": 2.0}
UNKNOWN = {"distribution": "lognormal", "median": 2.0, "factor": 2.0}


def test_a_storage_that_is_unknown_or_a_field_is_the_number_at_its_median(tmp_path):
    """Also that of each subdomain is; an unknown one is not its logarithm."""
    number = build(write(tmp_path, {"pde.storage": 2.0}))
    white = np.linspace(-1.0, 1.0, number.prior.num_white)
    expected = readings(number.model, number.prior.transform(white))
    assert np.ptp(expected) > 0.01
    for storage in ({"field": FIELD}, UNKNOWN, {"low": 2.0, "high": 2.0}):
        problem = build(write(tmp_path, {"pde.storage": storage}))
        at = np.append(white, np.zeros(problem.prior.num_white - white.size))
        found = readings(problem.model, problem.prior.transform(at))
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_equation_in_time_is_solved_on_a_refined_mesh(tmp_path):
    """Readings approach those of a fine mesh at third order, also where the storage is a field."""
    around = SENSORS.replace("b,0.6,0.7", "b,0.9,0.9")
    changes = {"pde.storage": {"field": FIELD}}
    plain, once = (
        build(write(tmp_path, changes | {"mesh.refine_solution": times}, around))
        for times in range(2)
    )
    at = plain.prior.transform(np.random.default_rng(0).standard_normal(plain.prior.num_white))
    again = plain.model.on_mesh.refined
    models = once.model, again(2), again(3)
    coarse, finer, fine = (np.asarray(readings(each, at)) for each in models)
    # 0.05, at second order 0.2
    assert np.abs(finer - fine).max() < 0.15 * np.abs(coarse - fine).max()
    assert are_same(again(1), once.model)
    (told,) = check_times(once)
    assert "steady equations" in told.detail


def test_a_table_says_over_what_its_readings_are_averaged(tmp_path):
    """In the unit of its header, else in that of the times; the results and `simulate` keep it."""
    minutes = {"pde.time_unit": "h", "observations.time_unit": "min"}
    header, *rows = SENSORS.splitlines()
    for changes, title, entry, length in (
        ({}, "averaged_over", "0.02", 0.02),
        ({"pde.time_unit": "h"}, "averaged_over [min]", "1.5", 0.025),
        (minutes, "averaged_over", "0.3", 0.005),
        ({"pde.time_unit": "h"}, "Averaged_Over [s]", "0.6 ", 1 / 6000),
    ):
        lines = [f"{header},{title}", f"{rows[0]},{entry}", *(f"{row}," for row in rows[1:])]
        problem = build(write(tmp_path, changes, "\n".join(lines) + "\n"))
        found = problem.sensors.averaged_over
        np.testing.assert_allclose(found, [length, *[np.nan] * 5], rtol=1e-12)
        (told,) = check_times(problem)
        assert f"1 readings are means over {length:.6g} before them" in told.detail
    assert problem.units == {"time": "h"}
    again = tmp_path / "again.csv"
    write_sensors(again, problem.sensors)
    read = read_sensors(again, 2, clock=Clock())
    np.testing.assert_array_equal(read.averaged_over, found)
    for text, parts in (
        (f"{header},averaged_over\n{rows[0]},hourly\n", ["row 2, column averaged_over", "hourly"]),
        (f"{header},averaged_over\n{rows[0]},-1\n", ["column averaged_over", "a positive length"]),
        (f"{header},averaged_over [m]\n{rows[0]},1\n", ["column averaged_over", "a unit of time"]),
        (f"{header},averaged_over [s]\n{rows[0]},1\n", ["[pde] time_unit", "is in s"]),
        (f"{header},averaged_over\n", ["only a header"]),
    ):
        assert_named(write(tmp_path, None, text), parts)


def test_simulated_times_are_in_the_unit_in_which_they_are_read(tmp_path):
    path = write(tmp_path, {"pde.time_unit": "h", "observations.time_unit": "min"})
    spec, clock = read_problem(path), Clock("h", None, "min")
    sensors = read_sensors(tmp_path / "sensors.csv", 2, clock=clock)
    write_sensors(tmp_path / "made.csv", in_unit_of_table(spec, sensors))
    again = read_sensors(tmp_path / "made.csv", 2, clock=clock)
    np.testing.assert_allclose(again.times, np.tile(TIMES, 2) / 60.0, rtol=1e-12)


def test_check_tells_of_times_and_repeated_rows(tmp_path):
    late = SENSORS.replace("a,0.3,0.4,0.02,", "a,0.3,0.4,-1.0,")
    (found,) = check_times(build(write(tmp_path, sensors=late)))
    assert found.level == "note"
    assert "4 from -1 to 0.4, by solutions of " in found.detail
    assert "1 readings are not later than the first change" in found.detail
    (found,) = check_times(build(write(tmp_path)))
    assert found.level == "ok"


def test_check_notes_what_readings_at_such_times_cannot_tell(tmp_path):
    pumped = WELL | {"strength": {"steps": [[0.0, 1.0]]}}
    for times, sigma, names, words in (
        (TIMES, 0.01, [], ""),  # negative control
        ((30.0, 60.0, 90.0), 0.01, ["diffusion time", "storage"], "100 times shorter"),
        ((1e-5, 1.5e-5, 2e-5), 1e-3, ["diffusion time", "log_conductivity", "storage"],
         "10 times longer"),
        (TIMES, 10.0, ["log_conductivity", "storage"], "next to nothing"),  # not by the times
    ):  # fmt: skip
        changes = {"pde.storage": UNKNOWN, "pde.point_source": [pumped], "noise.sigma": sigma}
        problem = build(write(tmp_path, changes, written(times)))
        white = np.random.default_rng(1).standard_normal(problem.num_unknowns)
        moved = [white, *(white + 1e-4 * np.eye(white.size))]
        there, *ahead = (np.asarray(prediction(problem, each)) for each in moved)
        slopes = (np.array(ahead) - there) / (1e-4 * sigma)
        sd = np.sqrt(np.diag(np.linalg.inv(np.eye(white.size) + slopes @ slopes.T)))
        found = check_information(problem, Fit(None, None, None, np.full(6, sigma), white, sd))
        assert [each.name for each in found] == names
        assert {each.level for each in found} <= {"note"}
        assert words in "".join(each.detail for each in found)


def test_the_information_of_censored_readings_is_not_asked_for(tmp_path):
    """The fit is of the others."""
    problem = build(write(tmp_path, sensors=SENSORS.replace(",0.0\n", ",<0.5\n", 1)))
    white = np.zeros(problem.num_unknowns)
    found = check_information(problem, Fit(None, None, None, np.full(5, 0.01), white, white + 1.0))
    assert [each.name for each in found] == ["log_conductivity"]


@pytest.mark.slow
def test_a_run_keeps_the_times_beside_its_readings(tmp_path):
    changes = {"pde.storage": UNKNOWN, "output.times": [0.8, 0.1], "sampler.method": "pcn"}
    path = write(tmp_path, changes)
    made = tmp_path / "made.csv"
    assert call("simulate", path, "--seed", 1, "--out", made) == 0
    assert pd.read_csv(made)["time"].tolist() == TIMES * 2
    path.write_text(path.read_text().replace("sensors.csv", "made.csv"))
    assert call("run", path, "--anyway") == 3
    fit = pd.read_csv(tmp_path / "out" / "sensor_fit.csv")
    assert fit["time"].tolist() == TIMES * 2
    assert (tmp_path / "out" / "series.png").exists()
    # The solution at times, one of them after the last reading, as an animation.
    reader = pyvista.get_reader(tmp_path / "out" / "solution.pvd")
    assert reader.time_values == [0.1, 0.8]
    draws = invlift.load(tmp_path / "out").draws("solution_at_0.8")
    reader.set_active_time_point(1)
    mean = np.concatenate([np.asarray(each) for each in draws]).mean(axis=0)
    np.testing.assert_allclose(reader.read()[0].point_data["solution_mean"], mean, rtol=1e-5)
    best = invlift.load(tmp_path / "out").next_sensors(3).best
    assert set(best["solution"]) <= {"solution", "solution_at_0.1", "solution_at_0.8"}
    assert "storage" in pd.read_csv(tmp_path / "out" / "summary.csv").iloc[:, 0].tolist()


DATED = {"pde.time_unit": "d", "pde.start": "2011-05-01T00:00:00+02:00"}
#: The same times, 0.02 d after midnight and so on.
DATES = "2011-05-01T00:28:48", "2011-05-01T02:24:00", "2011-05-01 09:36"
IN_UTC = "2011-04-30T22:28:48Z", "2011-05-01T00:24Z", "2011-05-01T07:36:00.0+00:00"


def written(times):
    """The table with times as they are written."""
    lines = [line.split(",") for line in SENSORS.splitlines()]
    rows = [
        [*line[:3], f"{time}", line[4]] for line, time in zip(lines[1:], [*times] * 2, strict=True)
    ]
    return "\n".join(map(",".join, [lines[0], *rows])) + "\n"


def dated(zone=""):
    return written([date + zone for date in DATES])


def test_times_are_the_same_in_any_unit_and_as_dates(tmp_path):
    """In a unit that the header or a key says, as dates of the start's zone, or of another."""
    minutes, in_utc = written(["28.8", "144", "576"]), written(IN_UTC)
    (tmp_path / "rates.csv").write_text("time,strength\n2011-05-01,1\n2011-05-01T07:12:00,0\n")
    (tmp_path / "hours.csv").write_text("time [hours],strength [l/d]\n7.2,0\n0,1000\n")
    (tmp_path / "bare.csv").write_text("time,strength\n0,1\n432,0\n")
    by = [
        WELL | {"strength": strength}
        for strength in (
            {"schedule": "rates.csv"},
            {"schedule": "hours.csv"},
            {"schedule": "bare.csv", "time_unit": "min"},
            {"steps": [["2011-05-01", 1.0], ["2011-05-01T07:12:00+02:00", 0.0]]},
        )
    ]
    by[3]["strength"]["steps"][0][0] += "T00:00:00+02:00"
    in_days = {"pde.time_unit": "d"}
    units = {"units": {"length": "m", "solution": "m", "conductivity": "m2/d"}}
    ways = [
        (minutes, in_days | {"observations.time_unit": "min"}),
        (minutes.replace("time", "time [min]"), in_days | units | {"pde.point_source": [by[1]]}),
        (dated(), DATED | {"pde.point_source": [by[0]]}),
        (dated("+02:00"), DATED | {"pde.point_source": [by[2]]}),
        (in_utc, DATED | {"pde.point_source": [by[3]]}),
        (dated(), DATED | {"pde.start": "2011-05-01"}),
    ]
    given = build(write(tmp_path)).model
    for sensors, changes in ways:
        field = build(write(tmp_path, changes, sensors))
        np.testing.assert_allclose(field.sensors.times, TIMES * 2, rtol=1e-12)
        assert are_same(field.model, given)
    # Negative control: the zone matters.
    other = build(write(tmp_path, DATED | {"pde.start": "2011-05-01T00:00:00Z"}, in_utc))
    np.testing.assert_allclose(other.sensors.times, np.subtract(TIMES * 2, 2 / 24), atol=1e-12)


def test_mistakes_are_one_line(tmp_path):
    second, well = DATES[1], lambda strength: {"pde.point_source": [WELL | {"strength": strength}]}
    for changes, sensors, parts in (
        ({"pde.storage": {"field": FIELD | {"range": -1.0}}}, SENSORS,
         ["[pde] storage.field.range", "-1"]),
        ({"pde": WITHOUT_STORAGE, "output.times": [1.0]}, AT_ONCE,
         ["[pde] storage", "[output] times"]),
        ({"pde": WITHOUT_STORAGE | {"start": "2011-05-01"}}, AT_ONCE,
         ["[pde] storage", "[pde] start"]),
        ({"output.times": [1e6, 1e6 + 1.0]}, SENSORS,
         ["[output] times", "first six digits", "solution_at_1e+06"]),
        ({"pde": WITHOUT_STORAGE}, AT_ONCE, ["[pde]", "the storage, as a number changes in time"]),
        ({}, SENSORS.replace("time", "when"), ["row 1", "no column 'time'"]),
        (well({"steps": [[0, 1]], "schedule": "a"}), SENSORS,
         ["point_source.1.strength", "steps, schedule or periodic"]),
        (well({"periodic": [[1, 2, 0]], "before": 1}), SENSORS,
         ["point_source.1.strength", "no before beside periodic"]),
        # times that are not clear
        ({}, dated(), ["[pde] time_unit", "the unit of time of the equation", "is a date"]),
        ({"pde.time_unit": "d"}, dated(), ["[pde] start", "the date of time 0"]),
        ({"observations.time_unit": "min"}, SENSORS, ["[pde] time_unit", "is in min", "none"]),
        ({"pde.time_unit": "min"}, SENSORS.replace("time", "time [fortnights]"),
         ["row 2, column time", "a unit of time in the header", "'fortnights'"]),
        ({"pde.time_unit": "min", "observations.time_unit": "h"},
         SENSORS.replace("time", "time [s]"), ["time in h", "'s' in the header"]),
        (DATED, dated().replace(second, "03/04/2024"),
         ["row 3, column time", "03 April 2024 or 04 March 2024", "which may be either"]),
        (DATED, dated().replace(second, f"{second}Z"),
         ["row 3, column time", "all have a zone, or none", "beside dates without one"]),
        (DATED | {"pde.start": "2011-05-01"}, dated("Z"), ["[pde] start", "a start with a zone"]),
        (DATED | well({"steps": [["1/5/2011", 1.0]]}), SENSORS,
         ["point_source.1.strength, row 1", "01 May 2011 or 05 January 2011"]),
        # expressions in t
        ({"pde.dirichlet": {"left": "exp(x + t)"}}, SENSORS,
         ["[pde] dirichlet.left: expected a sum"]),
        ({"pde.dirichlet": {"left": "t * log(y)"}}, SENSORS,
         ["left: expected finite", "at (0, 0)"]),
        ({"pde.source": "t / y"}, SENSORS, ["[pde] source: expected finite values"]),
        (well("x"), SENSORS, ["strength: expected an expression"]),
        ({"pde.robin": {"right": {"coefficient": "1 + t"}}}, SENSORS,
         ["what does not change in time"]),
        ({"pde.thickness": "1 + t"}, SENSORS, ["the unknown name 't'", "only sources, boundary"]),
    ):  # fmt: skip
        assert_named(write(tmp_path, changes, sensors), parts)


def test_what_a_run_keeps_of_a_schedule_is_read_again(tmp_path):
    for key, value in (("steps", [[0.0, 1.0]]), ("periodic", [[1.0, 2.0, 0.0]])):
        path = write(tmp_path, {"pde.point_source": [WELL | {"strength": {key: value}}]})
        path.write_text(read_problem(path).to_toml())
        (source,) = read_problem(path).pde.point_source
        assert [list(each) for each in getattr(source.strength, key)] == value


def test_expressions_in_t_of_a_problem_file(tmp_path):
    """Of each number that may change; the same as from Python; the time is in its unit."""
    changes = {
        "pde.source": {"low": "0.1 * t"},
        "pde.dirichlet": {"left": "1 + exp(-t)"},
        "pde.neumann": {"top": "0.2 * t - 0.3 * x * t"},
        "pde.robin": {"right": {"coefficient": 2.0, "ambient": "sin(t)"}},
        "pde.point_source": [WELL | {"strength": "1 - exp(-9 * t)"}],
    }
    problem = build(write(tmp_path, changes))
    change = invlift.function_of_time
    same = invlift.assemble_poisson(
        problem.mesh,
        invlift.locate(problem.mesh, problem.sensors),
        source={"low": change("0.1 * t")},
        dirichlet={"left": change("1 + exp(-t)")},
        neumann={"top": "0.2 * t - 0.3 * x * t"},
        robin={"right": (2.0, change("sin(t)"))},
        point_sources=[((0.5, 0.5), change("1 - exp(-9 * t)"))],
        storage=1.0,
    )
    assert are_same(problem.model, same)
