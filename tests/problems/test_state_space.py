"""State-space models against the Kalman filter, quadrature, dense matrices and other samplers."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from monte_carlo import assert_mean_within, stacked
from scipy import stats

from invlift.app.runs.quantities import fields_of, quantities_of
from invlift.app.runs.sampling import sample, target_of
from invlift.errors import InputError
from invlift.lift.targets.diffusion import DiffusionPosterior
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.state_space import StateSpacePosterior
from invlift.noise import gaussian_noise, student_t_noise
from invlift.problems.scale_coordinate import typical_scale
from invlift.problems.starts.search import find_start
from invlift.problems.time.state_space import state_space
from invlift.programs.compilation import Program
from invlift.samplers.kernels import KERNELS
from invlift.unknowns.distributions import lognormal, normal

UNKNOWNS = {"rate": normal(0.7, 0.2)}
ERROR = lognormal(median=0.3, factor=1.6)
MOVE = 0.5


def follow(time, state, push, rate):
    return {"level": rate * state["level"] + MOVE * push[0]}


def begin(push, rate):
    return {"level": push[0]}


def problem(readings, noise=ERROR, **changes):
    arguments = {"transition": follow, "initial": begin, "unknowns": UNKNOWNS, "noise": noise}
    readings = {"level": readings} if isinstance(readings, np.ndarray) else readings
    return state_space(**(arguments | {"readings": readings} | changes))


def simulated(num_times=30):
    rng = np.random.default_rng(5)
    state, readings = rng.standard_normal(), []
    for _ in range(num_times):
        readings.append(state + 0.3 * rng.standard_normal())
        state = 0.8 * state + MOVE * rng.standard_normal()
    return np.array(readings)


def kalman(rate, sigma, readings):
    """Of an autoregressive state that is read with noise, NaN where it is not.

    Log likelihood, and mean and variance of the state after the last one.
    """
    mean, variance, total = 0.0, 1.0, 0.0
    for reading in readings:
        if not np.isnan(reading):
            spread = variance + sigma**2
            total = total - 0.5 * np.log(spread) - 0.5 * (reading - mean) ** 2 / spread
            gain = variance / spread
            mean, variance = mean + gain * (reading - mean), (1.0 - gain) * variance
        mean, variance = rate * mean, rate**2 * variance + MOVE**2
    return total, mean, variance


GAPS = [3, 4, 12, 13, 14, 15, 16, 22]


@pytest.mark.slow
def test_gaps_and_a_forecast_are_those_of_the_kalman_filter():
    """With quadrature over the rate and the scale of the noise."""
    readings = simulated()
    readings[GAPS] = np.nan
    run = sample(problem(readings, forecast=[30, 31]), chains=4, warmup=200, draws=1000, seed=2)
    path = stacked(run, "level_path")
    assert path.shape[-1] == 32
    rate, sigma = np.meshgrid(np.linspace(-0.1, 1.5, 301), np.linspace(0.01, 1.4, 301))
    prior = ERROR.log_density_of_log(jnp.log(sigma)) - 0.5 * ((rate - 0.7) / 0.2) ** 2

    def exact(readings):
        total, mean, variance = kalman(rate, sigma, readings)
        mass = np.exp(total + prior - np.max(total + prior))
        later, spread = rate * mean, rate**2 * variance + MOVE**2
        values = rate, sigma, sigma**2, mean, mean**2 + variance, later, later**2 + spread
        return [(mass * each).sum() / mass.sum() for each in values]

    level, later, drawn = path[..., 30], path[..., 31], stacked(run, "sigma")
    found = [stacked(run, "rate"), drawn, drawn**2, level, level**2, later, later**2]
    found = np.stack(found, axis=-1)
    assert_mean_within(found, exact(readings), min_ess=500)
    with pytest.raises(AssertionError, match="standard errors"):  # as if there were no gaps
        assert_mean_within(found, exact(readings[~np.isnan(readings)]), min_ess=500)


def turning(time, state, push, rate):
    turned = jnp.tanh(rate * state["place"][::-1]) + 0.1 * time + push[:2] * jnp.exp(0.1 * push[2])
    return {"mass": 0.5 * state["mass"] + push[3], "place": turned}


def several(noise, num_times=6):
    """A pair and a number, read as functions of another order and with other names."""
    rng = np.random.default_rng(1)
    made = {"ratio": rng.uniform(0.5, 1.5, num_times), "pair": rng.normal(size=(num_times, 2))}
    return state_space(
        turning,
        {"rate": lognormal(0.0, 0.3)},
        lambda push, rate: {"place": push[:2] + rate, "mass": push[3]},
        made,
        noise,
        num_noise=4,
        observe=lambda state, rate: {
            "pair": jnp.arcsinh(state["place"]), "ratio": jnp.exp(rate * state["mass"]),
        },
        recover=lambda reading, rate: {
            "mass": jnp.log(reading["ratio"]) / rate, "place": jnp.sinh(reading["pair"]),
        },
    )  # fmt: skip


def growing(readings, noise, **changes):
    """A level that is read by its exponential."""
    changes |= {
        "observe": lambda state, rate: {"size": jnp.exp(state["level"])},
        "recover": lambda reading, rate: {"level": jnp.log(reading["size"])},
    }
    return problem({"size": readings}, noise, **changes)


point_of = Program(lambda target, position: target.point(position), "none")
CASES = {
    "relative": lambda: growing(np.exp(simulated(8)), gaussian_noise(ERROR, relative=True)),
    "Student-t": lambda: several(student_t_noise(lognormal(0.2, 0.5), 4.0)),
}


@partial(Program, effort="none")
def look(own, dense, theta):
    lifted = dense.lift(theta)
    position = own.from_lifted(lifted)
    one, other = own.point(position), dense.point(lifted)
    described = own.describe(one)[0], dense.describe(other)[0]
    return lifted, own.to_lifted(position), one, other, *described


@pytest.mark.parametrize("name", ["relative", pytest.param("Student-t", marks=pytest.mark.slow)])
def test_it_is_that_of_the_dense_lift(name):
    made = CASES[name]()
    own, dense = made.lifted(), LiftedPosterior(made)
    assert isinstance(own, StateSpacePosterior)
    theta = 0.3 * np.random.default_rng(2).standard_normal(made.num_unknowns)
    lifted, again, one, other, found, expected = look(own, dense, theta)
    np.testing.assert_array_equal(again, lifted)
    np.testing.assert_allclose(one.constraint, 0.0, atol=1e-12)
    np.testing.assert_allclose(one.logdensity, other.logdensity, rtol=1e-10)
    assert found.keys() == expected.keys()
    for each, value in expected.items():
        np.testing.assert_allclose(found[each], value, rtol=1e-9, atol=1e-12)


def hidden():
    """Of a level and a trend two functions are read, one of them a pair, with gaps."""
    return state_space(
        lambda t, state, push, rate: {
            "level": jnp.sin(rate * state["level"]) + state["trend"] + 0.1 * t * push[0],
            # The root has no slope at 0, where the trend is at first without a push.
            "trend": 0.9 * jnp.sqrt(state["trend"] ** 2) + jnp.exp(0.1 * push[2]) * push[1],
        },
        {"rate": lognormal(0.0, 0.3)},
        lambda push, rate: {"level": push[2] + rate, "trend": push[0]},
        {
            "pair": [[0.4, 1.0], [np.nan, np.nan], [0.8, 0.3], [0.1, 0.7]],
            "sum": [np.nan, np.nan, 0.5, np.nan],
        },
        lognormal(median=0.3, factor=1.6),
        num_noise=3,
        observe=lambda state, rate: {
            "sum": jnp.sinh(state["level"] + rate * state["trend"]),
            "pair": jnp.stack([state["level"], rate * state["level"] ** 2]),
        },
        times=[1.0, 1.5, 3.0, 4.0],
        forecast=[6.0, 7.0],
    )


@pytest.mark.slow
def test_parts_that_are_not_read_are_those_of_the_dense_lift():
    made = hidden()
    assert [len(each.labels) for each in made.model.readings] == [6, 1]
    assert made.model.readings[1].labels == ["sum[3.0]"]
    own, dense = made.lifted(), LiftedPosterior(made)
    assert isinstance(own, DiffusionPosterior)
    drawn = 0.3 * np.random.default_rng(2).standard_normal(own.dimension)
    lifted = dense.lift(drawn[: made.num_unknowns])
    one, other = point_of(own, own.from_lifted(lifted)), point_of(dense, lifted)
    np.testing.assert_allclose(one.constraint, 0.0, atol=1e-12)
    np.testing.assert_allclose(one.logdensity, other.logdensity, rtol=1e-10)
    np.testing.assert_allclose(one.logdensity_grad, other.logdensity_grad, rtol=1e-9, atol=1e-10)
    determinants = [each.gram.log_determinant() for each in (one, other)]
    np.testing.assert_allclose(*determinants, rtol=1e-10)
    found, expected = own.describe(one)[0], dense.describe(other)[0]
    assert {name: value.shape for name, value in found.items() if "path" in name} == {
        "level_path": (6,), "trend_path": (6,), "sum_path": (6,), "pair_path": (6, 2)
    }  # fmt: skip
    assert found.keys() == expected.keys()
    for each, value in expected.items():
        np.testing.assert_allclose(found[each], value, rtol=1e-9, atol=1e-12)


def nothing(kernel, target, position):
    """Of a state, to save its program."""
    return position


@pytest.mark.slow
def test_chains_start_on_the_manifold_near_readings_of_which_no_state_follows():
    """The logarithm of a negative reading is none, nor is there any with noise of most draws."""
    made = growing(np.append(np.exp(simulated(20)), -4.0), 2.5)
    kernel = KERNELS["chmc"]()
    target = target_of(made, kernel)
    start = find_start(kernel, target, 1, 0, nothing)
    point = point_of(target, start.position)
    np.testing.assert_allclose(point.constraint, 0.0, atol=1e-8)
    assert np.isfinite(point.logdensity)
    assert start.misfit[-1] > 1.6
    assert start.sensitivity.shape == (21,)
    assert np.all(start.sensitivity > 0.0)
    # That of a sampler on the density is the same, in its coordinates.
    density = target_of(made, KERNELS["nuts"]())
    other = find_start(KERNELS["nuts"](), density, 1, 0, nothing)
    lifted = target.to_lifted(start.position)
    np.testing.assert_array_equal(other.position, lifted[: made.num_unknowns])


@pytest.mark.slow
def test_nothing_dense_is_computed_for_a_chain():
    """With 5,000 readings a dense matrix of them would take 200 MB."""
    made = problem(np.sin(np.arange(5_000.0)))
    assert typical_scale(made) is None
    kernel = KERNELS["chmc"]()
    target = target_of(made, kernel)
    assert isinstance(target, StateSpacePosterior)
    start = find_start(kernel, target, 1, 0, nothing)
    np.testing.assert_allclose(target.constraint(start.position), 0.0, atol=1e-8)


def test_long_paths_count_towards_the_memory_of_fields():
    made = problem(np.zeros(1200))
    assert fields_of(made, quantities_of(made)) == ("level_path",)
    made = problem(np.zeros(900))
    assert not fields_of(made, quantities_of(made))


def test_one_or_several_readings_at_a_time():
    made = several(lognormal(0.2, 0.5))
    assert made.observed.shape == (18,)
    assert made.noise.num_parameters == 2
    table = pd.DataFrame({"level": [0.3, np.nan, 0.1]})
    other = problem(table, {"level": 0.2})
    assert other.observed.tolist() == [0.3, 0.1]
    assert other.noise.scale.known.tolist() == [0.2, 0.2]
    assert replace(made, observed=made.observed).lifted().is_dense is False


def test_moves_are_no_variables_of_the_last_unknown():
    made = problem(np.zeros(3), unknowns={"rate": dist.Gamma(3.0, 4.0)})
    prior, moves = made.prior, np.array([0.4, -1.2, 0.7])
    look = jax.jit(lambda white: (prior.transform(white), prior.log_reference(white)))

    def log_density(z):
        """Of z, by the slope of the value."""
        low, rate, high = (float(look(np.array([at, *moves]))[0][0])
                           for at in (z - 1e-5, z, z + 1e-5))  # fmt: skip
        return stats.gamma.logpdf(rate, 3.0, scale=0.25) + np.log((high - low) / 2e-5)

    for z in (-0.8, 0.9):
        white = np.array([z, *moves])
        expected = log_density(z) - stats.norm.logpdf(z)
        np.testing.assert_allclose(look(white)[1], expected, atol=1e-8)
    assert abs(expected) > 0.01
    assert prior.linearise(white)[0].shape == (4,)


def upside_down(reading, rate):
    return {"level": -reading["angle"]}


ANGLE = {
    "readings": {"angle": [0.1, 0.2]},
    "observe": lambda state, rate: {"angle": jnp.tanh(state["level"])},
    "recover": lambda reading, rate: {"level": jnp.arctanh(reading["angle"])},
}


#: Two states for each reading, of which one is rare.
SQUARE = {
    "readings": {"square": [8.1, 9.2]},
    "observe": lambda state, rate: {"square": (3.0 + state["level"]) ** 2},
    "recover": lambda reading, rate: {"level": jnp.sqrt(reading["square"]) - 3.0},
}


def test_states_on_which_readings_hardly_depend_are_recovered():
    """Negative control of SQUARE: a rounded reading is of another state, or of none."""
    wide = {"initial": lambda push, rate: {"level": 6.0 * push[0]}}
    assert isinstance(problem(**(ANGLE | wide)).lifted(), StateSpacePosterior)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"readings": {"level": [0.1, np.inf]}}, "readings level: .* found inf at index 1"),
        ({"readings": {"level": [[0.1, 0.2], [np.nan, 0.1]]}},
         "readings level: expected all entries of one time.* found 1 NaN of 2 at index 1"),
        ({"times": [0.0, 2.0], "forecast": [2.0]},
         "forecast: expected times that increase, after the last of the readings, 2, found 2 at"),
        ({"forecast": [4.0]}, r"forecast: expected 2, 3, .* numbered 0, ..., 1, found \[4.0\]"),
        (
            {"readings": {"level": [0.1, 0.2], "flow": [0.1]}},
            r"readings flow: expected 2 values, one for each time, .* found shape \(1,\)",
        ),
        ({"transition": lambda t, state, push, rate: {"level": push[0] + push[1]}},
         r"transition: expected push\[0\] to push\[0\], as num_noise is 1, found .*give num_noise"),
        ({"times": [1.0, 1.0]}, "times: .* found 1 at index 1"),
        ({"unknowns": {"level_path": normal(0, 1)}, "transition": lambda *_, **__: {"level": 0.0},
          "initial": lambda *_, **__: {"level": 0.0}}, "state level: .* found level_path"),
        ({"initial": lambda push, rate: {"level": push[0], "trend": push[1]}},
         r"initial: expected push.* as num_noise is 1, .* give num_noise, how many variables move"),
        (ANGLE | {"readings": {"level": [0.1, 0.2]}}, "state level: .* other names than a reading"),
        (ANGLE | {"recover": upside_down}, "recover: expected the inverse of observe, found other"),
        (SQUARE, "recover: expected the inverse of observe, found other states .* leave recover"),
        ({"transition": lambda t, state, push, rate: {"level": state["level"] / (t - 1.0)}},
         "state 1, which transition returns, at the prior's medians: expected a finite level"),
        ({"transition": lambda t, state, push, rate: {"level": state["level"] / (t - 2.0)},
          "readings": {"level": [0.1] * 3}}, "forward map at the prior mean"),
    ],
)  # fmt: skip
def test_bad_input(changes, message):
    with pytest.raises(InputError, match=message):
        problem(**({"readings": {"level": [0.1, 0.2]}} | changes))
