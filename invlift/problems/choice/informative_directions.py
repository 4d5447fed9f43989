"""Directions that the readings determine, and the number of them that must be lifted.

All functions use NumPy on matrices of few rows: derivatives A, (n, m), of n readings or
combinations of them by m whitened unknowns, in standard deviations of the noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

#: Numbers of combinations to try, each about a quarter larger than the last.  There are few of them
#: because each needs its own compiled programs.
NUMBERS = (10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512)
#: Largest precision of the density, relative to that of the reference, that does not limit steps.
#: On the disc with 300 readings it is 1.2 with 10 to 16 combinations, with steps of 1.50, and 1.5
#: with 5, with steps of 1.47.
MAX_PRECISION = 1.2
#: Singular value below which the reference is the prior.
LEAST_VALUE = 0.3


def orthonormal(columns: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that span given ones, (d, p), each within a group of readings."""
    parts = []
    for group in np.unique(groups):
        left, values, _ = np.linalg.svd(columns[groups == group], full_matrices=False)
        left = left[:, values > 1e-10 * max(values[0], 1e-300)]
        part = np.zeros((groups.size, left.shape[1]))
        part[groups == group] = left
        parts.append(part)
    return np.concatenate(parts, axis=1)


class Directions(NamedTuple):
    """Singular vectors of derivatives A with rows in groups, the largest singular value first.

    Attributes
    ----------
    left : (n, r)
        Left vectors, each within a group.
    values : (r,)
    right, inner : (m, s), (n, s)
        A = inner right^T, right orthonormal.
    """

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray
    inner: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray, groups: np.ndarray) -> Directions:
        """Compute the directions of a matrix, (n, m), whose rows are in groups, (n,) int."""
        left, values, along = np.linalg.svd(matrix, full_matrices=False)
        is_kept = values > max(1e-10 * values[0], 1e-300)
        right, inner = along[is_kept].T, left[:, is_kept] * values[is_kept]
        if groups.max() == 0:
            return cls(left[:, is_kept], values[is_kept], right, inner)
        left = orthonormal(inner, groups)
        values = np.linalg.norm(left.T @ inner, axis=1)
        order = np.argsort(-values)
        return cls(left[:, order], values[order], right, inner)

    def rest(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return singular vectors (n, r), values (r,) and vectors (m, r) of the part not lifted."""
        lifted = self.left[:, :number]
        inner = self.inner - lifted @ (lifted.T @ self.inner)
        left, values, along = np.linalg.svd(inner, full_matrices=False)
        is_kept = values > LEAST_VALUE
        return left[:, is_kept], values[is_kept], self.right @ along[is_kept].T


def number_to_lift(directions: Directions, others: Iterable[np.ndarray]) -> int:
    """Return the number of combinations to lift, given derivatives (n, m) at other points.

    If these derivatives are not finite, all informative combinations are lifted, as nothing is
    known about curvature.
    """
    most = directions.values.size
    parts = [_large_part(each) for each in others]  # in turn: together they may take gigabytes
    if any(part is None for part in parts):
        return most
    lefts, rights = [left for left, _ in parts], [directions.right, *(part[1] for part in parts)]
    del parts
    right, *rights = _coordinates(rights)
    directions = directions._replace(right=right)
    others = list(zip(lefts, rights, strict=True))
    numbers = [each for each in NUMBERS if each < most] + [most]
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        if _largest_precision(directions, numbers[middle], others) <= MAX_PRECISION:
            high = middle
        else:
            low = middle + 1
    return numbers[low]


def _large_part(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return factors, (n, r) and an orthonormal (m, r), without singular values below the least.

    The result is None if the matrix is not finite.
    """
    if not np.isfinite(matrix).all():
        return None
    left, values, along = np.linalg.svd(matrix, full_matrices=False)
    is_kept = values > LEAST_VALUE
    return left[:, is_kept] * values[is_kept], along[is_kept].T


def _coordinates(columns: list[np.ndarray]) -> list[np.ndarray]:
    """Return coordinates, (p, r), of matrices, (m, r), in a common basis.  Empties the list."""
    basis, parts = [], []
    while columns:
        rest, part = columns.pop(0), []
        for block in basis:  # one after the other: together they may take gigabytes
            part.append(block.T @ rest)
            rest = rest - block @ part[-1]
        if columns:
            block, inner = np.linalg.qr(rest)
            basis.append(block)
        else:  # no later matrix needs the last block of the basis
            inner = np.linalg.qr(rest, mode="r")
        parts.append(np.concatenate([*part, inner]))
    num = len(parts[-1])
    return [np.pad(part, ((0, num - len(part)), (0, 0))) for part in parts]


def _largest_precision(directions: Directions, number: int, others) -> float:
    """Return the largest precision of the density on the manifold, relative to the reference.

    ``others`` are derivatives at other points.  A move v of the field also moves the noise
    variables of the lifted part by A_1 v, so its squared length is v^T (I + A_1^T A_1) v.  The
    derivative of the force is A_2^T A_2 minus that of the reference.
    """
    lifted = directions.left[:, :number]
    _, values, vectors = directions.rest(number)
    largest = 1.0
    for left, right in others:
        inside = left @ right.T
        inside = inside + (inside @ vectors) * ((1.0 + values**2) ** -0.5 - 1.0) @ vectors.T
        moved = lifted.T @ inside
        rest = inside - lifted @ moved
        kick = rest.T @ rest - (vectors * (values**2 / (1.0 + values**2))) @ vectors.T
        _, sizes, inner = np.linalg.svd(moved, full_matrices=False)
        shorter = np.eye(vectors.shape[0]) + (inner.T * ((1.0 + sizes**2) ** -0.5 - 1.0)) @ inner
        largest = max(largest, 1.0 + np.linalg.eigvalsh(shorter @ kick @ shorter)[-1])
    return largest


def padded(directions: np.ndarray, precisions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pad with zero directions of precision 1, to a number of directions in :data:`NUMBERS`."""
    num = next((each for each in (0, *NUMBERS) if each >= precisions.size), precisions.size)
    more = (0, num - precisions.size)
    return np.pad(directions, ((0, 0), more)), np.pad(precisions, more, constant_values=1.0)
