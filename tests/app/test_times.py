"""Problem files of fields that change in time: commands, results, and mistakes by their keys."""

import copy
from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
import pyvista
from command_line import assert_one_line, call
from problem_files import build, readings, write_problem

import invlift
from invlift.app.checks.derivatives import KERNEL, evaluate
from invlift.app.checks.information import check_information
from invlift.app.checks.mesh_error import check_mesh_error, finer_model
from invlift.app.checks.times import check_times
from invlift.app.commands.simulate import in_unit_of_table
from invlift.app.problem.problem_file import read_problem
from invlift.app.runs.sampling import target_of
from invlift.app.runs.starts import chosen_starts
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


def test_all_that_a_file_can_say_is_the_same_problem(tmp_path):
    """A number as steps of one value, steps in a table, a storage of each subdomain."""
    (tmp_path / "rates.csv").write_text("time,strength\n0.3,0\n0,1\n")
    (tmp_path / "litres.csv").write_text("time,strength [l/s]\n0.3,0\n0,1000\n")
    by_table = WELL | {"strength": {"schedule": "rates.csv"}}
    in_litres = WELL | {"strength": {"schedule": "litres.csv"}}
    units = {"length": "m", "solution": "m", "conductivity": "m2/s"}
    always = {"steps": [[-5.0, 0.0]], "before": 0.0}
    ways = [
        {},
        {"pde.point_source": [by_table]},
        {"pde.point_source": [in_litres], "units": units},
        {"pde.storage": {"low": 1.0, "high": 1.0}},
        {"pde.dirichlet": {"left": always}},
    ]
    models = [build(write(tmp_path, changes)).model for changes in ways]
    phi = np.linspace(-1.0, 1.0, 16)
    expected = np.asarray(readings(models[0], phi))
    assert np.ptp(expected) > 0.01
    for model in models[1:]:
        np.testing.assert_allclose(
            readings(model, phi), expected, atol=1e-5
        )  # by other shifts perhaps
    # An oscillation so slow that it stays at its maximum is a number that does not change.
    slow = WELL | {"strength": {"periodic": [[1e9, 1.0, 0.0]], "mean": 0.5}}
    held = build(write(tmp_path, {"pde.point_source": [slow]})).model
    long = WELL | {"strength": {"steps": [[-1e4, 1.5]]}}
    stays = build(write(tmp_path, {"pde.point_source": [long]})).model
    np.testing.assert_allclose(readings(held, phi), readings(stays, phi), rtol=1e-3)
    assert build(write(tmp_path, {"pde.time_unit": "h"})).units == {"time": "h"}
    twice = build(write(tmp_path, {"pde.storage": 2.0})).model
    assert np.abs(readings(twice, phi) - expected).max() > 1e-3  # negative control


FIELD = {"kind": "matern", "range": 0.5, "std": 0.5, "smoothness": 1.0, "median": 2.0}

FIELD_OF_MEAN = {key: value for key, value in FIELD.items() if key != "median"}


def test_a_storage_that_is_a_field_has_a_prior_of_its_own(tmp_path):
    """At its median it is the number."""
    problem = build(write(tmp_path, {"pde.storage": {"field": FIELD}}))
    number = build(write(tmp_path, {"pde.storage": 2.0}))
    white = np.zeros(problem.prior.num_white)
    white[: number.prior.num_white] = np.linspace(-1.0, 1.0, number.prior.num_white)
    phi = number.prior.transform(white[: number.prior.num_white])
    found = readings(problem.model, problem.prior.transform(white))
    np.testing.assert_allclose(found, readings(number.model, phi), rtol=1e-9)


def test_the_equation_in_time_is_solved_on_a_refined_mesh(tmp_path):
    """Readings approach those of a fine mesh at second order, and fields stay on the given one.

    Also where the storage is a field.
    """
    around = SENSORS.replace("b,0.6,0.7", "b,0.9,0.9")
    changes = {"pde.storage": {"field": FIELD}}
    problems = [
        build(write(tmp_path, changes | {"mesh.refine_solution": times}, around))
        for times in range(3)
    ]
    white = np.random.default_rng(0).standard_normal(problems[0].prior.num_white)
    at = problems[0].prior.transform(white)
    found = [np.asarray(readings(each.model, at)) for each in problems]
    errors = [np.abs(each - found[2]).max() for each in found[:2]]
    assert errors[1] < 0.3 * errors[0]  # 0.2 at second order, 0.33 at first
    again = problems[0].model.on_mesh.refined(1)
    np.testing.assert_allclose(readings(again, at), found[1], rtol=1e-12)
    for each in problems:
        (told,) = check_times(each)
        assert "steady equations" in told.detail
    model = problems[1].model
    (_, jacobian), expansion = jax.jit(lambda at: model.linearise(at))(at)
    direction = np.random.default_rng(1).standard_normal(at.size)
    step = 1e-5 * direction
    slope = (readings(model, at + step) - readings(model, at - step)) / 2e-5
    np.testing.assert_allclose(jacobian @ direction, slope, rtol=1e-5, atol=1e-8)
    assert expansion.byproducts["solution"].shape == (16,)


