"""Quantities along an axis of numbers: their bands, their readings, the forecast, new readings."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from normal_noise import NormalNoise
from posterior_cases import Chain

from invlift.posterior import Posterior, Quantity, Readings
from invlift.posterior.output.run_folder import read_posterior
from invlift.posterior.output.with_units import readings_with_units
from invlift.posterior.statistics.series import in_time, readings_along, series_of

TIMES = [0.0, 1.0, 2.0, 4.0, 5.0, 7.0]
READ_AT, OBSERVED = [2.0, 0.0, 4.0], np.array([1.1, -0.4, 3.0])  # not in their order
SIGMA = 0.5


def posterior_along(sigma=SIGMA, quantities=(), coordinates=None, **draws):
    """Two chains of a path that widens with time, with three readings of it and two of nothing."""
    rng = np.random.default_rng(3)
    chains, values = [], np.append(OBSERVED, [0.2, 9.0])
    for _ in range(2):
        path = np.array(TIMES) - 1 + rng.gamma(2.0, 0.1 + np.array(TIMES) / 10, size=(500, 6))
        predicted = np.concatenate([path[:, [2, 0, 3]], rng.normal(size=(500, 2))], axis=1)
        score = (values - predicted) / sigma
        own = {"tank_path": path, "predicted": predicted, "noise_score": score}
        chains.append(Chain(own | {name: draw(rng) for name, draw in draws.items()}))
    if coordinates is None:
        coordinates = {
            "name": ["tank"] * 3 + ["flow"] * 2,
            "read_at": [*READ_AT, np.nan, np.nan],
            "day": [np.nan] * 3 + [3, 1],
        }
    sensors = Readings(values, sigma, coordinates=coordinates)
    known = Quantity("tank_path", {"time": TIMES}, "m")
    return Posterior(
        chains, [known, *quantities], sensors=sensors, noise=NormalNoise(values, sigma)
    )


def pooled(posterior, name):
    return np.concatenate(posterior.draws(name))


def ends(band):
    """Lower and upper ordinates of a filled band by abscissa."""
    x, y = band.get_paths()[0].vertices.T
    at = np.unique(x)
    return at, np.array([y[x == each].min() for each in at]), [y[x == each].max() for each in at]


def test_bands_are_quantiles_and_readings_are_where_they_were_read():
    posterior = posterior_along()
    axes = posterior.plot.series(names=["tank"]).figure.axes
    assert len(axes) == 2
    ax, strip = axes
    draws = pooled(posterior, "tank_path")
    outer, inner = (each for each in ax.collections if isinstance(each, PolyCollection))
    for band, levels in ((outer, (0.05, 0.95)), (inner, (0.25, 0.75))):
        at, low, high = ends(band)
        np.testing.assert_array_equal(at, TIMES)
        np.testing.assert_allclose([low, high], np.quantile(draws, levels, axis=0), rtol=1e-12)
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["median"].get_ydata(), np.median(draws, axis=0), rtol=1e-12)
    assert sorted(lines["readings"].get_xydata().tolist()) == sorted(
        map(list, zip(READ_AT, OBSERVED, strict=True))
    )
    assert (ax.get_ylabel(), strip.get_xlabel()) == ("tank [m]", "time")
    (span,) = ax.patches
    assert (span.get_x(), span.get_x() + span.get_width()) == (4.0, 7.0)
    assert [text.get_text() for text in ax.texts] == ["forecast"]
    shown = [each for each in strip.collections if isinstance(each, PathCollection)]
    residual = posterior.fit.sensors().standardised_residual[:3]
    places = np.concatenate([each.get_offsets() for each in shown]).tolist()
    assert sorted(places) == sorted(map(list, zip(READ_AT, residual, strict=True)))


def test_new_readings_are_the_path_with_noise():
    """Their variance is that of the path and of the noise, and the dashed lines their quantiles."""
    posterior = posterior_along()
    new = posterior.to_arviz().posterior_predictive["tank_path"]
    assert new.dims == ("chain", "draw", "time")
    added = new.values.reshape(-1, 6) - pooled(posterior, "tank_path")
    error = SIGMA**2 * np.sqrt(2 / added.size)
    assert abs(added.var() - SIGMA**2) < 4 * error
    assert abs(added.var() - (1.2 * SIGMA) ** 2) > 4 * error
    dashed = [line for line in posterior.plot.series(names=["tank"]).figure.axes[0].lines
              if line.is_dashed()]  # fmt: skip
    expected = np.quantile(new.values.reshape(-1, 6), (0.05, 0.95), axis=0)
    np.testing.assert_allclose([line.get_ydata() for line in dashed], expected, rtol=1e-12)


def test_readings_that_differ_in_their_noise_have_no_band_of_new_ones():
    posterior = posterior_along(np.array([0.5, 0.5, 0.6, 1.0, 1.0]))
    assert "tank_path" not in posterior.to_arviz().posterior_predictive
    assert not any(line.is_dashed() for line in posterior.plot.series().figure.axes[0].lines)
    shared = posterior_along(np.array([0.5, 0.5, 0.5, 1.0, 1.0]))
    assert "tank_path" in shared.to_arviz().posterior_predictive


def test_readings_without_a_path_are_shown_with_their_predictions():
    posterior = posterior_along()
    axes = posterior.plot.series(names=["flow"]).figure.axes
    median = next(line for line in axes[0].lines if line.get_label() == "median")
    predicted = np.median(pooled(posterior, "predicted")[:, [4, 3]], axis=0)
    np.testing.assert_array_equal(median.get_xdata(), [1, 3])
    np.testing.assert_allclose(median.get_ydata(), predicted, rtol=1e-12)
    assert axes[1].get_xlabel() == "day"


def test_a_quantity_without_readings_is_bands_alone(tmp_path):
    rain = Quantity("rain", {"year": [2001, 2002, 2004]}, "mm")
    posterior = posterior_along(quantities=[rain], rain=lambda rng: rng.normal(size=(500, 3)))
    (ax,) = posterior.plot.series(names=["rain"]).figure.axes
    assert [line.get_label() for line in ax.lines] == ["median"]
    assert not ax.patches


def test_files_hold_what_a_picture_needs(tmp_path):
    rain = Quantity("rain", {"year": [2001, 2002, 2004]}, "mm")
    posterior = posterior_along(quantities=[rain], rain=lambda rng: rng.normal(size=(500, 3)))
    posterior.write(tmp_path)
    found = read_posterior(tmp_path).fit.series
    assert [each.name for each in found] == ["tank", "flow", "rain"]
    for expected, each in zip(posterior.fit.series, found, strict=True):
        for name, value in vars(expected).items():
            np.testing.assert_array_equal(getattr(each, name), value, err_msg=name)


@pytest.mark.parametrize(
    ("coordinates", "expected"),
    [
        ({}, []),
        ({"name": ["a", "a"], "day": ["1900-01-01", "1900-01-02"]}, []),
        ({"name": ["a", "a"], "day": [1, 2], "place": [1, 2]}, []),
        ({"name": ["a", "b"], "day": [1, np.nan]}, ["a"]),
        ({"name": ["a", "b"], "day": [1, 2], "place": ["", "x"]}, ["a"]),
    ],
)
def test_which_readings_are_along_numbers(coordinates, expected):
    assert list(readings_along(coordinates)) == expected


def test_what_has_no_axis_of_numbers_is_no_series():
    draws = {"rain": [np.zeros((4, 3))]}
    for axes in ({"year": ["a", "b", "c"]}, {"year": None}, {"node": [1, 2, 3]}, {"year": [1] * 3}):
        assert series_of(draws, {"rain": Quantity("rain", axes)}, {}, None, {}) == []
    (found,) = series_of(draws, {"rain": Quantity("rain", {"year": [1, 2, 3]})}, {}, None, {})
    assert found.name == "rain"


def readings_in_time(place=(0, 0, 1, 1), **known):
    times = [0.01, 1.0, 0.01, 1.0]
    points = np.array([[0.0, 1.0], [0.5, 1.0]])[list(place)]
    return Readings(np.arange(4.0), None, points, coordinates={"time": times} | known)


def test_each_sensor_of_a_field_in_time_is_a_series():
    """By its label, or else by its place, with the experiment; logarithmic over decades."""
    rng = np.random.default_rng(2)
    for labels, known, names in (
        (["a", "a", "b", "b"], {}, ["a", "b"]),
        (None, {}, ["0, 1", "0.5, 1"]),
        (["row 2", "row 3", "row 4", "row 5"], {}, ["0, 1", "0.5, 1"]),
        (["a", "a", "b", "b"], {"place": [0, 0, 0, 0]}, ["a", "b"]),
        (["a", "a", "a", "a"], {"experiment": ["t", "t", "s", "s"]}, ["t, a", "s, a"]),
        (None, {"experiment": ["t"] * 4, "mesh_error": [0.1] * 4}, ["t, 0, 1", "t, 0.5, 1"]),
    ):
        sensors = readings_in_time(**known)
        sensors = Readings(sensors.values, None, sensors.points, labels, sensors.coordinates)
        draws = {"predicted": rng.standard_normal((5, 4)), "noise_score": np.zeros((5, 4))}
        posterior = Posterior([Chain(draws), Chain(draws)], sensors=sensors)
        assert [each.name for each in posterior.fit.series] == names
        first, second = posterior.fit.series
        assert (first.rows.tolist(), second.rows.tolist()) == ([0, 1], [2, 3])
        assert first.spans_decades
        axes = posterior.plot.series().figure.axes
        assert {ax.get_xscale() for ax in axes} == {"log"}
        middles = [ax.transScale.transform((0.1, 0.0))[0] for ax in axes]
        np.testing.assert_allclose(middles, -1.0)
    units = Quantity("predicted", {"sensor": None}, "degC", axis_units={"time": "min"})
    named = replace(posterior, quantities=(units,))
    assert {(each.axis_unit, each.unit) for each in named.fit.series} == {("min", "degC")}
    assert {ax.get_xlabel() for ax in named.plot.series()} == {"", "time [min]"}
    assert "time [min]" in readings_with_units(named.fit.table(), named)
    # Without times readings are those of one state, and no series.
    assert in_time(Readings(np.arange(4.0), None, np.zeros((4, 2)))) == {}
