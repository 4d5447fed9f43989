"""What is driven and what is read, as weights of K electrodes, and how few numbers tell it all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: A current below this share of the largest is none.
_SAME = 1e-9


class Patterns(NamedTuple):
    """Currents and voltages of d readings.

    Attributes
    ----------
    currents : (d, K) array
        What is driven into the body at each electrode; rows add up to zero.
    weights : (d, K) array
        A reading is the sum of the electrodes' potentials times these; rows add up to zero.
    """

    currents: np.ndarray
    weights: np.ndarray


class Injections(NamedTuple):
    """Which currents are driven, and what is read of each: see :func:`injections_of`.

    Attributes
    ----------
    order : (d,) array of int
        The readings in the order of the injections.
    currents : (L, K) array
    voltages : list of L (M, K) arrays
    matrix : (d, r) array or None
        Where there are fewer pairs of electrodes than readings, these as combinations of the
        voltages, of which there is one for each pair.
    """

    order: np.ndarray
    currents: np.ndarray
    voltages: list[np.ndarray]
    matrix: np.ndarray | None = None


def patterns_of_pairs(numbers: np.ndarray, size: int) -> Patterns:
    """Unit currents and voltages of pairs of K electrodes, a, b, m and n from 0: (d, 4)."""
    unit = np.eye(size)
    a, b, m, n = numbers.T
    return Patterns(unit[a] - unit[b], unit[m] - unit[n])


def injections_of(patterns: Patterns) -> Injections:
    """The currents of readings, each once, and what is read of each.

    With more readings than pairs of electrodes currents enter at each and leave at the first, and
    what is read are the entries of the matrix of resistances, which is symmetric.
    """
    currents, weights = patterns
    size = currents.shape[1]
    if len(currents) > size * (size - 1) // 2:
        return _by_resistances(currents, weights)
    unique, number, signs = distinct(currents)
    voltages = [(signs * weights)[number == each] for each in range(len(unique))]
    return Injections(np.argsort(number, kind="stable"), unique, voltages)


def distinct(currents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Currents (d, K), each once up to its sign; which of them each is (d,); its sign, (d, 1)."""
    first = np.argmax(np.abs(currents) > _SAME * np.abs(currents).max(), axis=1)
    signs = np.sign(np.take_along_axis(currents, first[:, None], axis=1))
    # Keys in front put those that leave out the last electrodes first.
    rows = np.round(signs * currents, 12)
    unique, number = np.unique(np.hstack([-np.abs(rows), rows]), axis=0, return_inverse=True)
    return unique[:, currents.shape[1] :], number.ravel(), signs


def _by_resistances(currents: np.ndarray, weights: np.ndarray) -> Injections:
    """Readings as combinations of resistances R_ij, of currents from i to the first electrode."""
    size = currents.shape[1]
    unit = np.eye(size)
    lower = unit[1:] - unit[0]
    rows, columns = np.triu_indices(size - 1)
    driven, read = currents[:, 1:], weights[:, 1:]
    matrix = read[:, rows] * driven[:, columns]
    matrix += np.where(rows == columns, 0.0, read[:, columns] * driven[:, rows])
    voltages = [lower[row:] for row in range(size - 1)]
    return Injections(np.arange(len(currents)), lower, voltages, matrix)
