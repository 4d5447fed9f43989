"""Solves by iterations are those of the factor, and tell where they do not converge."""

import jax
import numpy as np
import pytest
from scipy.sparse import random_array

from invlift.fem import linalg
from invlift.fem.linalg import iterative


def contributions(size=60, shift=1.0, seed=0):
    """Rows, columns and values of a symmetric matrix, with entries in several parts; dense too."""
    rng = np.random.default_rng(seed)
    half = random_array((size, size), density=0.05, rng=rng)
    matrix = (half @ half.T).tocoo()
    lower = matrix.row >= matrix.col
    rows, cols, values = (each[lower] for each in (matrix.row, matrix.col, matrix.data))
    each = np.arange(size)
    rows, cols = np.concatenate([rows, each, rows]), np.concatenate([cols, each, cols])
    values = np.concatenate([0.3 * values, np.full(size, shift), 0.7 * values])
    return rows, cols, values, matrix.toarray() + shift * np.eye(size)


def solved(rows, cols, values, rhs, places=None):
    with linalg.iteratively():
        places = np.arange(len(rhs))[:, None] if places is None else places
        structure = linalg.analyse(rows, cols, len(rhs), places)
    return np.asarray(linalg.solve(linalg.factorise(structure, values), rhs))


@pytest.mark.parametrize("shape", [(60,), (60, 4)])
def test_the_solution_is_that_of_the_matrix(shape):
    rows, cols, values, dense = contributions()
    rhs = np.random.default_rng(1).standard_normal(shape)
    if len(shape) == 2:
        rhs = rhs * 10.0 ** np.arange(4)  # columns of other sizes
    found, expected = solved(rows, cols, values, rhs), np.linalg.solve(dense, rhs)
    scale = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-5)
    places = np.random.default_rng(2).standard_normal((60, 2))
    direct = linalg.factorise(linalg.analyse(rows, cols, 60, places), values)
    assert not isinstance(direct, iterative.Iterations)  # outside nothing has changed
    np.testing.assert_allclose(linalg.solve(direct, rhs), expected, rtol=1e-9)


def test_a_column_of_zeros_is_solved():
    rows, cols, values, _ = contributions()
    rhs = np.stack([np.zeros(60), np.ones(60)], axis=1)
    found = solved(rows, cols, values, rhs)
    assert not found[:, 0].any()
    assert np.isfinite(found[:, 1]).all()


def test_what_does_not_converge_is_not_a_number(monkeypatch):
    monkeypatch.setattr(iterative, "MAX_ITERATIONS", 2)
    jax.clear_caches()
    rows, cols, values, _ = contributions(shift=1e-3)
    rhs = np.stack([np.zeros(60), np.ones(60)], axis=1)
    found = solved(rows, cols, values, rhs)
    jax.clear_caches()
    assert np.isfinite(found[:, 0]).all()
    assert np.isnan(found[:, 1]).all()


def test_groups_save_iterations(monkeypatch):
    """Fewer for an equation on 2,401 nodes than with the diagonal alone."""
    side = 49
    line = np.arange(side * side).reshape(side, side)
    pairs = [(line[1:], line[:-1]), (line[:, 1:], line[:, :-1])]
    rows, cols = (np.concatenate([each[k].ravel() for each in pairs]) for k in (0, 1))
    every, places = line.ravel(), np.argwhere(line >= 0)
    rows, cols, num = np.append(rows, every), np.append(cols, every), len(rows)
    values = np.append(np.full(num, -1.0), np.full(every.size, 4.001))

    def is_solved(iterations, groups):
        monkeypatch.setattr(iterative, "MAX_ITERATIONS", iterations)
        monkeypatch.setattr(iterative, "MAX_GROUPS", groups)
        jax.clear_caches()
        found = solved(rows, cols, values, np.ones(every.size), places)
        jax.clear_caches()
        return np.isfinite(found).all()

    assert is_solved(55, 512)
    assert not is_solved(70, 1)  # negative control