def test_the_error_of_the_mesh_is_told_of_a_field_in_time(tmp_path):
    problem = build(write(tmp_path))
    fit = Fit(None, None, None, np.full(6, 1e-4), np.zeros(problem.prior.num_white), None)
    (told,) = check_mesh_error(problem, finer_model(problem), fit)
    assert told.level == "note"
    assert "refine_solution" in told.detail


def test_a_table_says_over_what_its_readings_are_averaged(tmp_path, capsys):
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
    again = tmp_path / "again.csv"
    invlift.tables.sensors.write_sensors(again, problem.sensors)
    read = invlift.tables.sensors.read_sensors(again, 2, clock=invlift.tables.times.Clock())
    np.testing.assert_array_equal(read.averaged_over, found)
    for text, parts in (
        (f"{header},averaged_over\n{rows[0]},hourly\n", ["row 2, column averaged_over", "hourly"]),
        (f"{header},averaged_over\n{rows[0]},-1\n", ["column averaged_over", "a positive length"]),
        (f"{header},averaged_over [m]\n{rows[0]},1\n", ["column averaged_over", "a unit of time"]),
        (f"{header},averaged_over [s]\n{rows[0]},1\n", ["[pde] time_unit", "is in s"]),
        (f"{header},averaged_over\n", ["only a header"]),
    ):
        assert call("check", write(tmp_path, None, text)) == 2
        assert_one_line(capsys, parts)


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


@pytest.mark.parametrize(
    ("times", "sigma", "names", "words"),
    [
        (TIMES, 0.01, [], ""),  # negative control
        ((30.0, 60.0), 0.01, ["diffusion time", "storage"], "100 times shorter"),
        ((1e-5, 2e-5), 1e-3, ["diffusion time", "log_conductivity", "storage"], "10 times longer"),
        (TIMES, 10.0, ["log_conductivity", "storage"], "next to nothing"),  # not by the times
    ],
)
def test_check_notes_what_readings_at_such_times_cannot_tell(tmp_path, times, sigma, names, words):
    unknown = {"distribution": "lognormal", "median": 1.0, "factor": 3.0}
    pumped = WELL | {"strength": {"steps": [[0.0, 1.0]]}}
    changes = {"pde.storage": unknown, "pde.point_source": [pumped], "noise.sigma": sigma}
    rows = [(*place, time) for place in PLACES.values() for time in times]
    text = "x,y,time,value\n" + "".join(f"{x},{y},{time},0.0\n" for x, y, time in rows)
    problem = build(write(tmp_path, changes, text))
    white = np.random.default_rng(1).standard_normal(problem.num_unknowns)
    problem = replace(problem, observed=problem.predict(white))
    starts = chosen_starts(problem, "prior", 1)(KERNEL, target_of(problem, KERNEL), 0)
    fit = starts.with_first(lambda _, *arguments: evaluate(*arguments)).first.fit
    found = check_information(problem, fit)
    assert [each.name for each in found] == names
    assert {each.level for each in found} <= {"note"}
    assert words in "".join(each.detail for each in found)


@pytest.mark.slow
def test_a_run_keeps_the_times_beside_its_readings(tmp_path):
    unknown = {"distribution": "lognormal", "median": 1.0, "factor": 2.0}
    path = write(tmp_path, {"pde.storage": unknown, "output.times": [0.8, 0.1]})
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
    assert call("report", tmp_path / "out", "--out", tmp_path / "page.html") in (0, 3)


