"""The Laplace approximation: exact where the posterior is normal, and its parts where it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from invlift.errors import InputError
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.noise import gaussian_noise, known_noise, unknown_scale
from invlift.problems.choice.partly_lifted import laplace_referred
from invlift.problems.inverse_problem import jax_problem
from invlift.problems.laplace_approximation import find_mode, laplace_approximation
from invlift.unknowns.distributions import lognormal

RNG = np.random.default_rng(8)


def linear(theta, matrix):
    return matrix @ theta + 0.3


def linear_problem(num_readings, num_unknowns, noise):
    matrix = RNG.normal(size=(num_readings, num_unknowns))
    observed = RNG.normal(size=num_readings)
    problem = jax_problem(linear, num_unknowns, noise, observed, arguments=(jnp.asarray(matrix),))
    return problem, matrix, observed - 0.3


colour = jax.jit(jax.vmap(lambda found, white: found.colour(white), (None, 0)))


def covariance(found):
    root = np.asarray(colour(found, np.eye(found.mode.size)) - found.mode)
    return root @ root.T


@pytest.mark.parametrize("sizes", [(3, 8), (8, 3)], ids=str)
def test_it_is_the_posterior_of_a_linear_model(sizes):
    problem, matrix, shifted = linear_problem(*sizes, known_noise(0.2))
    found = laplace_approximation(problem)
    precision = np.eye(sizes[1]) + matrix.T @ matrix / 0.2**2
    expected = np.linalg.inv(precision)
    np.testing.assert_allclose(covariance(found), expected, atol=1e-10)
    mean = expected @ matrix.T @ shifted / 0.2**2
    np.testing.assert_allclose(found.mode, mean, atol=1e-8)
    # Negative control: of other noise.
    other = np.linalg.inv(np.eye(sizes[1]) + matrix.T @ matrix / 0.25**2)
    assert np.abs(covariance(found) - other).max() > 1e-4
    # In its coordinates the posterior is standard normal: nothing is left of the likelihood.
    target = OrdinaryPosterior(laplace_referred(problem))
    values = jax.jit(jax.vmap(target.loglikelihood))(RNG.normal(size=(5, sizes[1])))
    np.testing.assert_allclose(values, values[0], atol=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e10])
def test_mass_of_a_mode_also_where_readings_move_much(size):
    """Three readings, size times one standard normal unknown less 1, with noise 1."""
    along, observed = size * np.array([0.5, 1.0, 2.0]), np.array([0.3, -0.7, 0.4])
    problem = jax_problem(
        lambda theta, along: along * (theta[0] - 1.0), 1, known_noise(1.0), observed,
        arguments=(jnp.asarray(along),),
    )  # fmt: skip
    at_mode = (along @ (observed + along)) / (1.0 + along @ along)
    mode = jax.jit(find_mode)(problem, np.zeros(0), np.full(1, at_mode))
    misfit = at_mode**2 + np.sum((observed - along * (at_mode - 1.0)) ** 2)
    assert abs(mode.log_mass + 0.5 * (misfit + np.log1p(along @ along))) < 0.02


def bent(theta):
    return jnp.stack(
        [theta[0] + 0.4 * theta[1] ** 2 - theta[2], jnp.exp(0.3 * theta[1]) * theta[2]]
    )


def test_mode_and_curvature_of_a_nonlinear_model():
    problem = jax_problem(bent, 3, known_noise(0.1), np.array([0.7, 0.4]))
    found, posterior = laplace_approximation(problem), OrdinaryPosterior(problem)
    # At the mode itself, not where steps begin to gain little: that was 0.05.
    assert np.abs(jax.jit(jax.grad(posterior.logdensity))(found.mode)).max() < 1e-4
    # Gauss-Newton: without the curvature of the model.
    expected = np.linalg.inv(jax.jit(posterior.metric)(found.mode))
    np.testing.assert_allclose(covariance(found), expected, atol=1e-9)


def test_noise_scale_is_set_where_its_marginal_density_is_largest():
    """By brute force: the field integrated out of a linear model in closed form."""
    problem, matrix, shifted = linear_problem(12, 5, gaussian_noise(lognormal(0.5, 1.5)))
    found = laplace_approximation(problem)
    grid = np.linspace(-4.0, 4.0, 4001)

    def log_marginal(zeta):
        sigma = np.exp(0.5 + 1.5 * zeta)
        joint = matrix @ matrix.T + sigma**2 * np.eye(12)
        _, log_determinant = np.linalg.slogdet(joint)
        misfit = shifted @ np.linalg.solve(joint, shifted)
        return -0.5 * (misfit + log_determinant + zeta**2)

    values = np.array([log_marginal(zeta) for zeta in grid])
    best = np.argmax(values)
    assert abs(found.mode[0] - grid[best]) < 3e-3
    step = grid[1] - grid[0]
    curvature = -(values[best + 1] - 2 * values[best] + values[best - 1]) / step**2
    np.testing.assert_allclose(1.0 / covariance(found)[0, 0], curvature, rtol=2e-2)
    # Negative control: with the field at its most probable values it would be far smaller.
    assert abs(found.mode[0]) < 3.0
    # Its coordinates are undone, along directions that are orthonormal.
    white = RNG.normal(size=6)
    coloured, again = jax.jit(
        lambda white: (found.colour(white), found.whiten(found.colour(white)))
    )(white)
    np.testing.assert_allclose(again, white, atol=1e-10)
    assert np.abs(coloured - white).max() > 0.1
    along = np.asarray(found.directions)
    np.testing.assert_allclose(along.T @ along, np.eye(along.shape[1]), atol=1e-10)


@pytest.mark.slow
def test_scales_of_groups_are_told_apart():
    groups = np.array([0] * 20 + [1] * 20)
    noise = gaussian_noise(unknown_scale(lognormal(-1.0, 1.5), groups))
    matrix = RNG.normal(size=(40, 3))
    observed = matrix @ np.array([0.5, -1.0, 0.2]) + 0.3
    observed = observed + np.where(groups == 0, 0.05, 1.0) * RNG.normal(size=40)
    problem = jax_problem(linear, 3, noise, observed, arguments=(jnp.asarray(matrix),))
    found = laplace_approximation(problem)
    sigma = np.asarray(problem.noise.parameters(found.mode[:2])["sigma"])
    assert 0.03 < sigma[0] < 0.08
    assert 0.6 < sigma[-1] < 1.6


def test_a_model_that_is_not_finite_there_is_refused():
    def broken(theta):
        return jnp.sqrt(jnp.abs(theta[:1]))  # without a derivative at 0

    problem = jax_problem(broken, 2, known_noise(1e-3), np.array([9.0]))
    with pytest.raises(InputError, match="Laplace approximation: expected a forward map"):
        laplace_approximation(problem)
