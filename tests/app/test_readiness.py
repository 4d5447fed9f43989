"""Problems that are not ready to run: `check` and `run` say so in the same words."""

import pytest
from command_line import call, strict_json
from problem_files import SENSORS, write_problem

QUICK = {"sampler.draws": 4, "sampler.warmup": 4, "sampler.chains": 1}
#: What spoils a problem, what is just within the limits, and the finding.  All have three readings,
#: so that they share their programs with those of other tests.
CASES = {
    "a range in another unit": (
        {"prior.range": 0.001, "noise.sigma": 0.4},
        SENSORS,
        {"prior.range": 1.0, "noise.sigma": 0.4},
        "prior",
    ),
    "a reading against a boundary value": (
        {},
        SENSORS.replace("0.8,0.2,3.1", "0.0,0.5,5.0"),
        {"noise.sigma": 1.0},
        "fit",
    ),
    "noise in another unit": ({"noise.sigma": 1e6}, SENSORS, {"noise.sigma": 100.0}, "sensitivity"),
}


def problems(tmp_path, case):
    """The problem, and the one just within the limits."""
    changes, sensors, within, name = CASES[case]
    bad = write_problem(tmp_path / "bad", QUICK | changes, sensors=sensors)
    return bad, write_problem(tmp_path / "good", QUICK | within, sensors=sensors), name


@pytest.mark.parametrize("case", CASES)
def test_check_and_run_refuse_it_in_the_same_words(tmp_path, capsys, case):
    bad, good, name = problems(tmp_path, case)
    assert call("check", bad) == 3
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if line.startswith(f" bad  {name}: "))
    words = line.removeprefix(" bad  ")
    assert "Not ready to run" in printed
    assert call("run", bad) == 2
    refusal = capsys.readouterr().err.splitlines()[-1]  # before it, perhaps, that it compiles
    assert refusal.startswith(f"invlift: {bad}: expected a problem that is ready to run, found ")
    assert words in refusal
    assert refusal.endswith("run it with --anyway")
    assert not (bad.parent / "out").exists()
    # Negative control.
    assert call("check", good) == 0
    assert f"bad  {name}" not in capsys.readouterr().out


def test_who_insists_is_told_in_the_verdict(tmp_path, capsys):
    bad, _, name = problems(tmp_path, "a range in another unit")
    assert call("run", bad, "--anyway") == 3
    printed = capsys.readouterr().out
    assert f"the problem was not ready to run, by its {name}: " in printed
    assert "the model is in doubt" in printed
    record = strict_json(bad.parent / "out" / "run.json")
    found = ("prior: ", "resolution: ", "fit: ")
    assert all(each.startswith(found) for each in record["objections"])
    assert record["objections"]
    for objection in record["objections"]:
        assert any(objection in warning for warning in record["verdict"]["doubts"])
    # What was insisted on goes on.
    assert call("run", bad, "--resume", "--draws", 8) == 3
    assert strict_json(bad.parent / "out" / "run.json")["objections"] == record["objections"]
