"""Readings that are combinations of fewer numbers: the posterior is the same to a constant."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import invlift
from invlift.app.sampling import target_of
from invlift.app.start_search import name_of_reading
from invlift.inverse.inverse_problem import inverse_problem
from invlift.inverse.models.combinations import Combinations
from invlift.inverse.models.jax_function import JaxFunction
from invlift.inverse.noise import gaussian_noise, laplace_noise, unknown_scale
from invlift.inverse.priors.standard_normal import StandardNormalPrior
from invlift.inverse.reduced import ReducedProblem, reduced
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.samplers.kernels import KERNELS

RNG = np.random.default_rng(2)
#: Twelve readings of four numbers, of which three are told apart.
MATRIX = RNG.standard_normal((12, 3)) @ RNG.standard_normal((3, 4))
READINGS = RNG.standard_normal(12)
NOISES = {
    "known": gaussian_noise(0.3),
    "of each": gaussian_noise(0.1 + RNG.random(12)),
    "unknown": gaussian_noise(invlift.lognormal(median=0.5, factor=2.0)),
}


def numbers(theta):
    return jnp.stack([jnp.sin(theta[0]), theta[1] ** 2, theta[0] * theta[1], theta[2]])


def problem_of(noise, matrix=MATRIX):
    model = Combinations(JaxFunction(numbers), jnp.asarray(matrix))
    prior = StandardNormalPrior(jnp.zeros(3))
    return inverse_problem(model, prior, noise, READINGS[: len(matrix)])


def spread(one, other):
    """How much two log densities differ by more than a constant."""
    at = np.random.default_rng(1).standard_normal((8, one.num_unknowns))
    found = (jax.jit(jax.vmap(OrdinaryPosterior(each).logdensity))(at) for each in (one, other))
    return np.ptp(np.subtract(*found))


@pytest.mark.parametrize("name", NOISES)
def test_the_posterior_is_the_same(name):
    whole = problem_of(NOISES[name])
    small = reduced(whole)
    assert small.num_observations == 3
    assert spread(whole, small) < 1e-9
    if name == "unknown":  # negative control: what no numbers explain tells of the noise
        without = replace(small, noise=replace(small.noise, squares=jnp.zeros(())))
        assert spread(whole, without) > 0.1


@pytest.mark.parametrize("name", NOISES)
def test_draws_are_of_all_readings(name):
    whole = problem_of(NOISES[name])
    target = target_of(whole, KERNELS["chmc"]())
    assert isinstance(target.problem, ReducedProblem)
    theta = 0.5 * RNG.standard_normal(whole.num_unknowns)
    as_whole = target.problem.whole

    @jax.jit
    def look(theta):
        point = target.point(LiftedPosterior(target.problem).lift(theta))
        return target.describe(point)[0], OrdinaryPosterior(as_whole).describe(theta)[0]

    found, expected = look(theta)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-12)
    assert found["noise_score"].shape == (12,)
    np.testing.assert_array_equal(as_whole.observed, whole.observed)
    assert name_of_reading(target.problem, 2) == "combination 2 of the readings"


def test_others_stay_as_they_are():
    each = gaussian_noise(unknown_scale(invlift.half_normal(1.0), np.arange(12) % 2))
    for problem in (
        problem_of(each),
        problem_of(laplace_noise(0.3)),
        problem_of(gaussian_noise(0.3), MATRIX[:3]),
        inverse_problem(JaxFunction(numbers), StandardNormalPrior(jnp.zeros(3)), 0.3, READINGS[:4]),
    ):
        assert reduced(problem) is problem


@pytest.mark.slow
@pytest.mark.usefixtures("programs_of_short_chains")
def test_a_run_samples_fewer_numbers():
    problem = problem_of(NOISES["unknown"])
    run = invlift.sample(problem, chains=1, warmup=10, draws=5, seed=1)
    draws = run.chains[0].draws
    assert draws["predicted"].shape == (5, 12)
    noise = problem.observed - draws["predicted"]
    np.testing.assert_allclose(draws["noise_score"] * draws["sigma"][:, None], noise, atol=1e-9)
