"""Field and sensor statistics against plain NumPy and known answers."""

from types import SimpleNamespace

import numpy as np
import pytest
import pyvista
from posterior_cases import Chain, make_posterior
from scipy.stats import norm

from invlift.errors import InputError
from invlift.posterior import Posterior, Readings
from invlift.posterior.statistics.fields import (
    conductivity_statistics,
    field_statistics,
    material_probabilities,
    variance_reduction,
)
from invlift.posterior.statistics.quantity import Quantity, described
from invlift.posterior.statistics.scalars import scalar_draws
from invlift.posterior.statistics.sensor_fit import sensor_statistics
from invlift.posterior.statistics.series import in_time


def compare(predicted, observed, sigma):
    sigmas = sigma if isinstance(sigma, list) else [sigma] * len(predicted)
    scores = [(observed - values) / scale for values, scale in zip(predicted, sigmas, strict=True)]
    return sensor_statistics(predicted, observed, scores)


def formula(predicted, observed, sigma):
    """Residuals of a normal prediction and normal noise of known scale."""
    values = np.concatenate(predicted)
    return (observed - values.mean(axis=0)) / np.sqrt(values.var(axis=0, ddof=1) + sigma**2)


@pytest.fixture
def chains():
    rng = np.random.default_rng(1)
    return [rng.normal(size=(40, 23)) * np.arange(1, 24) for _ in range(3)]


