"""The disc example with a reading that is wrong: heavy tails leave it alone."""

import numpy as np
import pytest
from benchmarks.discs import ROOT, example, parts

import invlift
from invlift.noise import gaussian_noise, student_t_noise

pytestmark = pytest.mark.long_chains

#: Rings of the mesh, standard deviation of the noise, the wrong sensor and by how many of these.
NUM_RINGS, SIGMA, WRONG, SIZE = 5, 1.0, 6, -8.0
SETTINGS = {"chains": 4, "warmup": 200, "draws": 500, "seed": 20260101}


def fit(sensors, noise, observed):
    """Posterior of the readings of some of the example's sensors."""
    forward, prior = parts(NUM_RINGS, sensors)
    problem = invlift.inverse_problem(forward, prior, noise, observed)
    return problem.posterior(invlift.sample(problem, **SETTINGS))


def distance(posterior, reference):
    """Root mean square over the nodes of how far means are apart, in the reference's deviations."""
    one, other = (np.concatenate(each.draws("log_conductivity")) for each in (posterior, reference))
    return np.sqrt(np.mean(((one.mean(0) - other.mean(0)) / other.std(0)) ** 2))


def said_of(posterior):
    verdict = posterior.verdict()
    return verdict.doubts + verdict.warnings


@pytest.mark.slow
def test_student_t_noise_leaves_a_wrong_reading_alone():
    path = "examples/disc/sensors.csv"
    sensors = invlift.read_sensors(ROOT / path, 2).points
    observed = np.array(example(SIGMA, NUM_RINGS).observed)
    observed[WRONG] += SIZE * SIGMA
    others = np.arange(observed.size) != WRONG
    without = fit(sensors[others], gaussian_noise(SIGMA), observed[others])
    normal = fit(sensors, gaussian_noise(SIGMA), observed)
    robust = fit(sensors, student_t_noise(SIGMA, 3.0), observed)
    # Means are known to a twentieth of a deviation or better, as 400 effective draws make it.
    assert all(each.verdict().is_converged for each in (without, normal, robust))
    # Normal noise tells of the reading, and is misled by it, as a negative control of the bound.
    assert normal.fit.sensors().standardised_residual[WRONG] < -4.0
    assert any(f"sensor {WRONG} by" in each for each in said_of(normal))
    assert distance(normal, without) > 0.7
    assert np.abs(robust.fit.sensors().standardised_residual).max() < 4.0
    assert not any("readings" in each for each in said_of(robust))
    assert distance(robust, without) < 0.3
