"""Censored readings: a limit is all that is known of them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import laplace, norm

import invlift
from invlift.app.runs.sampling import choice_of, find_kernel, sample, target_of
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.models.base import JaxFunction
from invlift.noise import gaussian_noise, laplace_noise, student_t_noise, unknown_scale
from invlift.problems.choice.lift_choice import Choice
from invlift.problems.choice.partly_lifted import Reference, referred
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.laplace_approximation import LaplaceApproximation
from invlift.programs.compilation import Program
from invlift.unknowns.priors.base import StandardNormalPrior

LIMITS = np.array(["", "<", "", "", ">", "", "", "<"])
OBSERVED = np.array([1.1, 0.8, 0.7, 1.9, 1.2, 0.6, 1.4, 2.5])
GROUPS = np.array([0, 0, 0, 1, 1, 1, 1, 1])
MEDIAN = invlift.lognormal(median=0.2, factor=2.0)
NOISES = {
    "of each": gaussian_noise(np.linspace(0.1, 0.4, 8)),
    "groups": gaussian_noise(unknown_scale([MEDIAN, MEDIAN], GROUPS)),
    "relative": gaussian_noise(MEDIAN, relative=True),
}


def curved(theta, matrix):
    return jnp.exp(0.3 * (matrix @ theta))


def problem_of(noise, limits=LIMITS, observed=OBSERVED, fn=curved, num_unknowns=3):
    matrix = np.random.default_rng(0).standard_normal((len(observed), num_unknowns))
    model = JaxFunction(fn, (jnp.asarray(matrix),))
    prior = StandardNormalPrior(jnp.zeros(num_unknowns))
    return inverse_problem(model, prior, noise.with_limits(limits), observed)


@partial(Program, effort="none")
def log_density_on_the_manifold(target, theta):
    """Of theta, with the area of the manifold above it, and its gradient as the target has it."""
    position = target.lift(theta)
    graph = jax.jacfwd(target.lift)(theta)
    point = target.point(position)
    area = 0.5 * jnp.linalg.slogdet(graph.T @ graph)[1]
    other = target.logdensity(position, point.gram)
    return point.logdensity - 0.5 * position @ position + area, point.logdensity - other


density = jax.jit(lambda target, theta: target.logdensity(theta))


@pytest.mark.parametrize("name", NOISES)
def test_the_lifted_density_is_that_of_all_readings(name):
    problem = problem_of(NOISES[name])
    target = target_of(problem, find_kernel("chmc"), Choice(None))
    ordinary, off = OrdinaryPosterior(target.problem.whole), []
    assert target.problem.num_observations == 5
    for seed in range(3):
        theta = 0.5 * np.random.default_rng(seed).standard_normal(problem.num_unknowns)
        found, by_definition = log_density_on_the_manifold(target, theta)
        off.append(found - density(ordinary, theta))
        assert abs(float(by_definition)) < 1e-9
    constant = 0.5 * 5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(off, constant, atol=1e-9)


PATH = np.array([0.7, 0.2, 0.4])
PATHS = {
    "state space": lambda noise: invlift.state_space(
        lambda t, state, push, rate: {"level": rate * state["level"] + 0.5 * push[0]},
        {"rate": invlift.normal(0.7, 0.2)},
        lambda push, rate: {"level": push[0]},
        {"level": PATH},
        noise,
    ),
    "diffusion": lambda noise: invlift.diffusion_problem(
        lambda t, state, rate: {"level": -rate * state["level"]},
        lambda t, state, rate: {"level": 0.5},
        {"rate": invlift.lognormal(median=0.8, factor=1.5)},
        lambda rate: {"level": 1.0},
        [0.5, 1.0, 2.0],
        {"level": PATH},
        noise,
        start=0.0,
        steps_per_interval=2,
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_limits_of_readings_of_a_path_are_no_readings(name):
    problem = PATHS[name](gaussian_noise(0.3).with_limits(["", "<", ">"]))
    target, off = target_of(problem, find_kernel("chmc"), Choice(None)), []
    predict = jax.jit(problem.predict)
    for seed in range(3):
        theta = 0.5 * np.random.default_rng(seed).standard_normal(problem.num_unknowns)
        found, _ = log_density_on_the_manifold(target, theta)
        scaled = (PATH - np.asarray(predict(theta))) / 0.3
        logs = norm.logpdf(scaled[0]), norm.logcdf(scaled[1]), norm.logsf(scaled[2])
        off.append(float(found) - norm.logpdf(theta).sum() - sum(logs))
    np.testing.assert_allclose(off, off[0], atol=1e-9)


def test_the_gradient_is_that_of_the_density():
    @jax.jit
    def look(target, theta):
        position = target.lift(theta)

        def density(position):
            white = target.split(position)[1]
            by_white = target.problem.value_and_jacobian(white)[1]
            return target.logdensity(position, target.jacobian(position, by_white).inner())

        return target.point(position).logdensity_grad, jax.grad(density)(position)

    target = problem_of(NOISES["groups"]).lifted()
    theta = 0.5 * np.random.default_rng(3).standard_normal(target.problem.num_unknowns)
    found, expected = look(target, theta)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_log_probabilities_are_those_of_scipy():
    predicted = np.linspace(0.5, 3.0, 8)
    for noise, law in ((gaussian_noise(0.2), norm), (laplace_noise(0.2), laplace)):
        limited = noise.with_limits(LIMITS)
        found = jax.jit(limited.log_densities)(predicted, OBSERVED, 0.2)
        below = law.logcdf(OBSERVED, predicted, 0.2)
        above = law.logsf(OBSERVED, predicted, 0.2)
        plain = law.logpdf(OBSERVED, predicted, 0.2)
        expected = np.where(LIMITS == "<", below, np.where(LIMITS == ">", above, plain))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def line(theta, matrix):
    return jnp.abs(matrix[:, 0]) * theta[0]


def test_draws_are_those_of_the_posterior_on_a_grid():
    """And not those of readings that are the limits."""
    problem = problem_of(gaussian_noise(0.5), fn=line, num_unknowns=1)
    grid = np.linspace(-6.0, 6.0, 20001)
    predicted = np.abs(np.random.default_rng(0).standard_normal(8)) * grid[:, None]
    plain = norm.logpdf(OBSERVED, predicted, 0.5)
    logs = np.where(LIMITS == "<", norm.logcdf(OBSERVED, predicted, 0.5), plain)
    logs = np.where(LIMITS == ">", norm.logsf(OBSERVED, predicted, 0.5), logs)
    weights = norm.pdf(grid)[:, None] * np.exp(np.stack([logs, plain], axis=2).sum(axis=1))
    mean, wrong = grid @ weights / weights.sum(axis=0)
    sd = np.sqrt((grid - mean) ** 2 @ weights[:, 0] / weights[:, 0].sum())
    run = sample(problem, "chmc", chains=2, warmup=200, draws=1500, seed=1)
    draws = np.concatenate([chain.draws["parameters"][:, 0] for chain in run.chains])
    error = sd / np.sqrt(300)  # of 300 effective draws
    assert abs(draws.mean() - mean) < 4.0 * error
    assert abs(draws.std() / sd - 1.0) < 4.0 / np.sqrt(2 * 300)
    assert abs(draws.mean() - wrong) > 4.0 * error


def test_what_is_kept_of_many_readings_is_the_posterior_as_well():
    """Of more than 30 readings combinations are lifted: censored ones are never among them."""
    rng, size = np.random.default_rng(4), 44
    matrix = rng.standard_normal((size, 33)) / 6.0
    observed = matrix @ rng.standard_normal(33) + 0.1 * rng.standard_normal(size)
    limits = np.array(["<", "", "", ">"])[np.arange(size) % 4]
    model = JaxFunction(lambda theta, matrix: matrix @ theta, (jnp.asarray(matrix),))
    noise = gaussian_noise(0.1).with_limits(limits)
    prior = StandardNormalPrior(jnp.zeros(33))
    problem, kernel = inverse_problem(model, prior, noise, observed), find_kernel("chmc")
    target = target_of(problem, kernel, choice_of(problem, kernel))
    theta = 0.3 * rng.standard_normal((3, 33))
    ordinary, off = OrdinaryPosterior(problem), []
    for each in theta:
        own = target.problem.reference.whiten(each) if hasattr(target.problem, "matrix") else each
        found, _ = log_density_on_the_manifold(target, own)
        off.append(found - density(ordinary, each))
    np.testing.assert_allclose(np.ptp(off), 0.0, atol=1e-8)


@pytest.mark.parametrize("limits", [LIMITS, np.full(8, "")], ids=["limits", "none"])
def test_a_reference_does_not_change_the_density(limits):
    """Of relative noise, whether readings are censored or not."""
    problem = problem_of(NOISES["relative"], limits)
    of_each = [
        LaplaceApproximation(np.full(num, 0.2), np.eye(num), np.full(num, 3.0)) for num in (1, 3)
    ]
    target = OrdinaryPosterior(referred(problem, jax.device_put(Reference(*of_each))))
    ordinary, off = OrdinaryPosterior(problem), []
    unknowns = jax.jit(lambda target, own: target.unknowns(own))
    for seed in range(3):
        own = 0.5 * np.random.default_rng(seed).standard_normal(target.dimension)
        off.append(density(target, own) - density(ordinary, unknowns(target, own)))
    np.testing.assert_allclose(off, off[0], atol=1e-8)


def test_a_simulated_reading_beyond_its_limit_is_the_limit():
    problem = problem_of(gaussian_noise(0.2))
    rng, signs = np.random.default_rng(5), np.asarray(problem.noise.censored)
    numbers = []
    for _ in range(40):
        made, _ = problem.simulate(rng)
        own = np.asarray(made.noise.censored)
        is_limit = own != 0.0
        assert (own[is_limit] == signs[is_limit]).all()
        np.testing.assert_array_equal(np.asarray(made.observed)[is_limit], OBSERVED[is_limit])
        is_within = (signs != 0.0) & ~is_limit
        assert (signs * (np.asarray(made.observed) - OBSERVED) < 0.0)[is_within].all()
        assert made.rows == tuple(np.flatnonzero(~is_limit))
        numbers.append(is_limit.sum())
    assert len(set(numbers)) > 1


def test_what_cannot_be_censored_is_refused():
    with pytest.raises(invlift.InputError, match=r"gaussian.*laplace") as refused:
        student_t_noise(0.2, 4.0).with_limits(LIMITS)
    assert "StudentTNoise" in str(refused.value)
    with pytest.raises(invlift.InputError, match="not censored"):
        gaussian_noise(0.2).with_limits(np.full(8, "<"))
