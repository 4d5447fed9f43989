"""Putting a problem together: what fits, and one line for what does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from invlift.errors import InputError
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.models.base import JaxFunction
from invlift.noise import gaussian_noise, known_noise
from invlift.problems.inverse_problem import inverse_problem, jax_problem
from invlift.unknowns.distributions import half_normal, lognormal, normal
from invlift.unknowns.priors.base import StandardNormalPrior


def squares(theta):
    return jnp.concatenate([theta**2, theta[:1]])


def problem_of(fn=squares, num_parameters=2, noise=None, observed=(1.0, 2.0, 3.0), **options):
    return jax_problem(fn, num_parameters, noise or known_noise(0.1), np.array(observed), **options)


def test_counts_of_observations_and_unknowns():
    problem = problem_of(noise=gaussian_noise(lognormal(0.0, 1.0)))
    assert (problem.num_observations, problem.num_unknowns) == (3, 3)
    zeta, white = problem.split(jnp.arange(3.0))
    np.testing.assert_array_equal(zeta, [0.0])
    np.testing.assert_array_equal(white, [1.0, 2.0])


def test_logdensity_of_the_ordinary_posterior():
    """Against the Normal densities written out, but for the constant of the prior's."""
    problem = problem_of(noise=gaussian_noise(lognormal(-1.0, 0.5)))
    theta = np.array([0.3, -0.4, 0.9])
    sigma = np.exp(-1.0 + 0.5 * theta[0])
    misfit = np.array([1.0, 2.0, 3.0]) - np.array([0.16, 0.81, -0.4])
    expected = -0.5 * misfit @ misfit / sigma**2 - 3 * np.log(sigma) - 1.5 * np.log(2 * np.pi)
    target = OrdinaryPosterior(problem)
    look = jax.jit(lambda theta: (target.loglikelihood(theta), target.logdensity(theta)))
    likelihood, density = look(theta)
    np.testing.assert_allclose(likelihood, expected, rtol=1e-13)
    np.testing.assert_allclose(density, expected - 0.5 * theta @ theta, rtol=1e-13)


@pytest.mark.parametrize(
    "noise", [known_noise(0.2), gaussian_noise(lognormal(-1.0, 0.5))], ids=["known", ""]
)
def test_metric_of_the_ordinary_posterior(noise):
    """Against derivatives of the noise variables, and the Fisher information."""
    problem = problem_of(noise=noise)
    theta = jnp.asarray([0.3, -0.4, 0.9])[-problem.num_unknowns :]

    def explain(theta):
        zeta, _ = problem.split(theta)
        return noise.invert(problem.predict(theta), zeta, problem.observed)

    @jax.jit
    def look(theta):
        derivatives = (jax.jacfwd(fn)(theta) for fn in (explain, problem.predict))
        sigma = noise.sigma(theta[: noise.num_parameters])
        return OrdinaryPosterior(problem).metric(theta), *derivatives, sigma

    found, jacobian, forward, size = map(np.asarray, look(theta))
    np.testing.assert_allclose(found, np.eye(len(theta)) + jacobian.T @ jacobian, rtol=1e-12)
    information = np.eye(len(theta)) + forward.T @ forward / size**2
    np.testing.assert_allclose(found[-2:, -2:], information[-2:, -2:], rtol=1e-12)
    # Negative control: half the noise.
    half = problem_of(noise=known_noise(0.5 * size))
    other = jax.jit(OrdinaryPosterior(half).metric)(theta[-2:])
    assert np.abs(other - found[-2:, -2:]).max() > 1.0


class Column:
    """As of a data frame whose types are not NumPy's."""

    dtype = "Float64"

    def __array__(self, dtype=None, copy=None):
        del copy
        return np.array([1.0, 2.0, 3.0], dtype=dtype)


