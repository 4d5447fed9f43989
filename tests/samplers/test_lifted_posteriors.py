"""Constrained HMC on lifted posteriors against quadrature, closed forms and other samplers."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, assert_same_mean, stacked
from sampler_cases import run_posterior
from without_gram_term import WithoutGramTerm

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.noise import gaussian_noise, known_noise
from invlift.problems.inverse_problem import jax_problem
from invlift.samplers.kernels import ConstrainedHMC, ConstrainedNUTS
from invlift.unknowns.distributions import lognormal

# Linear problems --------------------------------------------------------------------------------


def linear(theta, matrix):
    return matrix @ theta


def linear_system(shape, noise, system=LiftedPosterior, sigma=0.3):
    """A problem y = A w + sigma eta, with A and y."""
    rng = np.random.default_rng(6)
    matrix = rng.normal(size=shape)
    observed = matrix @ rng.normal(size=shape[1]) + sigma * rng.normal(size=shape[0])
    problem = jax_problem(linear, shape[1], noise, observed, arguments=(jnp.asarray(matrix),))
    return system(problem), matrix, observed


def linear_moments(matrix, observed, sigma):
    gram = matrix @ matrix.T + sigma**2 * np.eye(observed.size)
    mean = matrix.T @ np.linalg.solve(gram, observed)
    return mean, np.eye(mean.size) - matrix.T @ np.linalg.solve(gram, matrix)


def unit_variables(parameters, mean, covariance):
    """Draws whitened by the exact moments."""
    return np.einsum(
        "ij,cdj->cdi", np.linalg.inv(np.linalg.cholesky(covariance)), parameters - mean
    )


@pytest.mark.parametrize(("shape", "sigma"), [((2, 4), 0.3), ((6, 2), 1e-3)])
def test_linear_problem_with_known_noise_is_sampled_exactly(shape, sigma):
    system, matrix, observed = linear_system(shape, known_noise(sigma), sigma=sigma)
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
    # Negative control: moments of a noise scale that is a third larger.
    wrong = linear_moments(matrix, observed, 1.33 * sigma)
    unit = unit_variables(stacked(run, "parameters"), *wrong)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(unit**2, np.ones(shape[1]), min_ess=1500)


LOCATION, SCALE = -1.0, 1.0


def unknown_noise_moments(matrix, observed):
    """Exact means of log sigma, its square, and w: quadrature over zeta, closed form over w."""
    zetas = np.linspace(-9, 9, 2001)
    logs = LOCATION + SCALE * zetas
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    # Eigenvalues of the covariance of y given sigma, (zetas, d).
    spectrum = np.maximum(values, 0.0) + np.exp(2 * logs)[:, None]
    rotated = vectors.T @ observed
    log_mass = -0.5 * np.sum(np.log(spectrum) + rotated**2 / spectrum, axis=1) - 0.5 * zetas**2
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    means = (rotated / spectrum) @ vectors.T @ matrix
    return np.concatenate([[mass @ logs, mass @ logs**2], mass @ means])


def with_noise_scale(run):
    logs = np.log(stacked(run, "sigma"))[..., None]
    return np.concatenate([logs, logs**2, stacked(run, "parameters")], axis=-1)


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((2, 4), ConstrainedHMC()),
        pytest.param((6, 2), ConstrainedNUTS(), marks=pytest.mark.slow),
    ],
)
def test_linear_problem_with_unknown_noise_agrees_with_quadrature(shape, kernel):
    system, matrix, observed = linear_system(shape, gaussian_noise(lognormal(LOCATION, SCALE)))
    run = run_posterior(system, kernel=kernel, draws=2000)
    assert_mean_within(with_noise_scale(run), unknown_noise_moments(matrix, observed))


@pytest.mark.slow
def test_without_the_gram_term_the_noise_scale_is_wrong():
    """Negative control: the density that leaves out -(1/2) log det G."""
    shape = (2, 4)
    noise = gaussian_noise(lognormal(LOCATION, SCALE))
    system, matrix, observed = linear_system(shape, noise, system=WithoutGramTerm)
    run = run_posterior(system, draws=2000)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(with_noise_scale(run), unknown_noise_moments(matrix, observed))


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


@pytest.fixture(scope="module")
def loop_runs():
    # After 200 iterations of warm-up step sizes of chains on one posterior scatter by half.
    sizes = {"warmup": 800, "draws": 3000}
    return {sigma: run_posterior(loop_system(sigma), **sizes) for sigma in (0.1, 1e-3, 1e-5)}


@pytest.mark.parametrize("sigma", [0.1, 1e-3, 1e-5])
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


# Against ordinary NUTS --------------------------------------------------------------------------


def decay(theta):
    """An exponential decay seen at three times: amplitude and rate are lognormal."""
    amplitude, rate = jnp.exp(0.5 * theta[0]), jnp.exp(0.7 * theta[1])
    return amplitude * jnp.exp(-rate * jnp.asarray([0.2, 0.7, 1.5]))


def nuts_draws(logdensity_fn, size, num_draws=3000, chains=4):
    """Draws (chains, draws, size) of BlackJAX's NUTS on an ordinary density."""
    warmup = blackjax.window_adaptation(blackjax.nuts, logdensity_fn, target_acceptance_rate=0.9)

    def run(rng_key):
        key_start, key_warmup, key_run = jax.random.split(rng_key, 3)
        start = 0.1 * jax.random.normal(key_start, (size,))
        (state, parameters), _ = warmup.run(key_warmup, start, 400)
        kernel = blackjax.nuts(logdensity_fn, **parameters)

        def body(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(body, state, jax.random.split(key_run, num_draws))[1]

    return np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(9), chains)))


def summaries(sigma, parameters):
    return {
        "log sigma": np.log(sigma),
        "first": parameters[..., 0],
        "second": parameters[..., 1],
        "product": parameters[..., 0] * parameters[..., 1],
        "square": parameters[..., 1] ** 2,
    }


@pytest.mark.slow
def test_constrained_hmc_agrees_with_nuts_on_the_ordinary_posterior():
    problem = jax_problem(decay, 2, gaussian_noise(lognormal(-1.5, 0.5)), np.array([1.1, 0.5, 0.4]))
    ordinary = nuts_draws(OrdinaryPosterior(problem).logdensity, 3)
    expected = summaries(np.exp(-1.5 + 0.5 * ordinary[..., 0]), ordinary[..., 1:])
    run = run_posterior(LiftedPosterior(problem), draws=2000)
    lifted = summaries(stacked(run, "sigma"), stacked(run, "parameters"))
    for name, draws in lifted.items():
        assert_same_mean(draws, expected[name])
    # Negative control: without the Gram term the two do not agree.
    run = run_posterior(WithoutGramTerm(problem), draws=2000)
    wrong = summaries(stacked(run, "sigma"), stacked(run, "parameters"))
    with pytest.raises(AssertionError, match="standard errors"):
        assert_same_mean(wrong["log sigma"], expected["log sigma"])
