"""Every example runs, in a small version, and its results open."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import pyvista
import xarray as xr
from scipy.special import erf

from invlift.app.cli import main
from invlift.app.python_problem import load, read_python_problem

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
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("hare_lynx/hare_lynx.py", {"hare_path": 21, "lynx_path": 21, "sigma": 2}),
        ("soil_carbon/soil_carbon.py:ak", {"carbon_path": 25, "sigma": 1}),
    ],
)
def test_example_in_time_runs(name, sizes, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["run", str(EXAMPLES / name), "--out", str(tmp_path / "results"), *SMALL])
    assert stop.value.code == 3
    assert "Not converged" in capsys.readouterr().out
    draws = xr.load_dataset(tmp_path / "results" / "posterior.nc", group="posterior")
    assert {each: draws[each].shape[-1] for each in sizes} == sizes
    assert (tmp_path / "results" / "posterior.png").stat().st_size > 10_000


@pytest.mark.slow
def test_soil_carbon_is_its_closed_form():
    """Without feedback each pool decays by itself; k2 is the median of what lies below k1."""
    problem = load(read_python_problem(str(EXAMPLES / "soil_carbon" / "soil_carbon.py:hn")))
    k1, gamma, c0 = 0.3, 0.25, 9.0
    found = problem.model.describe(jnp.array([k1, 0.5, 1.0, 0.4, gamma, c0]))
    k2, days = found["k2"], dict(problem.model.kept_axes)["carbon_path"][0][1]
    np.testing.assert_allclose(2.0 * erf(k2 / np.sqrt(2.0)), erf(k1 / np.sqrt(2.0)), rtol=1e-12)
    assert found["alpha21"] == 0.0
    # All that leaves the second pool enters the first, which loses it for good.
    one, two = gamma * c0, (1.0 - gamma) * c0
    slow = two * k2 / (k1 - k2)
    rest = (one - slow) * np.exp(-k1 * np.array(days)) + (two + slow) * np.exp(-k2 * np.array(days))
    np.testing.assert_allclose(found["carbon_path"], c0 - rest, rtol=1e-10)


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


def test_no_example_is_forgotten():
    folders = {path.parent.name for path in EXAMPLES.glob("*/problem.toml")}
    assert folders == {"disc", "plate", "wolfcamp", "body3d", "calibration"}
