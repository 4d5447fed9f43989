"""A generator conditioned on its output: against draws of it that come near, and calibrated.

Its inputs are not normal: uniform, lognormal and Student-t.
"""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import effective_size, stacked, standard_error
from numpyro.distributions import StudentT

import invlift
from invlift.lift.jacobians import Triangular
from invlift.lift.targets.lifted_form import Lifted
from invlift.problems.problem import ExactProblem

START, LIMIT = 30.0, 100.0
FREEDOM = 4.0


def simulator(growth, spread, noise):
    """A population that grows by a random factor each year (Ricker's model)."""

    def follow(size, each):
        size = size * jnp.exp(growth * (1.0 - size / LIMIT) + spread * each)
        return size, size

    return jax.lax.scan(follow, START, noise)[1]


def problem_of(counts):
    unknowns = {
        "growth": invlift.uniform(0.0, 1.0),
        "spread": invlift.lognormal(median=0.2, factor=1.5),
        "noise": StudentT(FREEDOM).expand([len(counts)]),
    }
    return invlift.inverse_problem(simulator, unknowns, None, counts, structure=Triangular())


class NormalInputs(Lifted):
    """Negative control: the coordinates of the Student-t inputs taken as standard normal."""

    def logdensity(self, position, gram):
        return -0.5 * gram.log_determinant()


def with_target(made, target_class):
    """The problem with another lifted form."""

    class Wrong(ExactProblem):
        def lifted(self):
            return target_class(self)

    return Wrong(**{each.name: getattr(made, each.name) for each in fields(made)})


def values_of(growth, spread, noise):
    """What is compared: bounded functions, as Student-t noise has heavy tails."""
    return np.stack([growth, growth**2, np.log(spread), np.tanh(noise), growth * spread], axis=-1)


COUNTS = np.array([62.0, 48.0])


def draws_near(num=6_000_000, radius=1.5):
    """Importance sampling, without the generator's derivatives: values and their weights.

    Inputs drawn from the prior, weighed by a normal kernel between what they give and the counts
    (Graham & Storkey 2017, eq. 4).
    """
    rng = np.random.default_rng(3)
    growth, spread = rng.uniform(size=num), 0.2 * 1.5 ** rng.standard_normal(num)
    noise = rng.standard_t(FREEDOM, (2, num))
    size, distance = START, 0.0
    for each, count in zip(noise, COUNTS, strict=True):
        size = size * np.exp(growth * (1.0 - size / LIMIT) + spread * each)
        distance = distance + (size - count) ** 2
    return values_of(growth, spread, noise[0]), np.exp(-0.5 * distance / radius**2)


def distances(made, expected, error):
    """How far means of draws are off, in standard errors of both."""
    run = invlift.sample(made, chains=4, warmup=300, draws=3000, seed=1)
    assert np.abs(stacked(run, "predicted") - COUNTS).max() < 1e-7
    names = "growth", "spread", "noise"
    growth, spread, noise = (stacked(run, name) for name in names)
    found = values_of(growth, spread, noise[..., 0])
    assert min(effective_size(found[..., k]) for k in range(len(expected))) > 1_000
    own = [standard_error(found[..., k]) for k in range(len(expected))]
    return np.abs(found.mean(axis=(0, 1)) - expected) / np.hypot(own, error)


@pytest.mark.slow
def test_draws_are_those_of_importance_sampling():
    values, weights = draws_near()
    expected = weights @ values / weights.sum()
    size = weights.sum() ** 2 / (weights**2).sum()
    error = np.sqrt((weights @ (values - expected) ** 2 / weights.sum()) / size)
    assert size > 5_000
    made = problem_of(COUNTS)
    assert distances(made, expected, error).max() < 4.0
    assert distances(with_target(made, NormalInputs), expected, error).max() > 6.0