@pytest.mark.parametrize("block_size", [1, 1000])
def test_field_statistics_are_those_of_the_pooled_draws(chains, block_size, monkeypatch):
    monkeypatch.setattr("invlift.posterior.statistics.blocks.BLOCK_SIZE", block_size)
    pooled = np.concatenate(chains)
    before = pooled.copy()
    result = field_statistics(chains, "f")
    np.testing.assert_allclose(result["f_mean"], pooled.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(result["f_sd"], pooled.std(axis=0, ddof=1), rtol=1e-12)
    for key, probability in (("q05", 0.05), ("q50", 0.5), ("q95", 0.95)):
        np.testing.assert_allclose(result[f"f_{key}"], np.quantile(pooled, probability, axis=0))
    np.testing.assert_array_equal(np.concatenate(chains), before)


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


def test_short_vectors_are_scalars_by_entry_and_long_ones_by_mean_and_deviation():
    draws = {
        "predicted": [np.zeros((5, 3))], "noise_score": [np.zeros((5, 3))],
        "weights": [np.arange(10.0).reshape(5, 2)], "long": [np.zeros((5, 1001))],
        "degrees_of_freedom": [np.ones(5)], "large": [np.zeros((5, 3, 17))],
        "hand": [np.arange(20.0).reshape(5, 2, 2)],
    }  # fmt: skip
    hand = Quantity("hand", {"side": ["left", "right"], "hand_dim_1": None})
    shapes = {name: chains[0].shape[1:] for name, chains in draws.items()}
    found = scalar_draws(draws, described(shapes, [hand]))
    of_long = ["long_field_mean", "long_field_std"]
    of_hand = ["hand[left, 0]", "hand[left, 1]", "hand[right, 0]", "hand[right, 1]"]
    assert list(found) == ["degrees_of_freedom", *of_long, "weights[0]", "weights[1]", *of_hand]
    np.testing.assert_array_equal(found["weights[1]"][0], [1, 3, 5, 7, 9])
    np.testing.assert_array_equal(found["hand[right, 0]"][0], [2, 6, 10, 14, 18])


def test_entries_that_are_known_are_no_scalars():
    """Ones and zeros of a triangular matrix, but not a small number beside a large one."""
    rng = np.random.default_rng(4)
    factor = np.zeros((2, 6, 2, 2))
    factor[..., 0, 0], factor[..., 1, :] = 1.0, rng.normal(size=(2, 6, 2))
    sizes = np.stack([rng.normal(1e6, 1.0, (2, 6)), rng.normal(0.0, 1e-6, (2, 6))], axis=-1)
    # Where chains stand at different values, or all entries stand, nothing is known.
    apart, still = np.zeros((2, 6, 2)), np.zeros((2, 6, 2))
    apart[1] = 1.0
    draws = {"factor": factor, "sizes": sizes, "apart": apart, "still": still}
    draws = {name: list(chains) for name, chains in draws.items()}
    found = scalar_draws(draws, described({name: x[0].shape[1:] for name, x in draws.items()}))
    others = [f"{name}[{index}]" for name in ("sizes", "apart", "still") for index in (0, 1)]
    assert list(found) == ["factor[1, 0]", "factor[1, 1]", *others]


def test_variance_reduction():
    np.testing.assert_allclose(
        variance_reduction(np.array([0.0, 1.0, 2.0, 3.0]), np.full(4, 2.0)), [1, 0.75, 0, -1.25]
    )
    for wrong, message in ((np.ones(3), "shape"), (0.0, "positive"), (np.nan, "positive")):
        with pytest.raises(InputError, match=message):
            variance_reduction(np.ones(4), wrong)


@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_residual_is_the_formula_for_normal_predictions_and_noise(spread):
    # draws at the quantiles of the normal posterior, so that no chance is left
    quantiles = norm.ppf((np.arange(4000) + 0.5) / 4000)
    observed = np.array([-3.0, -1.0, 0.0, 0.5, 2.0, 4.0])
    predicted = [spread * part[:, None] + np.zeros(6) for part in (quantiles[::2], quantiles[1::2])]
    result = compare(predicted, observed, 1.0)
    expected = formula(predicted, observed, 1.0)
    np.testing.assert_allclose(result.standardised_residual, expected, atol=2e-3)
    np.testing.assert_allclose(result.predictive_p_value, norm.cdf(expected), atol=2e-4)
    # negative control: the formula without the noise is off by far
    assert np.abs(result.standardised_residual - formula(predicted, observed, 0.5)).max() > 0.1


@pytest.mark.parametrize("size", [40.0, -700.0])
def test_misfits_of_hundreds_of_standard_deviations_keep_their_size(size):
    predicted = [np.full((10, 1), 2.0), np.full((10, 1), 2.0)]
    result = compare(predicted, np.array([2.0 + 0.1 * size]), 0.1)
    assert result.standardised_residual[0] == pytest.approx(size, rel=1e-9)
    assert result.predictive_p_value[0] == (size > 0)
    # negative control: from the p-value itself nothing could be told
    assert not np.isfinite(norm.ppf(result.predictive_p_value[0]))


def test_drawn_noise_scale_is_averaged_over():
    predicted = [np.zeros((2, 3)), np.zeros((2, 3))]
    sigma = [np.array([1.0, 1.0]), np.array([1.0, 5.0])]
    result = compare(predicted, np.full(3, np.sqrt(7.0)), [each[:, None] for each in sigma])
    p_value = norm.cdf(np.sqrt(7.0) / np.array([1.0, 1.0, 1.0, 5.0])).mean()
    np.testing.assert_allclose(result.predictive_p_value, p_value)
    np.testing.assert_allclose(result.standardised_residual, norm.ppf(p_value))
    np.testing.assert_allclose(result.noise_sd, np.sqrt(7.0))
    nothing = sensor_statistics(predicted, np.ones(3))
    assert nothing.standardised_residual is nothing.predictive_p_value is nothing.noise_sd is None


def test_residuals_of_negative_readings_with_relative_noise_have_their_sign():
    """y = F exp(0.1 eta): of a negative reading, a larger eta is a lower one."""
    rng, observed = np.random.default_rng(7), np.array([2.0, -2.0, -1.6])
    predicted = [1.8 * np.exp(0.02 * rng.normal(size=(300, 3))) * np.sign(observed)] * 2
    scores = [np.log(observed / chain) / 0.1 for chain in predicted]
    chains = [
        Chain({"predicted": p, "noise_score": z}) for p, z in zip(predicted, scores, strict=True)
    ]
    fit = Posterior(chains, sensors=Readings(observed)).fit.sensors()
    p_values = norm.cdf(np.concatenate(scores)).mean(axis=0)
    expected = np.where(observed < 0.0, 1.0 - p_values, p_values)
    np.testing.assert_allclose(fit.predictive_p_value, expected, rtol=1e-10)
    np.testing.assert_allclose(fit.standardised_residual, norm.ppf(expected), rtol=1e-10)
    assert (np.sign(fit.standardised_residual) == np.sign(observed - fit.predicted_mean)).all()
    # Negative control: additive noise of median 0.5, whose variable is negative below that.
    shifted = [(observed - chain - 0.5) / 0.1 for chain in predicted]
    chains = [
        Chain({"predicted": p, "noise_score": z}) for p, z in zip(predicted, shifted, strict=True)
    ]
    fit = Posterior(chains, sensors=Readings(observed)).fit.sensors()
    p_values = norm.cdf(np.concatenate(shifted)).mean(axis=0)
    np.testing.assert_allclose(fit.predictive_p_value, p_values, rtol=1e-10)


def test_depths_of_a_well_and_kinds_at_a_place_are_sensors_of_their_own():
    """In time, where each sensor is a series."""
    times = {"time": [1.0, 2.0, 1.0, 2.0]}
    for depth, kinds, names in (
        (5, [], ["MW, 1, 0", "MW, 1, -5"]),
        (0, ["point", "flux"], ["MW, point", "MW, flux"]),
        (0, [], ["MW", "MW"]),
    ):
        points = np.array([[1, 0], [1, 0], [1, -depth], [1, -depth]], dtype=float)
        known = times | ({"kind": np.repeat(kinds, 2).tolist()} if kinds else {})
        readings = Readings(np.arange(4.0), points=points, labels=["MW"] * 4, coordinates=known)
        assert in_time(readings)["name"] == np.repeat(names, 2).tolist()


def test_exceedance_is_the_share_of_draws_above(monkeypatch):
    rng = np.random.default_rng(21)
    chains = [rng.normal(size=(50, 11)) for _ in range(3)]
    chains[1][7, 4] = np.nan
    thresholds = [0.25, 2.0, 1e-30, 1234.5678901]
    monkeypatch.setattr("invlift.posterior.statistics.blocks.BLOCK_SIZE", 3 * 50 * 4)
    logs = field_statistics(chains, "log_conductivity")
    found = conductivity_statistics(chains, logs, thresholds)
    found = {name: values for name, values in found.items() if "above" in name}
    assert list(found) == [
        "conductivity_above_0.25",
        "conductivity_above_2",
        "conductivity_above_1e-30",
        "conductivity_above_1234.5678901",
    ]
    conductivity = np.exp(np.concatenate(chains))
    others = np.arange(11) != 4
    for threshold, values in zip(thresholds, found.values(), strict=True):
        expected = (conductivity > threshold).mean(axis=0)
        np.testing.assert_allclose(values[others], expected[others], rtol=1e-15)
        assert np.isnan(values[4])
    assert (found["conductivity_above_1e-30"][others] == 1.0).all()


def test_probabilities_of_materials_are_shares_of_draws(monkeypatch, tmp_path):
    """By the nearest conductivity, of which one is drawn; every second field is stored."""
    rng = np.random.default_rng(22)
    monkeypatch.setattr("invlift.posterior.statistics.blocks.BLOCK_SIZE", 2 * 20 * 2)
    fields = rng.normal(size=(2, 20, 5))
    level = np.exp(rng.normal(1.0, 0.5, (2, 40)))
    every = {"log_conductivity": 2}
    chains = [
        SimpleNamespace(draws={"log_conductivity": own, "prior_inclusion": each}, every=every)
        for own, each in zip(fields, level, strict=True)
    ]
    found = material_probabilities(chains, {"water": 0.5, "inclusion": "prior_inclusion"})
    assert set(found) == {"probability_water", "probability_inclusion"}
    middle = 0.5 * (np.log(0.5) + np.log(level[:, ::2]))
    expected = (fields > middle[:, :, None]).mean(axis=(0, 1))
    np.testing.assert_allclose(found["probability_inclusion"], expected, rtol=1e-12)
    np.testing.assert_allclose(sum(found.values()), 1.0, rtol=1e-12)
    assert 0.05 < expected.min() < expected.max() < 0.95
    posterior = make_posterior(materials={"low": 0.5, "high": 2.0})
    posterior.write(tmp_path)
    written = pyvista.read(tmp_path / "posterior.vtu").point_data
    share = (np.concatenate(posterior.draws("log_conductivity")) > 0.0).mean(axis=0)
    np.testing.assert_allclose(written["probability_high"], share)
    assert not any("probability" in name for name in make_posterior().fields())


def test_exceedance_is_among_the_fields(tmp_path):
    posterior = make_posterior(exceedance=(1.0, 2.5))
    posterior.write(tmp_path)
    written = pyvista.read(tmp_path / "posterior.vtu").point_data
    draws = np.concatenate(posterior.draws("log_conductivity"))
    np.testing.assert_allclose(written["conductivity_above_1"], (draws > 0.0).mean(axis=0))
    share = (draws > np.log(2.5)).mean(axis=0)
    np.testing.assert_allclose(written["conductivity_above_2.5"], share)
    for key in ("ess_tail", "mcse_mean", "mcse_sd"):
        assert np.isfinite(written[f"log_conductivity_{key}"]).all()
    assert not any("above" in name for name in make_posterior().fields())


@pytest.mark.parametrize("thresholds", [[0.0], [-1.0], [np.nan]])
def test_thresholds_that_are_none_are_refused(thresholds):
    with pytest.raises(InputError, match="posterior, exceedance: expected"):
        make_posterior(exceedance=thresholds)


def test_entries_of_one_label_are_told_apart():
    draws = np.random.default_rng(0).normal([-5.0, 5.0, 0.0], size=(2, 30, 3))
    chains = [Chain({"w": each}) for each in draws]
    posterior = Posterior(chains, quantities=[Quantity("w", {"k": ["A", "A", "B"]})])
    assert posterior.summary().index.tolist() == ["w[A]", "w[A (2)]", "w[B]"]
    np.testing.assert_allclose(posterior.summary()["mean"], [-5.0, 5.0, 0.0], atol=1.0)
