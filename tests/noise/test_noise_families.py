"""Every kind of noise: its density, its inverses, its derivatives and its draws."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.scipy.special import log_ndtr, ndtri

from invlift.app.runs.sampling import sample
from invlift.errors import InputError
from invlift.noise import (
    Noise,
    gaussian_noise,
    known_noise,
    known_scale,
    laplace_noise,
    potential_noise,
    student_t_noise,
    unknown_scale,
)
from invlift.noise.families import LaplaceNoise
from invlift.noise.scales import as_scale
from invlift.problems.inverse_problem import inverse_problem
from invlift.programs.compilation import Program
from invlift.programs.derivatives import derivatives_along
from invlift.unknowns.distributions import exponential, half_cauchy, half_normal, lognormal, normal


class LogisticNoise(Noise):
    """A family of one's own, by its quantile function."""

    def transform(self, eta):
        return log_ndtr(eta) - log_ndtr(-eta)

    def inverse_transform(self, value):
        # Beyond 700 probabilities are too small for a number.
        lower = ndtri(jax.nn.sigmoid(-jnp.minimum(jnp.abs(value), 700.0)))
        return jnp.where(value < 0.0, lower, -lower)


def logistic_potential(x):
    return x + 2.0 * jax.nn.softplus(-x)


def compiled(fn):
    """Quickly rather than well: derivatives of a high order take long otherwise."""
    return Program(fn, "none")


class Family(NamedTuple):
    """A noise of three readings, and SciPy's distribution of T given the shape parameters."""

    noise: Noise
    reference: object


GROUPS = np.array([0, 1, 0])
NORMAL, LAPLACE, LOGISTIC = scipy.stats.norm, scipy.stats.laplace, scipy.stats.logistic
FAMILIES = {
    "gaussian, relative": Family(gaussian_noise(lognormal(-1.5, 0.5), relative=True), NORMAL),
    "t, all unknown": Family(
        student_t_noise(unknown_scale(exponential(0.5), GROUPS), lognormal(1.5, 0.5)), scipy.stats.t
    ),
    "laplace": Family(laplace_noise(unknown_scale(half_cauchy(0.5)).near(0.3)), LAPLACE),
    "potential": Family(potential_noise(lognormal(-1.0, 0.7), logistic_potential), LOGISTIC),
    "one's own": Family(LogisticNoise(as_scale(0.3)), LOGISTIC),
}
ZETAS = np.array([[-1.0, 0.4, 0.9], [0.3, -0.2, -0.8], [1.5, 1.1, 0.0]])
PREDICTED = np.array([0.7, -1.3, 2.1])


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


def zetas_of(noise):
    return ZETAS[:, : noise.num_parameters]


@jax.jit
def values_of(noise, zeta):
    """Sigma, and the shape parameters."""
    return noise._values(zeta)


def distribution(family, zeta):
    """SciPy's of T, with the degrees of freedom of zeta if there are any."""
    _, shape = values_of(family.noise, zeta)
    return scipy.stats.t(float(*shape)) if shape else family.reference


def log_density(family, zeta, observed):
    """Of each reading, (..., 3), by SciPy."""
    sigma = np.asarray(values_of(family.noise, zeta)[0])
    shape = distribution(family, zeta)
    if family.noise.relative:
        ratio = np.log(observed / PREDICTED) / sigma
        return shape.logpdf(ratio) - np.log(sigma * np.abs(observed))
    return shape.logpdf((observed - PREDICTED) / sigma) - np.log(sigma)


class Values(NamedTuple):
    """Everything at once, for one eta and one vector of readings."""

    loglikelihood: jax.Array
    log_densities: jax.Array
    log_ratio: jax.Array
    log_reference: tuple


#: So many at a time: one program for each family serves several tests.
BATCH = 8001


@functools.cache
def program_of(name):
    def evaluate(noise, zeta, eta, observed):
        sigma, shape = noise._values(zeta)
        return Values(
            noise.loglikelihood(PREDICTED, zeta, observed),
            noise.log_densities(PREDICTED, observed, sigma, *shape),
            noise.log_ratio(eta, *shape),
            jax.value_and_grad(noise.log_reference, (0, 1))(zeta, eta),
        )

    return compiled(jax.vmap(evaluate, (None, None, 0, 0)))


