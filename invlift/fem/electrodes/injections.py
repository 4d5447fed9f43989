"""Currents and voltages as weights of K electrodes, and the injections that readings need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: A current below this fraction of the largest one counts as zero.
_SAME = 1e-9


class Patterns(NamedTuple):
    """Currents and voltages of d readings.

    Attributes
    ----------
    currents : (d, K) array
        Currents into the body at each electrode; rows add up to zero.
    weights : (d, K) array
        Weights of the electrodes' potentials in each reading; rows add up to zero.
    """

    currents: np.ndarray
    weights: np.ndarray


class Injections(NamedTuple):
    """Distinct injections and the voltages read at each: see :func:`injections_of`.

    Attributes
    ----------
    order : (d,) array of int
        Indices of the readings, sorted by injection.
    currents : (L, K) array
    voltages : list of L (M, K) arrays
    matrix : (d, r) array or None
        Readings as linear combinations of the voltages, if there are fewer pairs of electrodes than
        readings.  There is then one voltage for each pair.
    """

    order: np.ndarray
    currents: np.ndarray
    voltages: list[np.ndarray]
    matrix: np.ndarray | None = None


def patterns_of_pairs(numbers: np.ndarray, size: int) -> Patterns:
    """Return the patterns of readings between electrodes a, b, m and n, (d, 4), counted from 0.

    The current from a to b is 1, and ``size`` is the number K of electrodes.
    """
    unit = np.eye(size)
    a, b, m, n = numbers.T
    return Patterns(unit[a] - unit[b], unit[m] - unit[n])


def injections_of(patterns: Patterns) -> Injections:
    """Group readings by distinct currents, and list the voltages read at each.

    With more readings than pairs of electrodes, one injection goes from each other electrode to the
    first.  The voltages are then the entries of the matrix of resistances, which is symmetric.
    """
    currents, weights = patterns
    size = currents.shape[1]
    if len(currents) > size * (size - 1) // 2:
        return _by_resistances(currents, weights)
    unique, number, signs = distinct(currents)
    voltages = [(signs * weights)[number == each] for each in range(len(unique))]
    return Injections(np.argsort(number, kind="stable"), unique, voltages)


def distinct(currents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct currents up to sign, and each reading's index, (d,), and sign, (d, 1)."""
    first = np.argmax(np.abs(currents) > _SAME * np.abs(currents).max(), axis=1)
    signs = np.sign(np.take_along_axis(currents, first[:, None], axis=1))
    # The keys in front sort the rows that do not use the last electrodes first.
    rows = np.round(signs * currents, 12)
    unique, number = np.unique(np.hstack([-np.abs(rows), rows]), axis=0, return_inverse=True)
    return unique[:, currents.shape[1] :], number.ravel(), signs


def _by_resistances(currents: np.ndarray, weights: np.ndarray) -> Injections:
    """Write readings as combinations of resistances R_ij, for currents from i to electrode 0."""
    size = currents.shape[1]
    unit = np.eye(size)
    lower = unit[1:] - unit[0]
    rows, columns = np.triu_indices(size - 1)
    driven, read = currents[:, 1:], weights[:, 1:]
    matrix = read[:, rows] * driven[:, columns]
    matrix += np.where(rows == columns, 0.0, read[:, columns] * driven[:, rows])
    voltages = [lower[row:] for row in range(size - 1)]
    return Injections(np.arange(len(currents)), lower, voltages, matrix)
