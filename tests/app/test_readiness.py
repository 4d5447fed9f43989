"""Problems that are not ready to run: `check` and `run` say so in the same words."""

from command_line import call, strict_json
from problem_files import write_problem

from invlift.problems.starts.search import PHASES

QUICK = {"sampler.draws": 4, "sampler.warmup": 4, "sampler.chains": 1, "noise.sigma": 0.4}
QUICK |= {"sampler.method": "pcn"}


def test_check_and_run_refuse_it_in_the_same_words_and_who_insists_is_told(
    tmp_path, capsys, monkeypatch
):
    """A range in another unit; of other findings `check` and `run` tell alike."""
    told = []
    bad = write_problem(tmp_path / "bad", QUICK | {"prior.range": 0.001})
    assert call("check", bad) == 3
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if line.startswith(" bad  prior: "))
    assert "Not ready to run" in printed
    assert call("run", bad) == 2
    refusal = capsys.readouterr().err.splitlines()[-1]  # before it, perhaps, that it compiles
    assert refusal.startswith(f"invlift: {bad}: expected a problem that is ready to run, found ")
    assert line.removeprefix(" bad  ") in refusal
    assert refusal.endswith("run it with --anyway")
    assert not (bad.parent / "out").exists()
    # Negative control; `check` tells its parts.
    monkeypatch.setattr(PHASES, "info", lambda text, *args, **_: told.append(text % args))
    assert call("check", write_problem(tmp_path / "good", QUICK)) == 0
    printed = capsys.readouterr().out
    assert "bad  prior" not in printed
    assert "mesh error: " in printed
    assert {"checking mesh, tables and prior", "checking derivatives"} <= set(told)
    # Who insists is told in the verdict.
    assert call("run", bad, "--anyway") == 3
    printed = capsys.readouterr().out
    assert "the problem was not ready to run, by its prior: " in printed
    assert "the model is in doubt" in printed
    record = strict_json(bad.parent / "out" / "run.json")
    found = ("prior: ", "resolution: ", "fit: ")
    assert record["objections"]
    for objection in record["objections"]:
        assert objection.startswith(found)
        assert any(objection in warning for warning in record["verdict"]["doubts"])
    # What was insisted on goes on.
    assert call("run", bad, "--resume", "--draws", 8) == 3
    assert strict_json(bad.parent / "out" / "run.json")["objections"] == record["objections"]
