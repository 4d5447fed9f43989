"""Where chains start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inverse_cases import CASES

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.noise import known_noise
from invlift.problems.inverse_problem import jax_problem
from invlift.problems.starts.fit import initial_position


def linear(theta, matrix):
    return matrix @ theta


def linear_posterior(num_observations, num_parameters, sigma):
    """A problem y = A w + sigma eta with the exact mean and covariance of w."""
    rng = np.random.default_rng(8)
    matrix = rng.normal(size=(num_observations, num_parameters))
    observed = rng.normal(size=num_observations)
    problem = jax_problem(
        linear, num_parameters, known_noise(sigma), observed, arguments=(jnp.asarray(matrix),)
    )
    gram = matrix @ matrix.T + sigma**2 * np.eye(num_observations)
    mean = matrix.T @ np.linalg.solve(gram, observed)
    covariance = np.eye(num_parameters) - matrix.T @ np.linalg.solve(gram, matrix)
    return LiftedPosterior(problem), mean, covariance


compiled_starts = jax.jit(
    jax.vmap(lambda lifted, key: initial_position(lifted.problem, key), in_axes=(None, 0))
)


def starts(lifted, num, seed=0):
    return compiled_starts(lifted, jax.random.split(jax.random.key(seed), num))


def standardised_moments(white, mean, covariance):
    """Mean and covariance of whitened draws, both in standard errors from (0, I)."""
    lower = np.linalg.cholesky(covariance)
    unit = np.linalg.solve(lower, (np.asarray(white) - mean).T).T
    num, size = unit.shape
    of_mean = np.abs(unit.mean(axis=0)) * np.sqrt(num)
    deviation = np.abs(unit.T @ unit / num - np.eye(size))
    return of_mean.max(), (deviation * np.sqrt(num / (1 + np.eye(size)))).max()


@pytest.mark.parametrize("name", CASES)
def test_starts_are_on_the_manifold(name):
    lifted = CASES[name]()
    positions = starts(lifted, 20)
    errors = jax.jit(jax.vmap(lifted.constraint))(positions)
    np.testing.assert_allclose(errors, 0.0, atol=1e-12)
    assert np.std(np.asarray(positions), axis=0).min() > 1e-3


@pytest.mark.parametrize("shape", [(2, 4), (6, 2)])
def test_starts_of_a_linear_problem_are_exact_posterior_draws(shape):
    sigma = 0.5
    lifted, mean, covariance = linear_posterior(*shape, sigma)
    white = starts(lifted, 4000)[:, : shape[1]]
    of_mean, of_covariance = standardised_moments(white, mean, covariance)
    assert of_mean < 4
    assert of_covariance < 4
    # Negative control: the posterior of a noise scale a tenth larger.
    _, _, wider = linear_posterior(*shape, 1.1 * sigma)
    of_mean, of_covariance = standardised_moments(white, mean, wider)
    assert max(of_mean, of_covariance) > 4


def test_tiny_noise_leaves_eta_as_it_was_drawn():
    """Under-determined data are met to far below the noise: eta stays a few units."""
    lifted, _, _ = linear_posterior(2, 4, 1e-12)
    positions = np.asarray(starts(lifted, 4000)[:20])
    assert np.all(np.isfinite(positions))
    # The round-off of the forward map itself is a fraction of the noise.
    assert np.abs(positions[:, 4:]).max() < 6


def test_forward_map_that_is_not_finite_at_the_draw_gives_nan_not_an_error():
    problem = jax_problem(
        lambda theta: jnp.where(jnp.abs(theta) < 1e-3, theta, jnp.nan),
        2,
        known_noise(0.1),
        np.array([1.0, 1.0]),
    )
    position = jax.jit(initial_position)(problem, jax.random.key(0))
    assert jnp.any(jnp.isnan(position))
