"""Every noise and scale of the problem file, and each of the library's classes, in a target."""

from dataclasses import field, replace
from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from choices import choices_of, covering
from contract_checks import assert_close, check_target, lift

from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.models.base import JaxFunction
from invlift.noise import (
    Noise,
    Scale,
    gaussian_noise,
    potential_noise,
    unknown_scale,
)
from invlift.noise.families import ExactReadings, GaussianNoise, StudentTNoise, student_t_noise
from invlift.problems.choice.merged import ScaleOfMeans
from invlift.problems.choice.partly_lifted import CombinedNoise
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.laplace_approximation import LaplaceApproximation
from invlift.programs.compilation import Program
from invlift.tables.distributions import DISTRIBUTIONS
from invlift.tables.noise import NOISES
from invlift.unknowns.distributions import lognormal
from invlift.unknowns.priors.base import StandardNormalPrior

OBSERVED = np.array([0.8, 1.7, 1.1])
SENSORS = replace(
    sensors_from_arrays(np.zeros((3, 2)), OBSERVED, [0.1, 0.3, 0.2], groups=["old", "new", "old"]),
    electrodes=np.array([["1", "2", "3", "4"], ["1", "2", "4", "3"], ["2", "3", "1", "4"]]),
)
OTHERS = {
    "quartic": potential_noise(lognormal(-1.0, 0.4), lambda x: 0.25 * x**4),
    "groups": gaussian_noise(unknown_scale([lognormal(-1.0, 0.4), 0.2], SENSORS.groups)),
    "combined": CombinedNoise(
        gaussian_noise(1.0).scale,
        student_t_noise(unknown_scale([lognormal(-1.0, 0.4), 0.2], [0, 1, 1, 0]), 4.0),
        jnp.arange(1, 4),
    ),
    "in a reference": replace(
        student_t_noise(lognormal(-1.0, 0.4), lognormal(2.0, 0.3)),
        coordinate=LaplaceApproximation(
            jnp.asarray([0.3, 0.2]), jnp.eye(2), jnp.asarray([3.0, 2.0])
        ),
    ),
    "means": GaussianNoise(
        ScaleOfMeans(
            unknown_scale(lognormal(-1.0, 0.4)),
            weights=jnp.asarray([1.0, 0.5, 0.7]),
            counts=jnp.asarray([1.0, 4.0, 2.0]),
            squares=jnp.asarray([0.0, 0.3, 0.1]),
        )
    ),
}


def build(content):
    table = NOISES[content["kind"]].model_validate(content)
    return table.build(SENSORS, lambda *keys: f"noise {keys}")


def positive(theta):
    """Three readings, positive as relative noise needs them."""
    linear = jnp.stack([theta[0] - 0.4 * theta[1], 0.7 * theta[1], theta[0] + 0.5 * theta[2]])
    return jnp.exp(0.4 * linear) + 0.1 * theta[0] ** 2


def target_of(noise):
    """The target, and a position on it."""
    prior = StandardNormalPrior(jnp.zeros(3))
    target = LiftedPosterior(inverse_problem(JaxFunction(positive), prior, noise, OBSERVED))
    theta = 0.4 * np.random.default_rng(1).standard_normal(target.problem.num_unknowns)
    return target, lift(target, theta)


@partial(Program, effort="none")
def look_at_noise(target, position):
    problem = target.problem
    noise, observed = problem.noise, problem.observed
    theta = target.unknowns(SimpleNamespace(position=position))
    zeta, _, eta = target.split(position)
    predicted = problem.predict(theta)
    slopes = jax.jacfwd(noise.predicted)(observed, zeta, eta)
    graph = jax.jacfwd(target.lift)(theta)
    log_area = 0.5 * jnp.linalg.slogdet(graph.T @ graph)[1]
    lifted = target.point(position).logdensity - 0.5 * position @ position + log_area
    return {
        "observe": noise.observe(predicted, zeta, eta),
        "predicted": noise.predicted(observed, zeta, eta),
        "the model's": predicted,
        "log_slope": noise.log_slope(observed, zeta, eta),
        "log_slope of predicted": jnp.linalg.slogdet(slopes)[1],
        "sigma": noise.sigma(zeta),
        "difference": lifted - OrdinaryPosterior(problem).logdensity(theta),
    }


def check_noise(target, position):
    """Transformations are inverses, and the density on the manifold is that of the readings.

    The area of the graph theta -> (theta, eta) turns the former into the ordinary posterior, with
    all that the noise says of its coordinates.
    """
    found = look_at_noise(target, position)
    assert_close("observe", found["observe"], OBSERVED, 1e-10)
    assert_close("predicted", found["predicted"], found["the model's"], 1e-10)
    assert_close("log_slope", found["log_slope"], found["log_slope of predicted"], 1e-10)
    assert found["sigma"].shape in ((), (3,))
    assert_close("density", found["difference"], 1.5 * np.log(2 * np.pi), 1e-8)


