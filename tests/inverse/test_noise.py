"""Noise scales as smooth functions of a standard normal variable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from invlift.errors import InputError
from invlift.inverse.distributions import half_normal, lognormal
from invlift.inverse.noise import gaussian_noise, known_noise

SCALE = 2.5


def sigma(noise, zeta):
    return noise.sigma(zeta[None])


sigmas = jax.jit(jax.vmap(sigma, (None, 0)))
slopes = jax.jit(jax.vmap(jax.grad(sigma, argnums=1), (None, 0)))


def test_half_normal_quantiles_keep_relative_accuracy_in_the_lower_tail():
    """Put back into the distribution function erf, which is well conditioned there."""
    zetas = np.linspace(-30.0, 0.0, 61)
    values = np.asarray(sigmas(gaussian_noise(half_normal(SCALE)), zetas))
    probability = scipy.special.erf(values / (SCALE * np.sqrt(2)))
    np.testing.assert_allclose(probability, scipy.stats.norm.cdf(zetas), rtol=1e-12)


def test_half_normal_quantiles_keep_relative_accuracy_in_the_upper_tail():
    zetas = np.linspace(0.0, 30.0, 61)
    expected = SCALE * scipy.stats.halfnorm.isf(scipy.stats.norm.sf(zetas))
    np.testing.assert_allclose(
        sigmas(gaussian_noise(half_normal(SCALE)), zetas), expected, rtol=1e-12
    )


def test_half_normal_slope_is_finite_and_right_everywhere():
    """d sigma / d zeta is the ratio of the two densities (change of variables)."""
    zetas = np.array([-30.0, -8.0, -1.0, -1e-12, 0.0, 1e-12, 1.0, 8.0, 30.0])
    unit = sigmas(gaussian_noise(half_normal(1.0)), zetas)
    log_ratio = scipy.stats.norm.logpdf(zetas) - scipy.stats.halfnorm.logpdf(unit)
    np.testing.assert_allclose(
        slopes(gaussian_noise(half_normal(SCALE)), zetas), SCALE * np.exp(log_ratio), rtol=1e-9
    )


def test_half_normal_and_lognormal_have_their_distributions(rng_key):
    zetas = np.asarray(jax.random.normal(rng_key, (20_000,)))
    half_normal_law = scipy.stats.halfnorm(scale=SCALE)
    lognormal_law = scipy.stats.lognorm(s=0.7, scale=np.exp(-1.0))
    from_half_normal = sigmas(gaussian_noise(half_normal(SCALE)), zetas)
    from_lognormal = sigmas(gaussian_noise(lognormal(-1.0, 0.7)), zetas)
    assert scipy.stats.kstest(from_half_normal, half_normal_law.cdf).pvalue > 0.01
    assert scipy.stats.kstest(from_lognormal, lognormal_law.cdf).pvalue > 0.01
    # Negative controls: a scale three per cent off, and the other distribution.
    assert scipy.stats.kstest(1.03 * from_half_normal, half_normal_law.cdf).pvalue < 1e-3
    assert scipy.stats.kstest(from_lognormal, half_normal_law.cdf).pvalue < 1e-6


def test_lognormal_closed_form():
    zetas = np.array([-8.0, 0.0, 8.0])
    expected = np.exp(-1.0 + 0.7 * zetas)
    noise = gaussian_noise(lognormal(-1.0, 0.7))
    np.testing.assert_allclose(sigmas(noise, zetas), expected, rtol=1e-14)
    np.testing.assert_allclose(slopes(noise, zetas), 0.7 * expected, rtol=1e-14)


def test_known_noise_takes_one_scale_or_one_for_each_sensor():
    assert known_noise(0.1).sigma(jnp.zeros(0)) == 0.1
    each = np.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(known_noise(each).sigma(jnp.zeros(0)), each)
    assert known_noise(each).num_parameters == 0
    assert gaussian_noise(lognormal(0.0, 1.0)).num_parameters == 1


@pytest.mark.parametrize(
    ("build", "where"),
    [
        (lambda: known_noise(0.0), "noise sigma"),
        (lambda: known_noise(-1.0), "noise sigma"),
        (lambda: known_noise(np.array([0.1, np.nan, 0.2])), "noise sigma, sensor 1"),
        (lambda: known_noise(np.array([0.1, 0.1, np.inf])), "noise sigma, sensor 2"),
        (lambda: gaussian_noise(lognormal(np.nan, 1.0)), "lognormal, location"),
        (lambda: gaussian_noise(lognormal(0.0, 0.0)), "lognormal, scale"),
        (lambda: gaussian_noise(half_normal(-2.0)), "half_normal, scale"),
        (lambda: gaussian_noise(half_normal(np.inf)), "half_normal, scale"),
    ],
)
def test_bad_scales_are_named_in_one_line(build, where):
    with pytest.raises(InputError) as caught:
        build()
    assert caught.value.where == where
    assert "\n" not in str(caught.value)
