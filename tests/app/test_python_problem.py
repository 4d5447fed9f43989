"""Problems that Python files make: every command takes them, and every mistake is one line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

OWN = Path(__file__).parents[2] / "examples" / "own_models"
COOLING = OWN / "cooling.py"
FEW = ["--chains", "2", "--warmup", "50"]
#: Status where the draws are too few, or leave-one-out cannot tell of one reading of 13.
LOO = 3


def draws_of(folder):
    with xr.open_dataset(folder / "posterior.nc", group="posterior") as draws:
        return draws.load()


def test_a_python_file_is_run_and_resumed(invlift, tmp_path):
    """Takes some 10 s: what the chains run is compiled twice, as the file is run anew."""
    out = tmp_path / "out"
    said = invlift("run", COOLING, *FEW, "--draws", "300", "--out", out)
    assert "13 readings; 3 unknowns" in said
    draws = draws_of(out)
    assert {"excess", "rate", "half_life", "sigma"} <= set(draws)
    np.testing.assert_allclose(draws["half_life"], np.log(2.0) / draws["rate"], rtol=1e-12)
    assert (out / "problem.py").read_text() == COOLING.read_text()
    record = json.loads((out / "run.json").read_text())
    assert record["source"] == f"{COOLING}:problem"
    page = (out / "report.html").read_text()
    assert "half_life" in page
    assert 'id="sensors"' in page
    assert "Left out" not in page  # as if a mesh were missing
    invlift("run", COOLING, *FEW, "--draws", "400", "--out", out, "--resume")
    assert draws_of(out)["rate"].sizes["draw"] == 400
    np.testing.assert_array_equal(draws_of(out)["rate"][:, :300], draws["rate"])


@pytest.mark.slow  # six commands, each of which compiles
def test_every_other_command_takes_a_python_file(invlift, tmp_path):
    said = invlift("check", COOLING)
    assert "adjoint" in said
    assert "Ready to run" in said
    out, other = tmp_path / "out", tmp_path / "other"
    for seed, folder in enumerate((out, other)):
        options = ["--draws", "converged", "--seed", seed, "--out", folder]
        invlift("run", f"{COOLING}:problem", *options)
    assert "elpd" in invlift("loo", out, other, status=LOO)
    options = ["--methods", "chmc,hmc", "--budget", "0.2", "--out", tmp_path / "both"]
    assert "hmc" in invlift("compare", COOLING, *options)
    options = ["--simulations", "3", "--draws", "7", "--out", tmp_path / "cal"]
    assert "20 are the least for a verdict" in invlift("calibrate", COOLING, *options, status=3)
    (out / "report.html").unlink()
    invlift("report", out)
    assert (out / "report.html").exists()


@pytest.mark.slow  # the disc twice
def test_a_field_in_python_is_the_field_of_the_file(invlift, tmp_path):
    options = [*FEW, "--draws", "10", "--seed", "4"]
    problems = {"python": OWN / "disc.py", "toml": OWN / "../disc/problem.toml"}
    for name, problem in problems.items():
        invlift("run", problem, *options, "--out", tmp_path / name, status=3)
    ours, theirs = (draws_of(tmp_path / name) for name in problems)
    xr.testing.assert_equal(ours, theirs)
    assert (tmp_path / "python" / "posterior.vtu").exists()
    assert (tmp_path / "python" / "report.html").exists()


@pytest.mark.slow  # three commands of a model in time
def test_hare_and_lynx_by_the_commands(invlift, tmp_path):
    file, out = OWN.parent / "hare_lynx" / "hare_lynx.py", tmp_path / "out"
    assert "Ready to run" in invlift("check", file)
    said = invlift("run", file, "--draws", "converged", "--out", out)
    assert "Converged" in said
    assert draws_of(out)["sigma"].dims == ("chain", "draw", "noise_group")
    assert draws_of(out)["sigma"].shape[-1] == 2  # one for each animal
    invlift("calibrate", file, "--simulations", "2", "--draws", "7", "--out", tmp_path, status=3)


@pytest.mark.slow  # two processes that start
def test_workers_are_sent_what_the_file_defines(invlift, tmp_path):
    options = [*FEW, "--draws", "50", "--seed", "3"]
    invlift("run", COOLING, *options, "--out", tmp_path / "threads", status=LOO)
    invlift("run", COOLING, *options, "--workers", "2", "--out", tmp_path / "there", status=LOO)
    xr.testing.assert_equal(draws_of(tmp_path / "threads"), draws_of(tmp_path / "there"))


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("x = 1 +\n", "", "{file}, line 1: expected Python code that runs, found SyntaxError: "),
        ("import numpy\n\nnumpy.none\n", "", "{file}, line 3: .* found AttributeError: "),
        ("x = 1\n", "", "{file}: expected a problem called problem, found no such name; "),
        ("def cool():\n    pass\n", "", "{file}: .* found the names cool; .* {file}:NAME"),
        ("problem = 3\n", "", "{file}:problem: expected a problem, or a function .* found a int; "),
        ("def warm():\n    return None\n", ":warm", "{file}:warm: expected a problem, .* NoneType"),
        ("def warm():\n    1 / 0\n", ":warm", "{file}, line 2: .* ZeroDivisionError"),
        (
            "import invlift\ndef warm():\n    return invlift.normal(0.0, -1.0)\n",
            ":warm",
            "{file}:warm, normal, sd: expected a positive number, found -1; ",
        ),
        ("import invlift\ninvlift.normal(0.0, 0.0)\n", "", "{file}, normal, sd: .* found 0; "),
    ],
)
def test_mistakes_are_named_in_one_line(invlift, tmp_path, content, name, message):
    file = tmp_path / "model.py"
    file.write_text(content)
    said = invlift("check", f"{file}{name}", status=2)
    assert said.count("\n") == 1
    assert re.match(f"invlift: {message.format(file=re.escape(str(file)))}", said), said


def test_what_is_not_for_python_files_says_so(invlift, tmp_path):
    said = invlift("simulate", COOLING, "--seed", "1", "--out", tmp_path / "s.csv", status=2)
    assert "a problem file in TOML" in said
    said = invlift("check", COOLING, "--plot", tmp_path / "p.png", status=2)
    assert "a problem file in TOML" in said
    said = invlift("run", tmp_path / "none.py", status=2)
    assert "no such file" in said
