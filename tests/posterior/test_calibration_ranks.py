"""Ranks of truths: exact bands and p-values, verdict, table and figure."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from matplotlib.image import imread

from invlift.app.studies.calibration_table import read_simulations, write_simulations
from invlift.errors import InputError
from invlift.posterior.statistics.calibration import (
    Calibration,
    Simulation,
    UniformRanks,
    effective_draws,
    plot_calibration,
    rank_of,
)


def ranks_of_normals(sd, mean=0.0, num=200, num_draws=63, seed=3):
    """Ranks of standard normal truths among draws of Normal(mean, sd^2)."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((num, 1))
    return np.sum(mean + sd * rng.standard_normal((num, num_draws)) < truth, axis=1)


def is_within(uniform, ranks, band):
    lower, upper = band
    shares = uniform.counts(ranks) / uniform.num_ranks
    return bool(np.all((shares > lower - 1e-9) & (shares < upper + 1e-9)))


# Bands and p-values -------------------------------------------------------------------------------


def test_p_values_are_those_of_all_possible_ranks():
    """By enumeration, with tails from SciPy's binomial test."""
    num_ranks, num_draws = 5, 3
    uniform = UniformRanks(num_ranks, num_draws)
    statistics = {}
    for ranks in itertools.product(range(num_draws + 1), repeat=num_ranks):
        tails = [
            min(
                scipy.stats.binom.cdf(count, num_ranks, z),
                scipy.stats.binom.sf(count - 1, num_ranks, z),
            )
            for count, z in zip(uniform.counts(ranks), uniform.points, strict=True)
        ]
        statistics[ranks] = min(tails)
    values = np.array(list(statistics.values()))
    for ranks in list(statistics)[::37]:
        exact = np.mean(values <= statistics[ranks] * (1.0 + 1e-9))
        assert uniform.p_value(np.array(ranks)) == pytest.approx(exact, abs=1e-12)


def test_a_band_holds_uniform_ranks_as_often_as_it_says():
    """Negative control: a band of the pointwise level does not."""
    num_ranks, num_draws, num = 100, 31, 4000
    uniform = UniformRanks(num_ranks, num_draws)
    ranks = np.random.default_rng(3).integers(0, num_draws + 1, (num, num_ranks))
    shares = np.stack([uniform.counts(each) for each in ranks]) / num_ranks
    lower, upper = uniform.band(0.95)
    coverage = np.mean(np.all((shares > lower - 1e-9) & (shares < upper + 1e-9), axis=1))
    assert abs(coverage - 0.95) < 3.0 * math.sqrt(0.95 * 0.05 / num)
    lower, upper = scipy.stats.binom.interval(0.95, num_ranks, uniform.points)
    counts = shares * num_ranks
    pointwise = np.mean(np.all((counts > lower - 0.5) & (counts < upper + 0.5), axis=1))
    assert pointwise < 0.88


def test_bands_and_p_values_are_one_test():
    uniform = UniformRanks(60, 19)
    rng = np.random.default_rng(5)
    band, found = uniform.band(0.95), []
    for _ in range(200):
        # from uniform to far from it
        ranks = np.floor(20 * rng.beta(*rng.uniform(0.6, 1.4, 2), size=60)).astype(int)
        found.append(is_within(uniform, ranks, band))
        assert found[-1] == (uniform.p_value(ranks) > 0.05)
    assert 20 < sum(found) < 180


