"""Every example runs, in a small version, and its results open."""

from pathlib import Path

import pytest
import pyvista

import invlift
from invlift.app.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["--chains", "2", "--warmup", "10", "--draws", "10"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["disc", "plate", "wolfcamp", "body3d"])
def test_example_runs(name, tmp_path, capsys):
    out = tmp_path / "results"
    with pytest.raises(SystemExit) as stop:
        main(["run", str(EXAMPLES / name / "problem.toml"), "--out", str(out), *SMALL])
    # So few draws cannot convince: results are written, the verdict is bad.
    assert stop.value.code == 3
    assert "Not converged" in capsys.readouterr().out
    grid = pyvista.read(out / "posterior.vtu")
    assert grid.point_data["log_conductivity_sd"].min() > 0
    assert pyvista.read(out / "sensors.vtu").n_points >= 10


@pytest.mark.slow
def test_calibration_example_runs(tmp_path, capsys):
    out = tmp_path / "results"
    options = ["--simulations", "2", "--draws", "7", "--out", str(out)]
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", str(EXAMPLES / "calibration" / "problem.toml"), *options])
    # So few simulations are no verdict.
    assert stop.value.code == 3
    assert "20 are the least for a verdict" in capsys.readouterr().out
    assert (out / "calibration.png").stat().st_size > 10_000


@pytest.mark.slow  # 10 s
def test_state_space_example_runs(tmp_path, capsys):
    """With 40 readings."""
    example = (EXAMPLES / "state_space" / "autoregressive.py").read_text()
    file, out = tmp_path / "autoregressive.py", tmp_path / "results"
    file.write_text(example.replace("NUM_TIMES = 1000", "NUM_TIMES = 40"))
    with pytest.raises(SystemExit) as stop:
        main(["check", str(file)])
    assert stop.value.code == 0
    assert "derivative of the constraint: right" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["run", str(file), "--out", str(out), *SMALL])
    assert stop.value.code == 3
    assert "40 readings; 44 unknowns" in capsys.readouterr().out
    path = invlift.load(out).to_arviz().posterior["log_signal_path"]
    assert path.sizes["time"] == 40
    assert (out / "posterior.png").stat().st_size > 10_000


def test_no_example_is_forgotten():
    folders = {path.parent.name for path in EXAMPLES.glob("*/problem.toml")}
    assert folders == {"disc", "plate", "wolfcamp", "body3d", "calibration"}
