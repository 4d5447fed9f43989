"""Factorisations that kernels report, against those that are computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh, interior_points

from invlift.app.sampling import target_of
from invlift.fem import linalg
from invlift.fem.assembly import assemble_poisson
from invlift.fem.readings.locate import locate
from invlift.fem.sensors import sensors_from_arrays
from invlift.inverse.distributions import lognormal
from invlift.inverse.inverse_problem import inverse_problem
from invlift.inverse.jacobians import dense
from invlift.inverse.noise import gaussian_noise
from invlift.inverse.priors.standard_normal import StandardNormalPrior
from invlift.inverse.targets import lifted
from invlift.samplers.constrained.retractions import RETRACTIONS
from invlift.samplers.kernels import KERNELS
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.samplers.kernels.riemannian import RiemannianHMC

NUM_SENSORS = 4
CASES = {name: kernel() for name, kernel in KERNELS.items()}
CASES |= {f"chmc with {name}": ConstrainedHMC(retraction=name) for name in RETRACTIONS}
CASES["rmhmc with softabs"] = RiemannianHMC(metric="softabs", num_steps=2)
#: One of each way to count; the others take a minute of compilation.
DEFAULT = ("chmc", "nuts", "elliptical-slice", "pd-mala", "rmhmc")
EACH = [pytest.param(n, marks=() if n in DEFAULT else pytest.mark.slow) for n in CASES]


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
    found = []
    factorise = linalg.factorise

    def counting_factorise(structure, values):
        jax.debug.callback(found.append, values.ravel()[0])
        return factorise(structure, values)

    monkeypatch.setattr(linalg, "factorise", counting_factorise)
    return found


def reported(kernel, computed, num_draws=3):
    """Sum of a kernel's statistic, and what was computed in the meantime."""
    target = target_of(build_problem(), kernel)
    lift = lifted.LiftedPosterior(target.problem).lift
    position = target.from_lifted(lift(0.3 * jnp.ones(target.problem.num_unknowns)))
    state = jax.jit(kernel.init)(target, position)
    step = jax.jit(lambda key, state: kernel.step(target, key, state, tuning_of(kernel, position)))
    jax.effects_barrier()
    computed.clear()
    total = 0
    for key in jax.random.split(jax.random.key(1), num_draws):
        state, statistics = step(key, state)
        total += int(statistics["num_factorisations"])
    jax.effects_barrier()
    return total, len(computed)


def tuning_of(kernel, position):
    """What the kernel is tuned to at first."""
    adaptation = kernel.adaptation
    return adaptation.tuning(adaptation.init(position.size), jnp.asarray(True))


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
