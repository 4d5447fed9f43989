"""Constrained HMC on lifted posteriors against quadrature and closed forms."""

from contextlib import nullcontext

import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked
from sampler_cases import run_posterior
from scipy.stats import halfcauchy, norm

from invlift.app.runs.sampling import sample
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.noise import UnknownScale, gaussian_noise, known_noise
from invlift.problems.inverse_problem import jax_problem
from invlift.unknowns.distributions import half_cauchy, lognormal

# Linear problems --------------------------------------------------------------------------------


def linear(theta, matrix):
    return matrix @ theta


def linear_system(shape, noise, share=1.0):
    """A problem y = A w + sigma eta, with A and y, a share of what is simulated."""
    rng, sigma = np.random.default_rng(6), 0.3
    matrix = rng.normal(size=shape)
    observed = matrix @ rng.normal(size=shape[1]) + sigma * rng.normal(size=shape[0])
    observed = share * observed
    problem = jax_problem(linear, shape[1], noise, observed, arguments=(jnp.asarray(matrix),))
    return LiftedPosterior(problem), matrix, observed


def linear_moments(matrix, observed, sigma):
    gram = matrix @ matrix.T + sigma**2 * np.eye(observed.size)
    mean = matrix.T @ np.linalg.solve(gram, observed)
    return mean, np.eye(mean.size) - matrix.T @ np.linalg.solve(gram, matrix)


def unit_variables(parameters, mean, covariance):
    """Draws whitened by the exact moments."""
    return np.einsum(
        "ij,cdj->cdi", np.linalg.inv(np.linalg.cholesky(covariance)), parameters - mean
    )


def test_linear_problem_with_known_noise_is_sampled_exactly():
    """Of readings that are all zero."""
    shape, sigma = (2, 4), 0.3
    system, matrix, observed = linear_system(shape, known_noise(sigma), share=0.0)
    run = run_posterior(system, draws=1000)
    mean, covariance = linear_moments(matrix, observed, sigma)
    unit = unit_variables(stacked(run, "parameters"), mean, covariance)
    assert_mean_within(unit, np.zeros(shape[1]), min_ess=1500)
    assert_mean_within(unit**2, np.ones(shape[1]), min_ess=1500)
    assert_mean_within(unit[..., 0] * unit[..., 1], np.array(0.0), min_ess=1500)
    for chain in run.chains:
        # The dynamics is exact: nothing is ever rejected, at the longest step allowed.
        assert chain.stats["acceptance_rate"].min() > 1 - 1e-6
        assert chain.step_size == pytest.approx(1.5, rel=1e-3)
        assert chain.stats["num_projection_failures"].sum() == 0
    # Negative control: moments of a noise scale that is a third larger.
    wrong = linear_moments(matrix, observed, 1.33 * sigma)
    unit = unit_variables(stacked(run, "parameters"), *wrong)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(unit**2, np.ones(shape[1]), min_ess=1500)


class WithoutReference(UnknownScale):
    """A wrong scale, for a negative control: as if zeta were standard normal with a threshold."""

    def log_reference(self, zeta):
        return jnp.zeros(())


LOCATION, SCALE, MEDIAN = -1.0, 1.0, 0.02
PRIORS = {"lognormal": norm(LOCATION, SCALE).logpdf}
#: Its coordinate is that which `sample` chooses, with a threshold.
PRIORS["half-Cauchy"] = lambda logs: halfcauchy(scale=MEDIAN).logpdf(np.exp(logs)) + logs


def unknown_noise_moments(matrix, observed, prior):
    """Means of log sigma, its square, and w: quadrature over log sigma, closed form over w."""
    logs = np.linspace(-14.0, 10.0, 4001)
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    # Eigenvalues of the covariance of y given sigma, (zetas, d).
    spectrum = np.maximum(values, 0.0) + np.exp(2 * logs)[:, None]
    rotated = vectors.T @ observed
    log_mass = -0.5 * np.sum(np.log(spectrum) + rotated**2 / spectrum, axis=1)
    log_mass += PRIORS[prior](logs)
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    means = (rotated / spectrum) @ vectors.T @ matrix
    return np.concatenate([[mass @ logs, mass @ logs**2], mass @ means])


def with_noise_scale(run):
    logs = np.log(stacked(run, "sigma"))[..., None]
    return np.concatenate([logs, logs**2, stacked(run, "parameters")], axis=-1)


