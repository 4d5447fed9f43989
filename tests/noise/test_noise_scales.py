"""Unknown scales: each prior in both coordinates, for all readings and by groups."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from invlift.errors import InputError
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.noise import gaussian_noise, known_noise, student_t_noise, unknown_scale
from invlift.noise.scales import UnknownScale
from invlift.problems.inverse_problem import jax_problem
from invlift.programs.compilation import Program
from invlift.unknowns.distributions import half_cauchy, half_normal, lognormal, normal

PRIORS = {
    "lognormal": lognormal(-1.0, 0.7),
    "half-normal": half_normal(2.5),
    "half-Cauchy": half_cauchy(2.5),
}
#: Priors with the threshold between both coordinates; None where sigma is in one alone.
COORDINATES = [("lognormal", 0.3), ("half-normal", None), ("half-Cauchy", 0.3)]

GRID = np.linspace(-60.0, 60.0, 60_001)


class Case(NamedTuple):
    scale: UnknownScale
    program: Callable

    def evaluate(self, zetas):
        """Sigma and log reference, their first two derivatives, the gradient of their sum."""
        found = self.program(np.pad(zetas, (0, GRID.size - len(zetas)), mode="edge"))
        return jax.tree.map(lambda array: np.asarray(array)[: len(zetas)], found)


@pytest.fixture(scope="module", params=COORDINATES, ids=str)
def case(request):
    name, threshold = request.param
    scale = unknown_scale(PRIORS[name])
    scale = scale if threshold is None else scale.near(threshold)

    def at(zeta):
        return scale.transform(zeta[None]), scale.log_reference(zeta[None])

    def all_of(zeta):
        first = jax.jacfwd(at)
        return at(zeta), first(zeta), jax.jacfwd(first)(zeta), jax.grad(lambda z: sum(at(z)))(zeta)

    return Case(scale, Program(jax.vmap(all_of), "none"))


@jax.jit
def look_at(scale, zeta):
    """Values, and the log reference."""
    return scale.transform(zeta), scale.log_reference(zeta)


def test_a_knee_far_above_gives_the_exponential_coordinate():
    """And above the knee sigma is linear in zeta."""
    scale = unknown_scale(lognormal(-1.0, 0.7))
    value, reference = look_at(scale.near(1e12), np.array([0.4]))
    np.testing.assert_allclose(value, np.exp(-1.0 + 0.7 * 0.4), rtol=1e-11)
    np.testing.assert_allclose(reference, 0.0, atol=1e-11)
    above = [look_at(scale.near(0.1), np.array([zeta]))[0] for zeta in np.linspace(20.0, 30.0, 11)]
    np.testing.assert_allclose(np.diff(above), 0.07, rtol=1e-4)


@jax.jit
@partial(jax.vmap, in_axes=(None, 0))
def sigma_of(noise, zeta):
    """Sigma and its slope."""
    return jax.value_and_grad(lambda zeta: noise.sigma(zeta[None]))(zeta)


def test_half_normal_quantiles_keep_relative_accuracy_in_the_tails():
    """Below, put back into the distribution function erf, which is well conditioned there."""
    scale, zetas = 2.5, np.linspace(-30.0, 30.0, 121)
    values, slopes = sigma_of(gaussian_noise(half_normal(scale)), zetas)
    probability = scipy.special.erf(values / (scale * np.sqrt(2)))[:61]
    np.testing.assert_allclose(probability, scipy.stats.norm.cdf(zetas[:61]), rtol=1e-12)
    above = scipy.stats.halfnorm.isf(scipy.stats.norm.sf(zetas[60:]))
    np.testing.assert_allclose(values[60:], scale * above, rtol=1e-12)
    # The slope is the ratio of the two densities (change of variables).
    log_ratio = scipy.stats.norm.logpdf(zetas) - scipy.stats.halfnorm.logpdf(values / scale)
    np.testing.assert_allclose(slopes, scale * np.exp(log_ratio), rtol=1e-9)


def test_derivatives_against_differences(case):
    step = 1e-5
    zetas = np.array([-29.0, -5.3, -0.4, 0.0, 0.7, 3.1, 25.0])
    before, after = case.evaluate(zetas - step), case.evaluate(zetas + step)
    _, first, second, gradient = case.evaluate(zetas)
    for order, exact in ((0, first), (1, second)):
        for which in (0, 1):
            found = (np.asarray(after[order][which]) - before[order][which]) / (2 * step)
            size = np.maximum(np.abs(before[order][which]), np.abs(exact[which]))
            # The reference is a difference of numbers to 500, which rounding leaves 1e-13 of.
            rounding = 1e-7 if which else 1e-14
            assert np.all(np.abs(found - exact[which]) <= 1e-6 * size + rounding)
    np.testing.assert_allclose(gradient, sum(first), rtol=1e-9, atol=1e-13)
    # Far out all is finite, and sigma increases.
    zetas = np.array([-30.0, -20.0, -5.0, -1e-12, 0.0, 1e-12, 5.0, 20.0, 30.0])
    found = case.evaluate(zetas)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))
    assert np.all(found[0][0] > 0.0)
    assert np.all(np.diff(found[0][0]) >= 0.0)
    assert np.all(found[1][0] > 0.0)


def test_evidence_does_not_depend_on_the_coordinate():
    """The ordinary posterior's integral over zeta, which has the prior and the likelihood in it."""
    observed, grid = np.array([0.3, -0.1, 0.5]), np.linspace(-12.0, 40.0, 20_001)

    def model(theta):
        return 0.1 + 0.0 * theta[0] * jnp.ones(3)

    @jax.jit
    def densities(problem):
        posterior = OrdinaryPosterior(problem)
        return jnp.exp(jax.vmap(lambda zeta: posterior.logdensity(jnp.stack([zeta, 0.0])))(grid))

    def evidence(noise):
        found = densities(jax_problem(model, 1, noise, observed))
        return np.sum(found) * (grid[1] - grid[0])

    noise = gaussian_noise(half_normal(2.0))
    expected = evidence(noise)
    near = noise.near(0.3)
    np.testing.assert_allclose(evidence(near), expected, rtol=1e-7)
    np.testing.assert_allclose(evidence(near.near(1.0)), expected, rtol=1e-7)
    # Negative control: another prior.
    assert abs(evidence(gaussian_noise(half_normal(2.1))) / expected - 1.0) > 0.01


