"""A user's functions: without second derivatives in JAX, or without values at the prior's mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import exp1

from invlift.app.runs.sampling import target_of
from invlift.errors import InputError
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.starts.search import find_start
from invlift.samplers.kernels import KERNELS
from invlift.unknowns.distributions import half_normal, lognormal

TIMES = np.linspace(0.0, 2.0, 20)


def test_a_function_that_jax_cannot_differentiate_twice_is_named():
    def drawdown(T):
        return exp1(1.0 / (T * jnp.arange(1.0, 4.0)))

    with pytest.raises(InputError, match="expn, which it calls, may have no second derivative"):
        inverse_problem(drawdown, {"T": lognormal(1.0, 2.0)}, 0.02, np.ones(3))


def test_functions_with_rules_of_their_own_are_taken():
    """Negative control: a rule for derivatives is no fault by itself."""

    def model(k):
        return jax.nn.softplus(k * jnp.arange(1.0, 4.0))

    assert inverse_problem(model, {"k": half_normal(1.0)}, 0.1, np.ones(3)).num_observations == 3


def no_orbit_below_one(k):
    return jnp.where(k < 1.0, jnp.nan, jnp.sqrt(jnp.maximum(k - 1.0, 1e-12)) * TIMES)


def test_a_model_without_a_value_at_the_mean_starts_from_draws():
    data = np.sqrt(0.5) * TIMES + 0.02 * np.random.default_rng(0).standard_normal(20)
    problem = inverse_problem(no_orbit_below_one, {"k": half_normal(1.0)}, 0.02, data)
    kernel = KERNELS["chmc"]()
    start = find_start(kernel, target_of(problem, kernel), 1, 0, lambda *each: each[-1])
    (k,) = jax.jit(problem.prior.transform)(start.position[:1])
    # k - 1 is the square of a slope, which is known to sigma / |TIMES|.
    sd = 2.0 * np.sqrt(0.5) * 0.02 / np.linalg.norm(TIMES)
    slope = TIMES @ data / (TIMES @ TIMES)
    assert abs(k - 1.0 - slope**2) < 4.0 * sd


def test_a_model_that_is_finite_nowhere_is_refused():
    def nowhere(k):
        return k * jnp.nan * TIMES

    with pytest.raises(InputError, match=r"prior mean: expected finite .* at one of 20 draws"):
        inverse_problem(nowhere, {"k": half_normal(1.0)}, 0.02, np.zeros(20))
