"""Kernels on an ordinary density: exact posteriors, adaptation, interruptions, undefined values."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc.metrics import default_metric
from monte_carlo import assert_mean_within, stacked
from sampler_cases import run_chain
from scipy.stats import chi2, kstest

from invlift.app.runs.sampling import sample
from invlift.errors import InputError
from invlift.files.tables import table_of_dataclass
from invlift.noise import gaussian_noise, known_noise
from invlift.problems.inverse_problem import jax_problem
from invlift.programs.pytrees import Module
from invlift.samplers.chains.adaptation import MetricAdaptation
from invlift.samplers.chains.chain import run_blocks
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import chain_key
from invlift.samplers.chains.saving import CheckpointStore, fingerprint
from invlift.samplers.chains.state import start_chain
from invlift.samplers.kernels import (
    HMC,
    KERNELS,
    MALA,
    MAMS,
    NUTS,
    EllipticalSlice,
    PositionDependentMALA,
    PositionDependentRandomWalk,
    PreconditionedCrankNicolson,
    RandomWalk,
    RiemannianHMC,
    SimplifiedManifoldMALA,
)
from invlift.samplers.kernels.euclidean import _metric
from invlift.unknowns.distributions import lognormal


class Density(Module):
    """A density relative to the standard normal one; a subclass says which."""

    def loglikelihood(self, theta):
        raise NotImplementedError

    def logdensity(self, theta):
        return self.loglikelihood(theta) - 0.5 * theta @ theta

    def describe(self, theta):
        return {"position": theta}, {}


class LinearAndSkewed(Density):
    """Two variables seen through a linear map with noise, and one of skewed density apart."""

    matrix: jax.Array
    observed: jax.Array

    def loglikelihood(self, theta):
        misfit = (self.matrix @ theta[:2] - self.observed) / 0.4
        return -0.5 * misfit @ misfit + 2.0 * theta[2] - 1.5 * jnp.exp(theta[2])

    def metric(self, theta):
        """Precision of the linear part, and minus the second derivative of the skewed one."""
        linear = self.matrix / 0.4
        data = jnp.zeros((3, 3)).at[:2, :2].set(linear.T @ linear)
        return jnp.eye(3) + data.at[2, 2].set(1.5 * jnp.exp(theta[2]))


TARGET = LinearAndSkewed(
    jnp.asarray([[1.0, 0.7], [0.2, -0.5], [0.4, 0.3]]), jnp.asarray([1.0, 0.3, -0.2])
)


def features(positions):
    first, second, skewed = np.moveaxis(positions, -1, 0)
    return np.stack(
        [first, second, first**2, second**2, first * second, skewed, skewed**2], axis=-1
    )


def exact_moments(target):
    """Closed form for the linear part, quadrature for the skewed one."""
    matrix, observed = np.asarray(target.matrix), np.asarray(target.observed)
    covariance = np.linalg.inv(np.eye(2) + matrix.T @ matrix / 0.4**2)
    mean = covariance @ matrix.T @ observed / 0.4**2
    second = covariance + np.outer(mean, mean)
    grid = np.linspace(-8, 8, 4001)
    mass = np.exp(-0.5 * grid**2 + 2.0 * grid - 1.5 * np.exp(grid))
    mass /= mass.sum()
    return np.array([*mean, second[0, 0], second[1, 1], second[0, 1], mass @ grid, mass @ grid**2])


def draws_of(target, kernel, warmup=300, draws=2000, size=3):
    starts = np.random.default_rng(4).normal(size=(4, size))
    return run_chains(target, Plan(kernel, warmup, draws), starts, seed=7)


SAMPLERS = [HMC(), NUTS(metric="dense"), EllipticalSlice(), RiemannianHMC(num_steps=4)]


def slow(case):
    return pytest.param(case, marks=pytest.mark.slow)


#: One proposal or one trajectory a transition: more of them are needed.
METROPOLIS = [
    MALA(),
    MAMS(),
    PositionDependentMALA(),
    PositionDependentRandomWalk(),
    PreconditionedCrankNicolson(),
    RandomWalk(),
    SimplifiedManifoldMALA(),
]


def test_every_kernel_on_densities_is_tried():
    fast = {type(kernel) for kernel in [*SAMPLERS, *METROPOLIS]}
    assert {kernel for kernel in KERNELS.values() if kernel.target_kind == "density"} == fast


def test_a_momentum_beyond_all_numbers_has_infinite_energy():
    inverse_mass, momentum = jnp.asarray([[1.0, -0.9], [-0.9, 1.0]]), jnp.asarray([1e200, 1e250])
    found, usual = _metric(inverse_mass).kinetic_energy, default_metric(inverse_mass).kinetic_energy
    assert found(momentum) == jnp.inf
    assert found(1e-200 * momentum) == usual(1e-200 * momentum) > 0.0
    # Negative control: as BlackJAX has it, it is minus infinity, and the trajectory accepted.
    assert not usual(momentum) >= 0.0


@pytest.mark.parametrize("kernel", [*SAMPLERS, *METROPOLIS], ids=str)
def test_moments_of_an_exact_posterior(kernel):
    warmup, draws = (600, 5000) if kernel in METROPOLIS else (300, 2000)
    run = draws_of(TARGET, kernel, warmup, draws)
    positions = features(stacked(run, "position"))
    assert_mean_within(positions, exact_moments(TARGET), min_ess=600)
    # Negative control: the posterior of other data.
    other = replace(TARGET, observed=TARGET.observed + 0.1)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(positions, exact_moments(other), min_ess=600)
    # What a kernel is adapted to is what its standards ask for.
    rates = np.array([chain.stats["acceptance_rate"].mean() for chain in run.chains])
    if kernel.standards.min_acceptance is not None:
        assert rates.min() > kernel.standards.min_acceptance
    # Windowed adaptation leaves few iterations to a metric's own step size.
    if kernel in METROPOLIS:
        assert abs(rates.mean() - kernel.target_acceptance) < 0.1


def test_energy_is_that_of_the_new_state():
    """Steps of 2.5 are unstable: most trajectories are rejected, and the momentum is a new one."""
    kernel = HMC()
    start = kernel.init(TARGET, jnp.asarray([0.4, 0.1, 0.3]))
    tuning = jnp.asarray(2.5), jnp.ones(3)
    step = jax.jit(jax.vmap(lambda key: kernel.step(TARGET, key, start, tuning)))
    new, recorded = step(jax.random.split(jax.random.key(3), 1000))
    stays = (new.position == start.position).all(axis=1)
    kinetic = (recorded["energy"] + new.logdensity)[stays]
    assert stays.mean() > 0.5
    # Half of chi-squared with three degrees of freedom.
    assert kstest(kinetic, chi2(3, scale=0.5).cdf).pvalue > 0.01


class SymmetricMALA(SimplifiedManifoldMALA, settings=True):
    """As if there were no drift, and the metric were the same everywhere."""

    def log_proposal(self, state, position, step_size):
        return jnp.zeros(())


def test_a_wrong_acceptance_probability_is_seen():
    """Negative control of the test above."""
    positions = features(stacked(draws_of(TARGET, SymmetricMALA(), draws=5000), "position"))
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(positions, exact_moments(TARGET), min_ess=300)


class Counted(LinearAndSkewed):
    """The same density; it tells of its evaluations."""

    def loglikelihood(self, theta):
        jax.debug.callback(lambda: EVALUATIONS.append("density"))
        return super().loglikelihood(theta)

    def metric(self, theta):
        jax.debug.callback(lambda: EVALUATIONS.append("metric"))
        return super().metric(theta)


EVALUATIONS = []


#: One of those that are accepted by the same function, and each other.
@pytest.mark.parametrize(
    "kernel",
    [MALA(), MAMS(), NUTS(), EllipticalSlice(), PositionDependentMALA(), *SAMPLERS[3:]],
    ids=str,
)
def test_evaluations_of_the_model_are_counted(kernel):
    target = Counted(TARGET.matrix, TARGET.observed)
    state = jax.jit(kernel.init)(target, jnp.asarray([0.5, -0.3, 0.2]))
    adaptation = kernel.adaptation
    tuning = adaptation.tuning(adaptation.init(3), np.asarray(True))
    step = jax.jit(kernel.step)
    total = 0
    jax.effects_barrier()
    EVALUATIONS.clear()
    for key in jax.random.split(jax.random.key(1), 5):
        state, statistics = step(target, key, state, tuning)
        total += int(statistics["num_factorisations"])
        assert statistics["num_steps"] >= 1
    jax.effects_barrier()
    assert len(EVALUATIONS) == total


def test_one_unknown_is_too_few_for_dynamics_on_a_sphere():
    problem = jax_problem(lambda theta: theta**3, 1, known_noise(0.3), np.array([0.5]))
    with pytest.raises(InputError, match="at least 2 unknowns, found 1"):
        sample(problem, "mams", chains=1, warmup=10, draws=10)


@pytest.mark.parametrize("name", KERNELS)
def test_options_that_cannot_be_are_refused(name):
    kernel = KERNELS[name]
    table = table_of_dataclass(kernel)
    assert kernel(**table().model_dump()) == kernel()
    wrong = {
        "target_acceptance": (0.0, 1.0),
        "num_inner": (0, 2.5),
        "num_steps": (0, 10**20),
        "max_doublings": (0, 64),
        "trajectory_length": (0.0, 1e9),
    }
    for option, values in wrong.items():
        for value in values if option in table.model_fields else ():
            with pytest.raises(ValueError, match=option):
                table.model_validate({option: value})


# Adaptation ---------------------------------------------------------------------------------------

SCALES = np.array([0.02, 1.0, 5.0])
CORRELATION = 0.8


class BadlyScaled(Density):
    """Normal, of very different scales, the last two correlated."""

    precision: jax.Array

    def loglikelihood(self, theta):
        return 0.5 * theta @ theta - 0.5 * theta @ self.precision @ theta


def badly_scaled():
    correlation = np.eye(3)
    correlation[1, 2] = correlation[2, 1] = CORRELATION
    return BadlyScaled(jnp.asarray(np.linalg.inv(correlation * np.outer(SCALES, SCALES))))


def test_warm_up_finds_the_scales():
    target, plan = badly_scaled(), Plan(NUTS(metric="dense"), 1000, 100)
    state = start_chain(plan, SCALES)
    chain = run_chain(target, plan, chain_key(3, 0), state)
    found = state.position.adaptation.inverse_mass
    assert chain.step_size > 0.3  # in the identity it would be as short as the smallest scale
    variances = np.diag(found)
    np.testing.assert_allclose(variances, SCALES**2, rtol=0.4)
    correlation = found[1, 2] / np.sqrt(variances[1] * variances[2])
    assert abs(correlation - CORRELATION) < 0.1
    # Negative control: another covariance.
    assert abs(found[0, 1]) < 0.3 * SCALES[0] * SCALES[1]


def test_metric_is_estimated_from_the_positions_of_its_window():
    """The schedule says which count; the estimate is shrunk as in Stan."""
    adaptation = MetricAdaptation("diagonal", 0.8)
    schedule = adaptation.schedule(200)
    positions = np.random.default_rng(0).normal(size=(200, 3)) * SCALES
    state = adaptation.init(3)
    update = jax.jit(adaptation.update)
    for stage, position in zip(schedule, positions, strict=True):
        state = update(state, stage, position, {"acceptance_rate": 0.8})
    last = np.flatnonzero(schedule[:, 1])[-1]
    earlier = np.flatnonzero(schedule[:last, 1])
    first = (earlier[-1] + 1) if earlier.size else np.flatnonzero(schedule[:, 0])[0]
    window = positions[first : last + 1]
    num = len(window)
    expected = num / (num + 5) * window.var(axis=0, ddof=1) + 1e-3 * 5 / (num + 5)
    np.testing.assert_allclose(state.inverse_mass, expected, rtol=1e-10)
    assert int(state.count) == 0


def test_a_step_size_after_a_warm_up_that_a_budget_ends_is_the_last_average():
    """Also right after the end of a window, where the search begins again."""
    adaptation = MetricAdaptation("diagonal", 0.8)
    state, stops = adaptation.init(3), np.asarray(False)
    assert adaptation.tuning(state, stops)[0] == pytest.approx(0.1)
    update, rates = jax.jit(adaptation.update), {"acceptance_rate": 0.5}
    for stage in ([1, 0], [1, 0], [1, 1]):
        before = state
        state = update(state, np.asarray(stage), np.ones(3), rates)
    last = update(before, np.asarray([1, 0]), np.ones(3), rates)
    expected = adaptation.tuning(last, stops)[0]
    assert adaptation.tuning(state, stops)[0] == pytest.approx(float(expected))
    assert expected < 0.5


# Interruptions ------------------------------------------------------------------------------------


#: Of each adaptation, and of each kind of state that is carried: in part, or not at all; those that
#: are carried whole are seen by test_carried_state.
@pytest.mark.parametrize("name", ["nuts", "pd-mala", "laplace"])
def test_stopped_and_saved_chain_goes_on_to_the_same_bits(name, tmp_path):
    kernel = NUTS(metric="dense") if name == "nuts" else KERNELS[name]()
    target, start = TARGET, np.array([0.0, 0.6, 0.8])
    plan = Plan(kernel, 90, 40)
    key = chain_key(8, 0)
    whole = run_chain(target, plan, key, start_chain(plan, start))
    store = CheckpointStore(tmp_path, fingerprint(target, plan, 8))
    store.claim(is_resuming=False)
    state = start_chain(plan, start)
    # In a window of the metric, at the end of the warm-up, and among the draws.
    for stop in (40, 90, 110):
        increments = []
        for block in run_blocks(target, plan, key, state.position):
            increments.append(state.add(plan, block))
            if block.end.iteration == stop:
                break
        store.save(0, state, increments)
        state = store.load(0, plan)
    chain = run_chain(target, plan, key, state)
    for group in ("draws", "stats", "warmup_stats"):
        expected = getattr(whole, group)
        assert expected.keys() == getattr(chain, group).keys()
        for each, values in expected.items():
            np.testing.assert_array_equal(getattr(chain, group)[each], values, err_msg=each)
    # Negative control: the chain walks, and another key leads elsewhere.
    other = run_chain(target, plan, chain_key(8, 1), start_chain(plan, start))
    assert not np.any(other.draws["position"] == whole.draws["position"])


# Undefined values ---------------------------------------------------------------------------------


class UndefinedAbove(Density):
    """A likelihood of one that is not a number where the first variable is above one half."""

    size: jax.Array

    def loglikelihood(self, theta):
        return jnp.where(theta[0] > 0.5, jnp.nan, jnp.sum(0.0 * self.size * theta))

    def metric(self, theta):
        return jnp.where(theta[0] > 0.5, jnp.nan, 2.0) * jnp.eye(theta.size)


#: Trajectories that reach the edge are rejected, however short their steps are.
SHORT = MAMS(trajectory_length=0.5, target_acceptance=0.6)


@pytest.mark.parametrize(
    "kernel", [EllipticalSlice(), PositionDependentMALA(), MALA(), slow(SHORT)], ids=str
)
def test_no_chain_ends_where_the_likelihood_is_not_a_number(kernel):
    target = UndefinedAbove(jnp.asarray(1.0))
    starts = np.full((4, 2), -1.0)
    warmup, draws = (10, 2000) if kernel == EllipticalSlice() else (200, 5000)
    run = run_chains(target, Plan(kernel, warmup, draws), starts, seed=2)
    positions = stacked(run, "position")
    assert positions[..., 0].max() <= 0.5
    # The standard normal distribution below one half: its mean is -phi(1/2) / Phi(1/2).
    assert_mean_within(positions[..., 0], np.array(-0.3520653 / 0.6914625), min_ess=1000)


# Posteriors with unknown noise --------------------------------------------------------------------


def mild(theta):
    return jnp.stack([theta[0] + 0.2 * theta[1] ** 2, jnp.exp(0.3 * theta[1]) - theta[0]])


OBSERVED = np.array([0.9, 0.6])


def moments(first, second, log_sigma):
    return np.stack([first, second, second**2, log_sigma], axis=-1)


@cache
def exact_moments_of_mild():
    """By the trapezoid rule on a grid."""
    axis = np.linspace(-5.0, 5.0, 101)
    first, second, zeta = np.meshgrid(axis, axis, axis, indexing="ij")
    log_sigma = np.log(0.5) + 0.2 * zeta
    predicted = first + 0.2 * second**2, np.exp(0.3 * second) - first
    misfit = sum((y - f) ** 2 for y, f in zip(OBSERVED, predicted, strict=True))
    squares = first**2 + second**2 + zeta**2 + misfit * np.exp(-2.0 * log_sigma)
    mass = np.exp(-0.5 * squares - 2.0 * log_sigma)
    return np.einsum("ijk,ijkm->m", mass, moments(first, second, log_sigma)) / mass.sum()


def assert_moments(method, draws):
    problem = jax_problem(mild, 2, gaussian_noise(lognormal(np.log(0.5), 0.2)), OBSERVED)
    run = sample(problem, method, warmup=400, draws=draws, seed=5)
    theta, sigma = stacked(run, "parameters"), stacked(run, "sigma")
    assert_mean_within(moments(*np.moveaxis(theta, -1, 0), np.log(sigma)), exact_moments_of_mild())


#: Those without a test of their own; more draws where steps are small.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "draws"),
    [
        ("constrained-langevin", 6000),
        ("constrained-rwm", 15_000),
        ("laplace-mala", 6000),
        ("gpcn", 20_000),
    ],
)
def test_kernels_agree_with_quadrature_on_a_nonlinear_problem(method, draws):
    assert_moments(method, draws)


@pytest.mark.slow
def test_the_laplace_approximation_is_not_the_posterior():
    """Negative control."""
    with pytest.raises(AssertionError, match="standard errors"):
        assert_moments("laplace", 12_000)
