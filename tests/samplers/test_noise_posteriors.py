"""Every kind of noise, sampled in the coordinate that `sample` chooses, against quadrature."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
import noise_oracle
import numpy as np
import pytest
import scipy.stats
from noise_oracle import (
    OBSERVED,
    Density,
    assert_posterior,
    decay,
    laplace,
    normal,
    posterior_on_grid,
    quartic,
    student_t,
    unknowns,
)
from sampler_cases import run_posterior

from invlift.app.sampling import sample
from invlift.inverse.distributions import exponential, half_cauchy, lognormal
from invlift.inverse.inverse_problem import jax_problem
from invlift.inverse.noise import (
    Noise,
    UnknownScale,
    gaussian_noise,
    laplace_noise,
    potential_noise,
    student_t_noise,
    unknown_scale,
)
from invlift.inverse.scale_coordinate import with_scale_coordinate
from invlift.inverse.targets.lifted import LiftedPosterior

GROUPS = np.array([0, 0, 1, 1])
SCALE, SHAPE = noise_oracle.lognormal(-1.5, 0.7), noise_oracle.lognormal(0.7, 0.7)
#: Half-Cauchy and exponential scales are so small that their tails matter to what the data say.
DENSITIES = {
    "gaussian": Density(normal, SCALE),
    "gaussian, half-Cauchy scale": Density(normal, scipy.stats.halfcauchy(scale=0.02)),
    "gaussian, exponential scale": Density(normal, scipy.stats.expon(scale=0.05)),
    "student-t": Density(student_t, SCALE),
    "student-t, unknown degrees": Density(student_t, SCALE, SHAPE),
    "laplace": Density(laplace, SCALE),
    "relative": Density(normal, SCALE, relative=True),
    "two groups": Density(normal, SCALE, groups=GROUPS),
    "quartic": Density(quartic, SCALE),
}


def quarter_of_fourth_power(x):
    return 0.25 * x**4


class Case(NamedTuple):
    """A noise of the library, and the density it is not."""

    noise: Noise
    other: str


def unknown():
    return lognormal(-1.5, 0.7)


CASES = {
    "gaussian, half-Cauchy scale": lambda: Case(
        gaussian_noise(half_cauchy(0.02)), "gaussian, exponential scale"
    ),
    "gaussian, exponential scale": lambda: Case(
        gaussian_noise(exponential(0.05)), "gaussian, half-Cauchy scale"
    ),
    "student-t": lambda: Case(student_t_noise(unknown(), 2.0), "gaussian"),
    "student-t, unknown degrees": lambda: Case(
        student_t_noise(unknown(), lognormal(0.7, 0.7)), "gaussian"
    ),
    "laplace": lambda: Case(laplace_noise(unknown()), "gaussian"),
    "relative": lambda: Case(gaussian_noise(unknown(), relative=True), "gaussian"),
    "two groups": lambda: Case(
        gaussian_noise(unknown_scale(lognormal(-1.5, 0.7), GROUPS)), "gaussian"
    ),
    "quartic": lambda: Case(potential_noise(unknown(), quarter_of_fourth_power), "gaussian"),
}
oracle = cache(lambda name: posterior_on_grid(DENSITIES[name]))


def problem_of(noise):
    return jax_problem(decay, 2, noise, OBSERVED)


@pytest.mark.parametrize("name", ["laplace", "student-t, unknown degrees"])
def test_the_grid_is_fine_enough(name):
    coarse = posterior_on_grid(DENSITIES[name], 71, 25)
    for key, exact in oracle(name).items():
        assert abs(coarse[key].mean - exact.mean) < 0.01 * np.sqrt(exact.variance)
        assert coarse[key].variance == pytest.approx(exact.variance, rel=0.02)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    [n if n in ("relative", "two groups") else pytest.param(n, marks=SLOW) for n in CASES],
)
def test_noise_agrees_with_quadrature(name):
    """With unknown degrees of freedom some 10 s: short steps, and a large grid."""
    case = CASES[name]()
    problem = problem_of(case.noise)
    threshold = float(with_scale_coordinate(problem).noise.scale.threshold)
    exact = [np.exp(m.mean) for key, m in oracle(name).items() if key.startswith("log sigma")]
    assert 0.3 * min(exact) < threshold < 3.0 * max(exact)
    draws = unknowns(sample(problem, chains=4, warmup=200, draws=1500, seed=5), DENSITIES[name])
    assert_posterior(draws, oracle(name))
    # Negative control: another noise.
    with pytest.raises(AssertionError, match="standard errors"):
        assert_posterior(draws, oracle(case.other))


class WithoutReference(UnknownScale):
    """A wrong scale, for a negative control: as if zeta were standard normal with a threshold."""

    def log_reference(self, zeta):
        return jnp.zeros(())


def test_without_the_reference_of_its_coordinate_the_scale_is_wrong():
    name = "gaussian, half-Cauchy scale"
    problem = problem_of(gaussian_noise(WithoutReference(half_cauchy(0.02))))
    draws = unknowns(sample(problem, chains=4, warmup=200, draws=1500, seed=5), DENSITIES[name])
    with pytest.raises(AssertionError, match="standard errors"):
        assert_posterior(draws, oracle(name))


@SLOW
@pytest.mark.parametrize("name", ["gaussian, half-Cauchy scale", "relative", "two groups"])
def test_posterior_does_not_depend_on_the_coordinate(name):
    """In the prior's own coordinate and with the threshold at twice where `sample` puts it."""
    problem = problem_of(CASES[name]().noise)
    chosen = with_scale_coordinate(problem).noise
    for threshold in (None, 2.0 * chosen.scale.threshold):
        noise = replace(chosen, scale=replace(chosen.scale, threshold=threshold))
        run = run_posterior(LiftedPosterior(replace(problem, noise=noise)), draws=1500)
        draws = unknowns(run, DENSITIES[name])
        assert_posterior(draws, oracle(name))
        with pytest.raises(AssertionError, match="standard errors"):
            assert_posterior(draws, oracle(CASES[name]().other))
