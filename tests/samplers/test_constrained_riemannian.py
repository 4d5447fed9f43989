"""Constrained Riemannian HMC: its steps, their way back, and moments on spheres and Stiefel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked

import invlift
from invlift.lift.targets.manifold import ManifoldTarget
from invlift.programs.compilation import Program
from invlift.programs.pytrees import Module
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
SPREAD = 0.8 * np.eye(6) + np.outer(np.sin(np.arange(6.0)), np.sin(np.arange(6.0)))
DENSE = problem(invlift.stiefel(3, 2), LINEAR, lambda x, data: jnp.linalg.inv(SPREAD))


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


class Stretched(ManifoldTarget):
    """Another target in coordinates x, q = L x.

    By the co-area formula the density with respect to the measure of {x : c(L x) = 0} is that of q
    times (det C C^T / det C L L^T C^T)^(1/2).
    """

    target: Module
    factor: jax.Array

    def constraint(self, position):
        return self.target.constraint(self.factor @ position)

    def logdensity(self, position, gram):
        moved = self.factor @ position
        own = self.target.linearise(moved)[1].inner()
        relative = self.target.logdensity(moved, own) - 0.5 * moved @ moved
        volume = 0.5 * own.log_determinant() - 0.5 * gram.log_determinant()
        return relative + volume + 0.5 * position @ position


@pytest.mark.slow
def test_a_mass_matrix_is_a_linear_change_of_coordinates():
    factor = jnp.linalg.cholesky(SPREAD)
    first, end, change = walk("own", DENSE, START, MOMENTUM, 0.2, 3)
    stretched = Stretched(STIEFEL, factor)
    position, momentum = jnp.linalg.solve(factor, START), factor.T @ first.momentum
    _, other, same = walk("diagonal", stretched, position, momentum, 0.2, 3, jnp.ones(6))
    np.testing.assert_allclose(factor @ other.state.point.position, end.state.point.position)
    np.testing.assert_allclose(same, change, atol=1e-9)
    # Negative control: the determinants are not constant here.
    assert abs(end.state.potential - first.state.potential) > 1e-3


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


def stiefel_moments(linear=LINEAR, num=40):
    """Means of the entries of X and of their squares, by quadrature over rotations.

    A pair of orthonormal vectors of R^3 is two columns of one rotation: Euler angles, the measure
    sin(b) da db dg.
    """
    around = 2.0 * np.pi * np.arange(num) / num
    nodes, weights = np.polynomial.legendre.leggauss(num)
    a, cosine, g = np.meshgrid(around, nodes, around, indexing="ij")
    sine = np.sqrt(1.0 - cosine**2)
    first = [
        np.cos(a) * cosine * np.cos(g) - np.sin(a) * np.sin(g),
        np.sin(a) * cosine * np.cos(g) + np.cos(a) * np.sin(g),
        -sine * np.cos(g),
    ]
    second = [
        -np.cos(a) * cosine * np.sin(g) - np.sin(a) * np.cos(g),
        -np.sin(a) * cosine * np.sin(g) + np.cos(a) * np.cos(g),
        sine * np.sin(g),
    ]
    entries = np.stack([np.stack(first), np.stack(second)], axis=1).reshape(6, -1)
    mass = np.exp(linear.ravel() @ entries) * np.broadcast_to(weights[:, None], a.shape).ravel()
    mass /= mass.sum()
    return np.concatenate([entries @ mass, entries**2 @ mass])


def drawn(target, kernel, features, draws):
    run = invlift.sample(target, kernel, chains=4, warmup=300, draws=draws, seed=4)
    return features(stacked(run, "x"))


def of_sphere(x):
    products = x[..., :, None] * x[..., None, :]
    return np.concatenate([x, products[(..., *np.triu_indices(3))]], axis=-1)


def of_stiefel(x):
    flat = x.reshape(*x.shape[:2], -1)
    return np.concatenate([flat, flat**2], axis=-1)


CASES = {
    "sphere": (SPHERE, of_sphere, sphere_moments),
    "stiefel": (STIEFEL, of_stiefel, stiefel_moments),
}


@pytest.mark.slow  # a program for each
@pytest.mark.parametrize(("name", "metric"), [("sphere", "own"), ("stiefel", "diagonal")])
def test_moments_of_von_mises_fisher_densities(name, metric):
    target, features, exact = CASES[name]
    found = drawn(target, ConstrainedRiemannianHMC(metric=metric), features, 1500)
    assert_mean_within(found, exact())


def test_moments_by_quadrature_are_those_without_a_density():
    """Of a column alone the density is that on the sphere."""
    found = stiefel_moments(LINEAR * [1.0, 0.0])[:6].reshape(3, 2)
    size = np.linalg.norm(LINEAR[:, 0])
    mean = (1.0 / np.tanh(size) - 1.0 / size) * LINEAR[:, 0] / size
    np.testing.assert_allclose(found, np.stack([mean, 0.0 * mean], axis=1), atol=1e-12)


@pytest.mark.slow
def test_moments_are_wrong_without_the_determinants(monkeypatch):
    """Negative control."""
    monkeypatch.setattr(crmhmc, "_log_root", lambda matrix: 0.0 * matrix[0, 0])
    target, features, exact = CASES["sphere"]

    class WithoutDeterminants(ConstrainedRiemannianHMC, settings=True):
        """Of another class, so that no compiled program is at hand."""

    found = drawn(target, WithoutDeterminants(metric="own"), features, 1500)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(found, exact())
