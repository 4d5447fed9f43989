"""New readings and log likelihoods, given draws of what is unknown about the noise."""

import numpy as np
import pytest
from scipy.stats import kstest, laplace, norm, t

from invlift.noise import (
    gaussian_noise,
    known_noise,
    laplace_noise,
    potential_noise,
    student_t_noise,
    unknown_scale,
)
from invlift.noise.given_draws import NoiseGivenDraws
from invlift.unknowns.distributions import half_normal, lognormal

PREDICTED = 5.0 + np.random.default_rng(0).normal(size=(300, 4))
SIGMA = np.exp(np.random.default_rng(1).normal(size=(300, 2)))
OBSERVED = np.array([4.0, 5.5, 7.0, 5.0])
GROUPS = np.array([0, 1, 1, 0])


def new_readings(noise, draws, seed):
    rng = np.random.default_rng(seed)
    (found,) = NoiseGivenDraws(noise, OBSERVED).new_readings(rng, [draws], {})["observed"]
    return found


def log_likelihood(noise, draws):
    (found,) = NoiseGivenDraws(noise, OBSERVED).log_likelihoods([draws])["observed"]
    return found


def test_known_noise_is_added_to_each_draw():
    sigma = np.array([0.1, 1.0, 10.0, 100.0])
    found = new_readings(known_noise(sigma), {"predicted": PREDICTED}, 2)
    assert kstest(((found - PREDICTED) / sigma).ravel(), "norm").pvalue > 1e-3
    assert kstest((found - PREDICTED).ravel(), "norm").pvalue < 1e-3  # negative control


@pytest.mark.parametrize(("num_scales", "relative"), [(1, False), (2, True)])
def test_drawn_parameters_go_with_their_draws(num_scales, relative):
    groups = GROUPS if num_scales == 2 else None
    noise = student_t_noise(
        unknown_scale(half_normal(1.0), groups), lognormal(1.0, 0.5), relative=relative
    )
    freedom = np.where(np.arange(300) < 150, 1.0, 50.0)
    sigma = SIGMA if num_scales == 2 else SIGMA[:, 0]
    draws = {"predicted": PREDICTED, "sigma": sigma, "degrees_of_freedom": freedom}
    found = new_readings(noise, draws, 3)
    error = np.log(found / PREDICTED) if relative else found - PREDICTED
    error /= SIGMA[:, groups] if num_scales == 2 else SIGMA[:, :1]
    for part, nu in ((error[:150], 1.0), (error[150:], 50.0)):
        assert kstest(part.ravel(), "t", args=(nu,)).pvalue > 1e-3
        assert kstest(part.ravel(), "t", args=(51.0 - nu,)).pvalue < 1e-2  # negative control


def t_of(freedom):
    return t(freedom[:, None])


def test_log_likelihood_is_that_of_scipy_reading_by_reading():
    """Every second noise is relative."""
    freedom = np.exp(np.random.default_rng(6).normal(1.0, 0.5, size=300))
    each_sigma = np.array([0.1, 1.0, 10.0, 100.0])
    cases = [
        (known_noise(each_sigma).scale, {}, each_sigma, norm, None),
        (unknown_scale(half_normal(1.0), GROUPS), {"sigma": SIGMA}, SIGMA[:, GROUPS], norm, None),
        (half_normal(1.0), {"sigma": SIGMA[:, 0]}, SIGMA[:, :1], laplace, None),
        (unknown_scale(half_normal(1.0), GROUPS), {"sigma": SIGMA}, SIGMA[:, GROUPS], t(3.0), 3.0),
        (
            unknown_scale(half_normal(1.0), GROUPS),
            {"sigma": SIGMA, "degrees_of_freedom": freedom},
            SIGMA[:, GROUPS],
            t_of(freedom),
            lognormal(1.0, 0.5),
        ),
    ]
    for k, (scale, drawn, sigma, shape, degrees) in enumerate(cases):
        relative = k % 2 == 1
        if degrees is not None:
            noise = student_t_noise(scale, degrees, relative=relative)
        else:
            make = laplace_noise if shape is laplace else gaussian_noise
            noise = make(scale, relative=relative)
        found = log_likelihood(noise, {"predicted": PREDICTED} | drawn)
        error = np.log(OBSERVED / PREDICTED) if relative else OBSERVED - PREDICTED
        expected = shape.logpdf(error / sigma) - np.log(sigma)
        expected -= np.log(OBSERVED) if relative else 0.0
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_log_likelihood_of_a_potential_is_normalised():
    noise = potential_noise(0.5, lambda x: 0.5 * x**2 + 3.0)  # normal, up to the constant
    found = log_likelihood(noise, {"predicted": PREDICTED})
    expected = norm(PREDICTED, 0.5).logpdf(OBSERVED)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_relative_noise_changes_no_sign():
    draws = {"predicted": np.where(np.arange(4) == 2, -PREDICTED, PREDICTED)}
    found = log_likelihood(gaussian_noise(0.1, relative=True), draws)
    assert (found[:, 2] == -np.inf).all()
    assert np.isfinite(found[:, [0, 1, 3]]).all()


@pytest.mark.parametrize("relative", [False, True])
def test_new_readings_along_a_path_have_the_noise_of_their_readings(relative):
    scale = unknown_scale(half_normal(0.5), [0, 0, 1, 1])
    noise = gaussian_noise(scale, relative=relative)
    found = NoiseGivenDraws(noise, np.ones(4))
    sigma = np.array([0.1, 0.3]) * np.linspace(0.5, 1.5, 4000)[:, None]
    draws = {"sigma": sigma, "predicted": np.ones((4000, 4)), "x_path": np.full((4000, 5), 2.0)}
    for rows, group in (([0, 1], 0), ([2, 3], 1)):
        paths = {"x_path": np.array(rows)}
        (new,) = found.new_readings(np.random.default_rng(1), [draws], paths)["x_path"]
        score = (np.log(new / 2.0) if relative else new - 2.0) / sigma[:, [group]]
        assert new.shape == (4000, 5)
        assert abs(score.std() - 1.0) < 4 / np.sqrt(2 * score.size)
    paths = {"x_path": np.array([1, 2])}
    assert "x_path" not in found.new_readings(np.random.default_rng(1), [draws], paths)