def test_linear_problem_with_unknown_noise_agrees_with_quadrature():
    system, matrix, observed = linear_system((2, 4), gaussian_noise(lognormal(LOCATION, SCALE)))
    run = run_posterior(system, draws=2000)
    exact = unknown_noise_moments(matrix, observed, "lognormal")
    assert_mean_within(with_noise_scale(run), exact)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [UnknownScale, WithoutReference])
def test_a_scale_of_heavy_tails_is_sampled_in_a_coordinate_of_its_own(scale):
    system, matrix, observed = linear_system((6, 2), gaussian_noise(scale(half_cauchy(MEDIAN))))
    run = sample(system.problem, chains=4, warmup=200, draws=1500, seed=5)
    is_right = scale is UnknownScale
    with nullcontext() if is_right else pytest.raises(AssertionError, match="standard errors"):
        exact = unknown_noise_moments(matrix, observed, "half-Cauchy")
        assert_mean_within(with_noise_scale(run), exact)


# The toy of Au, Graham & Thiery (2023), eq. 2 ---------------------------------------------------


def loop(theta):
    return (theta[1] ** 2 + theta[0] ** 2 * (theta[0] ** 2 - 0.5))[None]


def loop_system(sigma):
    return LiftedPosterior(jax_problem(loop, 2, known_noise(sigma), np.array([1.0])))


def loop_features(theta):
    """Functions of theta that change under no symmetry of the posterior."""
    return np.stack([theta[..., 0] ** 2, theta[..., 0] ** 4, np.abs(theta[..., 1])], axis=-1)


def loop_moments(sigma, has_gram_term=True):
    """Exact expectations by quadrature in angle and value f = F(theta).

    Along a ray F = a r^4 + b r^2, which has one root for every f > 0, and
    r dr = df / (2 sqrt(b^2 + 4 a f)).  Without the Gram term each point counts as often as the
    gradient of F is long.
    """
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)[:, None] + 1e-3
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    value = 1.0 + sigma * nodes
    quartic, quadratic = np.cos(angle) ** 4, np.sin(angle) ** 2 - 0.5 * np.cos(angle) ** 2
    root = np.sqrt(quadratic**2 + 4 * quartic * value)
    square = 2 * value / (quadratic + root)
    theta = np.sqrt(square)[..., None] * np.stack(
        np.broadcast_arrays(np.cos(angle), np.sin(angle)), axis=-1
    )
    mass = weights * np.exp(-0.5 * square) / root
    if not has_gram_term:
        slopes = 4 * theta[..., 0] ** 3 - theta[..., 0], 2 * theta[..., 1]
        mass = mass * np.hypot(*slopes)
    return np.einsum("ij,ijk->k", mass, loop_features(theta)) / mass.sum()


def test_quadrature_of_the_loop_agrees_with_a_grid():
    """The reference itself, where the noise is large enough for a plain grid."""
    axis = np.linspace(-3, 3, 751)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    value = theta[..., 1] ** 2 + theta[..., 0] ** 2 * (theta[..., 0] ** 2 - 0.5)
    mass = np.exp(-0.5 * np.sum(theta**2, axis=-1) - 0.5 * ((value - 1) / 0.1) ** 2)
    grid = np.einsum("ij,ijk->k", mass, loop_features(theta)) / mass.sum()
    np.testing.assert_allclose(loop_moments(0.1), grid, rtol=1e-5)


SIGMAS = 0.1, 1e-5


@pytest.fixture(scope="module")
def loop_runs():
    # After 200 iterations of warm-up step sizes of chains on one posterior scatter by half.
    sizes = {"warmup": 800, "draws": 3000}
    return {sigma: run_posterior(loop_system(sigma), **sizes) for sigma in SIGMAS}


@pytest.mark.parametrize("sigma", SIGMAS)
def test_loop_agrees_with_quadrature_at_any_noise_scale(loop_runs, sigma):
    theta = stacked(loop_runs[sigma], "parameters")
    assert_mean_within(loop_features(theta), loop_moments(sigma))
    # The loop is walked around, not only its near part.
    assert_mean_within(theta, np.zeros(2), min_ess=200)
    # Negative control.
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(loop_features(theta), loop_moments(sigma, has_gram_term=False))


def test_step_size_and_effective_draws_do_not_depend_on_the_noise(loop_runs):
    steps = {s: np.mean([chain.step_size for chain in run.chains]) for s, run in loop_runs.items()}
    assert max(steps.values()) < 1.5 * min(steps.values())
    assert min(steps.values()) > 0.1