@pytest.mark.parametrize(
    ("changes", "sensors", "parts"),
    [
        ({"pde.storage": {"field": FIELD | {"range": -1.0}}}, SENSORS,
         ["[pde] storage.field.range", "-1"]),
        ({"pde.storage": {"field": {**FIELD_OF_MEAN, "mean": "none"}}}, SENSORS,
         ["[pde] storage.field.mean", "none"]),
        ({"pde": WITHOUT_STORAGE, "output.times": [1.0]}, AT_ONCE,
         ["[pde] storage", "[output] times"]),
        ({"pde": WITHOUT_STORAGE | {"start": "2011-05-01"}}, AT_ONCE,
         ["[pde] storage", "[pde] start"]),
        ({"output.times": [1.0, 1.0]}, SENSORS, ["[output] times", "1 twice"]),
        ({"output.times": [1e6, 1e6 + 1.0]}, SENSORS,
         ["[output] times", "first six digits", "solution_at_1e+06"]),
        ({"pde": WITHOUT_STORAGE}, AT_ONCE, ["[pde]", "the storage, as a number changes in time"]),
        ({}, SENSORS.replace("time", "when"), ["row 1", "no column 'time'"]),
        ({"pde.point_source": [WELL | {"strength": {"schedule": "none.csv"}}]}, SENSORS,
         ["none.csv", "a table of steps", "no such file"]),
        ({"pde.point_source": [WELL | {"strength": {"steps": [[0, 1]], "schedule": "a"}}]}, SENSORS,
         ["point_source.1.strength", "steps, schedule or periodic"]),
        ({"pde.point_source": [WELL | {"strength": {"periodic": [[1, 2, 0]], "before": 1}}]},
         SENSORS, ["point_source.1.strength", "no before beside periodic"]),
        ({"pde.point_source": [WELL | {"strength": 1.0}]}, SENSORS,
         ["[pde] storage", "a number that changes in time"]),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(tmp_path, capsys, changes, sensors, parts):
    assert call("check", write(tmp_path, changes, sensors)) == 2
    assert_one_line(capsys, parts)


def test_an_unknown_storage_is_its_own_number(tmp_path):
    """Not its logarithm: at the prior's median the readings are those of the number."""
    unknown = {"distribution": "lognormal", "median": 3.0, "factor": 2.0}
    problem = build(write(tmp_path, {"pde.storage": unknown}))
    middle = np.zeros(problem.prior.num_white)
    known = build(write(tmp_path / "known", {"pde.storage": 3.0}))
    expected = readings(known.model, known.prior.transform(middle[:-1]))
    found = readings(problem.model, problem.prior.transform(middle))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


DATED = {"pde.time_unit": "d", "pde.start": "2011-05-01T00:00:00+02:00"}
#: The same times, 0.02 d after midnight and so on.
DATES = {"0.02": "2011-05-01T00:28:48", "0.1": "2011-05-01T02:24:00", "0.4": "2011-05-01 09:36"}


#: The same times, 0.02 d after midnight and so on.
DATES = "2011-05-01T00:28:48", "2011-05-01T02:24:00", "2011-05-01 09:36"
IN_UTC = "2011-04-30T22:28:48Z", "2011-05-01T00:24Z", "2011-05-01T07:36:00.0+00:00"


def written(times):
    """The table with times as they are written."""
    lines = [line.split(",") for line in SENSORS.splitlines()]
    rows = [[*line[:3], time, line[4]] for line, time in zip(lines[1:], [*times] * 2, strict=True)]
    return "\n".join(map(",".join, [lines[0], *rows])) + "\n"


def dated(zone=""):
    return written([date + zone for date in DATES])


def test_times_are_the_same_in_any_unit_and_as_dates(tmp_path):
    """In a unit that the header or a key says, as dates of the start's zone, or of another."""
    minutes, in_utc = written(["28.8", "144", "576"]), written(IN_UTC)
    (tmp_path / "rates.csv").write_text("time,strength\n2011-05-01,1\n2011-05-01T07:12:00,0\n")
    (tmp_path / "hours.csv").write_text("time [hours],strength\n0,1\n7.2,0\n")
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
    ways = [
        (SENSORS, {}),
        (minutes, in_days | {"observations.time_unit": "min"}),
        (minutes.replace("time", "time [min]"), in_days | {"pde.point_source": [by[1]]}),
        (dated(), DATED | {"pde.point_source": [by[0]]}),
        (dated("+02:00"), DATED | {"pde.point_source": [by[2]]}),
        (in_utc, DATED | {"pde.point_source": [by[3]]}),
        (dated(), DATED | {"pde.start": "2011-05-01"}),
    ]
    phi, found = np.linspace(-1.0, 1.0, 16), []
    for sensors, changes in ways:
        field = build(write(tmp_path, changes, sensors))
        np.testing.assert_allclose(field.sensors.times, TIMES * 2, rtol=1e-12)
        found.append(np.asarray(readings(field.model, phi)))
        np.testing.assert_allclose(found[-1], found[0], rtol=1e-6)
    # Negative control: the zone matters.
    other = build(write(tmp_path, DATED | {"pde.start": "2011-05-01T00:00:00Z"}, in_utc))
    np.testing.assert_allclose(other.sensors.times, np.subtract(TIMES * 2, 2 / 24), atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "sensors", "parts"),
    [
        ({}, dated(), ["[pde] time_unit", "the unit of time of the equation", "is a date"]),
        ({"pde.time_unit": "d"}, dated(), ["[pde] start", "the date of time 0"]),
        ({"observations.time_unit": "min"}, SENSORS, ["[pde] time_unit", "is in min", "none"]),
        ({"pde.time_unit": "min"}, SENSORS.replace("time", "time [fortnights]"),
         ["row 2, column time", "a unit of time in the header", "'fortnights'"]),
        ({"pde.time_unit": "min", "observations.time_unit": "h"},
         SENSORS.replace("time", "time [s]"), ["time in h", "'s' in the header"]),
        (DATED, dated().replace("2011-05-01T02:24:00", "03/04/2024"),
         ["row 3, column time", "03 April 2024 or 04 March 2024", "which may be either"]),
        (DATED, dated().replace("2011-05-01T02:24:00", "2011-05-01T02:24:00Z"),
         ["row 3, column time", "all have a zone, or none", "beside dates without one"]),
        (DATED, dated().replace("2011-05-01T02:24:00", "0.1"),
         ["row 3, column time", "dates alone, or numbers alone"]),
        (DATED | {"pde.start": "2011-05-01"}, dated("Z"),
         ["[pde] start", "a start with a zone"]),
        ({"pde.point_source": [WELL | {"strength": {"steps": [["2011-05-01", 1.0]]}}]}, SENSORS,
         ["[pde] time_unit", "the unit of time of the equation"]),
        (DATED | {"pde.point_source": [WELL | {"strength": {"steps": [["1/5/2011", 1.0]]}}]},
         SENSORS, ["point_source.1.strength, row 1", "01 May 2011 or 05 January 2011"]),
    ],
)  # fmt: skip
def test_times_that_are_not_clear_are_one_line(tmp_path, capsys, changes, sensors, parts):
    assert call("check", write(tmp_path, changes, sensors)) == 2
    assert_one_line(capsys, parts)


@pytest.mark.parametrize("strength", [{"steps": [[0.0, 1.0]]}, {"periodic": [[1.0, 2.0, 0.0]]}])
def test_what_a_run_keeps_of_a_schedule_is_read_again(tmp_path, strength):
    path = write(tmp_path, {"pde.point_source": [WELL | {"strength": strength}]})
    spec = invlift.read_problem(path)
    path.write_text(spec.to_toml())
    (source,) = invlift.read_problem(path).pde.point_source
    for key, value in strength.items():
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
        neumann={"top": "t * (0.2 - 0.3 * x)"},
        robin={"right": (2.0, change("sin(t)"))},
        point_sources=[((0.5, 0.5), change("1 - exp(-9 * t)"))],
        storage=1.0,
    )
    phi = np.linspace(-1.0, 1.0, 16)
    found, expected = (np.asarray(readings(each, phi)) for each in (problem.model, same))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.ptp(expected) > 0.01
    for number, (wrong, part) in enumerate(
        [
            ({"pde.dirichlet": {"left": "exp(x + t)"}}, r"\[pde\] dirichlet.left: expected a sum"),
            ({"pde.dirichlet": {"left": "t * log(y)"}}, r"left: expected finite .* at \(0, 0\)"),
            ({"pde.source": "t / y"}, r"\[pde\] source: expected finite values, .* at \("),
            ({"pde.point_source": [WELL | {"strength": "x"}]}, "strength: expected an expression"),
            ({"pde.robin": {"right": {"coefficient": "1 + t"}}}, "what does not change in time"),
            ({"pde.thickness": "1 + t"}, "found the unknown name 't'.*; only sources, boundary"),
            ({"pde": WITHOUT_STORAGE | {"dirichlet": {"left": "1 + t"}, "point_source": []}},
             r"storage: expected the storage, as a number changes in time"),
        ]
    ):  # fmt: skip
        table = AT_ONCE if "pde" in wrong else SENSORS
        with pytest.raises(invlift.InputError, match=part):
            build(write(tmp_path / f"{number}", wrong, sensors=table))
