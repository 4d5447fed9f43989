"""Coverage of a truth, and the continuous ranked probability score."""

import numpy as np
import pytest

from invlift.posterior.coverage import crps, normal_crps, quantile_of, share_inside

NUM, SD = 4000, 1.7


@pytest.fixture(scope="module")
def sample():
    """A truth for each of 300 coefficients, and draws of the distribution it was drawn from."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=300)
    truth = mean + SD * rng.normal(size=300)
    return mean, truth, [mean + SD * rng.normal(size=(NUM // 2, 300)) for _ in range(2)]


def band(draws):
    return np.quantile(np.concatenate(draws), (0.05, 0.95), axis=0)


def test_calibrated_draws_cover_nine_in_ten(sample):
    _, truth, draws = sample
    error = np.sqrt(0.9 * 0.1 / 300)
    assert abs(share_inside(*band(draws), truth) - 0.9) < 3 * error
    # Negative control: draws that are too narrow.
    narrow = [truth.mean() + 0.5 * (each - truth.mean()) for each in draws]
    assert share_inside(*band(narrow), truth) < 0.9 - 6 * error


def test_score_of_normal_draws_is_the_closed_form(sample):
    mean, truth, draws = sample
    exact = normal_crps(mean, np.full(300, SD), truth)
    found = crps(draws, truth)
    np.testing.assert_allclose(found, exact, atol=5 * SD / np.sqrt(NUM))
    assert abs(np.mean(found - exact)) < 5 * SD / np.sqrt(NUM * 300)
    # The score is proper: narrower and wider draws have a larger one.
    for factor in (0.5, 2.0):
        other = [mean + factor * (each - mean) for each in draws]
        assert crps(other, truth).mean() > 1.02 * found.mean()


def test_score_of_two_draws_by_hand():
    # E|X - y| = 1, E|X - X'| = 1 for draws 0 and 2 and y = 1.
    assert crps([np.array([[0.0], [2.0]])], np.array([1.0])) == pytest.approx(0.5)
    assert crps([np.array([[3.0]])], np.array([1.0])) == pytest.approx(2.0)


def test_quantile_of_a_truth():
    draws = [np.arange(5.0), np.arange(5.0, 10.0)]
    assert quantile_of(draws, 2.5) == pytest.approx(0.3)
    assert quantile_of(draws, 2.0) == pytest.approx(0.25)
    assert quantile_of(draws, -1.0) == 0.0
