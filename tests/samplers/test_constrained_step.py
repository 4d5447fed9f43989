"""One step of the constrained integrator: volume, rotations, and failures.

That steps return, stay on manifolds and keep the energy is seen by test_integrators.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampler_cases import (
    PLANE,
    TORUS_RADII,
    RelativeDensity,
    flat,
    on_plane,
    on_sphere,
    on_torus,
    skewed,
)

from invlift.projections import project_momentum
from invlift.samplers.constrained import retractions
from invlift.samplers.constrained.retractions import retract
from invlift.samplers.constrained.step import build_state, constrained_step
from invlift.samplers.kernels import ConstrainedHMC
from invlift.targets import LocalConstraint

INTEGRATOR = ConstrainedHMC().integrator


def default_step(system, state, size):
    return constrained_step(INTEGRATOR, system, state, size)


step = jax.jit(default_step)
start_state = jax.jit(
    lambda system, position, momentum: build_state(
        point := system.point(position), project_momentum(system, point, momentum)
    )
)


def energy(state):
    momentum = np.asarray(state.momentum)
    return float(0.5 * momentum @ momentum - np.asarray(state.logdensity))


def straight_up(system, *momentum):
    """At the pole of a sphere."""
    return start_state(system, np.array([0.0, 0.0, 1.0]), np.array(momentum))


@pytest.mark.parametrize("size", [0.01, 0.5, 1.5, -0.8])
def test_linear_constraint_is_followed_exactly_at_any_step_size(size):
    """The flow is a rotation about the point of the plane that is nearest to the origin."""
    system = RelativeDensity(on_plane, flat)
    centre = np.linalg.pinv(PLANE) @ np.array([0.7, -0.4])
    rng = np.random.default_rng(0)
    tangent = np.eye(5) - np.linalg.pinv(PLANE) @ PLANE
    position, momentum = centre + tangent @ rng.normal(size=5), tangent @ rng.normal(size=5)
    state = start_state(system, position, momentum)
    start = state
    for index in range(1, 4):
        state = step(system, state, size)
        cosine, sine = np.cos(index * size), np.sin(index * size)
        expected = centre + cosine * (position - centre) + sine * momentum
        np.testing.assert_allclose(state.position, expected, atol=1e-12)
        expected = cosine * momentum - sine * (position - centre)
        np.testing.assert_allclose(state.momentum, expected, atol=1e-12)
        np.testing.assert_allclose(energy(state), energy(start), rtol=1e-13)
    assert state.num_failures == 0


def torus_point(angles):
    large, small = TORUS_RADII
    ring = large + small * jnp.cos(angles[1])
    return jnp.stack(
        [ring * jnp.cos(angles[0]), ring * jnp.sin(angles[0]), small * jnp.sin(angles[1])]
    )


def torus_angles(position):
    large, _ = TORUS_RADII
    ring = jnp.hypot(position[0], position[1]) - large
    return jnp.stack([jnp.arctan2(position[1], position[0]), jnp.arctan2(position[2], ring)])


def volume_factor(step_fn):
    """Determinant of a step on the torus in canonical coordinates: angles and their momenta."""
    system = RelativeDensity(on_torus, skewed)

    @jax.jit
    def step_in_coordinates(canonical):
        tangent = jax.jacfwd(torus_point)(canonical[:2])
        momentum = tangent @ jnp.linalg.solve(tangent.T @ tangent, canonical[2:])
        state = build_state(system.point(torus_point(canonical[:2])), momentum)
        end = step_fn(system, state, 0.2)
        angles = torus_angles(end.position)
        covector = jax.jacfwd(torus_point)(angles).T @ end.momentum
        return jnp.concatenate([angles, covector]), end.num_failures

    start, width = jnp.asarray([0.4, 1.1, 0.9, -0.5]), 1e-4
    columns = []
    for direction in np.eye(4):
        ahead, failures_ahead = step_in_coordinates(start + width * direction)
        behind, failures_behind = step_in_coordinates(start - width * direction)
        assert (failures_ahead, failures_behind) == (0, 0)
        columns.append((ahead - behind) / (2 * width))
    return np.linalg.det(np.stack(columns, axis=1))


def test_volume_is_preserved_on_the_torus():
    np.testing.assert_allclose(volume_factor(default_step), 1.0, atol=1e-5)


def step_without_impulse(system, state, size):
    """Negative control: the rotation forgets what the projection did to the momentum."""
    point, half = state.point, 0.5 * size
    momentum = project_momentum(system, point, state.momentum + half * point.logdensity_grad)
    origin = jnp.cos(size) * point.position + jnp.sin(size) * momentum
    unknown = jnp.full_like(origin, jnp.inf)
    retracted = retract(INTEGRATOR.retraction, system, point, origin, unknown, ends_early=True)
    new_point = system.point(retracted.position)
    rotated = jnp.cos(size) * momentum - jnp.sin(size) * point.position
    kicked = project_momentum(system, new_point, rotated) + half * new_point.logdensity_grad
    return build_state(new_point, project_momentum(system, new_point, kicked))


def test_volume_is_not_preserved_by_a_wrong_step():
    assert abs(volume_factor(step_without_impulse) - 1.0) > 1e-3


def assert_failed(state, before):
    assert state.logdensity == -jnp.inf
    np.testing.assert_array_equal(state.position, before.position)
    np.testing.assert_array_equal(state.momentum, before.momentum)
    assert state.num_failures == before.num_failures + 1
    assert state.work[0] > before.work[0]
    for leaf in jax.tree.leaves(state):
        assert not np.any(np.isnan(leaf))


def test_projection_without_solution_is_a_failed_step():
    """A fast momentum carries the rotated position beyond every line normal to the start."""
    system = RelativeDensity(on_sphere, flat)
    slow, fast = straight_up(system, 1.0, 0.0, 0.0), straight_up(system, 30.0, 0.0, 0.0)
    assert step(system, slow, 0.5).num_failures == 0
    failed = step(system, fast, 0.5)
    assert_failed(failed, fast)
    assert step(system, failed, 0.5).num_failures == 2  # counted along a trajectory


def test_constraint_that_is_not_finite_is_a_failed_step():
    def nan_on_one_side(position):
        return jnp.where(position[0] < 0.5, on_sphere(position), jnp.nan)

    system = RelativeDensity(nan_on_one_side, flat)
    away, into = straight_up(system, -1.0, 0.2, 0.0), straight_up(system, 1.0, 0.2, 0.0)
    assert step(system, away, 0.8).num_failures == 0
    assert_failed(step(system, into, 0.8), into)


class SphereWithAFarRoot(RelativeDensity):
    """A solver that prefers the farther of two roots in the normal space of points with x > 0.1."""

    def on_normal_space(self, point, origin):
        normal = point.jacobian.entries[0]
        square, mixed = normal @ normal, normal @ origin
        root = jnp.sqrt(mixed**2 - square * (origin @ origin - 1.0))
        near, far = (mixed - root) / square, (mixed + root) / square
        return Goal(jnp.where(point.position[0] > 0.1, far, near)[None])


def straight(path, lower):
    return jnp.zeros_like(path[0]), lower


class Goal(NamedTuple):
    """A constraint that is linear along a normal space, with its root."""

    root: jax.Array
    max_derivative = 2

    def linearise(self, multiplier):
        return LocalConstraint(self.root - multiplier, lambda rhs, _: rhs, straight)


def test_solver_that_prefers_another_root_on_the_way_back_is_caught(monkeypatch):
    system = SphereWithAFarRoot(on_sphere, flat)
    state = straight_up(system, 1.0, 0.2, 0.0)
    for is_caught in (True, False):
        if not is_caught:
            monkeypatch.setattr(retractions, "REVERSIBILITY_TOLERANCE", jnp.inf)
        step = jax.jit(lambda state, size: default_step(system, state, size))
        # Backwards in time the solver behaves; forwards it only passes without the check.
        for size in (-0.4, 0.4):
            end = step(state, size)
            if size > 0 and is_caught:
                assert_failed(end, state)
            else:
                assert end.num_failures == 0
                assert abs(np.sum(np.asarray(end.position) ** 2) - 1.0) < 1e-10
