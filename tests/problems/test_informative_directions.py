"""How much the density that is left of many readings differs from its reference."""

import numpy as np
from scipy.linalg import eigh, sqrtm

from invlift.problems.choice import informative_directions as directions_of


def test_the_largest_precision_is_that_of_dense_matrices(monkeypatch):
    """Of the whole space, though it is computed in that of the derivatives alone."""
    monkeypatch.setattr(directions_of, "LEAST_VALUE", 1e-9)
    rng, number, unit = np.random.default_rng(0), 3, np.eye(30)
    at_mode, elsewhere = rng.normal(size=(2, 12, 30))
    directions = directions_of.Directions.of(at_mode, np.zeros(12, int))
    lifted = directions.left[:, :number]
    rest = np.eye(12) - lifted @ lifted.T
    covariance = np.linalg.inv(unit + at_mode.T @ rest @ at_mode)
    scale = np.real(sqrtm(covariance))
    kick = scale @ elsewhere.T @ rest @ elsewhere @ scale + covariance - unit
    metric = unit + scale @ elsewhere.T @ lifted @ lifted.T @ elsewhere @ scale
    expected = 1.0 + eigh(kick, metric, eigvals_only=True)[-1]
    for matrix, value in (elsewhere, expected), (at_mode, 1.0):
        left, right = directions_of._large_part(matrix)
        own, other = directions_of._coordinates([directions.right, right])
        small = directions._replace(right=own)
        found = directions_of._largest_precision(small, number, [(left, other)])
        np.testing.assert_allclose(found, value, rtol=1e-8)
    assert expected > 1.1