def evaluate(family, zeta, etas=None, observed=None):
    """:class:`Values` for (n, 3) etas or readings."""
    given = etas if observed is None else observed
    etas = np.zeros_like(given) if etas is None else etas
    observed = np.tile(PREDICTED, (len(given), 1)) if observed is None else observed
    pad = ((0, BATCH - len(given)), (0, 0))
    name = next(name for name, known in FAMILIES.items() if known is family)
    arguments = (np.pad(array, pad, mode="edge") for array in (etas, observed))
    found = program_of(name)(family.noise, zeta, *arguments)
    return jax.tree.map(lambda array: np.asarray(array)[: len(given)], found)


def test_loglikelihood_is_scipys(family):
    """That of each reading, and the sum, with every constant that depends on zeta."""
    moves = 0.1 * np.outer([-3.0, -0.2, 0.01, 0.8, 40.0], [1.0, 2.0, -1.0])
    observed = PREDICTED * np.exp(moves) if family.noise.relative else PREDICTED + moves
    for zeta in zetas_of(family.noise):
        found = evaluate(family, zeta, observed=observed)
        each = log_density(family, zeta, observed)
        np.testing.assert_allclose(found.log_densities, each, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.loglikelihood, each.sum(axis=1), rtol=1e-10, atol=1e-10)


def test_density_of_eta_integrates_to_one(family):
    """Of the first of three, by quadrature."""
    etas = np.linspace(-30.0, 30.0, BATCH)
    for zeta in zetas_of(family.noise):
        log_ratio = evaluate(family, zeta, np.outer(etas, [1.0, 0.0, 0.0])).log_ratio[:, 0]
        density = np.exp(scipy.stats.norm.logpdf(etas) + log_ratio)
        np.testing.assert_allclose(np.sum(density) * (etas[1] - etas[0]), 1.0, rtol=1e-7)


ETAS = np.array([-9.0, -2.3, -0.4, 0.001, 0.45, 1.1, 2.0, 3.7, 12.0])
#: One of each shape and link, with scales that are cheap to differentiate.
SOME = {
    "t": student_t_noise(0.3, lognormal(1.5, 0.5)),
    "laplace, relative": laplace_noise(0.3, relative=True),
    "potential": potential_noise(0.3, logistic_potential),
}


@pytest.mark.parametrize("noise", SOME.values(), ids=SOME)
def test_derivatives_to_the_third_against_differences(noise):
    """Along a direction of zeta and eta, each order against differences of the one below."""
    predicted = np.tile(PREDICTED, 3)
    across = np.cos(np.arange(9.0))

    def orders(zeta, time):
        def values(time):
            moved = zeta + time * np.array([0.6, -0.4, 0.3])[: noise.num_parameters]
            at = moved, ETAS + time * across
            far = predicted * jnp.exp(0.05 * at[1])
            found = [noise.observe(predicted, *at), noise.invert(predicted, moved, far)]
            found += [noise.log_reference(*at)]
            if noise.relative:  # else it is the same function there and back, with no slope
                found += [noise.predicted(predicted, *at), noise.log_slope(predicted, *at)]
            return found

        def along(function):
            return lambda time: jax.jvp(function, (time,), (1.0,))

        ((value, first), (_, second)), (_, (_, third)) = along(along(along(values)))(time)
        return value, first, second, third

    step, evaluate = 1e-5, compiled(orders)
    for zeta in zetas_of(noise)[:2]:
        found = (evaluate(zeta, time) for time in (-step, 0.0, step))
        for before, exact, after in zip(*(zip(*each, strict=True) for each in found), strict=True):
            assert all(np.all(np.isfinite(order)) for order in exact)
            size = np.max(np.abs(exact), axis=0)  # of all orders: rounding is of the largest
            for lower, upper, derivative in zip(before, after, exact[1:], strict=False):
                difference = (upper - lower) / (2 * step)
                assert np.all(np.abs(difference - derivative) <= 2e-6 * size + 1e-9)


EXTREMES = np.array([-30.0, -20.0, -5.0, -1e-9, 0.0, 1e-9, 5.0, 20.0, 30.0])


