"""The examples of implicit manifolds: samplers against quadrature, and against a closed form."""

import importlib.util
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within

from invlift.problems.manifolds.manifold_problem import manifold_problem
from invlift.programs.compilation import Program
from invlift.samplers.constrained.retractions import RETRACTIONS

FOLDER = Path(__file__).parents[1] / "examples" / "implicit_manifolds"


def script(name):
    """A script of the example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bvmf, subspace = script("bingham_von_mises_fisher"), script("linear_subspace")
draw_slowly = Program(bvmf._draw, "none")


@pytest.fixture(scope="module")
def samplers():
    """By name; the retraction that suits spheres alone is forgotten in the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RETRACTIONS, "radial", bvmf.RADIAL)
        yield bvmf.build_samplers()


def quantities(target, kernel, num_draws, seed=3):
    sampled = bvmf.run_sampler(
        kernel, target, 16, num_draws, seed, program=draw_slowly, num_timings=1
    )
    return np.concatenate([sampled.positions, sampled.logdensity[..., None]], axis=-1)


@pytest.mark.parametrize(("spread", "size"), [(3.0, 2.0), (0.5, 4.0), (12.0, 0.3)])
def test_means_by_contour_integral_are_those_by_quadrature(spread, size):
    target = bvmf.random_target(3, spread, size, seed=7)
    exact = bvmf.quadrature_means(target)
    np.testing.assert_allclose(bvmf.exact_means(target), exact, atol=1e-11)
    # Negative control: another matrix.
    other = bvmf.exact_means(bvmf.random_target(3, 1.1 * spread, size, seed=7))
    assert np.max(np.abs(other - exact)) > 1e-3


def test_the_posters_mean_is_that_of_its_parameters():
    """Of the six figures on the poster four are within 0.1, the others within 0.4."""
    exact = bvmf.exact_means(bvmf.poster_target())[-1]
    poster = [mean for mean, *_ in bvmf.POSTER.values()]
    assert sum(abs(mean - exact) < 0.1 for mean in poster) == 4
    assert max(abs(mean - exact) for mean in poster) < 0.4


@pytest.mark.parametrize(("method", "num_draws"), [("CHMC (L = 3)", 1_000), ("Gibbs", 500)])
def test_samplers_on_the_sphere(samplers, method, num_draws):
    target = bvmf.random_target(*bvmf.SPHERE_2)
    drawn = quantities(target, samplers[method], num_draws)
    assert_mean_within(drawn, bvmf.quadrature_means(target))
    np.testing.assert_allclose(np.sum(drawn[..., :3] ** 2, axis=-1), 1.0, atol=1e-12)
    # Negative control: means with another matrix.
    linear, quadratic = np.asarray(target.linear), np.asarray(target.quadratic)
    other = bvmf.build_target(linear, 1.2 * quadratic)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(drawn, bvmf.quadrature_means(other))


def test_closed_form_gives_the_draws_of_the_two_functions(samplers):
    """The general target with its factorisations and another retraction takes the same steps."""
    target = bvmf.random_target(*bvmf.SPHERE_2)

    def on_sphere(position):
        return 0.5 * (position @ position - jnp.ones(1))

    def log_density(position):
        return target.linear @ position + position @ target.quadratic @ position

    kernel = samplers["CHMC (L = 2)"]
    generic = type(kernel)(num_steps=2, splitting="stormer-verlet")
    keys, start = jax.random.split(jax.random.key(2), (1, 20)), np.array([[0.6, 0.0, 0.8]])
    closed, *_ = draw_slowly(kernel, target, keys, start, np.array([0.4]))
    dense, *_ = draw_slowly(
        generic,
        manifold_problem(on_sphere, log_density, {"position": (3,)}),
        keys,
        start,
        np.array([0.4]),
    )
    np.testing.assert_allclose(closed, dense, atol=1e-8)
    assert np.max(np.ptp(closed, axis=1)) > 0.5


@pytest.fixture(scope="module")
def in_the_subspace():
    problem = subspace.random_problem()
    positions, _ = subspace.draw(problem, subspace.KERNELS["CHMC (L = 3)"], 1_500)
    return problem, positions


def test_moments_in_a_linear_subspace(in_the_subspace):
    problem, positions = in_the_subspace
    drawn = subspace.features(positions, problem.moments()[0])
    assert_mean_within(drawn, subspace.exact_features(problem))
    np.testing.assert_allclose(positions @ problem.matrix.T - problem.offset, 0.0, atol=1e-9)


def test_moments_in_another_subspace_are_different(in_the_subspace):
    """Negative controls: means with another offset, covariances without the constraints."""
    problem, positions = in_the_subspace
    shifted = problem._replace(offset=problem.offset + 0.2)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(positions, shifted.moments()[0])
    exact = subspace.exact_features(problem)
    exact[subspace.DIMENSION :] = problem.covariance[np.triu_indices(subspace.DIMENSION)]
    drawn = subspace.features(positions, problem.moments()[0])
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(drawn, exact)


def test_restriction_is_the_limit_of_exact_readings():
    """The closed form against regression on readings of almost no noise."""
    problem = subspace.random_problem()
    precision = np.linalg.inv(problem.covariance) + 1e8 * problem.matrix.T @ problem.matrix
    covariance = np.linalg.inv(precision)
    pulled = np.linalg.solve(problem.covariance, problem.mean)
    mean = covariance @ (pulled + 1e8 * problem.matrix.T @ problem.offset)
    for found, expected in zip(problem.moments(), (mean, covariance), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
