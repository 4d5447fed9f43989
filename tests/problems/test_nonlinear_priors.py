"""A prior of which the values alone are written, far from Gaussian, against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked

from invlift.app.runs.sampling import sample
from invlift.models.jax_function import JaxFunction
from invlift.noise import known_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.unknowns.priors.base import Prior


class Mixed(Prior):
    """Two coefficients of two variables: one lognormal, one bimodal whose scale is the first."""

    scale: jax.Array

    @property
    def num_white(self):
        return 2

    def transform(self, white):
        first = jnp.exp(self.scale * white[0])
        return jnp.stack([first, first * (white[1] + 0.8 * jnp.tanh(4.0 * white[1]))])

    def parameters(self, white):
        return {"white": white}


def reading(coefficients):
    return jnp.stack([coefficients[0] + 0.5 * coefficients[1] + 0.2 * coefficients[1] ** 2])


def mixed_features(white, coefficients):
    return np.concatenate([white, white**2, coefficients, coefficients[..., 1:] ** 2], axis=-1)


def mixed_moments(scale, sigma, observed):
    axis = np.linspace(-7, 7, 1401)
    white = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    first = np.exp(scale * white[..., 0])
    second = first * (white[..., 1] + 0.8 * np.tanh(4.0 * white[..., 1]))
    coefficients = np.stack([first, second], axis=-1)
    misfit = (first + 0.5 * second + 0.2 * second**2 - observed) / sigma
    mass = np.exp(-0.5 * np.sum(white**2, axis=-1) - 0.5 * misfit**2)
    return np.einsum("ij,ijk->k", mass, mixed_features(white, coefficients)) / mass.sum()


def test_a_strongly_bent_prior_agrees_with_quadrature():
    prior, observed = Mixed(jnp.asarray(0.7)), np.array([1.4])
    problem = inverse_problem(JaxFunction(reading), prior, known_noise(0.3), observed)
    run = sample(problem, warmup=300, draws=3000, seed=9)
    found = mixed_features(stacked(run, "white"), stacked(run, "parameters"))
    assert_mean_within(found, mixed_moments(0.7, 0.3, 1.4), min_ess=500)
    # Negative control: a slightly narrower prior.
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(found, mixed_moments(0.6, 0.3, 1.4), min_ess=500)
