"""The lifted posterior against dense automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inverse_cases import CASES
from taylor import assert_taylor_second_order, taylor_slope

from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.programs.derivatives import derivatives_along
from invlift.samplers.constrained.retractions import RETRACTIONS


class Lifted:
    """A case at one position on its manifold, with its dense counterparts."""

    def __init__(self, name):
        self.system = CASES[name]()
        size = self.system.problem.num_unknowns
        rng = np.random.default_rng(5)
        self.theta = jnp.asarray(0.5 * rng.normal(size=size))
        self.position = jax.jit(self.system.lift)(self.theta)
        self.direction = jnp.asarray(rng.normal(size=self.position.shape))
        self.multiplier = jnp.asarray(0.1 * rng.normal(size=self.system.problem.num_observations))
        self.constraint = jax.jit(self.system.constraint)
        self.jacobian_fn = jax.jit(jax.jacrev(self.system.constraint))
        self.point_fn = jax.jit(self.system.point)
        self.point = self.point_fn(self.position)
        self.jacobian = self.jacobian_fn(self.position)
        matrix = np.asarray(self.jacobian)
        self.gram = matrix @ matrix.T
        self.apply = jax.jit(self.system.apply_jacobian)


@pytest.fixture(scope="module", params=CASES)
def lifted(request):
    return Lifted(request.param)


def test_lift_lands_on_the_manifold_above_theta(lifted):
    np.testing.assert_allclose(lifted.constraint(lifted.position), 0.0, atol=1e-14)
    np.testing.assert_array_equal(lifted.position[: lifted.theta.size], lifted.theta)
    assert lifted.position.shape == (lifted.system.dimension,)


def test_point_and_constraint_agree_off_the_manifold(lifted):
    position = lifted.position + 0.1 * lifted.direction
    value = lifted.constraint(position)
    assert jnp.max(jnp.abs(value)) > 1e-3
    np.testing.assert_allclose(lifted.point_fn(position).constraint, value, rtol=1e-13, atol=1e-14)


def test_jacobian_equals_automatic_differentiation(lifted):
    apply = jax.jit(jax.vmap(lifted.system.apply_jacobian, (None, 1), 1))
    columns = apply(lifted.point, np.eye(lifted.system.dimension))
    np.testing.assert_allclose(columns, lifted.jacobian, rtol=1e-12, atol=1e-13)


def test_jacobian_passes_the_taylor_test(lifted):
    derivative = lifted.apply(lifted.point, lifted.direction)
    assert_taylor_second_order(lifted.constraint, derivative, lifted.position, lifted.direction)


def test_jacobian_and_its_transpose_are_adjoint(lifted):
    forward = lifted.apply(lifted.point, lifted.direction)
    transpose = jax.jit(lifted.system.apply_jacobian_transpose)
    backward = transpose(lifted.point, lifted.multiplier)
    np.testing.assert_allclose(forward @ lifted.multiplier, lifted.direction @ backward, rtol=1e-13)


def test_gram_solve_equals_the_dense_solve(lifted):
    np.testing.assert_allclose(
        jax.jit(lifted.system.solve_gram)(lifted.point, lifted.multiplier),
        np.linalg.solve(lifted.gram, lifted.multiplier),
        rtol=1e-10,
    )


def test_logdensity_is_minus_half_the_log_determinant(lifted):
    expected = -0.5 * np.linalg.slogdet(lifted.gram)[1]
    np.testing.assert_allclose(lifted.point.logdensity, expected, rtol=1e-12)


def test_gradient_of_the_logdensity_equals_automatic_differentiation(lifted):
    def dense(position):
        jacobian = jax.jacfwd(lifted.system.constraint)(position)
        return -0.5 * jnp.linalg.slogdet(jacobian @ jacobian.T)[1]

    expected = jax.jit(jax.grad(dense))(lifted.position)
    np.testing.assert_allclose(lifted.point.logdensity_grad, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradient_of_the_logdensity_passes_the_taylor_test(lifted, seed):
    direction = jnp.asarray(np.random.default_rng(seed).normal(size=lifted.position.shape))
    direction /= jnp.linalg.norm(direction)
    logdensity_fn = lambda position: lifted.point_fn(position).logdensity  # noqa: E731
    derivative = lifted.point.logdensity_grad @ direction
    assert_taylor_second_order(logdensity_fn, derivative, lifted.position, direction)
    # Negative control: a gradient one per cent off has a remainder of first order.
    slope = taylor_slope(logdensity_fn, derivative + 0.3, lifted.position, direction)
    assert slope < 1.2


def dense_curvature(lifted, position, direction):
    hessian = jax.jit(jax.jacfwd(lifted.jacobian_fn))(position)
    return np.einsum("dij,i,j->d", hessian, direction, direction)


@pytest.mark.parametrize("order", [1, 2])
def test_step_in_the_normal_space_equals_the_dense_one(lifted, order, monkeypatch):
    """By two more values with Newton's matrix, or by the second derivative."""
    monkeypatch.setattr(type(lifted.system.problem.model), "max_derivative", order)
    origin = lifted.position + 0.05 * lifted.direction
    correct = RETRACTIONS["chebyshev"].correct

    @jax.jit
    def step_from(multiplier):
        space = lifted.system.on_normal_space(lifted.point, origin)
        return correct(lifted.system, lifted.point, space, multiplier)[0]

    step = step_from(lifted.multiplier)
    moved = origin - lifted.multiplier @ lifted.jacobian
    matrix = lifted.jacobian_fn(moved) @ lifted.jacobian.T
    expected = np.linalg.solve(matrix, lifted.constraint(moved))
    if order == 1:
        for _ in range(2):
            there = moved - expected @ lifted.jacobian
            expected = expected + np.linalg.solve(matrix, lifted.constraint(there))
    else:
        curvature = dense_curvature(lifted, moved, expected @ lifted.jacobian)
        expected = expected + np.linalg.solve(matrix, 0.5 * curvature)
    np.testing.assert_allclose(step, expected, rtol=1e-9)


