"""Constrained Riemannian HMC: its steps, their way back, and moments on a sphere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked

import invlift
from invlift.programs.compilation import Program
from invlift.samplers.constrained.step import build_state, constrained_step
from invlift.samplers.kernels import ConstrainedRiemannianHMC, FixedConstrainedHMC
from invlift.samplers.kernels import constrained_riemannian as crmhmc

LINEAR = np.array([[1.5, -0.4], [0.3, 2.0], [-0.8, 0.5]])


def von_mises_fisher(x, data):
    return jnp.sum(data * x)


def bent_metric(x, data):
    """Far from constant: its determinant and its eigenvectors change with the position."""
    flat = jnp.ravel(x)
    spread = jnp.diag(1.0 + 3.0 * flat**2 + jnp.sin(3.0 * flat))
    return spread + jnp.outer(flat[::-1], flat[::-1]) + 0.3 * jnp.exp(flat[0]) * jnp.eye(flat.size)


def problem(manifold, linear, metric=bent_metric):
    return invlift.manifold_problem(
        None, von_mises_fisher, {"x": manifold}, np.asarray(linear), metric=metric
    )


STIEFEL = problem(invlift.stiefel(3, 2), LINEAR)
SPHERE = problem(invlift.sphere(3), np.array([0.6, -1.0, 1.6]))
START = np.linalg.qr(np.array([[0.3, 0.8], [-0.5, 0.9], [1.0, 0.2]]))[0].ravel()
MOMENTUM = jnp.asarray([0.5, -0.9, 0.3, 0.8, -0.2, 0.6])
MASS = jnp.asarray([0.5, 1.5, 0.8, 2.0, 1.1, 0.6])


def _walk(kernel, target, mass, position, momentum, step_size, num_steps):
    """A trajectory's first and last state, as one program for all sizes and numbers of steps."""
    inverse = kernel.inverse_metric(target, mass)
    place = crmhmc.evaluate(target, inverse, position)
    zero = jnp.asarray(0)
    start = crmhmc.Trajectory(
        place, crmhmc.project(place, momentum), zero, zero, jnp.asarray(False)
    )
    end = jax.lax.fori_loop(
        0, num_steps, lambda _, now: crmhmc.advance(target, inverse, now, step_size), start
    )
    return start, end, crmhmc.energy(end) - crmhmc.energy(start)


_walk = Program(_walk, "none")


def walk(metric, target, position, momentum, step_size, num_steps, mass=None):
    mass = MASS if mass is None else mass
    kernel = ConstrainedRiemannianHMC(metric=metric)
    return _walk(kernel, target, mass, position, momentum, step_size, num_steps)


@pytest.mark.parametrize("metric", ["diagonal", pytest.param("own", marks=pytest.mark.slow)])
def test_steps_stay_return_and_keep_the_energy_to_second_order(metric):
    start, end, _ = walk(metric, STIEFEL, START, MOMENTUM, 0.1, 5)
    position = end.state.point.position
    assert np.abs(position - START).max() > 0.2
    assert np.abs(end.state.point.constraint).max() < 1e-12
    assert np.abs(end.state.jacobian @ crmhmc.times(end.state.inverse, end.momentum)).max() < 1e-12
    _, back, _ = walk(metric, STIEFEL, position, -end.momentum, 0.1, 5)
    np.testing.assert_allclose(back.state.point.position, START, atol=1e-8)
    np.testing.assert_allclose(back.momentum, -start.momentum, atol=1e-8)
    errors = []
    for halvings in range(3):
        size, num = 0.1 / 2**halvings, 5 * 2**halvings
        _, end, change = walk(metric, STIEFEL, START, MOMENTUM, size, num)
        assert not end.has_failed
        errors.append(abs(float(change)))
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(slopes, 2.0, atol=0.3)


def on_ellipsoid(x, data):
    return (x @ (SQUARES * x) - 1.0)[None]


SQUARES, SLOPE = np.array([1.0, 4.0, 9.0]), np.array([0.6, -1.0, 1.6])