def test_references_are_finite_in_the_far_tails(family):
    """Values and derivatives, for every zeta and eta to 30 in size."""
    for zeta in EXTREMES:
        zetas = np.full(family.noise.num_parameters, zeta)
        found = evaluate(family, zetas, np.outer(EXTREMES, np.ones(3)))
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found.log_reference))


@pytest.mark.parametrize(
    ("noise", "farthest"),
    [
        (student_t_noise(1.0, 1.0), 1e200),
        (student_t_noise(0.1, 1e6), 1e3),
        (laplace_noise(1.0), 1e12),
        (potential_noise(0.1, logistic_potential), 1e3),
    ],
    ids=["t", "nearly normal", "laplace", "potential"],
)
def test_transformations_are_finite_and_increasing_in_the_far_tails(noise, farthest):
    """A start may be 1e9 noise scales away from readings."""
    empty, zeros = jnp.zeros(0), jnp.zeros(3)

    def parts(eta):
        value = lambda eta: noise.observe(jnp.ones(1), empty, eta[None])[0]  # noqa: E731
        observed = value(eta)
        back = noise.invert(jnp.ones(1), empty, observed[None])[0]
        _, *derivatives = derivatives_along(value, (eta, 1.0, 0.0, 0.0))
        return observed, derivatives, back

    @compiled
    def look(etas, far):
        start = jax.jvp(lambda far: noise.invert(zeros, empty, far), (far,), (jnp.ones(3),))
        near = jnp.clip(far, -1e9, 1e9)
        return jax.vmap(parts)(etas), (start, noise.loglikelihood(zeros, empty, near))

    (observed, derivatives, back), of_far = look(EXTREMES, np.array([1e3, -1e9, farthest]))
    slope, *_ = derivatives
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(of_far))
    assert np.all(np.isfinite(observed))
    assert np.all(np.isfinite(derivatives))
    assert np.all(np.asarray(slope) > 0.0)
    if isinstance(noise, LaplaceNoise):  # smooth on both sides of its peak
        np.testing.assert_allclose(slope[3:6], np.sqrt(2.0 / np.pi), rtol=1e-8)
    np.testing.assert_allclose(back, EXTREMES, rtol=1e-8, atol=1e-14)


# Drawing ----------------------------------------------------------------------------------------


def test_draws_have_the_distribution(family):
    """Another shape is seen."""
    noise, rng = family.noise, np.random.default_rng(7)
    zeta = zetas_of(noise)[1]
    shape = map(np.asarray, values_of(noise, zeta)[1])
    values = noise.draw(rng, 20_000, *shape)
    reference = distribution(family, zeta)
    assert scipy.stats.kstest(values, reference.cdf).pvalue > 0.01
    # Negative controls: five per cent off in units of the interquartile range, and another shape.
    moved = values + 0.05 * (reference.ppf(0.75) - reference.ppf(0.25))
    assert scipy.stats.kstest(moved, reference.cdf).pvalue < 0.01
    other = LAPLACE if reference is NORMAL else NORMAL
    assert scipy.stats.kstest(values, other.cdf).pvalue < 1e-3


@pytest.mark.parametrize("name", ["gaussian, relative", "potential"])
def test_samples_are_draws_times_the_scale(name):
    noise = FAMILIES[name].noise
    zeta = zetas_of(noise)[1]
    observed = noise.sample(np.random.default_rng(3), PREDICTED, zeta)
    assert isinstance(observed, np.ndarray)
    values = np.asarray(values_of(noise, zeta)[0]) * noise.draw(np.random.default_rng(3), 3)
    expected = PREDICTED * np.exp(values) if noise.relative else PREDICTED + values
    np.testing.assert_allclose(observed, expected, rtol=1e-13)


