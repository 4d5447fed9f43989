"""The toy figures of the manifold lifting paper: how they were made."""

import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "manifold_lifting"
sys.path.append(str(FOLDER))

import acceptance  # noqa: E402
import toy  # noqa: E402


@pytest.fixture(scope="module")
def maps():
    return acceptance.read()


def test_step_of_half_acceptance_is_interpolated_and_the_first():
    steps = np.logspace(-2.0, 1.0, 4)
    rates = np.array([[1.0, 0.75, 0.25, 0.9], [0.9, 0.9, 0.9, 0.9], [0.4, 0.3, 0.2, 0.1]])
    heat_map = acceptance.HeatMap(np.array([0.01, 0.1, 1.0]), steps, rates, 0.0 * rates)
    np.testing.assert_allclose(heat_map.half_steps(), [10**-0.5, 10.0, np.nan])


@pytest.mark.parametrize("name", ["RWM", pytest.param("C-HMC, Newton", marks=pytest.mark.slow)])
def test_saved_acceptance_is_reproduced(maps, name):
    """At the step size whose acceptance is next to 1/2, with other random numbers."""
    sampler = {each.name: each for each in acceptance.SAMPLERS}[name]
    heat_map = maps["2023", name]
    row = int(np.searchsorted(heat_map.sigmas, 0.03))
    column = int(np.argmin(np.abs(heat_map.acceptance[row] - 0.5)))
    cell = [heat_map.sigmas[row]], [heat_map.step_sizes[column]]
    mean, error = acceptance.measure(sampler, "2023", *cell, seed=1)

    def distance(column):
        other = heat_map.standard_error[row, column]
        # Four chains do not say much about their spread; one draw in a hundred is the least.
        return abs(mean[0] - heat_map.acceptance[row, column]) / max(
            np.hypot(error[0], other), 0.01
        )

    assert distance(column) < 4.0
    # Negative control: the acceptance at another step size.
    assert distance(column - 4) > 4.0


@pytest.mark.parametrize("version", toy.VERSIONS)
def test_starts_are_on_the_curve_at_equal_distances(version):
    points = toy.curve(version, 400)
    values = [float(toy.toy_problem(version).predict(point)[0]) for point in points[::40]]
    np.testing.assert_allclose(values, toy.OBSERVED, atol=1e-12)
    chords = np.linalg.norm(np.diff(points, axis=0, append=points[:1]), axis=1)
    np.testing.assert_allclose(chords, chords.mean(), rtol=0.01)
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-3)