@pytest.mark.parametrize(
    ("sd", "mean", "words"),
    [
        (1.0, 0.0, ""),
        (1.3, 0.0, "too wide"),
        (0.7, 0.0, "too narrow"),
        (1.0, 0.5, "too high"),
        (1.0, -0.5, "too low"),
    ],
)
def test_a_wrong_posterior_leaves_its_band_and_is_named(sd, mean, words):
    ranks = ranks_of_normals(sd, mean)
    uniform = UniformRanks(200, 63)
    assert is_within(uniform, ranks, uniform.band(0.95)) is not bool(words)
    verdict = calibration_of({"sigma": ranks}).verdict()
    assert verdict.is_calibrated is not bool(words)
    if not words:
        assert verdict.headline.startswith("Calibrated, as far as 200 simulations can tell")
        assert verdict.reasons == verdict.advice == ()
        return
    assert verdict.headline.startswith("Not calibrated: 1 of 1 quantities")
    assert f"sigma: the posterior is {words}" in verdict.reasons[0]
    assert len(verdict.reasons) == 1
    for other in {"too wide", "too narrow", "too high", "too low"} - {words}:
        assert other not in verdict.reasons[0]
    assert "--method nuts" in str(verdict)


# Ranks --------------------------------------------------------------------------------------------


def test_ranks_are_among_draws_at_even_distances():
    draws = np.arange(130.0)
    assert [rank_of(truth, draws, 130) for truth in (-1.0, 0.5, 128.5, 200.0)] == [0, 1, 129, 130]
    thinned = [rank_of(truth, draws, 13) for truth in (-1.0, 8.5, 9.5, 64.0, 200.0)]
    assert thinned == [0, 0, 1, 6, 13]
    backwards = [rank_of(truth, draws[::-1], 13) for truth in (-1.0, 0.5, 10.5, 200.0)]
    assert backwards == [0, 1, 2, 13]
    for num, kept in ((63, 63), (126, 63), (130, 63), (1000, 7)):  # as many below as above
        ranks = [rank_of(place + 0.5, np.arange(float(num)), kept) for place in range(-1, num)]
        assert (min(ranks), max(ranks)) == (0, kept)
        assert np.ptp(np.bincount(ranks)[1:-1]) <= 1


def test_effective_draws_are_those_of_the_worst_quantity():
    rng = np.random.default_rng(2)
    slow = np.convolve(rng.standard_normal(4019), np.ones(20), "valid")
    draws = {"fast": rng.standard_normal(4000), "slow": slow}
    assert effective_draws(draws) == pytest.approx(4000 / 13.4, rel=0.35)  # about 20 * 2/3
    assert effective_draws({"fast": draws["fast"]}) > 3000
    assert effective_draws(draws | {"still": np.ones(4000)}) == 0.0


# Verdict ------------------------------------------------------------------------------------------


def calibration_of(ranks, *, failed=0, num_requested=None, num_draws=63):
    num = len(next(iter(ranks.values())))
    rows = [
        Simulation(k, "ok", {name: int(each[k]) for name, each in ranks.items()}, 130, 80.0)
        for k in range(num)
    ]
    rows += [Simulation(num + k, "too few effective draws", {}, 2016, 5.0) for k in range(failed)]
    return Calibration(rows, tuple(ranks), num_draws, num_requested or num + failed)


def test_several_quantities_share_the_level():
    """Ranks of one p-value pass among many quantities, and not alone."""
    uniform = UniformRanks(200, 63)
    ranks = {"sigma": ranks_of_normals(1.0, seed=10)}
    assert 0.005 < uniform.p_value(ranks["sigma"]) < 0.05
    assert not calibration_of(ranks).verdict().is_calibrated
    others = {f"sigma[{k}]": ranks_of_normals(1.0, seed=11 + k) for k in range(9)}
    assert calibration_of(ranks | others).verdict().is_calibrated


def test_failures_are_told_and_many_withhold_the_verdict():
    ranks = {"sigma": ranks_of_normals(1.0, num=100)}
    few = calibration_of(ranks, failed=5).verdict()
    assert few.is_calibrated
    assert any("5 of 105 simulations failed, too few effective draws" in note for note in few.notes)
    many = calibration_of(ranks, failed=6).verdict()
    assert not many.is_calibrated
    assert many.headline == "No verdict on the calibration."
    assert "6 of 106" in many.reasons[0]
    assert "--draws" in many.advice[0]


