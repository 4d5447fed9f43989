"""Densities on manifolds by the commands: looked over, run, resumed, shown, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import invlift as library
from invlift.chains import Chain
from invlift.posterior.statistics.comparison import efficiency

ARM = """
import jax
import jax.numpy as jnp
import numpy as np
import invlift

DATA = {
    "limbs": np.array([30.0, 25.0]),
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
    return file


def test_a_density_on_a_manifold_is_looked_over(invlift, arm):
    said = invlift("check", arm)
    assert "joints      any array of shape (3, 2) cm" in said
    assert "ok  constraint: 2 for 6 unknowns" in said
    assert "ok  gradient of the log density: right" in said
    assert said.endswith("Ready to run.\n")
    said = invlift("check", f"{arm}:twice", status=2)
    assert "constraint 2: expected constraints with linearly independent gradients" in said


@pytest.mark.slow  # two programs each
@pytest.mark.parametrize(
    ("name", "message", "status"),
    [
        ("nowhere", "chain 0, start: expected values from which the projection", 2),
        ("wrong_gradient", "bad  gradient of the log density: wrong", 3),
    ],
)
def test_what_is_wrong_with_one_is_found(invlift, arm, name, message, status):
    """Negative controls."""
    assert message in invlift("check", f"{arm}:{name}", status=status)


@pytest.mark.slow  # 20 s
@pytest.mark.usefixtures("drawn")
def test_one_is_run_resumed_shown_and_compared(invlift, arm, tmp_path):
    out, options = tmp_path / "out", ["--method", "constrained-rmhmc", "--chains", "2"]
    said = invlift("run", arm, *options, "--draws", "200", "--out", out, status=3)
    assert "2 constraints; 6 unknowns" in said
    assert "joints[elbow, x]" in said
    first = draws_of(out)
    limbs = np.linalg.norm(np.diff(first["joints"], axis=2), axis=-1)
    np.testing.assert_allclose(limbs, np.broadcast_to([30.0, 25.0], limbs.shape), atol=1e-7)
    assert first["joints"].dims == ("chain", "draw", "joint", "axis")
    invlift("run", arm, *options, "--draws", "4000", "--out", out, "--resume")
    whole = draws_of(out)["joints"]
    np.testing.assert_array_equal(whole[:, :200], first["joints"])
    (out / "report.html").unlink()
    invlift("report", out)
    assert "joints[hand, y]" in (out / "report.html").read_text()
    assert library.load(out).draws("joints")[0].shape == (4000, 3, 2)
    options = ["--methods", "chmc,constrained-langevin,nuts", "--budget", "0.3"]
    said = invlift("compare", arm, *options, "--chains", "2", "--out", tmp_path / "both")
    assert "nuts: kernel: expected a constrained sampler" in said


@pytest.mark.slow  # 10 s
def test_saved_chains_of_one_are_read(invlift, arm, tmp_path):
    out = tmp_path / "out"
    invlift("run", arm, "--chains", "2", "--draws", "20", "--out", out, status=3)
    whole = draws_of(out)["joints"]
    (out / "posterior.nc").unlink()  # as before the end of a run
    np.testing.assert_array_equal(library.load(out).draws("joints"), whole)


def test_large_matrices_are_compared_entry_by_entry():
    """Where there are no scalars."""
    rng = np.random.default_rng(1)
    draws = rng.standard_normal((2, 200, 19, 3))
    chains = [
        Chain(draws={"joints": each}, warmup_seconds=1.0, sampling_seconds=1.0) for each in draws
    ]
    standards = SimpleNamespace(failures=None, caveat="")
    found = efficiency("any", chains, standards)
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