def test_groups_are_named_in_the_order_of_the_readings():
    by_name = unknown_scale(lognormal(-1.0, 0.7), ["b", "a", "b"])
    assert by_name.names == ("b", "a")
    np.testing.assert_array_equal(by_name.groups, [0, 1, 0])
    of_pandas = unknown_scale(lognormal(-1.0, 0.7), np.array(["b", "a", "b"], dtype=object))
    assert of_pandas.names == by_name.names


def test_groups_share_a_scale():
    groups = np.array([2, 0, 1, 0])
    noise = gaussian_noise(unknown_scale(lognormal(-1.0, 0.7), groups))
    zeta = jnp.array([0.1, -0.3, 0.8])
    assert noise.num_parameters == 3
    values, reference = look_at(noise.scale, zeta)
    np.testing.assert_allclose(values, np.exp(-1.0 + 0.7 * zeta)[groups], rtol=1e-14)
    assert reference == 0.0
    # Each has a threshold of its own, and their log densities add up.
    near = noise.near(np.array([0.5, 0.2, 3.0, 0.4]))
    np.testing.assert_allclose(near.scale.threshold, [0.3, 3.0, 0.5], rtol=1e-14)
    alone = unknown_scale(lognormal(-1.0, 0.7))
    thresholds = (0.3, 3.0, 0.5)
    parts = [look_at(alone.near(t), zeta[i : i + 1]) for i, t in enumerate(thresholds)]
    expected, references = map(np.array, zip(*parts, strict=True))
    values, reference = look_at(near.scale, zeta)
    np.testing.assert_allclose(values, expected[groups], rtol=1e-14)
    np.testing.assert_allclose(reference, references.sum(), rtol=1e-13)
    assert near.sample_parameters(np.random.default_rng(0)).shape == (3,)
    # One value for all, and inside a compiled function.
    traced = jax.jit(lambda noise, sigma: noise.near(sigma).sigma(zeta))
    once, _ = look_at(noise.near(0.3).scale, zeta)
    np.testing.assert_allclose(traced(noise, jnp.full(4, 0.3)), once, rtol=1e-14)
    np.testing.assert_allclose(traced(noise, jnp.asarray(0.3)), once, rtol=1e-14)


