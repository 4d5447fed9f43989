"""Exact readings of a function of unknowns by name, with and without a structure."""

from dataclasses import replace
from pathlib import Path
from runpy import run_path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked

from invlift.app.runs.sampling import sample, target_of
from invlift.errors import InputError
from invlift.lift.jacobians import BlockDiagonal, Diagonal, Triangular
from invlift.noise import known_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.programs.compilation import Program
from invlift.samplers.kernels import KERNELS
from invlift.unknowns.distributions import lognormal, normal

EXAMPLE = Path(__file__).parents[2] / "examples" / "generators" / "lotka_volterra.py"
SIZE = 5
UNKNOWNS = {
    "level": lognormal(0.0, 0.5),
    "slope": normal(0.5, 1.0),
    "noise": normal(np.zeros(SIZE), 0.7),
}
OBSERVED = np.array([0.4, 1.3, 0.7, 1.9, 1.1])


def elementwise(level, slope, noise):
    return jnp.sin(slope * jnp.arange(SIZE)) + level * noise + 0.1 * noise**3


def autoregressive(level, slope, noise):
    def follow(state, each):
        state = jnp.sin(slope * state) + level * each + 0.1 * each**3
        return state, state

    return jax.lax.scan(follow, 0.3, noise)[1]


def problem_of(fn, structure=None):
    return inverse_problem(fn, UNKNOWNS, None, OBSERVED, structure=structure)


def _look(target, position):
    point = target.point(position)
    solved = point.gram.solve(jnp.arange(1.0, 1.0 + target.problem.num_observations))
    found = point.constraint, point.gram.log_determinant(), point.logdensity
    return *found, point.logdensity_grad, solved


look = Program(_look, "none")


