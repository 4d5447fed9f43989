"""Diffusions against dense matrices, exact solutions and the Kalman filter."""

from dataclasses import fields
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from crafted import run_of
from monte_carlo import assert_mean_within, stacked

from invlift.app.runs.sampling import sample, target_of
from invlift.errors import InputError
from invlift.lift.targets.diffusion import DiffusionPosterior
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.models.sde_schemes import SCHEMES
from invlift.noise import gaussian_noise
from invlift.problems.problem import ExactProblem, names_of_constraints
from invlift.problems.starts import search as start_search
from invlift.problems.starts.landing import (
    check_independent,
    distance_from_manifold,
    onto_manifold,
)
from invlift.problems.starts.search import find_start
from invlift.problems.time.diffusion_problem import DiffusionProblem, diffusion_problem
from invlift.programs.compilation import Program
from invlift.samplers.kernels import KERNELS
from invlift.unknowns.distributions import lognormal, normal


def pull(t, state, rate):
    return {"level": -rate * state["level"]}


def spread(t, state, rate):
    return {"level": 0.5}


def problem(**changes):
    """A level that is pulled back to zero (Ornstein & Uhlenbeck)."""
    arguments = {
        "drift": pull,
        "diffusion": spread,
        "unknowns": {"rate": lognormal(median=0.8, factor=1.5)},
        "initial": lambda rate: {"level": 1.0},
        "times": [0.5, 1.0, 2.0],
        "readings": {"level": [0.7, 0.2, 0.4]},
        "noise": 0.3,
        "steps_per_interval": 2,
        "start": 0.0,
    }
    return diffusion_problem(**(arguments | changes))


def nerve(noise, scheme="taylor-1.5", **changes):
    """One of two parts is driven and the other one read, from the start on with gaps."""
    readings = {
        "seen": np.array([0.1, 0.3, 0.2, np.nan, 0.5]),
        "sum": np.array([np.nan, 0.6, 0.1, 0.3, np.nan]),
    }
    arguments = {
        "drift": lambda t, state, rate, start: {
            "voltage": 2.0 * jnp.sin(state["voltage"]) - state["recovery"] + 0.1 * t,
            "recovery": rate * state["voltage"] - state["recovery"] ** 2,
        },
        "diffusion": lambda t, state, rate, start: {"recovery": 0.3 + rate},
        "unknowns": {"rate": lognormal(median=0.8, factor=1.5), "start": normal(0.0, 1.0)},
        "initial": lambda rate, start: {"voltage": 0.2 * start, "recovery": start},
        "times": [0.0, 0.3, 0.5, 1.0, 1.2],
        "readings": readings,
        "noise": noise,
        "steps_per_interval": 2,
        "observe": lambda state, rate, start: {
            "seen": state["voltage"],
            "sum": jnp.sinh(state["voltage"] + rate * state["recovery"]),
        },
        "scheme": scheme,
    }
    return diffusion_problem(**(arguments | changes))


point_of = Program(lambda target, position: target.point(position), "none")
constraint = jax.jit(lambda target, position: target.constraint(position))


@partial(Program, effort="none")
def products(target, point, vector, multiplier):
    return (
        target.apply_jacobian(point, vector),
        target.apply_jacobian_transpose(point, multiplier),
        target.solve_gram(point, multiplier),
    )


@partial(Program, effort="none")
def newton(target, point, moved, side):
    """Newton's matrix between two positions: its residual and its solution."""
    zero = jnp.zeros(side.size)
    found = target.on_normal_space(point, moved).linearise(zero)
    return found.residual, found.solve(side, 0.0)


def assert_same_newton(own, dense, one, other, position):
    moved = position + 0.1 * np.random.default_rng(4).standard_normal(position.size)
    side = np.arange(1.0, 1.0 + one.constraint.size)
    found, expected = newton(own, one, moved, side), newton(dense, other, moved, side)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9)