def _words(content):
    return (v.get("distribution") if isinstance(v, dict) else v for v in content.values())


#: Of scales that differ in their distributions alone, which have tests of their own, one is tried.
#: Scales by electrodes are those of groups, which test_offset_tables finds.
SAME = ("half-cauchy", "half-normal", "exponential", "inverse-gamma", "uniform")
CONTENTS = [each["noise"] for each in covering("noise", num=1)]
EACH = {" ".join(map(str, _words(each))): partial(build, each) for each in CONTENTS}
EACH = {n: each for n, each in EACH.items() if not n.startswith(SAME) and "sensor" not in n}
EACH |= {name: partial(OTHERS.get, name) for name in OTHERS}


@cache
def noise_of(name):
    return EACH[name]()


@pytest.mark.parametrize("name", EACH)
def test_noise_and_its_target(name):
    """A target asks of noises of one class what it asks of the first of them."""
    noise = noise_of(name)
    target, position = target_of(noise)
    check_noise(target, position)
    if name == next(each for each in EACH if type(noise_of(each)) is type(noise)):
        check_target(target, position)


def test_every_class_is_tried():
    noises = [noise_of(name) for name in EACH]
    tried = {type(noise) for noise in noises} | {type(noise.scale) for noise in noises}
    for base in (Noise, Scale):
        assert _leaves(base) - {ExactReadings} <= tried  # which is no noise


def _leaves(base):
    """Classes of the library that nothing in it derives from, below one of them or itself."""
    below = base.__subclasses__()
    own = [each for each in below if each.__module__.startswith("invlift.")]
    return {leaf for each in own for leaf in _leaves(each)} if own else {base}


# Scales -------------------------------------------------------------------------------------------

GRID = np.linspace(-40.0, 60.0, 20_001)


def law_of(scale, *, has_reference=True):
    """Values of the scale on the grid, and their distribution function by quadrature."""

    def at(zeta):
        return scale.transform(zeta[None]), scale.log_reference(zeta[None])

    values, log_reference = map(np.asarray, jax.jit(jax.vmap(at))(GRID))
    density = np.exp(scipy.stats.norm.logpdf(GRID) + (log_reference if has_reference else 0.0))
    steps = 0.5 * (density[1:] + density[:-1]) * (GRID[1] - GRID[0])
    return values, np.append(0.0, np.cumsum(steps))


@pytest.mark.parametrize("name", ["half-normal", "gamma"])  # one has a density of its coordinate
def test_scale_has_one_law_in_both_coordinates(name):
    table = DISTRIBUTIONS[name]
    content = {key: values[0] for key, values in choices_of(table).items()}
    prior = table.model_validate(content | {"distribution": name}).build()
    scale = unknown_scale(prior)
    values, expected = law_of(scale)
    near = scale.near(0.3)
    assert_close("normalisation", expected[-1], 1.0, 1e-6)
    for other, is_same in ((near, True), (near, False)):
        places, cdf = law_of(other, has_reference=is_same)
        probabilities = np.interp(values, places, cdf)
        error = np.abs(probabilities - expected)[(places[0] < values) & (values < places[-1])].max()
        # Negative control: without the density of its coordinate, if it has another one.
        assert error < 1e-3 if is_same or near is scale else error > 1e-2
    grouped = unknown_scale(prior, np.array([0, 1, 0]))
    assert grouped.transform(jnp.zeros(2)).shape == (3,)
    zetas = unknown_scale(prior, np.arange(2000)).near(0.3).sample(np.random.default_rng(2))
    drawn = np.interp(zetas, GRID, law_of(near)[0])
    law = partial(np.interp, xp=values, fp=expected)
    assert scipy.stats.kstest(drawn, law).pvalue > 1e-3


# Negative controls --------------------------------------------------------------------------------


class WrongNoise(StudentTNoise):
    """Of which one function is wrong, by relative errors of both."""

    errors: jax.Array = field(kw_only=True)

    def inverse_transform(self, value, *shape):
        return (1.0 + self.errors[0]) * super().inverse_transform(value, *shape)

    def log_slope(self, observed, zeta, eta):
        return (1.0 + self.errors[1]) * super().log_slope(observed, zeta, eta)


def test_a_fault_is_found(monkeypatch):
    monkeypatch.setattr(Noise, "_check_inverse", lambda noise: None)  # which sees one at once
    right = build({"kind": "student-t", "sigma": 0.3, "relative": True})
    for errors, found in (([0.01, 0.0], "observe"), ([0.0, -0.1], "log_slope")):
        wrong = WrongNoise(
            right.scale, right.degrees_of_freedom, relative=True, errors=jnp.asarray(errors)
        )
        with pytest.raises(AssertionError, match=f"^{found}: "):
            check_noise(*target_of(wrong))