def test_derivatives_along_a_curve_in_the_normal_space_equal_dense_ones(lifted):
    origin = lifted.position + 0.05 * lifted.direction
    rng = np.random.default_rng(8)
    velocity, bend = (jnp.asarray(rng.normal(size=lifted.multiplier.shape)) for _ in range(2))

    @jax.jit
    def found_and_expected(multiplier):
        space = lifted.system.on_normal_space(lifted.point, origin)
        local = space.linearise(multiplier)
        second, lower = local.derivative((velocity,), ())
        third, _ = local.derivative((velocity, bend), lower)
        along = derivatives_along(
            lambda multiplier: lifted.system.constraint(origin - multiplier @ lifted.jacobian),
            (multiplier, velocity, bend, jnp.zeros_like(bend)),
        )
        # That of second order contains the bend, which the other leaves to the solve.
        return second, third, along[2] + local_matrix(multiplier) @ bend, along[3]

    def local_matrix(multiplier):
        moved = origin - multiplier @ lifted.jacobian
        return jax.jacfwd(lifted.system.constraint)(moved) @ lifted.jacobian.T

    second, third, *expected = found_and_expected(lifted.multiplier)
    np.testing.assert_allclose(second, expected[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(third, expected[1], rtol=1e-9, atol=1e-11)
    assert np.abs(third).max() > 1e-3


def test_density_on_the_manifold_pushes_forward_to_the_ordinary_posterior(lifted):
    """The area of the graph theta -> (theta, eta) turns one density into the other, exactly."""
    normalisation = 0.5 * lifted.system.problem.num_observations * np.log(2 * np.pi)

    @jax.jit
    def both(theta):
        graph = jax.jacfwd(lifted.system.lift)(theta)
        log_area = 0.5 * jnp.linalg.slogdet(graph.T @ graph)[1]
        position = lifted.system.lift(theta)
        ordinary = OrdinaryPosterior(lifted.system.problem).logdensity(theta)
        lift = lifted.system.point(position).logdensity - 0.5 * position @ position + log_area
        return lift, ordinary

    for factor in (1.0, -0.7):
        lift, ordinary = both(factor * lifted.theta)
        np.testing.assert_allclose(lift, ordinary + normalisation, rtol=1e-11)
