"""Priors of which the values alone are written, and which are not Gaussian."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inverse_cases import CorrelatedPrior, Warped, curved
from monte_carlo import assert_mean_within, stacked

from invlift.app.runs.sampling import sample
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.models.base import JaxFunction
from invlift.noise import gaussian_noise, known_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.programs.compilation import Program
from invlift.projections import project_momentum
from invlift.samplers.constrained.step import build_state, constrained_step
from invlift.samplers.kernels import ConstrainedHMC
from invlift.unknowns.distributions import lognormal
from invlift.unknowns.priors.base import Prior


def parts(num_observations, num_white, strength):
    """Model, prior and readings; one more coefficient than standard normal variables."""
    rng = np.random.default_rng(num_observations)
    size = num_white + 1
    mean, factor = rng.normal(size=size), rng.normal(size=(size, num_white))
    prior = Warped(jnp.asarray(mean), jnp.asarray(factor), jnp.asarray(strength))
    matrix = jnp.asarray(0.4 * rng.normal(size=(num_observations, size)))
    return JaxFunction(curved, (matrix,)), prior, rng.normal(size=num_observations)


@partial(Program, effort="none")
def step(target, state):
    return constrained_step(ConstrainedHMC().integrator, target, state, 0.2)


@partial(Program, effort="none")
def begin(target, theta, momentum):
    point = target.point(target.lift(theta))
    return build_state(point, project_momentum(target, point, momentum))


def path_of(model, prior, observed):
    """Unknowns along a trajectory of the sampler."""
    noise = gaussian_noise(lognormal(-1.0, 0.7))
    target = LiftedPosterior(inverse_problem(model, prior, noise, observed))
    rng = np.random.default_rng(6)
    theta = 0.5 * rng.standard_normal(target.problem.num_unknowns)
    state = begin(target, theta, rng.standard_normal(target.dimension))
    path = []
    for _ in range(15):
        state = step(target, state)
        path.append(np.asarray(state.position[: theta.size]))
    assert state.num_failures == 0
    return np.stack(path)


def test_a_prior_that_is_hardly_bent_moves_as_the_affine_one():
    model, straight, observed = parts(2, 3, 0.0)
    affine = CorrelatedPrior(straight.mean, straight.factor)
    expected = path_of(model, affine, observed)
    assert np.ptp(expected, axis=0).min() > 0.1
    np.testing.assert_allclose(path_of(model, straight, observed), expected, rtol=0, atol=1e-8)
    slightly = Warped(straight.mean, straight.factor, jnp.asarray(1e-9))
    np.testing.assert_allclose(path_of(model, slightly, observed), expected, rtol=0, atol=1e-5)
    # Negative control: more strongly.
    bent = Warped(straight.mean, straight.factor, jnp.asarray(0.1))
    assert np.abs(path_of(model, bent, observed) - expected).max() > 1e-2


# Quadrature ---------------------------------------------------------------------------------------


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
