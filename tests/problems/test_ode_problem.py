"""Problems of ordinary differential equations, against closed forms."""

from contextlib import nullcontext
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from crafted import near_prior
from scipy.stats import norm

import invlift
from invlift.app.runs.sampling import sample
from invlift.errors import InputError
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.time.ode_problem import ode_problem
from invlift.unknowns.distributions import half_normal, lognormal, normal

TIMES = np.array([0.0, 1.0, 2.5, 4.0, 6.0])
BODY = np.array([80.2, 58.0, np.nan, 33.5, 25.9])
GLASS = np.array([np.nan, 21.3, 22.0, np.nan, 21.0])
UNKNOWNS = {"rate": lognormal(median=0.3, factor=1.6), "warm": lognormal(median=60.0, factor=1.2)}


def cooling(time, state, rate, warm):
    return {"body": -rate * (state["body"] - 20.0), "glass": jnp.zeros(())}


def at_first(rate, warm):
    return {"body": 20.0 + warm, "glass": jnp.asarray(21.5)}


def problem(noise=0.5, **changes):
    arguments = {
        "slope": cooling,
        "unknowns": UNKNOWNS,
        "initial": at_first,
        "times": TIMES,
        "readings": {"body": BODY, "glass": GLASS},
        "noise": noise,
        "forecast": [10.0],
    }
    return ode_problem(**(arguments | changes))


def body(rate, warm, times):
    return 20.0 + warm * np.exp(-rate * times)


def look(made):
    """Readings, and what is kept, of a rate of 0.4 and a start at 55."""
    model = made.model
    return jax.jit(lambda given: (model(given), model.describe(given)))(np.array([0.4, 55.0]))


def test_predictions_and_paths_are_the_solution():
    made = problem()
    assert made.observed.tolist() == [80.2, 58.0, 33.5, 25.9, 21.3, 22.0, 21.0]
    readings, kept = look(made)
    every = np.append(TIMES, 10.0)
    np.testing.assert_allclose(kept["body_path"], body(0.4, 55.0, every), rtol=1e-8)
    expected = np.append(body(0.4, 55.0, TIMES[[0, 1, 3, 4]]), [21.5] * 3)
    np.testing.assert_allclose(readings, expected, rtol=1e-8)


def test_draws_have_times_and_units(tmp_path):
    made = problem(
        half_normal(1.0),
        derived=lambda rate, warm: {"life": jnp.stack([rate, warm])},
        slope=lambda time, state, rate, warm, life: cooling(time, state, rate, warm),
        initial=lambda rate, warm, life: at_first(rate, warm),
    )
    made = made.with_units({"body": "degree C", "life": "min", "sigma": "K", "time": "h"})
    posterior = near_prior(made, draws=20)
    data = posterior.to_arviz().posterior
    assert data["body_path"].dims[-1] == "time"
    assert data["time"].values.tolist() == [*TIMES, 10.0]
    assert data["sigma"].shape == (2, 20, 2)  # for each of the two names
    files = {file.name for file in posterior.write(tmp_path)}
    assert "sensor_fit.csv" in files
    assert "body[4.0]" in (tmp_path / "sensor_fit.csv").read_text()
    new = posterior.to_arviz().posterior_predictive
    assert new["glass_path"].sizes == {"chain": 2, "draw": 20, "time": 6}
    units = {"body_path": "degree C", "life": "min", "sigma": "K"}
    back = invlift.load(tmp_path)
    found = {name: each.attrs.get("units") for name, each in back.to_arviz().posterior.items()}
    assert {name: unit for name, unit in found.items() if unit} == units
    figure = back.plot.series().figure
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["body [degree C]", "residual", "glass", "residual"]
    assert {axes.get_xlabel() for axes in figure.axes} == {"", "time [h]"}
    assert "body_path[4.0] [degree C]" in str(back)
    assert "life[1] [min]" in str(back)
    assert "warm " in str(back)
    assert not replace(posterior, sensors=None, quantities=()).fit.series


def test_what_is_derived_goes_to_all_functions_and_into_the_draws():
    def derived(rate, warm):
        return {"half_life": jnp.log(2.0) / rate, "first": 20.0 + warm}

    made = problem(
        derived=derived,
        slope=lambda t, state, half_life, **_: {
            "body": -jnp.log(2.0) / half_life * (state["body"] - 20.0)
        },
        initial=lambda first, **_: {"body": first},
        observe=lambda state, half_life, **_: {"scaled": state["body"] / half_life},
        readings={"scaled": BODY},
    )
    half_life = np.log(2.0) / 0.4
    expected = body(0.4, 55.0, TIMES[[0, 1, 3, 4]]) / half_life
    readings, kept = look(made)
    np.testing.assert_allclose(readings, expected, rtol=1e-8)
    assert set(kept) == {"rate", "warm", "half_life", "first", "scaled_path"}
    assert kept["half_life"] == pytest.approx(half_life)


