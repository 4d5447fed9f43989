"""Projection onto the manifold against roots known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampler_cases import SEMI_AXES, flat, on_ellipse, on_plane, on_sphere

from invlift.samplers.projection import CONSTRAINT_TOLERANCE, MAX_ITERATIONS, project_position
from invlift.samplers.system import DenseSystem, project_momentum

project = jax.jit(
    lambda system, position, origin: project_position(system, system.point(position), origin)
)


def nearest_root(metric, position, origin):
    """Smallest |lambda| with |origin - 2 lambda A q|_A = 1: a quadratic, A = diag(metric)."""
    normal = 2 * metric * position
    roots = np.roots(
        [
            normal @ (metric * normal),
            -2 * normal @ (metric * origin),
            origin @ (metric * origin) - 1,
        ]
    )
    return roots[np.argmin(np.abs(roots))]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("constraint_fn", "metric"),
    [(on_sphere, np.ones(3)), (on_ellipse, 1 / np.array(SEMI_AXES[:2]) ** 2)],
    ids=["sphere", "ellipse"],
)
def test_projection_finds_the_nearest_root(constraint_fn, metric, seed):
    rng = np.random.default_rng(seed)
    position = rng.normal(size=metric.size)
    position /= np.sqrt(position @ (metric * position))
    origin = position + 0.2 * rng.normal(size=metric.size)
    system = DenseSystem(constraint_fn, flat)
    projection = project(system, jnp.asarray(position), jnp.asarray(origin))
    multiplier = nearest_root(metric, position, origin)
    assert projection.is_converged
    np.testing.assert_allclose(projection.multiplier, [multiplier], rtol=1e-10, atol=1e-13)
    expected = origin - multiplier * 2 * metric * position
    np.testing.assert_allclose(projection.position, expected, rtol=1e-11, atol=1e-12)
    assert np.abs(constraint_fn(projection.position)).max() < CONSTRAINT_TOLERANCE


def test_linear_constraint_is_met_by_the_first_newton_step():
    system = DenseSystem(on_plane, flat)
    origin = jnp.asarray([3.0, -1.0, 2.0, 0.5, -4.0])
    projection = project(system, jnp.zeros(5), origin)
    jacobian = np.asarray(jax.jacrev(on_plane)(origin))
    expected = origin - np.linalg.pinv(jacobian) @ np.asarray(on_plane(origin))
    np.testing.assert_allclose(projection.position, expected, atol=1e-13)
    # The second evaluation only finds that nothing is left to do.
    assert projection.num_evaluations == 2


def test_line_that_misses_the_manifold_is_reported_as_not_converged():
    system = DenseSystem(on_sphere, flat)
    projection = project(system, jnp.asarray([0.0, 1.0, 0.0]), jnp.asarray([1.5, 0.0, 0.0]))
    assert not projection.is_converged
    assert projection.num_evaluations <= MAX_ITERATIONS


def test_constraint_that_is_not_finite_stops_the_search_at_once():
    system = DenseSystem(lambda position: jnp.log(position[:1]), flat)
    projection = project(system, jnp.asarray([1.0, 0.0]), jnp.asarray([-0.5, 0.0]))
    assert not projection.is_converged
    assert projection.num_evaluations < 5


def test_projected_momentum_is_tangent_and_the_rest_is_normal():
    system = DenseSystem(on_ellipse, flat)
    point = system.point(jnp.asarray([2.0 * np.cos(0.7), np.sin(0.7)]))
    momentum = jnp.asarray([0.3, -1.1])
    tangent = project_momentum(system, point, momentum)
    np.testing.assert_allclose(system.apply_jacobian(point, tangent), 0.0, atol=1e-14)
    removed = momentum - tangent
    normal = point.jacobian[0]
    np.testing.assert_allclose(removed[0] * normal[1], removed[1] * normal[0], atol=1e-14)
    assert jnp.linalg.norm(removed) > 1e-2
    np.testing.assert_allclose(project_momentum(system, point, tangent), tangent, atol=1e-14)
