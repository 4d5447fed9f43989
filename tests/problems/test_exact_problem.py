"""Exact readings of a function of unknowns by name, with and without a structure."""

from pathlib import Path
from runpy import run_path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
