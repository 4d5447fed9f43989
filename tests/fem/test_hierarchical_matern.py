"""The Matern prior with unknown range and standard deviation: values, derivatives and moments."""

import dataclasses
import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from structured import box_mesh
from taylor import assert_taylor_second_order

from invlift.errors import InputError
from invlift.fem.fields.hyperpriors import log_moments
from invlift.fem.fields.matern_prior import matern_prior
from invlift.programs.compilation import Program
from invlift.unknowns.distributions import (
    as_distribution,
    half_cauchy,
    half_normal,
    lognormal,
    normal,
)

RANGE, STD = lognormal(math.log(0.7), 0.5), lognormal(math.log(1.3), 0.3)
all_of = Program(lambda prior, whites: jax.lax.map(prior.transform, whites), "some")
transform = Program(lambda prior, white: prior.transform(white), "none")
parameters = Program(lambda prior, white: prior.parameters(white), "none")


def make(dim, smoothness, boundary="neumann", *, range=RANGE, std=STD, num=None):
    mesh = box_mesh(dim, num or {2: 3, 3: 1}[dim])
    settings = {"smoothness": smoothness, "boundary": boundary}
    mean = np.linspace(-1.0, 1.0, mesh.num_nodes)
    return matern_prior(mesh, range=range, std=std, mean=mean, **settings)


def known(dim, smoothness, boundary, correlation_range, std):
    """The prior for known range and standard deviation, built separately."""
    mesh = box_mesh(dim, {2: 3, 3: 1}[dim])
    return matern_prior(
        mesh,
        range=correlation_range,
        std=std,
        smoothness=smoothness,
        mean=np.linspace(-1.0, 1.0, mesh.num_nodes),
        boundary=boundary,
    )


@partial(Program, effort="none")
def linearise(prior, white):
    return prior.linearise(white)


#: By a quantile function, and in a coordinate that is not normal.
HALF_NORMAL, GAMMA = half_normal(0.9), dist.Gamma(3.0, 3.0)

CASES = {  # dim, smoothness, boundary, range and std; orders 3 and 2
    "gamma": (2, 2.0, "robin", GAMMA, GAMMA),
    "std alone": (2, 1.0, "neumann", 0.7, HALF_NORMAL),
}


class Case(NamedTuple):
    prior: object
    separate: object
    white: jax.Array


@pytest.fixture(scope="module", params=CASES)
def case(request):
    dim, smoothness, boundary, correlation_range, std = CASES[request.param]
    prior = make(dim, smoothness, boundary, range=correlation_range, std=std)
    rng = np.random.default_rng(1)
    white = rng.standard_normal(prior.num_white)
    given = {"prior_range": 0.7, "prior_std": 1.3} | parameters(prior, white)
    numbers = (float(given[name]) for name in ("prior_range", "prior_std"))
    return Case(prior, known(dim, smoothness, boundary, *numbers), white)


def test_field_is_that_of_the_known_range_and_std(case):
    expected = transform(case.separate, case.white[case.prior.num_hyper :])
    for field in (linearise(case.prior, case.white)[0], transform(case.prior, case.white)):
        np.testing.assert_allclose(field, expected, rtol=1e-12, atol=1e-13)
    # negative control: neither is the field of the medians
    is_noise = np.arange(len(case.white)) >= case.prior.num_hyper
    medians = transform(case.prior, case.white * is_noise)
    assert np.abs(medians - expected).max() > 1e-2
    assert case.prior.num_white == case.prior.num_hyper + expected.size
    assert (case.prior.location, case.prior.is_affine) == ("nodes", False)


def test_order_one():
    """No field on a mesh has it, as smoothness would be 0 in the plane; S is one all the same."""
    prior = dataclasses.replace(make(2, 1.0, "robin"), alpha=1)
    white = np.random.default_rng(3).standard_normal(prior.num_white)
    given = parameters(prior, white)
    numbers = (float(given[name]) for name in ("prior_range", "prior_std"))
    separate = dataclasses.replace(known(2, 1.0, "robin", *numbers), alpha=1)
    field, tangent = linearise(prior, white)
    np.testing.assert_allclose(field, transform(separate, white[2:]), rtol=1e-12, atol=1e-13)
    direction = np.random.default_rng(4).standard_normal(prior.num_white)
    slope = jax.jit(lambda tangent, direction: tangent.push(direction[:, None])[:, 0])
    assert_taylor_second_order(
        lambda white: transform(prior, white), slope(tangent, direction), white, direction
    )


