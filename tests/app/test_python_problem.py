"""Problems that Python files make: every command takes them, and every mistake is one line."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from problem_files import are_same

from invlift.app.problems import build, open_problem

OWN = Path(__file__).parents[2] / "examples" / "own_models"
COOLING = OWN / "cooling.py"
#: Status where the draws are too few, or leave-one-out cannot tell of one reading.
LOO = 3


def draws_of(folder):
    with xr.open_dataset(folder / "posterior.nc", group="posterior") as draws:
        return draws.load()


@pytest.mark.slow  # ten commands, which compile
@pytest.mark.usefixtures("drawn")
def test_every_command_takes_it(invlift, tmp_path, monkeypatch):
    file, out, there = COOLING, tmp_path / "out", tmp_path / "there"
    said = invlift("check", file, "--plot", tmp_path / "prior.png")
    assert "13, 23.2 to 84.9" in said
    assert "Ready to run" in said
    assert (tmp_path / "prior.png").exists()
    options = ["--method", "pcn", "--chains", "1", "--warmup", "50", "--seed", "3"]
    options += ["--option", "target_acceptance=0.3", "--draws"]
    said = invlift("run", file, *options, "20", "--out", out, status=3)
    assert "13 readings; 3 unknowns" in said
    first = draws_of(out)
    assert {"excess", "rate", "half_life", "sigma"} <= set(first)
    np.testing.assert_allclose(first["half_life"], np.log(2.0) / first["rate"], rtol=1e-12)
    assert (out / "problem.py").read_text() == COOLING.read_text()
    record = json.loads((out / "run.json").read_text())
    assert record["source"] == f"{COOLING}:problem"
    assert record["options"] == {"target_acceptance": 0.3}
    invlift("run", file, *options, "40", "--out", out, "--resume", status=3)
    np.testing.assert_array_equal(draws_of(out)["rate"][:, :20], first["rate"])
    invlift("run", file, *options, "40", "--out", there, "--workers", "2", status=3)
    xr.testing.assert_equal(draws_of(out), draws_of(there))
    (out / "report.html").unlink()
    invlift("report", out)
    page = (out / "report.html").read_text()
    assert "half_life" in page
    assert 'id="sensors"' in page
    assert "Left out" not in page  # as if a mesh were missing
    assert "elpd" in invlift("loo", out, there, status=LOO)
    options = ["--methods", "pcn", "--budget", "1", "--chains", "1", "--warmup", "20"]
    assert "pcn" in invlift("compare", file, *options, "--out", tmp_path / "both")
    options = ["--simulations", "2", "--draws", "7", "--method", "pcn", "--out", tmp_path / "cal"]
    assert "20 are the least for a verdict" in invlift("calibrate", file, *options, status=3)
    invlift("simulate", file, "--seed", "1", "--out", tmp_path / "new.csv")
    table = pd.read_csv(tmp_path / "new.csv")
    with xr.open_dataset(out / "posterior.nc", group="observed_data") as observed:
        assert len(table["value"]) == observed["observed"].size
    monkeypatch.setattr(
        "aiohttp.web.run_app", lambda app, *, sock, print, **_: (print(None), sock.close())
    )
    assert "posterior: " in invlift("serve", file, "--port", "0")
    assert "expected" in invlift("next-sensor", out, "--num", "1", status=2)


def test_readings_are_simulated_with_the_truth_behind_them(invlift, tmp_path):
    said = invlift("simulate", COOLING, "--seed", "1", "--out", tmp_path / "s.csv")
    assert "13 readings" in said
    truth = pd.read_csv(tmp_path / "s_truth.csv", index_col="name")["value"]
    assert set(truth.index) == {"excess", "rate", "half_life", "sigma"}
    np.testing.assert_allclose(truth["half_life"], np.log(2.0) / truth["rate"])
    readings = pd.read_csv(tmp_path / "s.csv")
    exact = 20.0 + truth["excess"] * np.exp(-truth["rate"] * np.arange(0.0, 3601.0, 300.0))
    scores = (readings["value"] - exact) / truth["sigma"]
    assert 0.3 < np.mean(scores**2) < 3.0
    for option, value in (("--draws", "2"), ("--sigma", "1")):
        options = [option, value, "--seed", "1", "--out", tmp_path / "a.pvd"]
        assert invlift("simulate", COOLING, *options, status=2).startswith(f"invlift: {option}")


def test_a_field_in_python_is_the_field_of_the_file():
    ours, theirs = (
        build(open_problem(str(problem)))
        for problem in (OWN / "disc.py", OWN / "../disc/problem.toml")
    )
    for part in ("model", "prior", "noise", "observed"):
        assert are_same(getattr(ours, part), getattr(theirs, part)), part


def test_mistakes_are_named_in_one_line(invlift, tmp_path):
    file = tmp_path / "model.py"
    for content, name, message in (
        ("x = 1 +\n", "", "{file}, line 1: expected Python code that runs, found SyntaxError: "),
        ("x = 1\n", "", "{file}: expected a problem called problem, found no such name; "),
        ("def cool():\n    pass\n", "", "{file}: .* found the names cool; .* {file}:NAME"),
        ("problem = 3\n", "", "{file}:problem: expected a problem, or a function .* a int; "),
        ("def warm():\n    return None\n", ":warm", "{file}:warm: expected a problem, .* NoneType"),
        ("import invlift\ndef warm():\n    return invlift.normal(0.0, -1.0)\n", ":warm",
         "{file}:warm, normal, sd: expected a positive number, found -1; "),
    ):  # fmt: skip
        file.write_text(content)
        said = invlift("check", f"{file}{name}", status=2)
        assert said.count("\n") == 1
        assert re.match(f"invlift: {message.format(file=re.escape(str(file)))}", said), said
    for option, message in (
        ("target_acceptance=high", "--option target_acceptance: expected a positive number, "),
        ("acceptance=0.9", "--option acceptance: "),
        ("acceptance", "--option: expected KEY=VALUE"),
    ):
        said = invlift("run", COOLING, "--option", option, status=2)
        assert said.startswith(f"invlift: {message}")
