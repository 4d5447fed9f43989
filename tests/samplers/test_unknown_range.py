"""Posteriors under a Matern prior of unknown range and standard deviation."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from calibration import ranks_of, uniformity
from monte_carlo import assert_same_mean, stacked
from structured import box_mesh

from invlift.app.sampling import sample
from invlift.fem.priors.hierarchical_matern import hierarchical_matern_prior
from invlift.fem.priors.matern import matern_prior
from invlift.inverse.distributions import lognormal
from invlift.inverse.inverse_problem import inverse_problem
from invlift.inverse.models.jax_function import JaxFunction
from invlift.inverse.noise import known_noise
from invlift.inverse.problem import InverseProblem
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.samplers.kernels import ConstrainedHMC

RANGE, STD, SIGMA = 0.8, 1.2, 0.3
OBSERVED = np.array([1.6, 0.9, -0.8])


def at_nodes(field):
    """Three nonlinear readings of a field at some of its nodes."""
    return jnp.stack([field[0] + 0.3 * field[4] ** 2, jnp.exp(0.5 * field[4]), field[7] - field[2]])


def unknown_prior(scale):
    return hierarchical_matern_prior(
        box_mesh(2, 2),
        correlation_range=lognormal(math.log(RANGE), scale),
        std=lognormal(math.log(STD), scale),
        smoothness=1.0,
    )


def known_prior(std=STD):
    return matern_prior(box_mesh(2, 2), correlation_range=RANGE, std=std, smoothness=1.0)


def run_of(prior, seed):
    problem = inverse_problem(JaxFunction(at_nodes), prior, known_noise(SIGMA), OBSERVED)
    return sample(problem, chains=4, warmup=150, draws=1000, seed=seed)


def assert_same_fields(first, second):
    """Means and second moments of the field at all nodes."""
    for node in range(first.shape[-1]):
        for power in (1, 2):
            assert_same_mean(first[..., node] ** power, second[..., node] ** power)


@pytest.mark.slow
def test_nearly_known_range_and_std_are_those_of_the_known():
    run = run_of(unknown_prior(1e-6), seed=1)
    np.testing.assert_allclose(stacked(run, "prior_range"), RANGE, rtol=1e-5)
    np.testing.assert_allclose(stacked(run, "prior_std"), STD, rtol=1e-5)
    field = stacked(run, "parameters")
    assert_same_fields(field, stacked(run_of(known_prior(), seed=2), "parameters"))
    # Negative control: a standard deviation that is half as large again.
    with pytest.raises(AssertionError, match="standard errors"):
        assert_same_fields(field, stacked(run_of(known_prior(1.5 * STD), seed=2), "parameters"))


def calibrate(*factors):
    """P-values of range, std, two values of the field and a reading.

    For each factor by which the sampler's prior has the median of the standard deviation too large.
    """
    prior = unknown_prior(0.5)
    model = JaxFunction(at_nodes)

    def quantities(theta):
        field = prior.transform(theta)
        return jnp.concatenate([theta[:2], field[jnp.array([4, 8])], at_nodes(field)[:1]])

    def replicate(rng_key, factor):
        key_truth, key_noise, key_run = jax.random.split(rng_key, 3)
        truth = jax.random.normal(key_truth, (prior.num_white,))
        noise = SIGMA * jax.random.normal(key_noise, (3,))
        observed = at_nodes(prior.transform(truth)) + noise
        wider = replace(prior.std, location=prior.std.location + jnp.log(factor))
        assumed = replace(prior, std=wider)
        problem = InverseProblem(model, assumed, known_noise(SIGMA), observed)
        return ranks_of(LiftedPosterior(problem), ConstrainedHMC(), key_run, truth, quantities)

    return uniformity(replicate, *((factor,) for factor in factors))


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform_and_those_of_another_prior_are_not():
    """Negative control: a prior whose standard deviations are twice as large."""
    right, wrong = calibrate(1.0, 2.0)
    assert right.min() > 0.01
    assert wrong.min() < 1e-4
