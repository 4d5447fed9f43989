"""Simulated readings: their truth is found, and no other is taken for it."""

import json
import shutil

import pytest
from command_line import call
from problem_files import write_problem

from invlift.app.build import build_problem
from invlift.app.problem_file import read_problem
from invlift.app.truth import find_truth

NOISE = {"noise.sigma": {"distribution": "lognormal", "location": -2.0, "scale": 0.5}}


@pytest.fixture
def path(tmp_path):
    """A problem whose readings were simulated."""
    path = write_problem(tmp_path, NOISE)
    assert call("simulate", path, "--seed", 3, "--out", tmp_path / "new.csv") == 0
    path.write_text(path.read_text().replace("sensors.csv", "new.csv"))
    return path


def truth_of(path):
    spec = read_problem(path)
    return find_truth(build_problem(spec), spec.observations.file)


def test_run_tells_how_well_it_covers_the_truth(path, tmp_path, capsys):
    options = ["--chains", 2, "--warmup", 60, "--draws", 200, "--out", tmp_path / "run"]
    assert call("run", path, *options) in (0, 3)
    printed = capsys.readouterr().out
    assert "Truth (new_truth.vtu): " in printed
    assert "inside their 90 % band" in printed
    record = json.loads((tmp_path / "run" / "run.json").read_text())["truth"]
    assert 0.0 <= record["share_inside_90"] <= 1.0
    assert record["crps"] > 0.0
    assert record["prior_crps"] > 0.0
    assert set(record["scalars"]) == {
        "log_conductivity_field_mean", "log_conductivity_field_std", "sigma",
    }  # fmt: skip
    for each in record["scalars"].values():
        assert 0.0 <= each["quantile"] <= 1.0


def test_a_truth_of_other_readings_or_another_mesh_is_not_taken(path, tmp_path):
    assert truth_of(path).scalars.keys() == {"sigma"}
    table = tmp_path / "new.csv"
    text = table.read_text()
    first = text.splitlines()[1].split(",")[2]
    table.write_text(text.replace(first, str(float(first) + 1e-9)))
    assert truth_of(path) is None
    table.write_text(text)
    assert truth_of(path) is not None
    other = write_problem(tmp_path / "other", NOISE)
    assert call("simulate", other, "--seed", 4, "--out", tmp_path / "other" / "new.csv") == 0
    shutil.copy(tmp_path / "other" / "new_truth.vtu", tmp_path / "new_truth.vtu")
    assert truth_of(path) is None


@pytest.mark.parametrize(
    "content", [b"", b"<VTKFile/>", b"\x00" * 100], ids=["empty", "no grid", "zeros"]
)
def test_a_damaged_truth_is_done_without(path, tmp_path, content, capfd):
    (tmp_path / "new_truth.vtu").write_bytes(content)
    assert truth_of(path) is None
