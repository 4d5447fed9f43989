"""A reading that is wrong: heavy tails leave it alone."""

import numpy as np
import pytest

import invlift
from invlift.noise import known_noise, student_t_noise

NUM_READINGS, WRONG, SIZE = 12, 6, -8.0


def linear(theta, matrix):
    return matrix @ theta


def fit(noise, sigma, observed, matrix):
    problem = invlift.jax_problem(linear, 3, noise(sigma), observed, arguments=(matrix,))
    run = invlift.sample(problem, chains=4, warmup=200, draws=400, seed=1)
    posterior = problem.posterior(run)
    assert posterior.verdict().is_converged
    return posterior


def distance(posterior, reference):
    """Root mean square of how far means are apart, in the reference's deviations."""
    one, other = (np.concatenate(each.draws("parameters")) for each in (posterior, reference))
    return np.sqrt(np.mean(((one.mean(0) - other.mean(0)) / other.std(0)) ** 2))


def said_of(posterior):
    verdict = posterior.verdict()
    return verdict.doubts + verdict.warnings


@pytest.mark.slow
def test_student_t_noise_leaves_a_wrong_reading_alone():
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(NUM_READINGS, 3))
    observed = matrix @ rng.normal(size=3) + rng.normal(size=NUM_READINGS)
    observed[WRONG] += SIZE
    one = np.ones(NUM_READINGS)
    without = np.where(np.arange(NUM_READINGS) == WRONG, 1e6, 1.0)  # as good as left out
    # Normal noise tells of the reading, and is misled by it, as a negative control of the bound.
    normal, reference = (fit(known_noise, each, observed, matrix) for each in (one, without))
    assert normal.fit.sensors().standardised_residual[WRONG] < -4.0
    assert any(f"reading {WRONG} by" in each for each in said_of(normal))
    assert distance(normal, reference) > 0.7
    robust, reference = (
        fit(lambda sigma: student_t_noise(sigma, 3.0), each, observed, matrix)
        for each in (one, without)
    )
    assert np.abs(robust.fit.sensors().standardised_residual).max() < 4.0
    assert not any("readings" in each for each in said_of(robust))
    assert distance(robust, reference) < 0.3