@pytest.mark.slow
def test_a_solution_that_blows_up_is_a_rejected_step():
    """x' = x^2 from x(0) = a is infinite at 1 / a, in the middle of the prior."""
    made = ode_problem(
        lambda time, state, start: {"x": state["x"] ** 2},
        {"start": lognormal(median=0.5, factor=3.0)},
        lambda start: {"x": start},
        [0.0, 0.5, 1.0],
        {"x": [0.72, 1.09, 2.5]},
        half_normal(0.5),
    )
    run = sample(made, chains=2, warmup=100, draws=200, seed=1)
    for chain in run.chains:
        assert all(np.all(np.isfinite(draws)) for draws in chain.draws.values())
        assert 0.6 < chain.draws["start"].mean() < 0.8


def test_noise_may_be_a_number_for_each_name_and_readings_a_data_frame():
    table = pd.DataFrame({"body": BODY, "glass": GLASS})
    made = problem({"glass": 0.1, "body": 0.5}, readings=table)
    assert made.observed.tolist() == [80.2, 58.0, 33.5, 25.9, 21.3, 22.0, 21.0]
    assert made.noise.scale.known.tolist() == [0.5] * 4 + [0.1] * 3
    masked = np.ma.masked_equal(np.where(np.isnan(BODY), -99.0, BODY), -99.0)
    again = problem({"glass": 0.1, "body": 0.5}, readings={"body": masked, "glass": GLASS})
    assert again.observed.tolist() == made.observed.tolist()


def test_noise_may_be_known_of_one_name_and_unknown_of_another():
    t, names = np.array([1.0, 2.0, 3.0]), ("rate", "sigma", "predicted")
    made = inverse_problem(
        lambda rate: {"first": 10.0 * jnp.exp(-rate * t), "second": 5.0 * rate * t},
        {"rate": lognormal(median=0.5, factor=2.0)},
        {"first": 0.5, "second": half_normal(1.0)},
        {"first": [6.7, 4.1, 3.4], "second": [2.3, 4.2, 6.2]},
    )
    thetas = np.random.default_rng(1).standard_normal((3, 2))
    likelihood = OrdinaryPosterior(made).loglikelihood
    look = jax.jit(jax.vmap(lambda theta: (made.described(theta), likelihood(theta))))
    kept, found = look(thetas)
    rate, sigma, predicted = (np.asarray(kept[name]) for name in names)
    np.testing.assert_allclose(rate, 0.5 * 2.0 ** thetas[:, 1], rtol=1e-12)
    np.testing.assert_allclose(sigma[:, 0], norm.ppf(0.5 + 0.5 * norm.cdf(thetas[:, 0])), 1e-9)
    every = np.repeat([[0.5], [0.0]], 3, axis=0).T + sigma * np.repeat([0.0, 1.0], 3)
    expected = norm.logpdf(made.observed, predicted, every).sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert "sigma[second]" in near_prior(made).summary().index


def test_one_reading_at_the_start_needs_no_step():
    made = problem(times=[1.0], readings={"body": [80.2]}, forecast=())
    np.testing.assert_allclose(look(made)[0], [75.0], rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": TIMES[::-1]}, "times: .* found 4 at index 1, after 6"),
        ({"readings": {"body": [1, 2, np.inf, 4, 5]}}, "readings body: .* inf at index 2"),
        ({"readings": {"water": BODY}}, "initial: .* what is read: water, found body, glass"),
        ({"derived": lambda rate, warm: {"k": rate, "warm": 1.0}}, "derived: .* found warm; "),
        ({"initial": lambda rate, warm: {"body": warm}}, "slope: expected a derivative for each"),
        ({"noise": {"body": normal(0.1, 0.1), "glass": 1.0}}, "noise body: .* not negative, found"),
        ({"noise": {"body": 0.5}}, "noise: .* each of body, glass, found body; give the standard"),
        ({"start": 1.5},
         "start: expected a time not after the first of the readings, 0, found 1.5"),
        ({"forecast": [5.0]}, "forecast: expected times that increase, after .*, 6, found 5 at"),
        ({"times": TIMES.astype("datetime64[D]")}, "times: expected numbers, found dates; count"),
        ({"slope": lambda time, state, **_: jax.tree.map(lambda x: -x if x > 0 else x, state)},
         "forward map: .* take jax.numpy in place of numpy, and jnp.where or jax.lax.cond"),
        ({"slope": lambda time, state, rate: state},
         "slope: expected a JAX function of time, state, rate, warm, .* argument 'warm'"),
        ({"slope": lambda time, state, **_: jax.tree.map(lambda x: jnp.log(x - 99), state)},
         "slope at the start, 0, at the prior's medians: expected a finite body, found nan"),
        ({"slope": lambda time, state, **_: jax.tree.map(lambda x: x**3, state)},
         "solution at the prior's medians: expected finite .* shorter max_step"),
    ],
)  # fmt: skip
def test_bad_input(changes, message):
    with pytest.raises(InputError, match=message):
        problem(**changes)


# Labels of rows -----------------------------------------------------------------------------------

LATEST_FIRST = pd.DataFrame({"q": [0.05, 0.14, 0.37]}, index=[3.0, 2.0, 1.0])


