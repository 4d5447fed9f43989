"""Every kind of noise, sampled in the coordinate that `sample` chooses, against quadrature."""

from dataclasses import replace
from functools import cache

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

from invlift.app.runs.sampling import sample
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.noise import (
    UnknownScale,
    gaussian_noise,
    laplace_noise,
    potential_noise,
    student_t_noise,
    unknown_scale,
)
from invlift.problems.inverse_problem import jax_problem
from invlift.problems.scale_coordinate import with_scale_coordinate
from invlift.unknowns.distributions import half_cauchy, lognormal

pytestmark = pytest.mark.slow

GROUPS = np.array([0, 0, 1, 1])
SCALE, SHAPE = noise_oracle.lognormal(-1.5, 0.7), noise_oracle.lognormal(0.7, 0.7)
#: Scales so small that their tails matter to what the data say.
DENSITIES = {
    "gaussian": Density(normal, SCALE),
    "half-Cauchy scale": Density(normal, scipy.stats.halfcauchy(scale=0.02)),
    "exponential scale": Density(normal, scipy.stats.expon(scale=0.05)),
    "student-t, unknown degrees": Density(student_t, SCALE, SHAPE),
    "laplace": Density(laplace, SCALE),
    "relative": Density(normal, SCALE, relative=True),
    "two groups": Density(normal, SCALE, groups=GROUPS),
    "quartic": Density(quartic, SCALE),
}


def quarter_of_fourth_power(x):
    return 0.25 * x**4


UNKNOWN = lognormal(-1.5, 0.7)
#: Noises of the library.
NOISES = {
    "half-Cauchy scale": gaussian_noise(half_cauchy(0.02)),
    "student-t, unknown degrees": student_t_noise(UNKNOWN, lognormal(0.7, 0.7)),
    "laplace": laplace_noise(UNKNOWN),
    "relative": gaussian_noise(UNKNOWN, relative=True),
    "two groups": gaussian_noise(unknown_scale(UNKNOWN, GROUPS)),
    "quartic": potential_noise(UNKNOWN, quarter_of_fourth_power),
}
oracle = cache(lambda name: posterior_on_grid(DENSITIES[name]))


def problem_of(noise):
    return jax_problem(decay, 2, noise, OBSERVED)


def assert_posterior_of(name, draws):
    """And not that of another noise, the negative control."""
    assert_posterior(draws, oracle(name))
    other = "exponential scale" if name == "half-Cauchy scale" else "gaussian"
    with pytest.raises(AssertionError, match="standard errors"):
        assert_posterior(draws, oracle(other))


@pytest.mark.parametrize("name", ["laplace", "student-t, unknown degrees"])
def test_the_grid_is_fine_enough(name):
    coarse = posterior_on_grid(DENSITIES[name], 71, 25)
    for key, exact in oracle(name).items():
        assert abs(coarse[key].mean - exact.mean) < 0.01 * np.sqrt(exact.variance)
        assert coarse[key].variance == pytest.approx(exact.variance, rel=0.02)


@pytest.mark.parametrize("name", NOISES)
def test_noise_agrees_with_quadrature(name, request):
    if name in ("laplace", "student-t, unknown degrees"):  # whose steps are short
        request.getfixturevalue("programs_of_long_chains")
    problem = problem_of(NOISES[name])
    threshold = float(with_scale_coordinate(problem).noise.scale.threshold)
    exact = [np.exp(m.mean) for key, m in oracle(name).items() if key.startswith("log sigma")]
    assert 0.3 * min(exact) < threshold < 3.0 * max(exact)
    draws = unknowns(sample(problem, chains=4, warmup=200, draws=1500, seed=5), DENSITIES[name])
    assert_posterior_of(name, draws)


class WithoutReference(UnknownScale):
    """A wrong scale, for a negative control: as if zeta were standard normal with a threshold."""

    def log_reference(self, zeta):
        return jnp.zeros(())


def test_without_the_reference_of_its_coordinate_the_scale_is_wrong():
    name = "half-Cauchy scale"
    problem = problem_of(gaussian_noise(WithoutReference(half_cauchy(0.02))))
    draws = unknowns(sample(problem, chains=4, warmup=200, draws=1500, seed=5), DENSITIES[name])
    with pytest.raises(AssertionError, match="standard errors"):
        assert_posterior(draws, oracle(name))


def test_posterior_does_not_depend_on_the_coordinate():
    """With the threshold at twice where `sample` puts it."""
    name = "half-Cauchy scale"
    problem = problem_of(NOISES[name])
    chosen = with_scale_coordinate(problem).noise
    scale = replace(chosen.scale, threshold=2.0 * chosen.scale.threshold)
    noise = replace(chosen, scale=scale)
    run = run_posterior(LiftedPosterior(replace(problem, noise=noise)), draws=1500)
    assert_posterior_of(name, unknowns(run, DENSITIES[name]))
