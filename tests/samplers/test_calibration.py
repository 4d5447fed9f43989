"""Simulation-based calibration of a small nonlinear problem."""

import jax
import jax.numpy as jnp
import pytest
from calibration import ranks_of, uniformity
from without_gram_term import WithoutGramTerm

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.models.base import JaxFunction
from invlift.noise import gaussian_noise
from invlift.problems.problem import InverseProblem
from invlift.samplers.kernels import ConstrainedHMC
from invlift.unknowns.distributions import lognormal
from invlift.unknowns.priors.base import StandardNormalPrior

pytestmark = [pytest.mark.slow, pytest.mark.long_chains]


def bent(theta):
    """Two parameters, three observations, no symmetry."""
    first, second = theta
    return jnp.stack([first + 0.5 * second**2, jnp.exp(0.5 * second), jnp.sin(first) * second])


def quantities(theta):
    return jnp.concatenate([theta, bent(theta[1:])[:1], theta[1:2] * theta[2:]])


def calibrate(*prior_scales, system_class=LiftedPosterior):
    """P-values of the true zeta, w, F and a product, for data from each scaled prior."""
    noise = gaussian_noise(lognormal(-1.0, 0.5))
    prior = StandardNormalPrior(jnp.zeros(2))

    def replicate(rng_key, prior_scale):
        key_truth, key_noise, key_run = jax.random.split(rng_key, 3)
        truth = prior_scale * jax.random.normal(key_truth, (3,))
        sigma = noise.sigma(truth[:1])
        observed = bent(truth[1:]) + sigma * jax.random.normal(key_noise, (3,))
        system = system_class(InverseProblem(JaxFunction(bent), prior, noise, observed))
        return ranks_of(system, ConstrainedHMC(), key_run, truth, quantities)

    return uniformity(replicate, *((scale,) for scale in prior_scales))


def test_ranks_of_the_truth_are_uniform():
    """Negative control: not for truths two and a half times as wide as the prior assumes."""
    right, wrong = calibrate(1.0, 2.5)
    assert right.min() > 0.01
    assert wrong.min() < 1e-4


def test_ranks_are_not_uniform_without_the_gram_term():
    """Negative control: the density that leaves out -(1/2) log det G."""
    (wrong,) = calibrate(1.0, system_class=WithoutGramTerm)
    assert wrong.min() < 1e-4
