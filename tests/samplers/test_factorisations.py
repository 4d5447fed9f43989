"""Factorisations that kernels report, against those that are computed."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh, interior_points

from invlift.app.runs.sampling import target_of
from invlift.fem import linalg
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.lift.jacobians import dense
from invlift.lift.targets import lifted
from invlift.noise import gaussian_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.samplers.kernels import KERNELS
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.unknowns.distributions import lognormal
from invlift.unknowns.priors.base import StandardNormalPrior

NUM_SENSORS = 4
#: Those on densities are counted by test_density_kernels.
CASES = {name: KERNELS[name]() for name in ("chmc", "chmc-nuts", "constrained-rmhmc")}
CASES |= {"chmc with a line search": ConstrainedHMC(retraction="newton-line-search")}
EACH = ["chmc", *(pytest.param(name, marks=pytest.mark.slow) for name in list(CASES)[1:])]


@cache
def build_problem():
    mesh = box_mesh(2, 3)
    points = interior_points(2, NUM_SENSORS)
    observed = np.array([0.03, 0.05, 0.02, 0.04])
    sensors = sensors_from_arrays(points, observed)
    observation = locate(mesh, sensors)
    forward = assemble_poisson(mesh, observation, source=1.0, dirichlet={"boundary": 0.0})
    prior = StandardNormalPrior(jnp.zeros(forward.num_coefficients))
    return inverse_problem(forward, prior, gaussian_noise(lognormal(-3.0, 0.5)), observed)


@pytest.fixture
def computed(monkeypatch):
    """A list that grows by an entry each time a factorisation is computed."""
    jax.clear_caches()  # models and targets are traced once for all programs
    found = []
    factorise = linalg.factorise

    def counting_factorise(structure, values):
        jax.debug.callback(found.append, values.ravel()[0])
        return factorise(structure, values)

    monkeypatch.setattr(linalg, "factorise", counting_factorise)
    yield found
    jax.clear_caches()


def reported(kernel, computed, num_draws=3):
    """Sum of a kernel's statistic, and what was computed in the meantime."""
    target = target_of(build_problem(), kernel)

    @jax.jit
    def start(target, unknowns):
        position = target.from_lifted(lifted.LiftedPosterior(target.problem).lift(unknowns))
        adaptation = kernel.adaptation
        tuning = adaptation.tuning(adaptation.init(position.size), jnp.asarray(True))
        return kernel.init(target, position), tuning

    state, tuning = start(target, np.full(target.problem.num_unknowns, 0.3))
    step = jax.jit(lambda key, state: kernel.step(target, key, state, tuning))
    jax.effects_barrier()
    computed.clear()
    total = 0
    for key in jax.random.split(jax.random.key(1), num_draws):
        state, statistics = step(key, state)
        total += int(statistics["num_factorisations"])
    jax.effects_barrier()
    return total, len(computed)


def test_third_derivatives_are_taken_where_they_cost_less_than_they_save(monkeypatch):
    target = target_of(build_problem(), ConstrainedHMC())
    found = []

    def look(position):
        space = target.on_normal_space(target.point(position), position)
        for most in (lifted.MAX_DENSE, NUM_SENSORS - 1):
            monkeypatch.setattr(lifted, "MAX_DENSE", most)
            found.append(space.max_derivative)
        return position

    jax.eval_shape(look, jnp.zeros(target.dimension))  # it depends on shapes alone
    assert found == [3, 2]


@pytest.mark.parametrize("name", EACH)
def test_what_is_reported_is_what_is_computed(name, computed):
    total, found = reported(CASES[name], computed)
    assert total == found > 0


def test_factorisations_of_systems_solved_by_iteration_are_counted(computed, monkeypatch):
    """With many readings, of which four count as such here."""
    monkeypatch.setattr(lifted, "MAX_DENSE", NUM_SENSORS - 1)
    monkeypatch.setattr(dense, "FEW_ROWS", 0)
    total, found = reported(ConstrainedHMC(), computed)
    assert total == found > 0
