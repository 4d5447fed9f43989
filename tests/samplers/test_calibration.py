"""Simulation-based calibration (Talts et al. 2018) of a small nonlinear problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from sampler_cases import WithoutGramTerm

from invlift.inverse.models.jax_function import JaxFunction
from invlift.inverse.noise import lognormal_noise
from invlift.inverse.priors.standard_normal import StandardNormalPrior
from invlift.inverse.problem import InverseProblem
from invlift.inverse.starts import initial_position
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.samplers.kernels import ConstrainedHMC

pytestmark = pytest.mark.slow

NUM_REPLICATIONS = 240
#: Ranks 0 ... 7 among seven draws far apart: 30 replications expected at each.
NUM_KEPT, THINNING, NUM_WARMUP, STEP_SIZE = 7, 12, 60, 0.4


def bent(theta):
    """Two parameters, three observations, no symmetry."""
    first, second = theta
    return jnp.stack([first + 0.5 * second**2, jnp.exp(0.5 * second), jnp.sin(first) * second])


def rank_of_truth(system_class, prior_scale, rng_key):
    """Ranks of the true zeta, w and F among posterior draws, for data from a scaled prior."""
    key_truth, key_noise, key_start, key_run = jax.random.split(rng_key, 4)
    noise = lognormal_noise(-1.0, 0.5)
    truth = prior_scale * jax.random.normal(key_truth, (3,))
    sigma = noise.sigma(truth[:1])
    observed = bent(truth[1:]) + sigma * jax.random.normal(key_noise, (3,))
    problem = InverseProblem(JaxFunction(bent), StandardNormalPrior(jnp.zeros(2)), noise, observed)
    system = system_class(problem)

    def body(point, key):
        point, _ = ConstrainedHMC().step(system, key, point, STEP_SIZE)
        return point, point.position[:3]

    start = system.point(initial_position(problem, key_start))
    keys = jax.random.split(key_run, NUM_WARMUP + NUM_KEPT * THINNING)
    draws = jax.lax.scan(body, start, keys)[1][NUM_WARMUP + THINNING - 1 :: THINNING]

    def quantities(theta):
        return jnp.concatenate([theta, bent(theta[1:])[:1], theta[1:2] * theta[2:]])

    return jnp.sum(jax.vmap(quantities)(draws) < quantities(truth), axis=0)


def uniformity(system_class=LiftedPosterior, prior_scale=1.0):
    """Chi-square p-value of uniform ranks for each quantity."""
    keys = jax.random.split(jax.random.key(77), NUM_REPLICATIONS)
    ranks = jax.jit(jax.vmap(lambda key: rank_of_truth(system_class, prior_scale, key)))(keys)
    counts = [np.bincount(column, minlength=NUM_KEPT + 1) for column in np.asarray(ranks).T]
    return np.array([scipy.stats.chisquare(count).pvalue for count in counts])


def test_ranks_of_the_truth_are_uniform():
    assert uniformity().min() > 0.01


def test_ranks_are_not_uniform_for_truths_from_a_wider_prior():
    """Negative control: truths two and a half times as wide as the prior assumes."""
    assert uniformity(prior_scale=2.5).min() < 1e-4


def test_ranks_are_not_uniform_without_the_gram_term():
    """Negative control: the density that leaves out -(1/2) log det G."""
    assert uniformity(system_class=WithoutGramTerm).min() < 1e-4
