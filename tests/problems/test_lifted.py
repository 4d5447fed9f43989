"""The lifted posterior against dense automatic differentiation; products are in the contract."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inverse_cases import CASES

from invlift.programs.derivatives import derivatives_along


class Lifted:
    """A case at one position on its manifold, with its dense counterparts."""

    def __init__(self, name):
        self.system = system = CASES[name]()
        size = system.problem.num_unknowns
        rng = np.random.default_rng(5)
        self.theta = 0.5 * rng.normal(size=size)
        self.position = jax.jit(system.lift)(self.theta)
        self.direction = rng.normal(size=self.position.shape)
        self.multiplier = 0.1 * rng.normal(size=system.problem.num_observations)
        self.point = jax.jit(system.point)

        @jax.jit
        def dense(position):
            """Constraint, its Jacobian and the gradient of the log density, by differentiation."""
            jacobian = jax.jacfwd(system.constraint)

            def logdensity(position):
                gram = jacobian(position) @ jacobian(position).T
                return -0.5 * jnp.linalg.slogdet(gram)[1]

            found = system.constraint(position), jacobian(position), jax.grad(logdensity)(position)
            return (*found, logdensity(position))

        self.dense = dense
        self.jacobian = np.asarray(dense(self.position)[1])

    def off(self):
        """A place off the manifold, and that with the multiplier's move in the normal space."""
        origin = self.position + 0.05 * self.direction
        return origin, origin - self.multiplier @ self.jacobian


@pytest.fixture(scope="module", params=CASES)
def lifted(request):
    return Lifted(request.param)


def test_point_equals_automatic_differentiation(lifted):
    point = lifted.point(lifted.position)
    constraint, _, grad, logdensity = lifted.dense(lifted.position)
    np.testing.assert_array_equal(lifted.position[: lifted.theta.size], lifted.theta)
    assert lifted.position.shape == (lifted.system.dimension,)
    np.testing.assert_allclose(constraint, 0.0, atol=1e-14)
    np.testing.assert_allclose(point.logdensity, logdensity, rtol=1e-12)
    np.testing.assert_allclose(point.logdensity_grad, grad, rtol=1e-9, atol=1e-11)
    # Off the manifold the constraint is that of the point as well.
    position = lifted.position + 0.1 * lifted.direction
    value = lifted.dense(position)[0]
    assert np.max(np.abs(value)) > 1e-3
    np.testing.assert_allclose(lifted.point(position).constraint, value, rtol=1e-13, atol=1e-14)


def test_derivatives_along_a_curve_in_the_normal_space_equal_dense_ones(lifted):
    origin, moved = lifted.off()
    rng = np.random.default_rng(8)
    velocity, bend = rng.normal(size=(2, *lifted.multiplier.shape))

    @jax.jit
    def found_and_expected(multiplier):
        space = lifted.system.on_normal_space(lifted.point(lifted.position), origin)
        local = space.linearise(multiplier)
        second, lower = local.derivative((velocity,), ())
        third, _ = local.derivative((velocity, bend), lower)
        along = derivatives_along(
            lambda multiplier: lifted.system.constraint(origin - multiplier @ lifted.jacobian),
            (multiplier, velocity, bend, jnp.zeros_like(bend)),
        )
        return second, third, along[2], along[3]

    second, third, *expected = found_and_expected(lifted.multiplier)
    # That of second order contains the bend, which the other leaves to the solve.
    matrix = lifted.dense(moved)[1] @ lifted.jacobian.T
    np.testing.assert_allclose(second, expected[0] + matrix @ bend, rtol=1e-9, atol=1e-11)
    if lifted.system.problem.prior.is_affine:  # of other priors the second is the last
        np.testing.assert_allclose(third, expected[1], rtol=1e-9, atol=1e-11)
        assert np.abs(third).max() > 1e-3