def assert_same_point(own, dense, one, other, size):
    np.testing.assert_allclose(one.constraint, other.constraint, atol=1e-12)
    np.testing.assert_allclose(one.logdensity, other.logdensity, rtol=1e-10)
    np.testing.assert_allclose(one.logdensity_grad, other.logdensity_grad, rtol=1e-9, atol=1e-10)
    determinants = [each.gram.log_determinant() for each in (one, other)]
    np.testing.assert_allclose(*determinants, rtol=1e-10)
    rng = np.random.default_rng(1)
    vector, multiplier = rng.standard_normal(size), rng.standard_normal(one.constraint.size)
    results = (products(*each, vector, multiplier) for each in ((own, one), (dense, other)))
    for found, expected in zip(*results, strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * scale)


def test_derivatives_of_a_path_are_those_of_its_steps():
    model = nerve(0.4, "euler-maruyama").model
    given = jnp.array([0.7, 0.4]), jnp.linspace(-1.0, 1.0, 8)[:, None]

    def in_turn(values, moves):
        def follow(state, each):
            return (later := model.step(*each, state, values)), later

        first = model.first(values)
        _, later = jax.lax.scan(follow, first, (model.at, model.lengths, moves))
        return jnp.concatenate([first[None], later])

    @jax.jit
    def derivatives(values, moves):
        """First ones backwards, and second ones forwards through these, of each way."""
        first = [jax.jacrev(fn, (0, 1)) for fn in (model.states, in_turn)]
        return [(by(values, moves), jax.jacfwd(by, (0, 1))(values, moves)) for by in first]

    for found, expected in zip(*map(jax.tree.leaves, derivatives(*given)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@partial(Program, effort="none")
def look(own, dense, theta):
    """Points of both on one manifold, and what is kept of them."""
    lifted = dense.lift(theta)
    one, other = own.point(own.from_lifted(lifted)), dense.point(lifted)
    return one, other, own.describe(one)[0], dense.describe(other)[0]


@pytest.mark.slow
def test_it_is_that_of_the_dense_lift():
    """By Milstein's scheme, whose steps are quadratic in the noise, with an unknown scale."""
    made = nerve(lognormal(median=0.3, factor=1.5), "milstein")
    own, dense = made.lifted(), LiftedPosterior(made)
    assert isinstance(own, DiffusionPosterior)
    theta = 0.3 * np.random.default_rng(2).standard_normal(made.num_unknowns)
    one, other, found, expected = look(own, dense, theta)
    assert_same_point(own, dense, one, other, own.dimension)
    assert found.keys() == expected.keys()
    for each, value in expected.items():
        np.testing.assert_allclose(found[each], value, rtol=1e-9, atol=1e-12)


def read_exactly(steps):
    return nerve(
        None,
        times=[0.3, 0.5, 1.0],
        start=0.0,
        steps_per_interval=steps,
        readings={"seen": [0.3, 0.2, 0.5], "sum": [np.nan, np.nan, 0.6]},
    )


@pytest.mark.slow
def test_exact_readings_condition_the_generator():
    made = read_exactly(2)
    own = made.lifted()
    dense = ExactProblem(made.model, made.prior, made.noise, made.observed).lifted()
    drawn = 0.5 * jax.random.normal(jax.random.key(3), (own.dimension,))
    rough = jax.jit(lambda drawn: own.rough_position(drawn))(drawn)
    np.testing.assert_allclose(own.constraint(rough), 0.0, atol=1e-9)
    position = onto_manifold(own, np.asarray(rough))
    one, other = point_of(own, position), point_of(dense, position)
    assert_same_point(own, dense, one, other, own.dimension)
    assert_same_newton(own, dense, one, other, position)


def nothing(kernel, target, position):
    """Of a state, to save its program."""
    return position


def test_exact_readings_that_follow_from_others_are_named():
    made = problem(
        times=[1.0, 2.5],
        readings={"once": [0.5, 0.3], "again": [1.0, np.nan]},
        noise=None,
        steps_per_interval=1,
        observe=lambda state, rate: {"once": state["level"], "again": 2.0 * state["level"]},
    )
    target = made.lifted()
    names, position = names_of_constraints(target), 0.1 * np.arange(target.dimension)
    with pytest.raises(InputError, match=r"^(once|again)\[1\.0\]: .*1 of 3 that depend"):
        check_independent(target, position, names)


@pytest.mark.slow  # 10 s
def test_a_reading_that_is_not_reached_is_named():
    made = problem(
        noise=None,
        readings={"square": [0.7, -2.0, 0.4]},
        observe=lambda state, rate: {"square": state["level"] ** 2},
    )
    kernel = KERNELS["chmc"]()
    with pytest.raises(InputError, match=r"chain 0, start: .* square\[1.0\], -2, is missed by 2;"):
        find_start(kernel, target_of(made, kernel), 1, 0, nothing)


@pytest.mark.slow
def test_a_forecast_goes_on_behind_the_readings():
    made, shorter = problem(forecast=[2.5, 4.0]), problem()
    assert dict(made.model.kept_axes[0][1])["time"][-5:] == (2.0, 2.25, 2.5, 3.25, 4.0)
    np.testing.assert_array_equal(made.observed, shorter.observed)
    theta = np.random.default_rng(0).standard_normal(made.num_unknowns)
    assert theta.size == shorter.num_unknowns + 4
    one, other = made.lifted(), shorter.lifted()
    found = point_of(one, jnp.concatenate([theta, jnp.ones(3)]))
    expected = point_of(other, jnp.concatenate([theta[:-4], jnp.ones(3)]))
    np.testing.assert_allclose(found.constraint, expected.constraint, rtol=1e-12)
    np.testing.assert_allclose(found.logdensity, expected.logdensity, rtol=1e-12)
    moves = found.logdensity_grad[made.num_unknowns - 4 : made.num_unknowns]
    np.testing.assert_array_equal(moves, 0.0)  # of which nothing is known


@pytest.mark.slow  # 10 s
def test_chains_start_near_readings_that_most_draws_die_out_before():
    """Of a number of animals below one, nearly none is left a little later."""
    made = diffusion_problem(
        lambda t, state, rate: {"log": rate - jnp.exp(-state["log"])},
        lambda t, state, rate: {"log": 1.0},
        {"rate": lognormal(median=1.0, factor=1.5)},
        lambda rate: {"log": 0.0},
        [1.0, 2.0, 3.0, 4.0, 5.0],
        {"size": [2.0, 4.0, 9.0, 20.0, 30.0]},
        lognormal(median=1.0, factor=2.0),
        observe=lambda state, rate: {"size": jnp.exp(state["log"])},
        start=0.0,
        steps_per_interval=6,
    )
    kernel = KERNELS["chmc"]()
    target = target_of(made, kernel)
    white = np.random.default_rng(0).standard_normal((200, made.num_unknowns))
    has_died = np.asarray(jax.vmap(made.predict)(white))[:, -1] < 1e-3
    assert has_died.mean() > 0.5
    for chain in range(2):
        start = find_start(kernel, target, 1, chain, nothing)
        np.testing.assert_allclose(constraint(target, start.position), 0.0, atol=1e-8)
        # As of a posterior draw, whose variables are about standard normal.
        assert np.mean(start.position**2) < 2.0
        assert np.max(np.abs(start.position)) < 4.5


@pytest.mark.slow
def test_a_draw_that_does_not_lead_to_the_readings_is_followed_by_another(monkeypatch):
    """Whatever its constraints are like where it ended."""
    problem = read_exactly(2)
    kernel, found = KERNELS["chmc"](), []

    def away_at_first(target, position):
        found.append(position)
        return 1.0 if len(found) == 1 else distance_from_manifold(target, position)

    def refuse(*arguments):
        raise AssertionError("looked at before all draws were tried")

    monkeypatch.setattr(start_search, "distance_from_manifold", away_at_first)
    monkeypatch.setattr(start_search, "check_independent", refuse)
    target = target_of(problem, kernel)
    start = find_start(kernel, target, 1, 0, nothing)
    assert len(found) == 2
    np.testing.assert_allclose(constraint(target, start.position), 0.0, atol=1e-8)


def test_a_start_that_leaves_much_to_known_noise_is_followed_by_another(monkeypatch):
    """Or is the one that leaves least, if all leave much."""
    made, kernel = problem(), KERNELS["chmc"]()
    target, landed, left = target_of(made, kernel), start_search._landed, {0: 40.0}

    def shifted(own, seed, chain, attempt):
        found = np.array(landed(own, seed, chain, attempt))
        found[made.num_unknowns] = left.get(attempt, found[made.num_unknowns])
        return found

    monkeypatch.setattr(start_search, "_landed", shifted)
    assert np.max(find_start(kernel, target, 1, 0, nothing).misfit) < 4.0
    left.update({each: 40.0 - each for each in range(start_search.MAX_STARTS)})
    found = find_start(kernel, target, 1, 0, nothing)
    assert np.max(found.misfit) == 41.0 - start_search.MAX_STARTS


@pytest.mark.slow
def test_noise_that_is_held_has_no_derivatives():
    """Its density neither: it is one given the scale, which the slope of relative noise takes."""
    made = problem(noise=gaussian_noise(lognormal(median=0.3, factor=1.5), relative=True))
    rng = np.random.default_rng(4)
    lifted = LiftedPosterior(made).lift(0.3 * rng.standard_normal(made.num_unknowns))

    @jax.jit
    def derivatives_by_noise(target, lifted):
        point = target.point(target.from_lifted(lifted))
        first = jnp.zeros(lifted.size).at[0].set(1.0)
        return point.logdensity_grad[0], target.apply_jacobian(point, first)

    for target in DiffusionPosterior(made), DiffusionPosterior(made, holds_noise=True):
        by_noise = map(np.asarray, derivatives_by_noise(target, lifted))
        assert all(np.any(each != 0.0) != target.holds_noise for each in by_noise)


@pytest.mark.parametrize(
    ("scheme", "order"), [("euler-maruyama", 0.5), ("milstein", 1.0), ("taylor-1.5", 1.5)]
)
def test_schemes_have_their_strong_order(scheme, order):
    """Against finer steps of the same noise; geometric growth, or a driven nonlinear pair."""
    rng, finest = np.random.default_rng(3), 2**10
    first, second = rng.standard_normal((2, 400, finest, 1))
    is_additive = scheme == "taylor-1.5"

    def drift(time, state):
        if is_additive:
            return jnp.array([jnp.sin(state[1]), -(state[1] ** 3) + state[0] + time])
        return 0.125 * state

    def diffusion(time, state):
        return jnp.array([[0.0], [1.0]]) if is_additive else 0.5 * state[:, None]

    # Increments of the Wiener process and of its integral, which both add up.
    step = 1.0 / finest
    wiener = np.sqrt(step) * first
    integral = 0.5 * step**1.5 * (first + second / np.sqrt(3.0))

    def ends(num):
        length, group = 1.0 / num, finest // num
        dw = wiener.reshape(400, num, group, 1)
        before = np.cumsum(dw, axis=2) - dw
        dz = (integral.reshape(dw.shape) + step * before).sum(axis=2)
        v1 = dw.sum(axis=2) / np.sqrt(length)
        v2 = np.sqrt(3.0) * (2.0 * dz / length**1.5 - v1)
        noise = np.concatenate([v1, v2], axis=2) if is_additive else v1

        def follow(state, each):
            time, noise = each
            return SCHEMES[scheme].step(drift, diffusion, time, length, state, noise), None

        start = jnp.array([0.5, 0.3]) if is_additive else jnp.ones(1)
        times = jnp.arange(num) * length
        return jax.vmap(lambda noise: jax.lax.scan(follow, start, (times, noise))[0])(noise)

    # That of dx = x / 8 dt + x / 2 dW is known.
    exact = ends(finest) if is_additive else np.exp(0.5 * wiener.sum(axis=1))
    sizes = np.array([8, 16, 32, 64])
    errors = [np.sqrt(np.mean((ends(num) - exact) ** 2)) for num in sizes]
    slope = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope - order) < 0.15


SIGMA, TIMES = 0.05, 0.4 * np.arange(1, 16)
RATE = lognormal(median=1.0, factor=1.8)


def simulated():
    rng, level, found = np.random.default_rng(6), 1.0, []
    for _ in TIMES:
        level = np.exp(-0.32) * level
        level += 0.5 * np.sqrt((1 - np.exp(-0.64)) / 1.6) * rng.standard_normal()
        found.append(level)
    return np.array(found) + SIGMA * rng.standard_normal(TIMES.size)


def kalman(rate, readings, sigma, steps=6):
    """Log likelihood, and mean of the last level, of Euler's discretisation, for an array of rates.

    Its transition over one interval is a normal one with these moments.
    """
    step = 0.4 / steps
    decay = (1 - rate * step) ** steps
    variance = 0.25 * step * sum((1 - rate * step) ** (2 * each) for each in range(steps))
    mean, spread, total = np.ones_like(rate), 0.0, 0.0
    for reading in readings:
        mean, spread = decay * mean, decay**2 * spread + variance
        whole = spread + sigma**2
        total = total - 0.5 * np.log(whole) - 0.5 * (reading - mean) ** 2 / whole
        gain = spread / whole
        mean, spread = mean + gain * (reading - mean), (1 - gain) * spread
    return total, mean


class WithoutGramTerm(DiffusionPosterior):
    """Negative control: as if the manifold were flat."""

    def logdensity(self, position, gram):
        return jnp.zeros(())


def without_gram_term(made):
    class Other(DiffusionProblem):
        def lifted(self):
            return WithoutGramTerm(self)

    return Other(*(getattr(made, field.name) for field in fields(made)))


@pytest.mark.slow
def test_posterior_is_that_of_the_kalman_filter():
    readings = simulated()
    made = problem(
        unknowns={"rate": RATE},
        times=TIMES,
        readings={"level": readings},
        noise=None,
        steps_per_interval=6,
    )
    rate = np.exp(np.linspace(-3.0, 2.5, 4001))
    total, _ = kalman(rate, readings, 0.0)
    log_density = total - 0.5 * (np.log(rate) / np.log(1.8)) ** 2
    mass = np.exp(log_density - log_density.max())
    exact = [(mass * each).sum() / mass.sum() for each in (rate, rate**2)]

    def found(problem):
        run = sample(problem, chains=4, warmup=150, draws=600, seed=3)
        rate = stacked(run, "rate")
        return np.stack([rate, rate**2], axis=-1)

    assert_mean_within(found(made), exact, min_ess=400)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(found(without_gram_term(made)), exact, min_ess=100)


def test_nothing_dense_is_computed():
    """With 4,000 steps a dense matrix of them would take 130 MB, of the readings 30 MB."""
    times = np.arange(1.0, 2_001.0)
    made = problem(times=times, readings={"level": np.sin(times)}, noise=None)
    target = made.lifted()

    @jax.jit
    def look(drawn):
        value, jacobian = target.linearise(target.rough_position(drawn))
        return value, jacobian.inner().log_determinant()

    drawn = np.random.default_rng(0).standard_normal(target.dimension)
    compiled = look.lower(drawn).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 10e6
    value, determinant = compiled(drawn)
    np.testing.assert_allclose(value, 0.0, atol=1e-8)
    assert np.isfinite(determinant)


@pytest.mark.slow  # 10 s
def test_paths_are_series_and_known_entries_are_not_judged():
    made = read_exactly(30)
    own = made.lifted()
    drawn = 0.3 * np.random.default_rng(1).standard_normal((2, 20, own.dimension))
    run = run_of(made, drawn, lambda drawn: own.describe(own.point(own.rough_position(drawn)))[0])
    posterior = made.posterior(run)
    assert set(posterior.chains[0].draws) == {
        "rate", "start", "voltage_path", "recovery_path", "seen_path", "sum_path", "predicted"
    }  # fmt: skip
    path = posterior.to_arviz().posterior["voltage_path"]
    assert path.sizes["time"] == 91
    np.testing.assert_allclose(path.sel(time=0.5), 0.2, atol=1e-8)
    found = posterior.vector_diagnostics["voltage_path"].r_hat
    assert found.shape == (88,)
    assert np.isfinite(found).all()
    labels = {axes.get_ylabel() for axes in posterior.plot.series().figure.axes}
    assert {"seen", "sum", "recovery_path"} <= labels


def test_wiener_processes_of_parts_are_shared():
    shared = problem(diffusion=lambda t, state, rate: {"level": jnp.array([0.3, 0.4])})
    assert shared.model.move_shape == (6, 2)


def test_lists_stand_for_arrays_and_a_data_frame_for_a_dict():
    changes = {
        "initial": lambda rate: {"level": 1.0, "pair": [0.5, 2.0]},
        "drift": lambda t, state, rate: {"level": -state["level"], "pair": [rate, 1.0]},
        "diffusion": lambda t, state, rate: {"level": [0.1, 0.2], "pair": [[1.0, 0.0], [0.0, 2.0]]},
        "readings": pd.DataFrame({"level": [0.7, np.nan, 0.4]}),
        "noise": {"level": 0.3},
    }
    made = problem(**changes)
    at = jax.jit(
        lambda state: [each(0.0, state) for each in made.model.coefficients_of(jnp.array([0.8]))]
    )
    drift, diffusion = at(np.array([1.0, 0.5, 2.0]))
    np.testing.assert_allclose(drift, [-1.0, 0.8, 1.0])
    assert diffusion.tolist() == [[0.1, 0.2], [1.0, 0.0], [0.0, 2.0]]
    assert made.observed.tolist() == [0.7, 0.4]
    assert made.noise.scale.known.tolist() == [0.3, 0.3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": [0.5, 0.5, 1.0]}, "times: expected finite numbers that increase, found 0.5 at"),
        ({"noise": None, "start": None}, "start: expected a time before the first of the readings"),
        ({"readings": {"depth": [1.0, 2.0, 3.0]}}, "initial: .* found none for depth among level"),
        ({"observe": lambda state, rate: {"level": 1.0}}, "state level: .* found level"),
        ({"drift": lambda t, state, rate: {"flow": 1.0}}, "drift: expected .*level.* found .*flow"),
        ({"drift": lambda t, state, rate: {"level": np.nan}}, "drift at the start, 0, at the"),
        (
            {
                "initial": lambda rate: {"level": 1.0, "other": 2.0},
                "drift": lambda t, state, rate: {"level": 0.0, "other": 0.0},
                "diffusion": lambda t, state, rate: {"level": [1.0, 0.5], "other": 1.0},
            },
            "diffusion level: expected the shape of the state's",
        ),
        ({"diffusion": lambda t, state, rate: {"level": jnp.ones((2, 2))}},
         r"diffusion level: expected the shape of the state's, \(\), or .* found shape \(2, 2\)"),
        ({"drift": lambda t, state, rate: {"level": (3.0 * state["level"]) ** 9}},
         r"path at the prior's medians: expected finite states, found \[inf\] at time 0.75"),
        ({"scheme": "taylor-1.5", "diffusion": lambda t, x, rate: {"level": x["level"]}},
         "diffusion: expected constant"),
        (
            {
                "scheme": "milstein",
                "diffusion": lambda t, x, rate: {"level": jnp.stack([x["level"], 1.0])},
            },
            "diffusion: expected one Wiener process",
        ),
        (
            {
                "scheme": "milstein",
                "diffusion": lambda t, x, rate: {"level": jnp.stack([t * x["level"], t])},
            },
            "diffusion: expected one Wiener process",
        ),
        ({"scheme": "taylor-1.5", "diffusion": lambda t, x, rate: {"level": 1.0 + t**2}},
         "diffusion: expected constant"),
    ],
)  # fmt: skip
def test_bad_input(changes, message):
    with pytest.raises(InputError, match=message):
        problem(**changes)