def test_parameters_and_their_draws():
    noise = FAMILIES["t, all unknown"].noise
    assert noise.num_parameters == 3
    rng = np.random.default_rng(11)
    zetas = np.array([noise.sample_parameters(rng) for _ in range(2000)])
    found = compiled(jax.vmap(noise.parameters))(zetas)
    assert found["sigma"].shape == (2000, 2)  # one for each group
    degrees = scipy.stats.lognorm(s=0.5, scale=np.exp(1.5))
    assert scipy.stats.kstest(found["degrees_of_freedom"], degrees.cdf).pvalue > 0.01
    assert scipy.stats.kstest(found["sigma"][:, 1], scipy.stats.expon(scale=0.5).cdf).pvalue > 0.01
    # Negative control.
    assert scipy.stats.kstest(found["sigma"][:, 1], degrees.cdf).pvalue < 1e-6
    assert known_noise(0.1).parameters(jnp.zeros(0)) == {}
    assert list(student_t_noise(0.1, lognormal(1.0, 1.0)).parameters(jnp.zeros(1))) == [
        "degrees_of_freedom"
    ]
    assert list(gaussian_noise(lognormal(0.0, 1.0)).parameters(jnp.zeros(1))) == ["sigma"]


def test_a_potential_may_leave_its_constant_out():
    noise = potential_noise(0.2, lambda x: 0.5 * x**2 + 100.0)
    np.testing.assert_allclose(noise.log_constant, 0.5 * np.log(2 * np.pi) - 100.0, rtol=1e-12)
    np.testing.assert_allclose(
        noise.log_reference_of_noise(jnp.zeros(0), jnp.array([0.3, 4.0])), 0.0, atol=1e-12
    )


# What does not fit ------------------------------------------------------------------------------


def test_relative_noise_changes_no_sign():
    noise = gaussian_noise(0.1, relative=True)
    empty, observed = jnp.zeros(0), jnp.array([1.0, -2.0])

    def value(predicted):
        return noise.loglikelihood(predicted, empty, observed)

    look = compiled(lambda at: (value(at), jax.grad(value)(at), noise.invert(at, empty, observed)))
    assert np.isnan(look(np.array([1.0, 2.0]))[2][1])
    for predicted in ([1.0, 2.0], [0.0, -2.0]):
        density, slope, _ = look(np.array(predicted))
        assert density == -np.inf
        assert np.all(np.isfinite(slope))
    assert np.isfinite(look(np.array([1.1, -2.1]))[0])
    # What is not a number is not passed off as impossible.
    assert np.isnan(look(np.array([1.1, np.nan]))[0])


@pytest.mark.parametrize("limit", ["<", ">"])
def test_limits_of_relative_noise_hold_for_negative_readings_too(limit):
    """y = F exp(0.3 eta) is normal in log |y|, and has the sign of F."""
    predicted = np.array([-2.0, -2.0, 2.0, 2.0, 1.0])
    observed = np.array([-1.0, 0.5, 3.0, -0.5, 1.0])
    noise = gaussian_noise(0.3, relative=True).with_limits(np.array([*4 * [limit], ""]))
    found = compiled(noise.loglikelihoods)(predicted, np.zeros(0), observed)[:4]
    with np.errstate(divide="ignore"):
        score = np.log(np.abs(observed / predicted))[[0, 2]] / 0.3
        below = [NORMAL.logsf(score[0]), 0.0, NORMAL.logcdf(score[1]), -np.inf]
        above = [NORMAL.logcdf(score[0]), -np.inf, NORMAL.logsf(score[1]), 0.0]
    np.testing.assert_allclose(found, below if limit == "<" else above, rtol=1e-12)


@pytest.mark.parametrize(
    ("noise", "shape"),
    [
        (potential_noise(0.3, logistic_potential, relative=True), LOGISTIC),
        (student_t_noise(0.01, 3.0), scipy.stats.t(3.0)),
    ],
)
def test_scores_of_draws_are_normal(noise, shape):
    """Residuals, p-values and PIT take them as that."""
    observed = np.array([0.9, -1.0, 4.9])
    problem = inverse_problem(lambda x: x * PREDICTED, {"x": lognormal(0.0, 1.0)}, noise, observed)
    found = problem.described(jnp.zeros(1))["noise_score"]
    move = np.log(observed / PREDICTED) if noise.relative else observed - PREDICTED
    sigma = float(noise.scale.known)
    np.testing.assert_allclose(log_ndtr(found), shape.logcdf(move / sigma), rtol=1e-3)


