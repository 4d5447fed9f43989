"""A kernel, a noise and a prior of a user: one class each, registered by one line each.

They go through the problem file, sampling, interruption, resumption and the verdict like those of
the library.
"""

import tomllib
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problem_files import write_problem

from invlift.app.build import build_problem
from invlift.app.problem_file import read_problem
from invlift.app.results import build_posterior
from invlift.app.sampling import sample
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.priors import PRIORS
from invlift.fem.priors.base import PriorTable
from invlift.files.tables import number
from invlift.inverse.noise import NOISES
from invlift.inverse.noise.base import Noise
from invlift.inverse.noise.scales import known_scale
from invlift.inverse.noise.tables import NoiseTable
from invlift.inverse.priors.base import Prior
from invlift.programs.pytrees import aside, static
from invlift.samplers.chains.adaptation import DualAveraging
from invlift.samplers.kernels import KERNELS
from invlift.samplers.kernels.base import Kernel, Standards


class RandomWalk(Kernel, settings=True):
    """Random-walk Metropolis with steps of a shape that an option chooses."""

    standards = Standards(min_acceptance=0.01)

    shape: Literal["normal", "uniform"] = "normal"
    acceptance: number(0.01, 0.99) = 0.234

    @property
    def adaptation(self):
        return DualAveraging(self.acceptance, initial=0.1, least=1e-6, most=10.0)

    def init(self, target, position):
        return position, target.logdensity(position)

    def position(self, state):
        return state[0]

    def step(self, target, rng_key, state, tuning):
        key_move, key_accept = jax.random.split(rng_key)
        position, logdensity = state
        draw = {"normal": jax.random.normal, "uniform": jax.random.uniform}[self.shape]
        moved = position + tuning * draw(key_move, position.shape)
        new = target.logdensity(moved)
        rate = jnp.nan_to_num(jnp.exp(jnp.minimum(new - logdensity, 0.0)))
        is_accepted = jax.random.uniform(key_accept) < rate
        state = jax.tree.map(
            lambda new, old: jnp.where(is_accepted, new, old), (moved, new), (position, logdensity)
        )
        return state, {"acceptance_rate": rate, "num_factorisations": jnp.asarray(1)}


class LogisticNoise(Noise):
    """Logistic noise, by its quantile function."""

    def transform(self, eta):
        return jax.scipy.special.log_ndtr(eta) - jax.scipy.special.log_ndtr(-eta)

    def inverse_transform(self, value):
        return jax.scipy.special.ndtri(jax.nn.sigmoid(value))


class LogisticTable(NoiseTable):
    """[noise] kind = "logistic"."""

    def build(self, sensors, where):
        return LogisticNoise(known_scale(self.scale(sensors, where)))


class LevelPrior(Prior):
    """One unknown level for the whole body, not Gaussian."""

    mean: jax.Array
    spread: jax.Array
    location: str = static(default="nodes")
    mesh: Mesh | None = aside()

    @property
    def num_white(self):
        return 2

    def transform(self, white):
        return self.mean + self.spread * jnp.sinh(white[0] + 0.1 * white[1])

    def pointwise_std(self):
        return np.full(self.mean.shape, float(self.spread))


class LevelTable(PriorTable):
    """[prior] kind = "level"."""

    spread: float

    def build(self, mesh, where):
        return LevelPrior(jnp.zeros(mesh.num_nodes), jnp.asarray(self.spread), mesh=mesh)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The three lines."""
    monkeypatch.setitem(KERNELS, "walk", RandomWalk)
    monkeypatch.setitem(NOISES, "logistic", LogisticTable)
    monkeypatch.setitem(PRIORS, "level", LevelTable)


MINE = {
    "kernel": {"sampler.method": "walk", "sampler.options": {"shape": "uniform"}},
    "noise": {"noise.kind": "logistic", "noise.sigma": 0.1},
    "prior": {"prior": {"kind": "level", "spread": 0.4}},
    "all three": {
        "sampler.method": "walk",
        "noise.kind": "logistic",
        "prior": {"kind": "level", "spread": 0.4},
    },
}


@pytest.mark.parametrize("name", MINE)
def test_what_a_user_adds_runs_like_the_rest(tmp_path, name):
    path = write_problem(tmp_path, MINE[name] | {"sampler.warmup": 30, "sampler.draws": 60})
    spec = read_problem(path)
    assert read_again(tmp_path, spec) == spec
    field = build_problem(spec)
    settings = {"kernel": spec.sampler.kernel(), "chains": 2, "warmup": 30, "seed": 3}
    whole = sample(field.problem, draws=60, **settings)
    sample(field.problem, draws=20, checkpoint=tmp_path / "chains", **settings)
    resumed = sample(
        field.problem, draws=60, checkpoint=tmp_path / "chains", resume=True, **settings
    )
    for one, other in zip(whole.chains, resumed.chains, strict=True):
        for quantity, draws in one.draws.items():
            np.testing.assert_array_equal(draws, other.draws[quantity])
    posterior = build_posterior(field, resumed, 60)
    verdict = posterior.verdict()
    assert "accepted" not in str(verdict)  # by its own standards
    assert np.ptp(whole.chains[0].draws["predicted"], axis=0).min() > 0.0
    files = posterior.write(tmp_path / "results")
    assert all(file.exists() for file in files)


def read_again(folder, spec):
    """The problem as written and read once more."""
    copy = folder / "problem.toml"
    copy.write_text(spec.to_toml())
    assert tomllib.loads(copy.read_text())["prior"]["kind"] == spec.prior.kind
    return read_problem(copy)
