"""Riemannian HMC: its integrator keeps volume and can be reversed; metrics and drifts are right."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_density_kernels import TARGET, LinearAndSkewed

from invlift.samplers.kernels import PositionDependentMALA, RiemannianHMC
from invlift.samplers.kernels.reference.metrics import metric_of, softabs
from invlift.samplers.kernels.reference.riemannian import Trajectory, energy

METRICS = ("fisher", pytest.param("softabs", marks=pytest.mark.slow))
POSITION, MOMENTUM = np.array([0.3, -0.4, 0.2]), np.array([0.8, -0.5, 0.9])


class Curved(LinearAndSkewed):
    """The same with a curved valley, so that the metric turns with the position."""

    def loglikelihood(self, theta):
        bent = theta.at[1].add(0.5 * theta[0] ** 2)
        return super().loglikelihood(bent) - 0.5 * jnp.sin(theta[0] * theta[2])

    def metric(self, theta):
        bend = jnp.eye(3).at[1, 0].set(theta[0])
        return jnp.eye(3) + bend.T @ (super().metric(theta) - 0.9 * jnp.eye(3)) @ bend


CURVED = Curved(TARGET.matrix, TARGET.observed)


@partial(jax.jit, static_argnums=0)
def walk(kernel, both, step_size, num_steps):
    """Position and momentum at the end of a trajectory, change of energy, and whether it failed."""
    zero = jnp.asarray(0)
    state = kernel.init(CURVED, both[:3])
    start = Trajectory(state, both[3:], zero, zero, jnp.asarray(False))
    end = jax.lax.fori_loop(
        0, num_steps, lambda _, now: kernel.advance(CURVED, now, step_size), start
    )
    both = jnp.concatenate([end.state.position, end.momentum])
    return both, energy(end) - energy(start), end.has_failed


@pytest.mark.parametrize("metric", METRICS)
def test_a_step_backwards_returns_and_volume_is_kept(metric):
    kernel = RiemannianHMC(metric=metric)

    def flow(both, step_size=0.15):
        return np.asarray(walk(kernel, both, step_size, 1)[0])

    start = np.concatenate([POSITION, MOMENTUM])
    end = flow(start)
    assert np.abs(end - start).max() > 0.1
    np.testing.assert_allclose(flow(end, -0.15), start, atol=1e-8)
    reversed_end = np.concatenate([end[:3], -end[3:]])
    np.testing.assert_allclose(flow(reversed_end)[:3], start[:3], atol=1e-8)
    moves = 1e-5 * np.eye(6)
    differences = [(flow(start + move) - flow(start - move)) / 2e-5 for move in moves]
    jacobian = np.stack(differences, axis=1)
    np.testing.assert_allclose(np.linalg.det(jacobian), 1.0, atol=1e-6)
    # Negative control: the explicit leapfrog method in the metric of the start does not keep it.
    assert abs(np.linalg.det(explicit_jacobian(kernel)) - 1.0) > 1e-3


def explicit_jacobian(kernel):
    def flow(both):
        metric = metric_of(CURVED, kernel.metric)
        position, momentum = both[:3], both[3:]
        moved = position + 0.15 * jnp.linalg.solve(metric(position), momentum)
        return jnp.concatenate([moved, momentum + 0.15 * jax.grad(CURVED.logdensity)(moved)])

    return jax.jit(jax.jacfwd(flow))(np.concatenate([POSITION, MOMENTUM]))


@pytest.mark.parametrize("metric", METRICS)
def test_energy_is_kept_to_second_order(metric):
    """The error of a trajectory of the same time shrinks by four where steps are halved."""
    kernel, both, errors = RiemannianHMC(metric=metric), np.concatenate([POSITION, MOMENTUM]), []
    for halvings in range(3):
        _, error, has_failed = walk(kernel, both, 0.08 / 2**halvings, 4 * 2**halvings)
        assert not has_failed
        errors.append(abs(float(error)))
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(slopes, 2.0, atol=0.25)


@pytest.mark.parametrize("metric", METRICS)
def test_a_step_without_a_solution_is_reported(metric):
    kernel = RiemannianHMC(metric=metric)
    assert walk(kernel, np.concatenate([POSITION, 3.0 * MOMENTUM]), 3.0, 1)[-1]
    # Negative control.
    assert not walk(kernel, np.concatenate([POSITION, MOMENTUM]), 0.1, 1)[-1]


def test_softabs_of_a_matrix():
    rotation, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))
    values = np.array([-3.0, 0.0, 1e-5, 40.0])
    found = softabs(jnp.asarray(rotation * values @ rotation.T))
    scaled = [3.0 / np.tanh(3.0), 1.0, 1.0, 40.0]
    np.testing.assert_allclose(found, rotation * scaled @ rotation.T, atol=1e-8)


@jax.jit
def softabs_along(matrix, change):
    return jax.jvp(softabs, (matrix,), (change,))


@jax.jit
def gradient_of_softabs(matrix, weights):
    return jax.grad(lambda matrix: jnp.sum(weights * softabs(matrix)))(matrix)


@pytest.mark.parametrize("values", [(-2.0, 0.3, 1.0), (0.0, 0.0, 5.0)])
def test_softabs_is_differentiated_at_any_eigenvalues(values):
    rng = np.random.default_rng(3)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    matrix = rotation * np.array(values) @ rotation.T
    change = rng.normal(size=(3, 3))
    change = change + change.T
    _, found = softabs_along(matrix, change)
    above, below = (softabs_along(matrix + move * change, change)[0] for move in (1e-5, -1e-5))
    differences = np.subtract(above, below) / 2e-5
    np.testing.assert_allclose(found, differences, atol=1e-7)
    weights = rng.normal(size=(3, 3))
    gradient = np.asarray(gradient_of_softabs(matrix, weights))
    np.testing.assert_allclose(np.sum(gradient * change), np.sum(weights * found), rtol=1e-10)


def test_corrected_drift_is_that_of_its_formula():
    @jax.jit
    def derivatives(theta):
        def inverse(theta):
            return jnp.linalg.inv(CURVED.metric(theta))

        by_position, by_inverse = (jax.jacfwd(fn)(theta) for fn in (CURVED.metric, inverse))
        return inverse(theta), by_position, by_inverse, jax.grad(CURVED.logdensity)(theta)

    state = jax.jit(PositionDependentMALA().init)(CURVED, POSITION)
    inverse, by_position, by_inverse, gradient = map(np.asarray, derivatives(POSITION))
    correction = np.einsum("ijk,jk->i", by_position, inverse)
    np.testing.assert_allclose(state.drift, inverse @ (gradient - correction), rtol=1e-9)
    # The diffusion's divergence of the inverse metric, as Xifara et al. (2014) write it.
    divergence = np.einsum("ijj->i", by_inverse)
    np.testing.assert_allclose(-inverse @ correction, divergence, rtol=1e-9)
    # Negative control: it matters here.
    assert np.abs(inverse @ correction).max() > 0.05
