"""Readings that are one function of the unknowns, merged into their mean: the same posterior."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from structured import box_mesh

import invlift
from invlift.app.runs.sampling import find_kernel, target_of
from invlift.fem.equations.experiments import Experiment, assemble_experiments
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.models.base import first_of_same
from invlift.models.corrected import corrected
from invlift.models.joined import Combinations
from invlift.noise.scales import unknown_scale
from invlift.problems.choice.merged import merged

PLACES = np.array([[0.3, 0.35], [0.5, 0.1], [0.8, 0.6]])
#: Which place each reading is of.
AT = np.array([2, 0, 0, 1, 2, 2, 0, 1, 0])
GROUPS = np.array(["a", "a", "b", "a", "a", "b", "a", "b", "a"])


def _noises():
    scale = invlift.lognormal(median=0.1, factor=3.0)
    return {
        "known": invlift.known_noise(0.1),
        "known, each its own": invlift.known_noise(np.linspace(0.1, 0.5, AT.size)),
        "unknown": invlift.gaussian_noise(scale),
        "unknown, in groups": invlift.gaussian_noise(unknown_scale(scale, GROUPS)),
    }


MESH = box_mesh(2, 4)


def _observation(groups=None):
    sensors = invlift.sensors_from_arrays(PLACES[AT], np.zeros(AT.size), groups=groups)
    return invlift.locate(MESH, sensors)


def _poisson(**options):
    return invlift.assemble_poisson(
        MESH, _observation(), source=10.0, dirichlet={"left": 0.0}, **options
    )


def _experiments():
    conditions = {"source": 10.0, "dirichlet": {"left": 0.0}}
    other = {"source": 3.0, "dirichlet": {"right": 1.0}}
    every = [Experiment("a", _observation(), conditions), Experiment("b", _observation(), other)]
    return assemble_experiments(MESH, every)


def _with_offset():
    """Readings of group b are off by one unknown number."""
    sensors = invlift.sensors_from_arrays(PLACES[AT], np.zeros(AT.size), groups=GROUPS)
    offsets = {"b": invlift.normal(0.0, 1.0)}
    observation = invlift.locate(MESH, sensors, offsets=offsets)
    return invlift.assemble_poisson(MESH, observation, source=10.0, dirichlet={"left": 0.0})


def _corrected():
    model = _poisson()
    rng, size = np.random.default_rng(2), model.num_coefficients
    offset, slope = rng.normal(size=3)[AT], rng.normal(size=(3, size))[AT]
    return corrected(model, offset, slope, np.zeros(size))


def _combinations():
    model = _poisson()
    return Combinations(model, np.random.default_rng(3).normal(size=(3, AT.size))[AT])


#: Models, and how many of their readings are different.
MODELS = {
    "on a refined mesh": (partial(_poisson, refine_solution=1), 3),
    "equation with offsets": (_with_offset, 6),
    "experiments": (_experiments, 6),
    "corrected": (_corrected, 3),
    "combinations": (_combinations, 3),
}


def _problem(noise):
    prior = invlift.matern_prior(MESH, range=1.0, std=1.0, smoothness=2.0)
    observed = 2.0 + 0.3 * np.random.default_rng(1).standard_normal(AT.size)
    return invlift.inverse_problem(_poisson(), prior, noise, observed)


@jax.jit
def _linearised(model, coefficients):
    return model.value_and_jacobian(coefficients)


@pytest.mark.parametrize("name", MODELS)
def test_readings_of_one_function_are_known_and_taken(name):
    make, number = MODELS[name]
    model = make()
    rows, means = first_of_same(model.alike())
    assert rows.size == number
    size = getattr(model, "num_coefficients", None) or MESH.num_nodes
    coefficients = 0.1 * np.random.default_rng(0).standard_normal(size)
    whole, by_all = map(np.asarray, _linearised(model, coefficients))
    few, by_few = map(np.asarray, _linearised(model.of_readings(rows), coefficients))
    np.testing.assert_allclose(few[means], whole, rtol=1e-12)
    assert np.unique(whole.round(10)).size == number  # others are not merged
    np.testing.assert_allclose(by_few[means], by_all, rtol=1e-9, atol=1e-12)


@jax.jit
def _log_density(problem, theta):
    return OrdinaryPosterior(problem).logdensity(theta)


def _log_densities(problem, thetas):
    return np.array([float(_log_density(problem, each)) for each in thetas])


@pytest.mark.parametrize("name", ["known, each its own", "unknown, in groups"])
def test_the_posterior_density_is_the_same(name):
    problem = _problem(_noises()[name])
    small = merged(problem)
    assert small.num_observations == (6 if "groups" in name else 3)
    thetas = np.random.default_rng(0).standard_normal((4, problem.num_unknowns))
    apart = _log_densities(problem, thetas) - _log_densities(small, thetas)
    # Control: the means alone, without what they leave over, have another density.
    np.testing.assert_allclose(apart, apart[0], rtol=0.0, atol=1e-9 * np.abs(apart).max())
    wrong = replace(small, observed=small.observed + 0.01)
    assert np.ptp(_log_densities(problem, thetas) - _log_densities(wrong, thetas)) > 1e-3


def test_what_is_left_of_the_readings_tells_the_scale():
    problem = _problem(_noises()["unknown"])
    small = merged(problem)
    bare = replace(small, noise=replace(small.noise, scale=replace(
        small.noise.scale, squares=np.zeros(3))))  # fmt: skip
    thetas = np.zeros((2, problem.num_unknowns))
    thetas[1, 0] = 1.0
    whole = _log_densities(problem, thetas)
    assert np.ptp(whole - _log_densities(small, thetas)) < 1e-9
    assert np.ptp(whole - _log_densities(bare, thetas)) > 1.0


@pytest.mark.parametrize("name", ["known", pytest.param("unknown", marks=pytest.mark.slow)])
def test_many_rows_at_a_place_are_lifted_as_one(name):
    problem = _problem(_noises()[name])
    target = target_of(problem, find_kernel("chmc"))
    assert target.dimension == problem.num_unknowns + 3  # not 9
    # What is kept of a draw has all readings.
    look = jax.jit(lambda theta: target.describe(target.point(target.lift(theta)))[0])
    predicted = look(np.zeros(problem.num_unknowns))["predicted"]
    assert predicted.shape == AT.shape
    assert [np.unique(predicted[place == AT]).size for place in range(3)] == [1, 1, 1]
    if name == "unknown":  # the readings that are left tell the scale, which has a reference then
        assert target.problem.reference.of_noise.precisions > 1.0