def test_each_group_may_have_a_scale_of_its_own():
    """Priors of two families, and one that is known."""
    groups, zeta = ["b", "a", "b", "known"], jnp.array([0.4, -0.8])
    index = np.array([0, 1, 0, 2])
    together = unknown_scale([lognormal(-1.0, 0.7), half_normal(30.0), 5.0], groups)
    parts = [unknown_scale(lognormal(-1.0, 0.7)), unknown_scale(half_normal(30.0))]
    together, parts = together.near(0.3), [part.near(0.3) for part in parts]
    assert (together.num_white, together.names) == (2, ("b", "a"))
    found = [look_at(part, own) for part, own in zip(parts, zeta[:, None], strict=True)]
    each, references = map(np.array, zip(*found, strict=True))
    values, reference = look_at(together, zeta)
    np.testing.assert_allclose(values, np.array([*each, 5.0])[index], rtol=1e-13)
    np.testing.assert_allclose(together.parameter(zeta), each, rtol=1e-13)
    of_readings = together.of_readings(np.stack([each, 2.0 * each]))
    np.testing.assert_allclose(of_readings[1], np.array([*(2.0 * each), 5.0])[index])
    np.testing.assert_allclose(reference, references.sum(), atol=1e-12)
    # Draws are those of the parts, one after the other, whose law is tested above.
    for seed in range(3):
        rng = np.random.default_rng(seed)
        expected = np.concatenate([part.sample(rng) for part in parts])
        drawn = together.sample(np.random.default_rng(seed))
        np.testing.assert_allclose(drawn, expected, rtol=1e-13)
    with pytest.raises(InputError, match="noise scale: expected 3, one for each group, found 2"):
        unknown_scale([1.0, 2.0], groups)


def test_near_leaves_alone_what_is_not_an_unknown_scale():
    known = known_noise(0.1)
    assert known.near(0.3) is known
    noise = student_t_noise(0.1, lognormal(1.0, 0.5))
    assert noise.near(0.3) is noise
    both = student_t_noise(half_normal(1.0), lognormal(1.0, 0.5)).near(0.3)
    assert both.degrees_of_freedom.threshold is None


@pytest.mark.parametrize(
    ("build", "where"),
    [
        (lambda: gaussian_noise(0.0), "noise sigma"),
        (lambda: known_noise(np.array([0.1, np.nan, 0.2])), "noise sigma, index 1"),
        (lambda: gaussian_noise("loud"), "noise sigma"),
        (lambda: gaussian_noise(np.ones((2, 2))), "noise sigma"),
        (lambda: unknown_scale(half_normal(np.ones(2))), "noise scale"),
        (lambda: unknown_scale(normal(1.0, 1.0)), "noise scale"),
        (lambda: unknown_scale(lognormal(0.0, 1.0), [1, 2, 1]), "noise groups"),
        (lambda: unknown_scale(lognormal(0.0, 1.0), [0.0, 1.0]), "noise groups"),
        (lambda: unknown_scale(lognormal(0.0, 1.0), np.zeros((2, 2), int)), "noise groups"),
        (lambda: gaussian_noise(lognormal(0.0, 1.0)).near(0.0), "noise sigma"),
        (lambda: gaussian_noise(lognormal(0.0, 1.0)).near(np.ones(3)), "noise sigma"),
        (lambda: gaussian_noise(unknown_scale(half_normal(1.0), [0, 1])).check(np.ones(3)),
         "noise groups"),
        (lambda: gaussian_noise([0.1, 0.2]).check(np.ones(3)), "noise sigma"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named_in_one_line(build, where):
    with pytest.raises(InputError) as caught:
        build()
    assert caught.value.where == where
    assert "\n" not in str(caught.value)
