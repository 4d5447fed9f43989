"""Densities on manifolds by the commands: looked over, run, resumed, shown, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import invlift as library
from invlift.chains import Chain
from invlift.posterior.statistics.comparison import efficiency

ARM = """
from pathlib import Path
import jax
import jax.numpy as jnp
import numpy as np
import invlift

DATA = {
    "limbs": np.loadtxt(Path(__file__).with_name("limbs.txt")),
    "seen": np.array([[0.0, 0.0], [22.0, 24.0], [45.0, 14.0]]),
    "noise": np.array([[0.5], [4.0], [4.0]]),
}
AXES = {"joint": ["shoulder", "elbow", "hand"], "axis": ["x", "y"]}


def lengths(joints, data):
    return jnp.linalg.norm(jnp.diff(joints, axis=0), axis=1) - data["limbs"]


def log_density(joints, data):
    return -0.5 * jnp.sum(((joints - data["seen"]) / data["noise"]) ** 2)


def made(constraint, density=log_density):
    return invlift.manifold_problem(
        constraint, density, {"joints": invlift.Unknown((3, 2), "cm", AXES)}, DATA
    )


problem = made(lengths)


def nowhere():
    return made(lambda joints, data: jnp.sum(joints**2, axis=1) + 1.0)


def twice():
    return made(lambda joints, data: jnp.tile(lengths(joints, data), 2)[:3])


def wrong_gradient():
    return made(lengths, lambda joints, data: jax.lax.stop_gradient(log_density(joints, data)))
"""


@pytest.fixture
def arm(tmp_path):
    file = tmp_path / "arm.py"
    file.write_text(ARM)
    file.with_name("limbs.txt").write_text("30.0 25.0")
    return file


def test_a_density_on_a_manifold_is_looked_over(invlift, arm):
    said = invlift("check", arm)
    assert "joints      any array of shape (3, 2) cm" in said
    assert "ok  constraint: 2 for 6 unknowns" in said
    assert "ok  gradient of the log density: right" in said
    assert said.endswith("Ready to run.\n")
    # Negative control.
    said = invlift("check", f"{arm}:twice", status=2)
    assert "constraint 2: expected constraints with linearly independent gradients" in said


@pytest.mark.slow  # two programs each
def test_what_is_wrong_with_one_is_found(invlift, arm):
    """Negative controls."""
    expected = "chain 0, start: expected values from which the projection"
    assert expected in invlift("check", f"{arm}:nowhere", status=2)
    wrong = "bad  gradient of the log density: wrong"
    assert wrong in invlift("check", f"{arm}:wrong_gradient", status=3)


@pytest.mark.slow  # 20 s
@pytest.mark.usefixtures("drawn")
def test_one_is_run_resumed_shown_and_compared(invlift, arm, tmp_path, monkeypatch):
    """With the data beside the file, which is not where the command is called."""
    out, options = tmp_path / "out", ["--method", "constrained-rmhmc", "--chains", "2"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    named = "../arm.py:problem"
    said = invlift("run", named, *options, "--draws", "200", "--out", out, status=3)
    assert "2 constraints; 6 unknowns" in said
    assert "joints[elbow, x]" in said
    first = draws_of(out)
    limbs = np.linalg.norm(np.diff(first["joints"], axis=2), axis=-1)
    np.testing.assert_allclose(limbs, np.broadcast_to([30.0, 25.0], limbs.shape), atol=1e-7)
    assert first["joints"].dims == ("chain", "draw", "joint", "axis")
    invlift("run", named, *options, "--draws", "210", "--out", out, "--resume", status=3)
    whole = draws_of(out)["joints"]
    np.testing.assert_array_equal(whole[:, :200], first["joints"])
    (out / "report.html").unlink()
    invlift("report", out)
    assert "joints[hand, y]" in (out / "report.html").read_text()
    (out / "posterior.nc").unlink()  # as before the end of a run
    np.testing.assert_array_equal(library.load(out).draws("joints"), whole)
    (out / "chains" / "source.json").write_text("{}")
    with pytest.raises(library.InputError, match="expected the source and the sampler of a run"):
        library.load(out)
    options = ["--methods", "constrained-rmhmc,nuts", "--budget", "0.3"]
    said = invlift("compare", arm, *options, "--chains", "2", "--out", tmp_path / "both")
    assert "nuts: kernel: expected a constrained sampler" in said


def test_large_matrices_are_compared_entry_by_entry():
    """Where there are no scalars."""
    draws = np.random.default_rng(1).standard_normal((2, 200, 19, 3))
    chains = [Chain({"joints": e}, warmup_seconds=1.0, sampling_seconds=1.0) for e in draws]
    found = efficiency("any", chains, SimpleNamespace(failures=None, caveat=""))
    assert 200 < found.ess_bulk < 600
    assert found.r_hat < 1.05


def draws_of(folder):
    with xr.open_dataset(folder / "posterior.nc", group="posterior") as draws:
        return draws.load()


def test_what_is_about_readings_says_so(invlift, arm, tmp_path):
    for command in (
        ["calibrate", arm, "--simulations", "2", "--out", tmp_path / "cal"],
        ["serve", arm, "--port", "0"],
    ):
        said = invlift(*command, status=2)
        assert "expected a problem with readings, found a density on a manifold" in said
        assert said.count("\n") == 1
    said = invlift("run", arm, "--method", "nuts", "--out", tmp_path / "out", status=2)
    assert "expected a constrained sampler, for a density on a manifold" in said
