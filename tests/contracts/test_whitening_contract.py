"""NumPyro's distributions at the sites of a model: one law for z and for the value, and scores."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from contract_checks import assert_close

from invlift.inverse.distributions.base import log_normal
from invlift.inverse.distributions.whitening import score_of, unwrapped
from invlift.inverse.models.numpyro_sites import find_sites

COVARIANCE = jnp.array([[2.0, 0.3], [0.3, 0.5]])
#: By name, and whether its map is exact.
LATENT = {
    "normal": (dist.Normal(0.4, 1.3), True),
    "lognormal": (dist.LogNormal(0.4, 0.6), True),
    "half normal": (dist.HalfNormal(0.7), True),
    "half Cauchy": (dist.HalfCauchy(0.7), True),
    "Cauchy": (dist.Cauchy(0.3, 0.7), True),
    "exponential": (dist.Exponential(2.5), True),
    "uniform": (dist.Uniform(-0.5, 2.0), True),
    "expanded": (dist.HalfNormal(0.3).expand([2]), True),
    "as an event": (dist.Normal(jnp.array([0.1, 0.5]), 2.0).to_event(1), True),
    "masked": (dist.Normal(jnp.array([0.1, 0.5]), 2.0).mask(jnp.array([True, True])), True),
    "multivariate": (dist.MultivariateNormal(jnp.array([1.0, -2.0]), COVARIANCE), True),
    "random walk": (dist.GaussianRandomWalk(0.3, num_steps=4), True),
    "diffusion": (
        dist.EulerMaruyama(
            jnp.array([0.0, 0.1, 0.3]), lambda x, t: (-x, 0.5 + 0.1 * t), dist.Normal(1.0, 0.5)
        ),
        True,
    ),
    "transformed": (
        dist.TransformedDistribution(
            dist.Normal(jnp.zeros(2), 1.0), dist.transforms.AffineTransform(3.0, 0.5)
        ),
        True,
    ),
    "gamma": (dist.Gamma(2.5, 4.0), False),
    "inverse gamma": (dist.InverseGamma(3.0, 0.5), False),
    "beta": (dist.Beta(2.0, 3.5), False),
    "Student-t": (dist.StudentT(5.0, 1.0, 0.3), False),
    "truncated": (dist.TruncatedNormal(0.5, 1.0, low=0.0), False),
    "Laplace": (dist.Laplace(0.5, 0.2), False),
    "Gumbel": (dist.Gumbel(0.5, 0.2), False),
    "Weibull": (dist.Weibull(0.5, 1.7), False),
    "transformed gamma": (
        dist.TransformedDistribution(
            dist.Gamma(2.0, 1.0),
            dist.transforms.AffineTransform(1.0, 2.0, dist.constraints.positive),
        ),
        False,
    ),
    "simplex": (dist.Dirichlet(jnp.array([2.0, 3.0, 1.5])), False),
    "correlations": (dist.LKJCholesky(3, 2.0), False),
}


def sites_of(given):
    def model():
        numpyro.sample("x", given)
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=jnp.asarray(0.3))

    return find_sites(model)


def free_value(given, value):
    """The value mapped to the real numbers, and the log volume of the map back."""
    bijection = dist.biject_to(unwrapped(given).support)
    free = bijection.inv(value)
    return free, jnp.sum(bijection.log_abs_det_jacobian(free, value))


@pytest.mark.parametrize("name", LATENT)
def test_variables_and_values_have_one_law(name):
    given, is_exact = LATENT[name]
    sites, data = sites_of(given)
    (site,) = sites.latent
    assert (site.coordinate is None) == is_exact

    @jax.jit
    def look(white):
        def free(white):
            return jnp.ravel(free_value(given, sites.at(white, data).values["x"])[0])

        trace = sites.at(white, data)
        value = trace.values["x"]
        of_z = log_normal(white) + trace.log_reference + log_normal(trace.scores)
        of_value = jnp.sum(given.log_prob(value)) + dist.Normal(0.0, 1.0).log_prob(0.3)
        volume = free_value(given, value)[1] + jnp.linalg.slogdet(jax.jacfwd(free)(white))[1]
        return {
            "of z": of_z,
            "of value": of_value + volume,
            "left over": trace.log_reference,
            "value": value,
        }

    rng = np.random.default_rng(3)
    for white in (*rng.standard_normal((3, sites.num_white)), np.full(sites.num_white, 3.0)):
        found = look(white)
        assert found["value"].shape == given.shape()
        assert np.all(given.support(found["value"]))
        assert_close("law", found["of z"], found["of value"], 1e-8)
        assert (abs(found["left over"]) < 1e-12) == is_exact
    # Draws of the variables give draws of the value back.
    white, _ = sites.draw(jax.random.key(1))
    assert white.shape == (sites.num_white,)
    assert np.all(given.support(sites.at(white, data).values["x"]))


OBSERVED = {
    "normal": (dist.Normal(0.4, 1.3), 0.9),
    "lognormal": (dist.LogNormal(0.4, 0.6), 0.9),
    "Student-t": (dist.StudentT(5.0, 1.0, 0.3), 0.9),
    "Cauchy": (dist.Cauchy(1.0, 0.3), 0.9),
    "Laplace": (dist.Laplace(0.5, 0.2), 0.9),
    "logistic": (dist.Logistic(0.5, 0.2), 0.9),
    "Gumbel": (dist.Gumbel(0.5, 0.2), 0.9),
    "gamma": (dist.Gamma(2.5, 4.0), 0.9),
    "beta": (dist.Beta(2.0, 3.5), 0.4),
    "exponential": (dist.Exponential(2.5), 0.4),
    "transformed": (
        dist.TransformedDistribution(
            dist.Normal(0.0, 1.0), dist.transforms.AffineTransform(3.0, 0.5)
        ),
        3.3,
    ),
    "as events": (dist.Normal(jnp.array([0.1, 0.5]), 2.0).to_event(1), np.array([0.9, 1.0])),
    "multivariate": (
        dist.MultivariateNormal(jnp.array([1.0, -2.0]), COVARIANCE),
        np.array([0.9, -1.0]),
    ),
    "random walk": (dist.GaussianRandomWalk(0.3, num_steps=3), np.array([0.1, 0.5, 0.3])),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_scores_are_about_standard_normal_and_grow_with_the_value(name):
    given, value = OBSERVED[name]
    slopes = jax.jacfwd(lambda value: jnp.ravel(score_of(given, value)))(jnp.asarray(value))
    assert np.all(np.diagonal(np.atleast_2d(slopes)) > 0.0)
    draws = given.sample(jax.random.key(2), (4000,))
    scores = np.asarray(jax.vmap(lambda value: score_of(given, value))(draws)).ravel()
    low, middle, high = np.quantile(scores, [0.1, 0.5, 0.9])
    assert abs(middle) < 0.4
    assert 1.6 < high - low < 4.5 or name == "Cauchy"  # 2.56 of a standard normal one


@pytest.mark.parametrize("name", OBSERVED)
def test_the_density_of_readings_is_numpyros(name):
    given, value = OBSERVED[name]

    def model():
        numpyro.sample("x", dist.Normal(0.0, 1.0))
        numpyro.sample("y", given, obs=jnp.asarray(value))

    sites, data = find_sites(model)
    trace = sites.at(jnp.array([0.2]), data)
    found = trace.log_reference + log_normal(trace.scores)
    assert_close("density", found, jnp.sum(given.log_prob(value)), 1e-10)


def test_counts_have_no_scores():
    assert score_of(dist.Poisson(3.0), jnp.asarray(2)) is None
