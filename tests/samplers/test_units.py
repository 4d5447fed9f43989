"""Readings in units that have nothing to do with one another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from invlift.lift.jacobians import dense
from invlift.lift.targets import lifted
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.noise import known_noise
from invlift.problems.inverse_problem import jax_problem
from invlift.problems.starts.fit import initial_position
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.kernels import ConstrainedHMC


def curved(theta, matrix, units):
    return units * (matrix @ theta + 0.3 * jnp.sin(theta[0] + matrix @ theta))


def build(num_readings, num_unknowns, units):
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(num_readings, num_unknowns)) / np.sqrt(num_unknowns)
    observed = rng.normal(size=num_readings)
    arguments = (matrix, units)
    noise = known_noise(0.1 * units)
    problem = jax_problem(curved, num_unknowns, noise, units * observed, arguments=arguments)
    return LiftedPosterior(problem)


@pytest.mark.parametrize(
    ("num_readings", "num_unknowns", "retraction", "most_dense"),
    [
        pytest.param(6, 3, "newton-line-search", 64, marks=pytest.mark.slow),
        # Solved by iteration, as of many readings; of another size, for a program of its own.
        (5, 7, "chebyshev", 4),
    ],
)
def test_draws_do_not_depend_on_the_units_of_the_readings(
    num_readings, num_unknowns, retraction, most_dense, monkeypatch, request
):
    if retraction != "chebyshev":  # a line search branches on round-off
        request.getfixturevalue("programs_of_long_chains")
    monkeypatch.setattr(lifted, "MAX_DENSE", most_dense)
    monkeypatch.setattr(dense, "FEW_ROWS", most_dense // 2)
    one = np.ones(num_readings)
    mixed = np.where(np.arange(num_readings) % 2, 1e6, 1e-6)
    plan = Plan(ConstrainedHMC(retraction=retraction), 20, 20)
    problem = build(num_readings, num_unknowns, one).problem
    start = jax.jit(initial_position)(problem, jax.random.key(1))
    runs = [
        run_chains(build(num_readings, num_unknowns, units), plan, np.asarray(start)[None], 5)
        for units in (one, mixed)
    ]
    expected, found = (run.chains[0] for run in runs)
    draws = expected.draws["parameters"]
    np.testing.assert_allclose(found.draws["parameters"], draws, atol=1e-6)
    np.testing.assert_array_equal(
        found.stats["num_factorisations"], expected.stats["num_factorisations"]
    )
    assert expected.stats["acceptance_rate"].mean() > 0.5
    assert np.ptp(draws, axis=0).min() > 0.1
