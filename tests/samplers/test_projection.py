"""Projection onto the manifold against roots known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampler_cases import (
    SEMI_AXES,
    RelativeDensity,
    flat,
    on_ellipse,
    on_sphere,
    on_torus,
)

from invlift.lift.targets.manifold import ManifoldNormalSpace
from invlift.projections import project_momentum
from invlift.samplers.constrained.retractions import RETRACTIONS, retract

CHEBYSHEV = RETRACTIONS["chebyshev"]


@jax.jit
def project(system, position, origin, expected=np.inf):
    expected = jnp.broadcast_to(expected, origin.shape)
    return retract(CHEBYSHEV, system, system.point(position), origin, expected, ends_early=True)


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


@pytest.mark.parametrize(
    ("constraint_fn", "metric"),
    [(on_sphere, np.ones(3)), (on_ellipse, 1 / np.array(SEMI_AXES[:2]) ** 2)],
    ids=["sphere", "ellipse"],
)
def test_projection_finds_the_nearest_root(constraint_fn, metric):
    system = RelativeDensity(constraint_fn, flat)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        position = rng.normal(size=metric.size)
        position /= np.sqrt(position @ (metric * position))
        origin = position + 0.2 * rng.normal(size=metric.size)
        projection = project(system, position, origin)
        multiplier = nearest_root(metric, position, origin)
        assert projection.is_converged
        np.testing.assert_allclose(projection.multiplier, [multiplier], rtol=1e-10, atol=1e-13)
        expected = origin - multiplier * 2 * metric * position
        np.testing.assert_allclose(projection.position, expected, rtol=1e-11, atol=1e-12)
        found = np.asarray(projection.position)
        assert abs(found @ (metric * found) - 1.0) < 1e-10


class WithThirdDerivative(ManifoldNormalSpace):
    """Which costs more than it saves here, as it is made by automatic differentiation."""

    max_derivative = 3


@pytest.mark.parametrize("order", [3, 4])
def test_order_of_convergence(order):
    """Each error is about that power of the last."""
    space_class = WithThirdDerivative if order == 4 else ManifoldNormalSpace
    system = RelativeDensity(on_torus, flat)
    rough = np.array([1.2, 1.5, 0.3])
    position = project(system, rough, rough).position

    @jax.jit
    def error(system, position, size):
        point = system.point(position)
        tangent = project_momentum(system, point, jnp.asarray([0.5, -0.4, 0.7]))
        origin = position + size * tangent
        root = project(system, position, origin).multiplier
        off = root + 0.05 * size
        space = space_class(*system.on_normal_space(point, origin))
        step, _ = CHEBYSHEV.correct(system, point, space, off)
        return jnp.abs(off + step - root)[0]

    sizes = np.geomspace(0.05, 0.4, 6)
    errors = [float(error(system, position, size)) for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert order - 0.3 < slope < order + 0.7


def test_expected_limit_is_recognised_early_and_another_is_not():
    system = RelativeDensity(on_sphere, flat)
    position, origin = np.array([0.0, 1.0, 0.0]), np.array([0.6, 1.1, 0.0])
    whole = project(system, position, origin)
    assert whole.is_converged
    assert not whole.is_expected
    early = project(system, position, origin, whole.position)
    assert early.is_expected
    assert early.work[0] < whole.work[0]
    other_root = np.asarray(whole.position) * [1.0, -1.0, 1.0]
    late = project(system, position, origin, other_root)
    assert late.is_converged
    assert not late.is_expected


def test_projected_momentum_is_tangent_and_the_rest_is_normal():
    system, momentum = RelativeDensity(on_ellipse, flat), np.array([0.3, -1.1])
    position = np.array([2.0 * np.cos(0.7), np.sin(0.7)])
    normal = position / np.array(SEMI_AXES[:2]) ** 2

    @jax.jit
    def projected(momentum):
        return project_momentum(system, system.point(position), momentum)

    tangent = np.asarray(projected(momentum))
    np.testing.assert_allclose(normal @ tangent, 0.0, atol=1e-14)
    removed = momentum - tangent
    np.testing.assert_allclose(removed[0] * normal[1], removed[1] * normal[0], atol=1e-14)
    assert np.linalg.norm(removed) > 1e-2
    np.testing.assert_allclose(projected(tangent), tangent, atol=1e-14)
