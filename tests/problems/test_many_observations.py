"""With many observations the projection solves from products alone: same steps, same chains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inverse_cases import CorrelatedPrior, curved

from invlift.lift.jacobians import BorderedJacobian
from invlift.lift.jacobians.diagonal import DiagonalJacobian
from invlift.lift.targets import lifted as lifted_module
from invlift.lift.targets.lifted import MAX_DENSE, LiftedPosterior
from invlift.models.base import JaxFunction
from invlift.noise import gaussian_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.samplers.constrained.retractions import CURVATURE_TOLERANCE, RETRACTIONS
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels import ConstrainedHMC
from invlift.unknowns.distributions import lognormal

INTEGRATOR = ConstrainedHMC().integrator
NUM_OBSERVATIONS = MAX_DENSE + 1


def build():
    """A mildly curved map of more unknowns than observations, and a position above a draw."""
    rng = np.random.default_rng(8)
    size = NUM_OBSERVATIONS + 20
    prior = CorrelatedPrior(jnp.zeros(size), jnp.asarray(rng.normal(size=(size, size)) / 9))
    matrix = jnp.asarray(0.3 * rng.normal(size=(NUM_OBSERVATIONS, size)) / 9)
    forward, noise = JaxFunction(curved, (matrix,)), gaussian_noise(lognormal(-2.0, 0.5))
    observed = 0.2 * rng.normal(size=NUM_OBSERVATIONS)
    system = LiftedPosterior(inverse_problem(forward, prior, noise, observed))
    theta = 0.5 * rng.normal(size=system.problem.num_unknowns)
    return system, jax.jit(system.lift)(theta)


@pytest.fixture(scope="module")
def case():
    system, position = build()
    return system, *displaced(system, position)


def with_dense_solves(monkeypatch, function, *arguments):
    monkeypatch.setattr(lifted_module, "MAX_DENSE", NUM_OBSERVATIONS)
    return jax.jit(function)(*arguments)


def displaced(system, position):
    """A point, and a position off the manifold a long step away."""

    @jax.jit
    def displace(system, position):
        point = system.point(position)
        momentum = sample_momentum(system, jax.random.key(2), point)
        return point, jnp.cos(0.4) * position + jnp.sin(0.4) * momentum

    return displace(system, position)


def test_step_in_the_normal_space_is_that_of_dense_solves(case, monkeypatch):
    system, point, origin = case

    def step(system, point, origin):
        space = system.on_normal_space(point, origin)
        correct = RETRACTIONS["chebyshev"].correct
        return correct(system, point, space, jnp.zeros(NUM_OBSERVATIONS))[0]

    found = jax.jit(step)(system, point, origin)
    # Negative control: one product with the matrix is too few.
    monkeypatch.setattr(lifted_module, "MAX_KRYLOV", 1)
    poor = jax.jit(lambda *arguments: step(*arguments))(system, point, origin)
    expected = with_dense_solves(monkeypatch, lambda *args: step(*args), system, point, origin)
    scale = np.abs(expected).max()
    # The correction for curvature, which is solved for less accurately, is a small part.
    tolerance = 0.1 * CURVATURE_TOLERANCE * scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    assert np.abs(poor - expected).max() > 10 * tolerance


@pytest.mark.slow
def test_integrator_step_is_that_of_dense_solves_and_returns(case, monkeypatch):
    system, point, _ = case
    start = jax.jit(
        lambda system, point: build_state(point, sample_momentum(system, jax.random.key(3), point))
    )(system, point)

    def step(system, start):
        return constrained_step(INTEGRATOR, system, start, 0.3)

    compiled = jax.jit(step)
    end = compiled(system, start)
    back = compiled(system, end._replace(momentum=-end.momentum))
    assert back.num_failures == 0
    assert jnp.max(jnp.abs(end.position - start.position)) > 0.1
    np.testing.assert_allclose(back.position, start.position, rtol=0, atol=1e-8)
    np.testing.assert_allclose(back.momentum, -start.momentum, rtol=0, atol=1e-7)
    dense = with_dense_solves(monkeypatch, lambda *args: step(*args), system, start)
    np.testing.assert_allclose(end.position, dense.position, rtol=0, atol=1e-8)
    assert abs(int(end.work[0]) - int(dense.work[0])) <= 1


def test_normal_moves_keep_their_digits_where_readings_move_much():
    """J^T (J J^T)^-1 c of J = [U | I] with columns U a hundred thousand times the identity's."""
    rng = np.random.default_rng(4)
    columns = 1e5 * rng.normal(size=(50, 3)) * np.array([1.0, 0.1, 0.01])
    violation = columns @ rng.normal(size=3)
    jacobian = BorderedJacobian((jnp.asarray(columns.T),), DiagonalJacobian(jnp.ones(50)))
    move = jacobian.apply_transpose(jacobian.inner().solve(jnp.asarray(violation)))
    # By the orthogonal factor of J^T, which does not square the condition number.
    orthogonal, triangular = np.linalg.qr(np.concatenate([columns, np.eye(50)], axis=1).T)
    exact = orthogonal @ np.linalg.solve(triangular.T, violation)
    assert np.abs(move - exact)[:3].max() < 1e-6