def test_limits_of_another_number_of_readings_are_refused():
    noise = gaussian_noise(0.1).with_limits(np.array(["<", ""]))
    with pytest.raises(InputError, match="noise limits: expected 3, one for each reading, found 2"):
        noise.check(np.ones(3))


def test_relative_noise_refuses_readings_of_zero():
    observed = np.array([1.0, 0.0, 2.0])
    with pytest.raises(InputError) as caught:
        gaussian_noise(0.1, relative=True).check(observed)
    assert caught.value.where == "observed, index 1"
    gaussian_noise(0.1).check(observed)


@pytest.mark.parametrize(
    ("build", "where", "found"),
    [
        (lambda: student_t_noise(0.1, 0.5), "noise degrees_of_freedom", "0.5"),
        (lambda: student_t_noise(0.1, unknown_scale(lognormal(1.0, 1.0), [0, 1])),
         "noise degrees_of_freedom", "groups"),
        (lambda: student_t_noise(-0.1, 3.0), "noise sigma", "-0.1"),
        (lambda: potential_noise(0.1, lambda x: jnp.sum(x**2)), "noise potential", "()"),
        (lambda: potential_noise(0.1, lambda x: -(x**2)), "noise potential", "does not fall off"),
        (lambda: potential_noise(0.1, jnp.abs(0.0)), "noise potential", "not callable"),
        (lambda: potential_noise(0.1, lambda x: -jnp.log(x)), "noise potential", "nan at -10"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named_in_one_line(build, where, found):
    with pytest.raises(InputError) as caught:
        build()
    assert caught.value.where == where
    assert found in caught.value.found
    assert "\n" not in str(caught.value)


def test_kinds_of_noise_have_structures_of_their_own():
    unknown = gaussian_noise(lognormal(0.0, 1.0)), gaussian_noise(half_normal(1.0))
    kinds = [gaussian_noise(0.1), gaussian_noise(0.1, relative=True), laplace_noise(0.1)]
    kinds += [*unknown, *(noise.near(0.1) for noise in unknown), student_t_noise(0.1, 3.0)]
    kinds += [potential_noise(0.1, logistic_potential), LogisticNoise(as_scale(0.3))]
    assert len({jax.tree.structure(noise) for noise in kinds}) == len(kinds)
    assert jax.tree.structure(laplace_noise(0.1)) == jax.tree.structure(laplace_noise(0.2))


class Ball(Noise):
    """All readings within a distance of what is predicted, equally likely."""

    def loglikelihood(self, predicted, zeta, observed):
        distance = jnp.linalg.norm(predicted - observed)
        return jnp.where(distance <= self.sigma(zeta), 0.0, -jnp.inf)


def test_noise_with_a_density_alone_is_for_samplers_on_densities():
    """Of x ~ N(0, 1) within 0.5 of 0.5."""
    problem = inverse_problem(
        lambda x: x[None], {"x": normal(0.0, 1.0)}, Ball(known_scale(0.5)), np.array([0.5])
    )
    for kernel in ("chmc", "laplace"):
        with pytest.raises(InputError, match="a sampler on a density, as the noise has a loglik"):
            sample(problem, kernel)
    posterior = problem.posterior(sample(problem, "rwm", chains=2, warmup=200, draws=1000, seed=1))
    law = scipy.stats.truncnorm(0.0, 1.0)
    error = law.std() / np.sqrt(posterior.scalar_diagnostics["x"].ess_mean[0])
    draws = np.array(posterior.draws("x"))
    assert abs(draws.mean() - law.mean()) < 4.0 * error
    assert 0.0 <= draws.min() <= draws.max() <= 1.0
    # There is no density of each reading, and no way to make new ones.
    assert posterior.noise is None
    assert not posterior.fit.has_leave_one_out
    assert "noise_score" not in posterior.described


def test_a_missing_inverse_is_told():
    class Wide(Noise):
        def transform(self, eta):
            return jnp.sinh(eta)

    class WideAndBack(Wide):
        def inverse_transform(self, value):
            return jnp.arcsinh(value)

    WideAndBack(known_scale(0.5)).check(np.ones(3))
    with pytest.raises(InputError, match=r"noise Wide, inverse_transform of -3.6.*: expected -2"):
        Wide(known_scale(0.5)).check(np.ones(3))