def decaying(readings, noise=0.1):
    return invlift.ode_problem(
        lambda time, state, k: {"q": -k * state["q"]},
        {"k": lognormal(median=1.0, factor=2.0)},
        lambda k: {"q": 1.0},
        [1.0, 2.0, 3.0],
        readings,
        noise,
        start=0.0,
    )


@pytest.mark.parametrize(
    "readings",
    [
        {"q": LATEST_FIRST["q"]},
        LATEST_FIRST.rename_axis("time").to_xarray(),
        LATEST_FIRST.set_axis(pd.to_datetime(["2020-03-01", "2020-02-01", "2020-01-01"])),
    ],
)
def test_readings_with_labels_in_another_order_than_times_are_refused(readings):
    with pytest.raises(InputError, match="labels of its rows: expected those of times"):
        decaying(readings)


def test_dates_with_a_gap_that_the_times_have_not_are_refused():
    levels = pd.DataFrame({"q": [0.37, 0.14, 0.05]})
    for dates, is_refused in (
        (["2020-01-01", "2020-01-02", "2020-01-04"], True),
        (["2020-01-02 09:00", "2020-01-03 09:00", "2020-01-04 10:00"], False),
        (["2020-01-31", "2020-02-29", "2020-03-31"], False),
        (["2020-01-02", "2020-01-03", "2020-01-06"], False),  # working days
    ):
        labelled = levels.set_axis(pd.to_datetime(dates))
        expected = "labels of its rows: expected dates in equal steps, as the times are"
        with pytest.raises(InputError, match=expected) if is_refused else nullcontext():
            decaying(labelled)


def test_readings_with_labels_of_their_own_are_refused():
    levels = pd.Series([0.37, 0.14, 0.05], index=[1, 2, 3])
    for labels in ([2, 3, 4], ["a", "b", "c"], pd.date_range("2020-01-01", periods=3)):
        with pytest.raises(InputError, match="readings r, labels of its rows: expected those of q"):
            decaying({"q": levels, "r": levels.set_axis(labels)})
    for labels in ([1.0, 2.0, 3.0], [0, 1, 2]):
        with pytest.raises(InputError, match="initial"):  # which has no r
            decaying({"q": levels, "r": levels.set_axis(labels)})


def test_noise_with_labels_in_another_order_than_times_is_refused():
    sigma = pd.Series([0.3, 0.2, 0.1], index=[3.0, 2.0, 1.0])
    with pytest.raises(InputError, match="noise q, labels of its rows: expected those of times"):
        decaying(LATEST_FIRST.sort_index(), {"q": sigma})
    by_time = pd.DataFrame({"q": [0.37, 0.14, 0.05], "sigma": [0.1, 0.2, 0.3]}, index=[2, 0, 1])
    with pytest.raises(InputError, match="noise q, labels of its rows: expected those of its read"):
        decaying({"q": by_time["q"]}, {"q": by_time["sigma"].sort_index()})
    in_order = decaying({"q": by_time["q"]}, {"q": by_time["sigma"]})
    np.testing.assert_array_equal(in_order.noise.scale.known, [0.1, 0.2, 0.3])
    only_read = decaying({"q": [0.37, np.nan, 0.05]}, {"q": sigma[[1.0, 3.0]]})
    np.testing.assert_array_equal(only_read.noise.scale.known, [0.1, 0.3])


def test_numbers_of_rows_are_no_times():
    shuffled = LATEST_FIRST.iloc[::-1].set_axis([5, 1, 9])
    np.testing.assert_array_equal(decaying(shuffled).observed, [0.37, 0.14, 0.05])


def test_noise_of_each_row_goes_with_the_rows_that_were_read():
    readings = {"q": [1.0, np.nan, 0.1]}
    for sigma in ([0.1, 0.2, 0.3], pd.Series([0.1, np.nan, 0.3]), [0.1, 0.3]):
        found = decaying(readings, {"q": sigma})
        np.testing.assert_array_equal(found.noise.scale.known, [0.1, 0.3])


def test_steps_of_a_state_space_are_equal():
    def walk(rows, **options):
        return invlift.state_space(
            lambda number, state, push, size: {"x": state["x"] + size * push[0]},
            {"size": lognormal(median=1.0, factor=2.0)},
            lambda push, size: {"x": push[0]},
            pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=rows),
            {"x": 0.1},
            **options,
        )

    with pytest.raises(InputError, match="equal steps"):
        walk([0, 1, 5, 6])
    for given in (walk([0, 1, 5, 6], times=[0, 1, 5, 6]), walk([3, 4, 5, 6])):
        assert given.num_observations == 4
    days = pd.to_datetime(["2021-03-01", "2021-03-02", "2021-03-05", "2021-03-06"])
    for gaps in (days, days.tz_localize("Europe/Paris"), days.to_period("D")):
        with pytest.raises(InputError, match=r"equal steps.*rows of NaN"):
            walk(gaps)
    walk(days, times=[0, 1, 4, 5])
    for unit in ("3h", "B", "W", "MS", "QE", "YS"):
        walk(pd.date_range("2021-03-26", periods=4, freq=unit))
    walk(pd.date_range("2021-03-26", periods=4, tz="Europe/Paris"))  # a day of 23 hours
    walk(pd.period_range("2021-11", periods=4, freq="M"))
