"""Field and sensor statistics against plain NumPy and known answers."""

import numpy as np
import pytest
from posterior_cases import moments_of
from scipy.stats import norm

from invlift.errors import InputError
from invlift.posterior import (
    MergedMoments,
    field_statistics,
    merge_moments,
    sensor_statistics,
    variance_reduction,
)
from invlift.posterior.statistics import conductivity_statistics


@pytest.fixture
def chains():
    rng = np.random.default_rng(1)
    return [rng.normal(size=(40, 23)) * np.arange(1, 24) for _ in range(3)]


@pytest.mark.parametrize("block_size", [1, 1000, 10**6])
def test_field_statistics_are_those_of_the_pooled_draws(chains, block_size, monkeypatch):
    monkeypatch.setattr("invlift.posterior.blocks.BLOCK_SIZE", block_size)
    pooled = np.concatenate(chains)
    before = pooled.copy()
    result = field_statistics(chains, "f")
    np.testing.assert_allclose(result["f_mean"], pooled.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(result["f_sd"], pooled.std(axis=0, ddof=1), rtol=1e-12)
    for key, probability in (("q05", 0.05), ("q50", 0.5), ("q95", 0.95)):
        np.testing.assert_allclose(result[f"f_{key}"], np.quantile(pooled, probability, axis=0))
    np.testing.assert_array_equal(np.concatenate(chains), before)


def test_sd_of_dispersed_chains_is_the_total_one():
    # the mean of the chains' own standard deviations would be 0 here
    chains = [np.full((10, 1), -1.0), np.full((10, 1), 1.0)]
    assert field_statistics(chains, "f")["f_sd"][0] == pytest.approx(np.sqrt(20 / 19))


def test_one_draw_has_no_sd():
    assert np.isnan(field_statistics([np.ones((1, 2))], "f")["f_sd"]).all()


def test_conductivity_mean_is_not_the_exponential_of_the_mean(chains):
    small = [chain / 23 for chain in chains]
    logs = field_statistics(small, "log_conductivity")
    result = conductivity_statistics(small, logs)
    pooled = np.exp(np.concatenate(small))
    np.testing.assert_allclose(result["conductivity_mean"], pooled.mean(axis=0), rtol=1e-12)
    assert (result["conductivity_mean"] > np.exp(logs["log_conductivity_mean"])).all()
    np.testing.assert_allclose(
        result["conductivity_q95"], np.exp(logs["log_conductivity_q95"]), rtol=1e-14
    )


def test_moments_of_unequal_chains_merge_to_those_of_the_whole():
    rng = np.random.default_rng(2)
    values = 1e6 + rng.normal(size=(60, 4))  # a far mean shows cancellation
    parts = [moments_of(part) for part in np.split(values, [5, 6, 31])]
    nothing = MergedMoments(0, np.zeros(4), np.zeros(4))
    merged = merge_moments([nothing, *parts])
    assert merged.count == 60
    np.testing.assert_allclose(merged.mean, values.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(merged.sd, values.std(axis=0, ddof=1), rtol=1e-8)


def test_moments_that_cannot_be_merged():
    with pytest.raises(InputError, match="at least one chain"):
        merge_moments([MergedMoments(0, np.zeros(1), np.zeros(1))])
    with pytest.raises(InputError, match="one field size"):
        merge_moments([MergedMoments(2, np.zeros(n), np.zeros(n)) for n in (1, 2)])


def test_variance_reduction():
    np.testing.assert_allclose(
        variance_reduction(np.array([0.0, 1.0, 2.0, 3.0]), np.full(4, 2.0)), [1, 0.75, 0, -1.25]
    )
    for wrong, message in ((np.ones(3), "shape"), (0.0, "positive"), (np.nan, "positive")):
        with pytest.raises(InputError, match=message):
            variance_reduction(np.ones(4), wrong)


def test_residual_counts_prediction_and_noise():
    rng = np.random.default_rng(3)
    predicted = [5.0 + 3.0 * rng.normal(size=(4000, 2)) for _ in range(2)]
    result = sensor_statistics(predicted, np.array([10.0, 5.0]), np.array([4.0, 4.0]))
    assert result.standardised_residual[0] == pytest.approx(1.0, abs=0.05)
    assert result.predictive_p_value[0] == pytest.approx(norm.cdf(1.0), abs=0.01)
    assert result.predictive_p_value[1] == pytest.approx(0.5, abs=0.02)
    # negative control: with a noise scale four times too small the reading looks far out
    wrong = sensor_statistics(predicted, np.array([10.0, 5.0]), 1.0)
    assert wrong.standardised_residual[0] > 1.5


def test_drawn_noise_scale_enters_by_its_mean_square():
    predicted = [np.zeros((2, 3)), np.zeros((2, 3))]
    sigma = [np.array([1.0, 1.0]), np.array([1.0, 5.0])]
    result = sensor_statistics(predicted, np.full(3, np.sqrt(7.0)), sigma)
    np.testing.assert_allclose(result.standardised_residual, 1.0)
    assert sensor_statistics(predicted, np.ones(3), None).standardised_residual is None


def test_drawn_noise_scale_may_differ_between_sensors():
    rng = np.random.default_rng(5)
    predicted = [rng.normal(size=(200, 2)) for _ in range(2)]
    sigma = [np.stack([np.full(200, 0.5), np.exp(rng.normal(size=200))], axis=1) for _ in range(2)]
    both = sensor_statistics(predicted, np.ones(2), sigma)
    for sensor in range(2):
        part = [chain[:, sensor : sensor + 1] for chain in predicted]
        alone = sensor_statistics(part, np.ones(1), [chain[:, sensor] for chain in sigma])
        assert both.predictive_p_value[sensor] == pytest.approx(alone.predictive_p_value[0])
        assert both.standardised_residual[sensor] == pytest.approx(alone.standardised_residual[0])


def test_readings_must_fit_the_predictions():
    with pytest.raises(InputError, match="4 sensors"):
        sensor_statistics([np.zeros((5, 3))], np.zeros(4), 1.0)
