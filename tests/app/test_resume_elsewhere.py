"""A run goes on where what is computed for it comes out differently."""

import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from invlift.app.runs.sampling import sample
from invlift.errors import InputError
from invlift.noise import gaussian_noise
from invlift.problems import scale_coordinate
from invlift.problems.inverse_problem import jax_problem
from invlift.problems.scale_coordinate import typical_scale
from invlift.samplers.kernels import HMC
from invlift.unknowns.distributions import lognormal


def bent(theta, slope):
    return slope * theta + 0.2 * jnp.sin(theta)


def build(slope=1.5):
    observed = np.array([0.3, -1.1, 0.8])
    return jax_problem(bent, 3, gaussian_noise(lognormal(-1.0, 1.0)), observed, arguments=(slope,))


def run(folder=None, problem=None, draws=40, **options):
    problem = problem or build()
    settings = {"method": "hmc", "chains": 2, "warmup": 20, "seed": 4, "checkpoint": folder}
    return sample(problem, draws=draws, **settings | options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    run(folder, draws=20)
    return folder


@pytest.fixture
def copied(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "chains")


def test_another_scale_found_on_resume_does_not_change_the_run(copied, monkeypatch):
    whole = run()
    scale = typical_scale(build())
    assert np.load(copied / "choices.npz")["scale"] == scale
    monkeypatch.setattr(scale_coordinate, "_estimate", lambda problem: 1.3 * scale)
    assert typical_scale(build()) != scale
    # Negative control: started with it, the run is another one.
    other = run()
    resumed = run(copied, resume=True)
    for chain, expected, apart in zip(resumed.chains, whole.chains, other.chains, strict=True):
        np.testing.assert_array_equal(chain.draws["sigma"], expected.draws["sigma"])
        assert not np.any(chain.draws["sigma"] == apart.draws["sigma"])
    with pytest.raises(InputError, match="problem: expected this problem"):
        run(copied, build(slope=1.6), resume=True)
    with pytest.raises(InputError, match="resume with the same problem and options"):
        run(copied, method=HMC(target_acceptance=0.9), resume=True)


def test_a_run_without_its_choices_is_refused(copied):
    for content in (b"", b"PK", None):
        (copied / "choices.npz").write_bytes(content) if content is not None else (
            copied / "choices.npz"
        ).unlink()
        with pytest.raises(InputError, match=r"choices.npz.*what a run has chosen"):
            run(copied, resume=True)
