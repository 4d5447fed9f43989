"""Posteriors under a Matern prior of unknown range and standard deviation."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from calibration import ranks_of, uniformity
from structured import box_mesh

from invlift.fem.fields.matern_prior import matern_prior
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.models.base import JaxFunction
from invlift.noise import known_noise
from invlift.problems.problem import InverseProblem
from invlift.samplers.kernels import ConstrainedHMC
from invlift.unknowns.distributions import lognormal

SIGMA = 0.3


def at_nodes(field):
    """Three nonlinear readings of a field at some of its nodes."""
    return jnp.stack([field[0] + 0.3 * field[4] ** 2, jnp.exp(0.5 * field[4]), field[7] - field[2]])


def calibrate(*factors):
    """P-values of range, std, two values of the field and a reading.

    For each factor by which the sampler's prior has the median of the standard deviation too large.
    """
    prior = matern_prior(
        box_mesh(2, 2),
        range=lognormal(math.log(0.8), 0.5),
        std=lognormal(math.log(1.2), 0.5),
        smoothness=1.0,
    )
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

    return uniformity(replicate, *((factor,) for factor in factors), num=120)


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform_and_those_of_another_prior_are_not():
    """Negative control: a prior whose standard deviations are twice as large."""
    right, wrong = calibrate(1.0, 2.0)
    assert right.min() > 0.01
    assert wrong.min() < 1e-4
