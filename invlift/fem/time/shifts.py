"""Responses in time as weighted sums of solutions with a reaction term: no time steps.

A load that is switched on gives each mode of decay rate r the response (1 - exp(-r t)) / r.  Sums
of w_j(t) / (r + s_j) approach it for all r at once, with real positive shifts s_j and weights by
least squares, and 1 / (r + s_j) is the response of the steady equation with a reaction term s_j.
Weideman & Trefethen (2007), "Parabolic and hyperbolic contours for computing the Bromwich
integral", Math. Comp. 76, approximate by rational functions with complex shifts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Largest error of the response of a mode that is aimed at, relative to it, and most shifts.
TOLERANCE, MAX_SHIFTS = 1e-4, 36
#: Times are told apart down to this share of the longest.
SHORTEST = 1e-5
#: Ends of the shifts, next to one over the longest and over the shortest time, and decay rates at
#: which weights are fitted, beyond these by the factors.
_ENDS, _BEYOND, _NUM_RATES, _NUM_TRIED = (1.0, 25.0), (1e-3, 1e4), 240, 12


class Shifts(NamedTuple):
    """Shifts, (K,), one over time, and the worst error of the response of any mode, relative."""

    values: np.ndarray
    error: float


def shifts_for(shortest: float, longest: float) -> Shifts:
    """The fewest shifts for responses after times between two, to :data:`TOLERANCE`.

    Parameters
    ----------
    shortest, longest : float
        Positive times; a share of less than 1e-5 of the longest counts as this.
    """
    shortest = max(shortest, SHORTEST * longest)
    tried = np.geomspace(shortest, longest, _NUM_TRIED)
    for num in range(8, MAX_SHIFTS + 1, 2):
        values = np.geomspace(_ENDS[0] / longest, _ENDS[1] / shortest, num)
        error = _error(values, tried)
        if error <= TOLERANCE:
            break
    return Shifts(values, error)


def response_weights(shifts: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Weights, (n, K), of the solutions with each shift in the response at each time after a step.

    Zero at times that are not positive: before the step nothing has happened.
    """
    distinct, which = np.unique(np.asarray(times, dtype=float), return_inverse=True)
    rates = _rates(shifts)
    rows = np.zeros((len(distinct), len(shifts)))
    for row, time in zip(rows, distinct, strict=True):
        if time > 0.0:
            row[:] = _fitted(shifts, rates, time)[0]
    return rows[which.ravel()]


def _rates(shifts: np.ndarray) -> np.ndarray:
    low, high = _BEYOND[0] * shifts.min(), _BEYOND[1] * shifts.max()
    return np.concatenate([[0.0], np.geomspace(low, high, _NUM_RATES)])


def _fitted(shifts, rates, time) -> tuple[np.ndarray, np.ndarray]:
    """Weights at a time, (K,), and the error of each rate's response, relative to it."""
    decayed = rates * time
    response = np.where(decayed > 0.0, -np.expm1(-decayed) / np.maximum(rates, 1e-300), time)
    terms = 1.0 / ((rates[:, None] + shifts) * response[:, None])
    weights = np.linalg.lstsq(terms, np.ones(len(rates)), rcond=1e-14)[0]
    return weights, terms @ weights - 1.0


def _error(shifts: np.ndarray, times: np.ndarray) -> float:
    rates = _rates(shifts)
    between = np.concatenate([rates[:2], np.sqrt(rates[1:-1] * rates[2:])])
    worst = 0.0
    for time in times:
        weights, at_rates = _fitted(shifts, rates, time)
        decayed = between[1:] * time
        terms = 1.0 / (between[1:, None] + shifts)
        others = terms @ weights / (-np.expm1(-decayed) / between[1:]) - 1.0
        worst = max(worst, np.abs(at_rates).max(), np.abs(others).max())
    return float(worst)
