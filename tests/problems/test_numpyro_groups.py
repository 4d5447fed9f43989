"""Groups of readings of NumPyro models: found where they are, and the same posterior by them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import invlift
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.lifted_form import Lifted

SIZES = [3, 9, 5, 1, 8, 6, 7, 4, 2, 10]
GROUP = np.repeat(np.arange(10), SIZES)
X = np.linspace(-1.0, 1.0, GROUP.size)
Y = 0.7 * X + np.sin(GROUP) + 0.1 * np.cos(40.0 * X)


def pooled(x, group, y=None, are_apart=True):
    """Alike lines of groups; counts, which are not lifted, depend on all groups."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    with numpyro.plate("group", 10):
        level = numpyro.sample("level", dist.Normal(mean, spread))
        slope = numpyro.sample("slope", dist.StudentT(5.0, 0.0, 1.0))
    if not are_apart:  # a plate does not forbid it
        level = level + 0.1 * jnp.roll(level, 1)
    with numpyro.plate("reading", x.size):
        numpyro.sample("y", dist.Normal(level[group] + slope[group] * x, 0.2), obs=y)
        numpyro.sample("count", dist.Poisson(jnp.exp(jnp.cumsum(level)[group])), obs=x * 0.0)


@cache
def problem_of_groups():
    return invlift.from_numpyro(pooled, X, GROUP, y=Y)


def test_groups_of_any_sizes_are_found():
    problem = problem_of_groups()
    order, structure = problem.grouping
    assert structure.groups == tuple(GROUP)
    assert (structure.num_groups, structure.width) == (10, 2)
    # Mean and spread are shared; then level and slope of the first group, of the second, ...
    assert order[:6] == (0, 1, 2, 12, 3, 13)
    assert sorted(order) == list(range(22))


def test_readings_of_several_groups_are_found():
    assert invlift.from_numpyro(pooled, X, GROUP, Y, are_apart=False).grouping is None


def test_the_posterior_is_that_of_the_general_lift():
    problem = problem_of_groups()
    general, grouped = LiftedPosterior(problem), problem.lifted()
    assert type(grouped) is Lifted

    @jax.jit
    def look(white, move):
        lifted = general.lift(white) + move
        position = grouped.from_lifted(lifted)
        one, other = general.point(lifted), grouped.point(position)
        return {
            "logdensity": (one.logdensity, other.logdensity),
            "constraint": (one.constraint, other.constraint),
        }

    rng = np.random.default_rng(1)
    for white in 0.7 * rng.standard_normal((2, problem.num_unknowns)):
        move = 0.01 * rng.standard_normal(general.dimension)
        for name, (one, other) in look(white, move).items():
            np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-8, err_msg=name)