def assert_same(one, other, names=("value", "log determinant", "density", "force", "solution")):
    for name, found, expected in zip(names, one, other, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize(
    ("fn", "structure"),
    [
        (elementwise, Diagonal()),
        pytest.param(autoregressive, Triangular(), marks=pytest.mark.slow),
    ],
)
def test_structured_is_dense(fn, structure):
    position = np.random.default_rng(1).standard_normal(SIZE + 2)
    dense = look(problem_of(fn).lifted(), position)
    assert_same(look(problem_of(fn, structure).lifted(), position), dense)
    other = look(problem_of(fn).lifted(), position + 1e-6)
    with pytest.raises(AssertionError, match="value"):
        assert_same(other, dense)


def test_a_density_of_another_structure_differs():
    """Negative control: of derivatives that are taken to be zero, but are not."""
    position = np.random.default_rng(1).standard_normal(SIZE + 2)
    made = problem_of(autoregressive)
    wrong = replace(made, structure=Diagonal())
    one, other = (look(each.lifted(), position) for each in (wrong, made))
    with pytest.raises(AssertionError, match="log determinant"):
        assert_same(one, other)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((autoregressive, UNKNOWNS, None, OBSERVED), {"structure": Diagonal()},
         "4 of 5.*reading 1"),
        ((elementwise, UNKNOWNS, None, OBSERVED), {"structure": "diagonal"}, "Diagonal.. say"),
        ((elementwise, UNKNOWNS, None, OBSERVED), {"structure": BlockDiagonal(2, 3)},
         "structure of 5 readings"),
        ((elementwise, UNKNOWNS, None, OBSERVED), {"structure": BlockDiagonal(3, 4)},
         "at least 12 unknown numbers for 5"),
        ((elementwise, UNKNOWNS, known_noise(0.1), OBSERVED), {"structure": Diagonal()},
         "none where readings have noise"),
        ((lambda slope: slope * jnp.ones(2), {"slope": normal(0, 1)}, None, np.ones(2)), {},
         "observed: expected at least 3 unknown numbers for 2 exact readings, found 1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(arguments, options, message):
    with pytest.raises(InputError, match=message):
        inverse_problem(*arguments, **options)


def test_only_constrained_samplers_draw_and_nothing_is_approximated():
    made = problem_of(elementwise)
    with pytest.raises(InputError, match="kernel: expected a constrained sampler"):
        target_of(made, KERNELS["hmc"]())
    with pytest.raises(InputError, match="no Laplace approximation"):
        sample(made, starts="laplace")


def test_what_is_kept_of_a_draw():
    target = problem_of(elementwise, Diagonal()).lifted()
    kept, moments = jax.eval_shape(lambda q: target.describe(target.point(q)), np.ones(SIZE + 2))
    shapes = {name: value.shape for name, value in kept.items()}
    assert shapes == {"level": (), "slope": (), "noise": (SIZE,), "predicted": (SIZE,)}
    assert not moments


@pytest.mark.slow
def test_linear_generator_has_its_posterior():
    """Readings 2 v + n: from starts that are given, and roughly; each chain moves them."""
    readings, noise = np.array([1.2, 0.3, 2.0]), normal(np.zeros(3), 0.5)
    made = inverse_problem(
        lambda v, n: 2.0 * v + n,
        {"v": normal(0.0, 1.0), "n": noise},
        None,
        readings,
        structure=Diagonal(),
    )
    starts = np.random.default_rng(1).standard_normal((4, 4))
    run = sample(made, chains=4, warmup=100, draws=1000, seed=1, starts=starts)
    precision = 1.0 + 3 * (2.0 / 0.5) ** 2
    mean = 2.0 / 0.5**2 * readings.sum() / precision
    draws = stacked(run, "v")
    np.testing.assert_allclose(
        stacked(run, "predicted"), np.broadcast_to(readings, (4, 1000, 3)), atol=1e-9
    )
    assert_mean_within(draws, np.array(mean))
    assert_mean_within((draws - mean) ** 2, np.array(1.0 / precision))
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(draws, np.array(1.05 * mean))


@pytest.mark.slow
def test_readings_from_one_another_are_as_likely_as_the_simulators():
    """The factor between both Jacobians has determinant 1, where readings are reproduced.
    Negative control: elsewhere it is another.
    """
    example = run_path(str(EXAMPLE))
    readings = example["simulated"](3)
    stepwise = example["problem_of"](readings)
    noise = np.random.default_rng(example["SEED"]).standard_normal((3, 2))
    truth = np.log(list(example["TRUTH"].values())) + 2.0
    position = np.concatenate([truth, noise.ravel()])
    simulator = example["near"](readings, known_noise(1.0))
    parts = simulator.model, simulator.prior, stepwise.noise, simulator.observed
    simulated = type(stepwise)(*parts, Triangular())
    one, other = (look(each.lifted(), position) for each in (stepwise, simulated))
    np.testing.assert_allclose([one[0], other[0]], 0.0, atol=1e-10)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-10)
    elsewhere = look(simulated.lifted(), position + 0.1)
    assert abs(elsewhere[1] - other[1]) > 1e-3


def moments_by_quadrature(readings, start, which):
    """Mean of the logarithms of the two rates of one species, whose posterior is on a grid.

    Given the readings a species' rates enter its own steps alone, with noise of standard deviation
    1: regression on two rates.
    """
    before = np.concatenate([start[None], readings[:-1]])
    meetings = before.prod(axis=1)
    columns = [before[:, 0], -meetings] if which == 0 else [-before[:, 1], meetings]
    design, change = np.stack(columns, axis=1), (readings - before)[:, which]
    mean, *_ = np.linalg.lstsq(design, change, rcond=None)
    spread = np.sqrt(np.diagonal(np.linalg.inv(design.T @ design)))
    axes = [m + s * np.linspace(-8, 8, 801) for m, s in zip(mean, spread, strict=True)]
    one, two = np.meshgrid(*[axis[axis > 0] for axis in axes], indexing="ij")
    misfit = change - one[..., None] * columns[0] - two[..., None] * columns[1]
    log = -0.5 * (misfit**2).sum(axis=-1)
    for rate in (one, two):
        log += -0.5 * (np.log(rate) + 2.0) ** 2 - np.log(rate)
    mass = np.exp(log - log.max())
    values = np.log([one, two])
    values = np.concatenate([values, values**2])
    return (mass * values).sum(axis=(1, 2)) / mass.sum()


@pytest.mark.slow
def test_lotka_volterra_agrees_with_quadrature():
    example = run_path(str(EXAMPLE))
    readings, names = example["simulated"](20), list(example["TRUTH"])
    run = sample(example["problem_of"](readings), chains=4, warmup=200, draws=1000, seed=2)
    for which, pair in enumerate((names[:2], names[2:])):
        found = np.log(np.stack([stacked(run, name) for name in pair], axis=-1))
        found = np.concatenate([found, found**2], axis=-1)
        exact = moments_by_quadrature(readings, example["START"], which)
        assert_mean_within(found, exact)
        with pytest.raises(AssertionError, match="standard errors"):
            assert_mean_within(found, 1.02 * exact)