def test_potential_is_that_of_the_density_and_of_volumes_in_the_metric():
    """Where the Gram matrix is another at each position, as it is not on spheres and Stiefel."""
    target = invlift.manifold_problem(
        on_ellipsoid, von_mises_fisher, {"x": (3,)}, SLOPE, metric=bent_metric
    )
    inverse = ConstrainedRiemannianHMC(metric="own").inverse_metric(target, jnp.ones(3))
    potential = jax.jit(lambda position: crmhmc.evaluate(target, inverse, position).potential)
    for position in np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.6, 0.24, 0.64 / 3]]):
        normal, metric = SQUARES * position, np.asarray(bent_metric(position, None))
        across = normal @ np.linalg.solve(metric, normal) / (normal @ normal)
        expected = 0.5 * np.log(across * np.linalg.det(metric)) - SLOPE @ position
        np.testing.assert_allclose(potential(position), expected, rtol=1e-10)


@pytest.mark.slow
def test_in_the_identity_steps_are_those_of_rattle():
    _, end, _ = walk("diagonal", STIEFEL, START, MOMENTUM, 0.2, 3, jnp.ones(6))
    integrator = FixedConstrainedHMC(splitting="stormer-verlet", return_check="exact").integrator

    @Program
    def rattle(target, position, momentum):
        state = build_state(target.point(position), momentum)
        return jax.lax.fori_loop(
            0, 3, lambda _, state: constrained_step(integrator, target, state, 0.2), state
        )

    start, *_ = walk("diagonal", STIEFEL, START, MOMENTUM, 0.2, 0, jnp.ones(6))
    expected = rattle(STIEFEL, START, start.momentum)
    np.testing.assert_allclose(end.state.point.position, expected.position, atol=1e-10)
    np.testing.assert_allclose(end.momentum, expected.momentum, atol=1e-10)
    # Negative control: another mass moves elsewhere.
    _, other, _ = walk("diagonal", STIEFEL, START, MOMENTUM, 0.2, 3, 0.9 * jnp.ones(6))
    assert np.abs(other.state.point.position - expected.position).max() > 1e-3


@pytest.mark.slow
def test_a_step_without_a_solution_is_reported():
    _, end, _ = walk("own", STIEFEL, START, 30.0 * MOMENTUM, 3.0, 1)
    assert end.has_failed


def test_a_target_without_a_metric_is_named():
    bare = problem(invlift.sphere(3), np.ones(3), None)
    inverse = ConstrainedRiemannianHMC(metric="own").inverse_metric(bare, jnp.ones(3))
    with pytest.raises(invlift.InputError, match=r"metric of manifold_problem.*'diagonal'"):
        inverse(jnp.ones(3))


def sphere_moments():
    """Mean and mean of q q^T of exp(b^T q) on S^2, with k = |b| (Mardia & Jupp 2000, 9.3)."""
    linear = np.asarray(SPHERE.data)
    size = np.linalg.norm(linear)
    axis, mean = linear / size, 1.0 / np.tanh(size) - 1.0 / size
    second = np.eye(3) * mean / size + np.outer(axis, axis) * (1.0 - 3.0 * mean / size)
    return np.concatenate([mean * axis, second[np.triu_indices(3)]])


def drawn(kernel):
    run = invlift.sample(SPHERE, kernel, chains=4, warmup=150, draws=600, seed=4)
    x = stacked(run, "x")
    products = x[..., :, None] * x[..., None, :]
    return np.concatenate([x, products[(..., *np.triu_indices(3))]], axis=-1)


@pytest.mark.slow
def test_moments_of_a_von_mises_fisher_density(monkeypatch):
    assert_mean_within(drawn(ConstrainedRiemannianHMC(metric="own")), sphere_moments())
    # Negative control: without the determinants.
    monkeypatch.setattr(crmhmc, "_log_root", lambda matrix: 0.0 * matrix[0, 0])

    class WithoutDeterminants(ConstrainedRiemannianHMC, settings=True):
        """Of another class, so that no compiled program is at hand."""

    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(drawn(WithoutDeterminants(metric="own")), sphere_moments())
