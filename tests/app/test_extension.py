"""Parts of a user: one class each, and one line each that registers what files name.

They go through the problem file, sampling, interruption, resumption and the verdict like those of
the library.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problem_files import trace_a_step, write_problem

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.app.runs.sampling import sample, target_of
from invlift.fem.mesh.mesh import Mesh
from invlift.files.tables import number
from invlift.lift.jacobians import ConstraintJacobian, JacobianStructure
from invlift.lift.jacobians.diagonal import DiagonalFactor
from invlift.models.base import ForwardModel
from invlift.noise import unknown_scale
from invlift.noise.base import Noise
from invlift.noise.scales import as_scale
from invlift.problems.choice.lift_choice import Choice
from invlift.problems.inverse_problem import inverse_problem, jax_problem
from invlift.programs.pytrees import aside, static
from invlift.samplers.chains.adaptation import DualAveraging
from invlift.samplers.kernels import KERNELS
from invlift.samplers.kernels.base import Kernel, Standards
from invlift.tables.distributions import DISTRIBUTIONS, DistributionTable
from invlift.tables.noise import NOISES, NoiseTable
from invlift.tables.priors import PRIORS, PriorTable
from invlift.unknowns.distributions import Positive
from invlift.unknowns.priors.base import Prior, StandardNormalPrior


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


class HyperbolicNoise(Noise):
    """Noise of heavy tails, by a function that compiles in no time."""

    def transform(self, eta):
        return jnp.sinh(eta)

    def inverse_transform(self, value):
        return jnp.arcsinh(value)


class HyperbolicTable(NoiseTable):
    """[noise] kind = "hyperbolic"."""

    def build(self, sensors, where):
        return HyperbolicNoise(as_scale(self.scale(sensors, where)))


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


class HeavyTailed(Positive):
    """scale exp(sinh(Z) / 2) with Z standard normal."""

    scale: jax.Array

    @property
    def shape(self):
        return ()

    @property
    def log_median(self):
        return jnp.log(self.scale)

    @property
    def log_sd(self):
        return jnp.asarray(0.5 * np.sqrt(0.5 * np.expm1(2.0)))

    def transform(self, white):
        return self.scale * jnp.exp(0.5 * jnp.sinh(white[0]))

    def log_density_of_log(self, log_value):
        double = 2.0 * (log_value - jnp.log(self.scale))
        change = jnp.log(0.5 * jnp.sqrt(1.0 + double**2)) + log_value
        return -0.5 * jnp.arcsinh(double) ** 2 - 0.5 * np.log(2.0 * np.pi) - change


class HeavyTailedTable(DistributionTable):
    """distribution = "heavy-tailed"."""

    scale: number(1e-9, 1e9)

    def build(self):
        return HeavyTailed(jnp.asarray(self.scale))


class BackwardsJacobian(ConstraintJacobian):
    """Constraint i depends on the i-th variable from the end."""

    entries: jax.Array

    def apply(self, vector):
        return self.entries * vector[::-1]

    def apply_transpose(self, multiplier):
        return (self.entries * multiplier)[::-1]

    def inner(self, other=None):
        return DiagonalFactor(self.entries * (self if other is None else other).entries)


class Backwards(JacobianStructure, settings=True):
    """Of as many variables as constraints."""

    def num_variables(self, num_constraints):
        return num_constraints

    def differentiate(self, fn, at):
        value, entries = jax.jvp(fn, (at,), (jnp.ones_like(at),))
        return value, BackwardsJacobian(entries)


class Recording(ForwardModel):
    """A wave of two unknowns, and an error for each reading."""

    def __call__(self, inputs):
        return jnp.sin(inputs[0] + inputs[1] * jnp.arange(5)) + 0.2 * inputs[:1:-1]


def without_a_mesh():
    """x_0 exp(-x_1 t) at three times."""

    def decay(white):
        first, rate = jnp.array([2.0, 1.0]) * jnp.exp(0.5 * white)
        return first * jnp.exp(-rate * jnp.array([0.5, 1.0, 2.0]))

    noise = HyperbolicNoise(unknown_scale(HeavyTailed(jnp.array(0.1))))
    return jax_problem(decay, 2, noise, np.array([1.5, 0.9, 0.4]))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The four lines."""
    monkeypatch.setitem(DISTRIBUTIONS, "heavy-tailed", HeavyTailedTable)
    monkeypatch.setitem(KERNELS, "walk", RandomWalk)
    monkeypatch.setitem(NOISES, "hyperbolic", HyperbolicTable)
    monkeypatch.setitem(PRIORS, "level", LevelTable)


MINE = {
    "sampler.method": "walk",
    "sampler.options": {"shape": "uniform"},
    "noise.kind": "hyperbolic",
    "noise.sigma": {"distribution": "heavy-tailed", "scale": 0.1},
    "prior": {"kind": "level", "spread": 0.4},
}


def test_what_a_user_adds_goes_through_a_problem_file(tmp_path):
    path = write_problem(tmp_path, MINE)
    spec = read_problem(path)
    path.write_text(spec.to_toml())
    assert read_problem(path) == spec
    trace_a_step(build_problem(spec), spec.sampler.kernel())


def test_it_runs_like_the_rest(tmp_path):
    problem, settings = without_a_mesh(), {"method": RandomWalk(), "chains": 2, "warmup": 30}
    whole = sample(problem, draws=60, **settings)
    sample(problem, draws=20, checkpoint=tmp_path / "chains", **settings)
    resumed = sample(problem, draws=60, checkpoint=tmp_path / "chains", resume=True, **settings)
    for one, other in zip(whole.chains, resumed.chains, strict=True):
        for quantity, draws in one.draws.items():
            np.testing.assert_array_equal(draws, other.draws[quantity])
    assert "accepted" not in str(
        problem.posterior(resumed).verdict()
    )  # by the kernel's own standards
    assert np.ptp(whole.chains[0].draws["predicted"], axis=0).min() > 0.0


@jax.jit
def look(target, position):
    """What the samplers on a manifold ask of a target."""
    point = target.point(position)
    normal = target.apply_jacobian_transpose(point, target.constraint(position))
    return point.logdensity, normal, target.solve_gram(point, target.apply_jacobian(point, normal))


def test_a_structure_changes_nothing_but_the_cost():
    prior, readings = StandardNormalPrior(jnp.zeros(7)), jnp.array([0.1, 0.5, 0.9, 0.8, 0.2])
    position, kernel = 0.3 * np.random.default_rng(1).standard_normal(7), KERNELS["chmc"]()
    found, expected = (
        look(target_of(inverse_problem(Recording(), prior, None, readings, **given), kernel,
                       Choice(1.0)), position)
        for given in ({"structure": Backwards()}, {})
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert np.abs(found[2]).min() > 1e-3