# --- distribution -------------------------------------------------------------------------------


def test_pointwise_std_is_that_of_draws():
    prior = make(2, 1.0, num=2, range=half_normal(0.5), std=STD)
    rng = np.random.default_rng(5)
    whites = np.stack([prior.sample(rng) for _ in range(8000)])
    fields = all_of(prior, whites)
    squares = np.asarray(fields - prior.mean) ** 2
    error = squares.std(axis=0) / math.sqrt(len(squares))

    def distances(std):
        return np.abs(squares.mean(axis=0) - std**2) / error

    assert distances(prior.pointwise_std()).max() < 4.0
    # negative control: the deviation at the medians is smaller
    medians = prior.given(jnp.zeros(prior.num_hyper)).pointwise_std()
    assert distances(medians).max() > 6.0


FAMILIES = {
    "half-cauchy": (half_cauchy(0.6), stats.halfcauchy(scale=0.6)),
    "gamma": (dist.Gamma(2.0, 3.0), stats.gamma(2.0, scale=1 / 3)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_and_density_of_range_and_std_are_those_of_their_distribution(name):
    given, expected = FAMILIES[name]
    prior = make(2, 1.0, num=2, range=given, std=given)
    rng = np.random.default_rng(6)
    whites = np.stack([prior.sample(rng) for _ in range(2000)])
    draws = jax.jit(jax.vmap(prior.parameters))(whites)
    for values in draws.values():
        assert stats.kstest(np.asarray(values), expected.cdf).pvalue > 1e-3
        assert stats.kstest(1.2 * np.asarray(values), expected.cdf).pvalue < 1e-3
    assert math.exp(log_moments(as_distribution(given)).log_median) == pytest.approx(
        expected.median(), rel=1e-4
    )
    # The density of z is that of the value times the slope of the transformation.
    white, place = jnp.asarray(whites[0]), 1

    def std_of(z):
        return prior.parameters(white.at[place].set(z))["prior_std"]

    @jax.jit
    @jax.vmap
    def look(z):
        log_density = prior.log_reference(white.at[place].set(z)) - 0.5 * z**2
        return log_density, *jax.value_and_grad(std_of)(z)

    log_density, value, slope = map(np.asarray, look(np.array([0.3, -1.5, 1.2])))
    of_value = expected.logpdf(value) + np.log(np.abs(slope))
    assert np.diff(log_density) == pytest.approx(np.diff(of_value), abs=1e-8)


def test_without_a_mean_square_the_median_stands_for_all():
    both = make(2, 1.0, num=2, range=half_cauchy(0.7), std=half_cauchy(1.3))
    medians = both.given(jnp.zeros(2)).pointwise_std()
    np.testing.assert_allclose(both.pointwise_std(), medians, rtol=1e-9)
    # negative control: inverse gamma distributions with and without a mean square
    finite, infinite = (
        make(2, 1.0, num=2, range=0.7, std=dist.InverseGamma(a, 1.0)) for a in (3, 1.5)
    )
    square = float(finite.given(jnp.zeros(1)).tau * finite.pointwise_std()[0]) ** 2
    square /= float(infinite.given(jnp.zeros(1)).tau * infinite.pointwise_std()[0]) ** 2
    centre = float(finite.parameters(jnp.zeros(finite.num_white))["prior_std"])
    assert square == pytest.approx(1.0 / (2.0 * 1.0) / centre**2, rel=1e-6)


# --- trouble ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        (r"^prior range: .*found a median of 2[0-9.]+", {"range": lognormal(3, 1)}),
        (r"^prior std: .*at most 2, found 2\.5; ", {"std": lognormal(0.0, 2.5)}),
        (r"^prior range: .*positive number, found Normal", {"range": normal(1, 1)}),
        (r"^prior std: .*of a positive number", {"std": half_normal(np.ones(2))}),
        (r"^prior std: .*continuous distribution.*Poisson", {"std": dist.Poisson(1.0)}),
    ],
)
def test_bad_input_is_named(match, changes):
    settings = {"range": RANGE, "std": STD, "smoothness": 1.0} | changes
    with pytest.raises(InputError, match=match) as caught:
        matern_prior(box_mesh(2, 2), **settings)
    assert "\n" not in str(caught.value)