def test_few_simulations_and_a_stop_withhold_the_verdict():
    few = calibration_of({"sigma": ranks_of_normals(1.0, num=19)}).verdict()
    assert not few.is_calibrated
    assert "20 are the least" in few.reasons[0]
    ranks = {"sigma": ranks_of_normals(1.0, num=50)}
    stopped = calibration_of(ranks, num_requested=60).verdict()
    assert not stopped.is_calibrated
    assert "stopped after 50 of 60" in stopped.reasons[0]
    none = Calibration([], ("sigma",), 63, 60)
    assert not none.verdict().is_calibrated
    assert none.p_values() == {}
    with pytest.raises(InputError, match="ranks of a simulation"):
        plot_calibration(none)


# Files --------------------------------------------------------------------------------------------

NAMES = ("sigma", "log_conductivity(0.1, -2)")


IDENTITY = {"names": list(NAMES), "seed": 3}


def some_rows():
    return [
        Simulation(0, "ok", dict(zip(NAMES, (3, 63), strict=True)), 126, 70.25, 0.1, 0.8, 1 / 3),
        Simulation(2, "no readings (a, b: 'c')", {}),
        Simulation(3, "too few effective draws", dict(zip(NAMES, (0, 0), strict=True)), 9, 0.1),
    ]


def test_the_table_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "calibration.csv"
    write_simulations(path, some_rows(), IDENTITY)
    again, num_damaged = read_simulations(path, IDENTITY)
    assert repr(again) == repr(some_rows())  # NaN is not equal to itself
    assert num_damaged == 0
    assert read_simulations(path, IDENTITY | {"seed": 4}) == ([], 3)


def test_rows_that_are_cut_off_or_changed_are_not_taken(tmp_path):
    """Wherever the file ends, and whatever is written over a rank, an outcome or a number."""
    path, rows = tmp_path / "calibration.csv", some_rows()
    write_simulations(path, rows, IDENTITY)
    whole = path.read_text()
    header, *lines = whole.splitlines()
    for length in range(len(whole)):
        path.write_text(whole[:length])
        again, num_damaged = read_simulations(path, IDENTITY)
        # A last line is whole before the end of its line is written.
        num = sum(whole[:length].splitlines()[1:].count(line) for line in lines)
        assert repr(again) == repr(rows[:num])
        assert num_damaged == max(0, len(whole[:length].splitlines()) - 1 - num)
    for old, new in ((",3,63,", ",4,63,"), ("too few effective draws", "ok"), ("0.8,", "0.9,")):
        assert whole.count(old) == 1
        path.write_text(whole.replace(old, new))
        again, num_damaged = read_simulations(path, IDENTITY)
        assert (len(again), num_damaged) == (2, 1)
    path.write_text("\n".join([header, lines[0], lines[0].replace(",63,", ",,")]))
    assert read_simulations(path, IDENTITY)[1] == 1


def test_the_figure_shows_what_leaves_its_band_in_another_colour(tmp_path):
    ranks = {f"q{k}": ranks_of_normals(1.0, seed=2 + k) for k in range(4)}
    ranks["wide"] = ranks_of_normals(1.4)
    calibration = calibration_of(ranks)
    figure = plot_calibration(calibration, tmp_path / "figure.png").figure
    shown = {
        axes.get_title(loc="left").partition("\n")[0]: axes
        for axes in figure.axes
        if axes.get_visible()
    }
    assert set(shown) - {""} == set(ranks)
    colours = {name: shown[name].lines[-1].get_color() for name in ranks}
    assert len({colours[f"q{k}"] for k in range(4)}) == 1
    assert colours["wide"] != colours["q0"]
    values = shown["wide"].lines[-1].get_ydata()
    assert values[0] == values[-1] == 0.0
    np.testing.assert_allclose(
        values[1:-1],
        np.array([np.mean(ranks["wide"] < i) - i / 64 for i in range(1, 64)]),
        atol=1e-12,
    )
    assert imread(tmp_path / "figure.png").shape[1] > 1000