@pytest.mark.parametrize(
    "given",
    [np.float32([1, 2, 3]), np.float16([1, 2, 3]), jnp.float32(jnp.arange(1, 4)), [1.0, 2, 3],
     pd.Series([1, 2, 3], dtype="Float64"), Column()],
)  # fmt: skip
def test_real_numbers_of_any_type_are_readings_and_scales(given):
    prior = StandardNormalPrior(jnp.zeros(2))
    problem = inverse_problem(JaxFunction(squares), prior, given, given)
    for found in (problem.observed, problem.noise.scale.known, known_noise(given).scale.known):
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, [1.0, 2.0, 3.0])


def test_what_is_masked_is_neither_reading_nor_scale():
    masked = np.ma.masked_equal([1.0, 2.0, 3.0], 2.0)
    prior = StandardNormalPrior(jnp.zeros(2))
    with pytest.raises(InputError, match="nan at index 1"):
        inverse_problem(JaxFunction(squares), prior, 0.1, masked)
    with pytest.raises(InputError, match="index 1: expected a positive number"):
        known_noise(masked)


def with_a_while_loop(theta):
    return jax.lax.while_loop(lambda x: x[0] < 8.0, lambda x: x * x + 1.0, jnp.append(theta, 0.1))


@jax.custom_vjp
def without_forward_mode(theta):
    return jnp.append(theta, 1.0)


without_forward_mode.defvjp(lambda theta: (jnp.append(theta, 1.0), None), lambda _, g: (g[:2],))


@pytest.mark.parametrize(
    ("arguments", "where", "found"),
    [
        ({"observed": ["1", "2", "3"]}, "argument observed", "'1'"),
        ({"observed": [1.0, np.nan, 3.0]}, "argument observed", "nan at index 1"),
        ({"observed": [[1.0, 2.0, 3.0]]}, "argument observed", "(1, 3)"),
        ({"observed": [1.0, 2.0]}, "forward map", "(3,)"),
        ({"noise": known_noise(np.array([0.1, 0.2]))}, "noise sigma", "2"),
        ({"num_parameters": True}, "argument num_parameters", "True"),
        ({"fn": lambda theta: jnp.log(0.0 * theta[:1] + jnp.zeros(3))}, "forward map at", "-inf"),
        ({"fn": lambda theta: jnp.float32(theta[0]) * jnp.ones(3, "float32")}, "forward",
         "float32"),
        ({"fn": lambda theta: np.sin(float(theta[0]))}, "forward map", "TypeError"),
        ({"fn": lambda theta: theta * {}["rate"]}, "forward map", "KeyError: 'rate'"),
        ({"fn": with_a_while_loop}, "forward map", "Reverse-mode"),
        ({"fn": without_forward_mode}, "forward map", "forward-mode"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_in_one_line(arguments, where, found):
    with pytest.raises(InputError) as caught:
        problem_of(**arguments)
    assert caught.value.where.startswith(where)
    assert found in caught.value.found
    assert "\n" not in str(caught.value)


def test_a_number_a_distribution_and_those_of_names_are_normal_noise():
    assert problem_of(noise=0.1).noise.scale.known == 0.1
    assert problem_of(noise=half_normal(0.1)).noise.num_parameters == 1
    np.testing.assert_array_equal(problem_of(observed=[1, 2, 3]).observed, [1.0, 2.0, 3.0])
    unknowns, observed = {"rate": normal(0.0, 1.0)}, {"a": np.ones(2), "b": 3.0}

    def model(rate):
        return {"a": rate * jnp.ones(2), "b": rate}

    by_name = inverse_problem(model, unknowns, {"b": 0.2, "a": 0.1}, observed)
    np.testing.assert_array_equal(by_name.noise.scale.known, [0.1, 0.1, 0.2])
    of_each = inverse_problem(model, unknowns, {"b": 0.2, "a": np.array([0.1, 0.3])}, observed)
    np.testing.assert_array_equal(of_each.noise.scale.known, [0.1, 0.3, 0.2])
    of_all = inverse_problem(model, unknowns, np.array([0.1, 0.3, 0.2]), observed)
    np.testing.assert_array_equal(of_all.noise.scale.known, [0.1, 0.3, 0.2])
    priors = {"a": half_normal(0.1), "b": half_normal(2.0)}
    assert inverse_problem(model, unknowns, priors, observed).noise.scale.names == ("a", "b")
