"""Small nonlinear inverse problems of every shape the lift distinguishes."""

import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.models.base import JaxFunction
from invlift.noise import gaussian_noise, known_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.unknowns.distributions import lognormal
from invlift.unknowns.priors.base import AffinePrior, Prior


class CorrelatedPrior(AffinePrior):
    """Gaussian prior, mean + factor w, with more or fewer white variables than coefficients."""

    mean: jax.Array
    factor: jax.Array

    @property
    def num_white(self):
        return self.factor.shape[1]

    def sqrt(self, white):
        return self.factor @ white

    def sqrt_transpose(self, values):
        return self.factor.T @ values


class Warped(Prior):
    """Mean + factor w, bent by a strength: neither linear nor elementwise."""

    mean: jax.Array
    factor: jax.Array
    strength: jax.Array

    @property
    def num_white(self):
        return self.factor.shape[1]

    def transform(self, white):
        linear = self.factor @ white
        return self.mean + linear + self.strength * (jnp.sin(linear) * white[0] + 0.3 * linear**2)


def curved(coefficients, matrix):
    """A nonlinear map (N,) to (d,) with no symmetry that could hide an error."""
    linear = matrix @ coefficients
    return jnp.sin(linear) + 0.3 * linear**2 + 0.1 * coefficients[0] * coefficients[-1]


def build_curved(num_observations, num_white, noise, seed, prior_class=CorrelatedPrior, *options):
    rng = np.random.default_rng(seed)
    size = num_white + 1
    parts = rng.normal(size=size), rng.normal(size=(size, num_white)), *options
    prior = prior_class(*map(jnp.asarray, parts))
    matrix = jnp.asarray(0.5 * rng.normal(size=(num_observations, size)))
    observed = rng.normal(size=num_observations)
    return LiftedPosterior(inverse_problem(JaxFunction(curved, (matrix,)), prior, noise, observed))


CASES = {
    "more observations than unknowns, known noise of each sensor": lambda: build_curved(
        5, 2, known_noise(np.array([0.1, 0.3, 0.05, 0.7, 0.2])), 4
    ),
    "a prior that is not affine": lambda: build_curved(
        2, 4, gaussian_noise(lognormal(-1.0, 0.7)), 1, Warped, 0.6
    ),
}
