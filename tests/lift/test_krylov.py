"""Conjugate residuals against direct solves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from invlift.lift.jacobians.krylov import conjugate_residuals

SIZE = 40


def near_identity(rng, spread):
    return np.eye(SIZE) + spread * rng.standard_normal((SIZE, SIZE)) / np.sqrt(SIZE)


@jax.jit
def solve(matrix, rhs, tolerance):
    """The solution, from at most SIZE products."""
    return conjugate_residuals(lambda vector: matrix @ vector, rhs, tolerance, SIZE)


def error_of(matrix, rhs, found):
    return np.linalg.norm(matrix @ found - rhs) / np.linalg.norm(rhs)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-8, 1e-12])
@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_residual_meets_the_tolerance_and_hardly_more(tolerance, spread):
    rng = np.random.default_rng(1)
    matrix, rhs = near_identity(rng, spread), rng.standard_normal(SIZE)
    error = error_of(matrix, rhs, solve(matrix, rhs, tolerance))
    assert error <= 1.1 * tolerance
    # A solver that goes on regardless of the tolerance would not leave so much.
    assert error > 1e-3 * spread * tolerance


def test_residual_is_the_least_in_the_krylov_space():
    num_products = 5
    rng = np.random.default_rng(2)
    matrix, rhs = near_identity(rng, 0.5), rng.standard_normal(SIZE)
    found = conjugate_residuals(lambda x: matrix @ x, jnp.asarray(rhs), 0.0, num_products)
    powers = [rhs]
    for _ in range(num_products):
        powers.append(matrix @ powers[-1])
    images = np.stack(powers[1:], axis=1)
    least = np.linalg.norm(rhs - images @ np.linalg.lstsq(images, rhs, rcond=None)[0])
    np.testing.assert_allclose(np.linalg.norm(matrix @ found - rhs), least, rtol=1e-10)
    # Negative control: the space one product larger would leave less.
    images = np.column_stack([images, matrix @ powers[-1]])
    assert np.linalg.norm(rhs - images @ np.linalg.lstsq(images, rhs, rcond=None)[0]) < 0.9 * least


def test_solves_where_a_product_is_orthogonal_to_its_vector():
    """<A b, b> = 0: directions taken from residuals instead of images would break down."""
    matrix = np.kron(np.eye(SIZE // 2), [[0.0, -1.0], [1.0, 0.0]])
    rhs = np.random.default_rng(3).standard_normal(SIZE)
    assert error_of(matrix, rhs, solve(matrix, rhs, 1e-12)) < 1e-12


def test_stops_where_the_space_cannot_grow():
    """Two eigenvalues: two products solve it, and what follows is no direction."""
    rng = np.random.default_rng(4)
    matrix = np.diag(np.where(np.arange(SIZE) < 7, 1.0, 3.0))
    rhs = rng.standard_normal(SIZE)
    found = solve(matrix, rhs, 0.0)
    np.testing.assert_allclose(found, rhs / np.diagonal(matrix), rtol=1e-12)


def test_singular_matrix_leaves_the_best_there_is():
    matrix = np.diag(np.where(np.arange(SIZE) < 7, 0.0, 2.0))
    rhs = np.random.default_rng(5).standard_normal(SIZE)
    found = np.asarray(solve(matrix, rhs, 1e-10))
    np.testing.assert_allclose(found[7:], rhs[7:] / 2.0, rtol=1e-10)
    assert np.isfinite(found).all()


def test_zero_gives_zero_and_nan_gives_nan():
    matrix = near_identity(np.random.default_rng(6), 0.3)
    np.testing.assert_array_equal(solve(matrix, np.zeros(SIZE), 1e-8), np.zeros(SIZE))
    assert np.isnan(solve(np.full((SIZE, SIZE), np.nan), np.ones(SIZE), 1e-8)).all()


def test_can_be_mapped():
    """Each of several systems stops on its own."""
    rng = np.random.default_rng(7)
    matrices = np.stack([near_identity(rng, spread) for spread in (0.0, 0.1, 0.5)])
    rhs = rng.standard_normal((3, SIZE))
    found = jax.vmap(lambda matrix, rhs: solve(matrix, rhs, 1e-10))(matrices, rhs)
    for matrix, right, one in zip(matrices, rhs, found, strict=True):
        assert error_of(matrix, right, one) < 1.1e-10


def test_stops_where_products_are_not_accurate_enough():
    """Round-off of products, 1e-11 of the largest, is not taken for further directions."""
    rng = np.random.default_rng(8)
    basis = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0]
    sizes = 1.0 + np.geomspace(4e5, 1e-9, SIZE)
    matrix, rhs = jnp.asarray(basis * sizes @ basis.T), jnp.asarray(rng.standard_normal(SIZE))

    def product(vector):
        image = matrix @ vector
        return image + 1e-11 * jnp.linalg.norm(image) * jnp.sin(1e12 * vector)

    found = conjugate_residuals(product, rhs, 1e-8, 300)
    assert error_of(matrix, rhs, found) < 1e-3
