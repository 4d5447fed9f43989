"""The toy figures of the manifold lifting paper: what the saved data of the examples say."""

import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "manifold_lifting"
sys.path.append(str(FOLDER))

import acceptance  # noqa: E402
import toy  # noqa: E402
import toy_efficiency  # noqa: E402

ORDINARY = [each.name for each in acceptance.SAMPLERS if not each.is_constrained]
CONSTRAINED = [each.name for each in acceptance.SAMPLERS if each.is_constrained]


@pytest.fixture(scope="module")
def maps():
    return acceptance.read()


@pytest.fixture(scope="module")
def results():
    return toy_efficiency.read()


def assert_in_proportion(heat_map):
    """The step size of acceptance 1/2 is in proportion to sigma."""
    assert 0.8 < heat_map.slope() < 1.2


def assert_independent(heat_map):
    """The step size of acceptance 1/2 does not depend on sigma."""
    assert abs(heat_map.slope()) < 0.1


# Acceptance ---------------------------------------------------------------------------------------


def test_there_are_eleven_samplers_of_both_versions(maps):
    assert (len(ORDINARY), len(CONSTRAINED)) == (8, 3)
    assert maps.keys() == {(v, each.name) for v in toy.VERSIONS for each in acceptance.ALL}
    for heat_map in maps.values():
        assert np.all((heat_map.acceptance >= 0.0) & (heat_map.acceptance <= 1.0))
        assert np.all(np.isfinite(heat_map.half_steps()))


@pytest.mark.parametrize("version", toy.VERSIONS)
@pytest.mark.parametrize("name", ORDINARY)
def test_steps_of_ordinary_samplers_shrink_with_the_noise(maps, version, name):
    assert_in_proportion(maps[version, name])
    with pytest.raises(AssertionError):
        assert_independent(maps[version, name])


@pytest.mark.parametrize("version", toy.VERSIONS)
@pytest.mark.parametrize("name", CONSTRAINED)
def test_steps_of_constrained_samplers_do_not(maps, version, name):
    assert_independent(maps[version, name])
    assert maps[version, name].half_steps().min() > 0.15
    # Negative control: they do not pass for ordinary ones.
    with pytest.raises(AssertionError):
        assert_in_proportion(maps[version, name])


@pytest.mark.parametrize("version", toy.VERSIONS)
def test_softabs_needs_short_steps_on_the_curve_alone(maps, version):
    """Where the Hessian has no large eigenvalue along the curve; see the page of the example."""
    assert_independent(maps[version, acceptance.OFF_THE_CURVE.name])
    assert_in_proportion(maps[version, "RM-HMC, SoftAbs"])


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


# Efficiency ---------------------------------------------------------------------------------------


def test_constrained_samplers_converge_whatever_the_noise(results):
    constrained = [each for each in results if each.sampler.startswith("C-HMC")]
    assert len(constrained) == 3 * len(toy_efficiency.SIGMAS)
    assert all(each.is_converged for each in constrained)
    for name in {each.sampler for each in constrained}:
        rates = [each.ess_per_second for each in constrained if each.sampler == name]
        assert min(rates[:-1]) > 0.3 * max(rates[:-1])


def test_others_converge_with_the_largest_noise_alone(results):
    """Negative control of the test above."""
    others = [each for each in results if not each.sampler.startswith("C-HMC")]
    assert {each.sigma for each in others if each.is_converged} == {1.0}
    by_place = {(each.sampler, each.sigma): each for each in results}
    for name in {each.sampler for each in others}:
        for sigma in (1e-5, 1e-4, 1e-3):
            lifted = by_place["C-HMC, Newton", sigma].ess_per_second
            assert by_place[name, sigma].ess_per_second < 0.05 * lifted
