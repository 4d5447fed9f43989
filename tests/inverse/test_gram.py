"""Both factorisations of the Gram matrix against dense linear algebra."""

import jax.numpy as jnp
import numpy as np
import pytest

from invlift.inverse.gram.factors import dense_gram, diagonal_plus_product_solver, woodbury_gram

SHAPES = [(3, 7), (4, 4), (9, 2), (1, 1)]


def parts(num_observations, num_unknowns):
    rng = np.random.default_rng(num_observations)
    unknowns = jnp.asarray(rng.normal(size=(num_observations, num_unknowns)))
    sigma = jnp.asarray(np.exp(rng.normal(size=num_observations) - 1.0))
    return unknowns, sigma, np.asarray(unknowns @ unknowns.T + jnp.diag(sigma**2))


@pytest.fixture(params=["cholesky", "woodbury"])
def build_gram(request):
    if request.param == "woodbury":
        return woodbury_gram
    return lambda unknowns, sigma: dense_gram(unknowns @ unknowns.T, sigma)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("columns", [(), (3,)])
def test_solve(build_gram, shape, columns):
    unknowns, sigma, matrix = parts(*shape)
    rhs = np.random.default_rng(0).normal(size=(shape[0], *columns))
    expected = np.linalg.solve(matrix, rhs)
    np.testing.assert_allclose(
        build_gram(unknowns, sigma).solve(jnp.asarray(rhs)), expected, rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_solve_from_the_right(build_gram, shape):
    unknowns, sigma, matrix = parts(*shape)
    columns = np.random.default_rng(0).normal(size=(5, shape[0]))
    found = build_gram(unknowns, sigma).solve_right(jnp.asarray(columns))
    np.testing.assert_allclose(found, columns @ np.linalg.inv(matrix), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
def test_log_determinant(build_gram, shape):
    unknowns, sigma, matrix = parts(*shape)
    np.testing.assert_allclose(
        build_gram(unknowns, sigma).log_determinant(), np.linalg.slogdet(matrix)[1], rtol=1e-11
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_inverse_diagonal(build_gram, shape):
    unknowns, sigma, matrix = parts(*shape)
    np.testing.assert_allclose(
        build_gram(unknowns, sigma).inverse_diagonal(), np.diag(np.linalg.inv(matrix)), rtol=1e-9
    )


def test_matrix_that_is_not_positive_definite_gives_nan():
    gram = dense_gram(jnp.asarray([[1.0, 2.0], [2.0, 1.0]]), jnp.asarray([1e-3, 1e-3]))
    assert jnp.isnan(gram.log_determinant())


@pytest.mark.parametrize("shape", SHAPES)
def test_diagonal_plus_unsymmetric_product(shape):
    left, diagonal, _ = parts(*shape)
    right = jnp.asarray(np.random.default_rng(1).normal(size=shape))
    rhs = jnp.asarray(np.random.default_rng(2).normal(size=shape[0]))
    matrix = np.diag(diagonal) + np.asarray(left @ right.T)
    np.testing.assert_allclose(
        diagonal_plus_product_solver(diagonal, left, right)(rhs),
        np.linalg.solve(matrix, rhs),
        rtol=1e-8,
        atol=1e-10,
    )
