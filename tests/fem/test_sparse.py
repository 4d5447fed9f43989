"""Products with sparse matrices of a fixed pattern, against dense ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array

from invlift.fem.linalg import sparse
from invlift.fem.linalg.sparse import BLOCK, pattern, sparse_matrix

SHAPES = {
    "one row much longer than the others": (400, 50, 1500, 45),
    "rows without entries": (50, 60, 20, 0),
}


@pytest.fixture(params=SHAPES, ids=SHAPES.keys())
def matrix(request):
    """Pattern, entries and the same matrix dense, from contributions some of which coincide."""
    num_rows, num_cols, num, num_in_row = SHAPES[request.param]
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, num_rows, num), rng.integers(0, num_cols, num)
    rows[:num_in_row], cols[:num_in_row] = 0, np.arange(num_in_row)
    contributions = rng.normal(size=num)
    found, entries = pattern(rows, cols, num_rows, num_cols)
    values = np.zeros(found.rows.shape[0])
    np.add.at(values, entries, contributions)
    dense = np.zeros((num_rows, num_cols))
    np.add.at(dense, (rows, cols), contributions)
    return found, values, dense


def columns(size, seed):
    return np.random.default_rng(seed).normal(size=(size, 3))


def test_products_equal_the_dense_ones(matrix):
    found, values, dense = matrix
    right, left = columns(dense.shape[1], 1), columns(dense.shape[0], 2)

    @jax.jit
    def products(values):
        return (
            found.product(values, right),
            found.transposed_product(values, left),
            found.sampled_product(left, right),
        )

    product, transposed, sampled = products(values)
    np.testing.assert_allclose(product, dense @ right, atol=1e-13)
    np.testing.assert_allclose(transposed, dense.T @ left, atol=1e-13)
    np.testing.assert_allclose(sampled, (left @ right.T)[found.rows, found.cols], atol=1e-13)


def test_a_matrix_in_products_is_that_array(matrix):
    *_, expected = matrix
    found, right = sparse_matrix(csr_array(expected)), columns(expected.shape[1], 1)
    left = columns(expected.shape[0], 2)
    assert found.shape == expected.shape
    assert found.T.shape == expected.shape[::-1]
    parts = jax.jit(lambda found: (found @ right, found.T @ left, sparse.dense(found)))(found)
    for part, own in zip(parts, (expected @ right, expected.T @ left, expected), strict=True):
        np.testing.assert_allclose(part, own, atol=1e-13)


def test_many_columns_are_worked_on_by_blocks_of_rows():
    """Two blocks and a rest."""
    num_rows, num_columns = 1000, 32
    assert BLOCK // num_columns == 512
    rng = np.random.default_rng(4)
    rows, cols = rng.integers(0, num_rows, 5000), rng.integers(0, 200, 5000)
    found, _ = pattern(rows, cols, num_rows, 200)
    values = rng.normal(size=found.rows.shape[0])
    dense = np.zeros((num_rows, 200))
    dense[found.rows, found.cols] = values
    right = rng.normal(size=(200, num_columns))
    product = jax.jit(found.product)(values, right)
    np.testing.assert_allclose(product, dense @ right, atol=1e-12)


def test_long_rows_do_not_widen_the_others():
    rows = np.concatenate([np.zeros(40, int), np.arange(5000) // 2])
    cols = np.concatenate([np.arange(40), np.arange(5000) % 60])
    found, _ = pattern(rows, cols, 2500, 60)
    assert found.by_row.sources.shape[0] <= 3
    assert found.by_row.beyond.shape[1] >= 37


def test_derivatives_and_batches(matrix):
    found, values, dense = matrix
    right, left = columns(dense.shape[1], 1), columns(dense.shape[0], 2)

    @jax.jit
    def look(values):
        many = jnp.stack([values, -2.0 * values])
        return (
            jax.grad(lambda values: jnp.sum(left * found.product(values, right)))(values),
            found.sampled_product(left, right),
            jax.vmap(found.product, in_axes=(0, None))(many, right),
        )

    gradient, sampled, batched = look(values)
    np.testing.assert_allclose(gradient, sampled, atol=1e-13)
    np.testing.assert_allclose(batched[1], -2.0 * (dense @ right), atol=1e-12)
