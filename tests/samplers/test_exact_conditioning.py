"""Generators conditioned on their output, without noise, against closed forms and quadrature."""

import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked

from invlift.lift.targets.lifted_form import Lifted
from invlift.models.base import JaxFunction
from invlift.problems.inverse_problem import inverse_problem
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.kernels import ConstrainedHMC
from invlift.unknowns.priors.base import StandardNormalPrior

MATRIX = np.array([[1.0, 0.4, -0.3, 0.2], [0.2, -0.8, 0.5, 0.6]])
OBSERVED = np.array([0.9, -0.4])


def conditioned(fn, num_inputs, observed):
    prior = StandardNormalPrior(np.zeros(num_inputs))
    return Lifted(inverse_problem(JaxFunction(fn), prior, None, np.array(observed)))


def draws_of(target, starts, draws=1500):
    run = run_chains(target, Plan(ConstrainedHMC(), 200, draws), starts, seed=3)
    return run, stacked(run, "parameters")


def test_linear_generator_is_sampled_exactly():
    target = conditioned(lambda inputs: jnp.asarray(MATRIX) @ inputs, 4, OBSERVED)
    inverse = np.linalg.pinv(MATRIX)
    mean, free = inverse @ OBSERVED, np.eye(4) - inverse @ MATRIX
    starts = mean + np.random.default_rng(1).normal(size=(4, 4)) @ free
    run, inputs = draws_of(target, starts)
    np.testing.assert_allclose(
        inputs @ MATRIX.T, np.broadcast_to(OBSERVED, (4, 1500, 2)), atol=1e-9
    )
    directions = np.linalg.svd(free)[0][:, :2]
    unit = (inputs - mean) @ directions
    assert_mean_within(unit, np.zeros(2), min_ess=2000)
    assert_mean_within(unit**2, np.ones(2), min_ess=2000)
    assert_mean_within(unit[..., 0] * unit[..., 1], np.array(0.0), min_ess=2000)
    for chain in run.chains:
        # The dynamics is exact.
        assert chain.stats["acceptance_rate"].min() > 1 - 1e-8
        assert chain.step_size == pytest.approx(1.5, rel=1e-3)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(1.1 * unit**2, np.ones(2), min_ess=2000)


def generator(inputs):
    """One reading of two inputs: the first is the reading over an exponential of the second."""
    return inputs[:1] * jnp.exp(0.8 * inputs[1])


def generator_moments(observed, has_gram_term=True):
    """Quadrature over the second input; the delta function brings 1 / |dF / du_1|.

    Without the Gram term the curve's own length is what the prior's density is relative to.
    """
    second = np.linspace(-8, 8, 8001)
    first = observed * np.exp(-0.8 * second)
    factor = np.exp(-0.8 * second) if has_gram_term else np.hypot(1.0, 0.8 * first)
    mass = factor * np.exp(-0.5 * first**2 - 0.5 * second**2)
    values = np.stack([first, second, second**2], axis=-1)
    return mass @ values / mass.sum()


def test_nonlinear_generator_agrees_with_quadrature():
    target = conditioned(generator, 2, [1.5])
    second = np.array([-0.5, 0.0, 0.5, 1.0])
    starts = np.stack([1.5 * np.exp(-0.8 * second), second], axis=1)
    _, inputs = draws_of(target, starts, draws=3000)
    found = np.concatenate([inputs, inputs[..., 1:] ** 2], axis=-1)
    assert_mean_within(found, generator_moments(1.5))
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(found, generator_moments(1.5, has_gram_term=False))
