"""Responses in time as weighted sums of steady solutions with a reaction term, without time steps.

After a load is switched on, a mode of decay rate r has the response (1 - exp(-r t)) / r.  A load
that oscillates with frequency omega has the response 1 / (r + i omega), whose real part is in phase
with it.  Means over an interval are handled in the same way.  Each response is approximated for all
r at once by a sum of w_j / (r + s_j), with real positive shifts s_j and weights from least squares.
Here 1 / (r + s_j) is the response of the steady equation with a reaction term s_j.

The flux through a boundary where u is held also contains the storage there times the derivative of
the held value in time.  So the sum of w_j s_j must be this derivative, which is one more row of the
least squares.  It is 0 after a step, and a step within an interval has the mean 1 / length.
Weideman & Trefethen (2007), "Parabolic and hyperbolic contours for computing the Bromwich
integral", Math. Comp. 76, approximate by rational functions with complex shifts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from invlift.fem.time.moments import moment_of

#: Target for the largest relative error of the response of a mode, and largest number of shifts.
TOLERANCE, MAX_SHIFTS = 1e-4, 36
#: Shortest time that is resolved, as a fraction of the longest.
SHORTEST = 1e-5
#: Range of the shifts, by factors of one over the longest and the shortest time, and of the lowest
#: and the highest frequency.  Then the factors by which the fitted decay rates exceed this range,
#: the number of these rates, and the number of times at which the error is checked.
_ENDS, _ENDS_AT, _BEYOND, _NUM_RATES, _NUM_TRIED = (1.0, 25.0), (0.1, 10.0), (1e-3, 1e4), 240, 12
#: Weight of the row of the derivative, relative to that of a rate.
_FIRM = 1e3


class Shifts(NamedTuple):
    """Shifts, (K,), in one over time, and the largest relative error of a mode's response."""

    values: np.ndarray
    error: float


def shifts_for(times: np.ndarray, frequencies: np.ndarray = ()) -> Shifts:
    """Return the fewest shifts whose responses are within :data:`TOLERANCE`.

    With :data:`MAX_SHIFTS` shifts the error may be larger.

    Parameters
    ----------
    times : (n,)
        Positive times after steps.  Those below 1e-5 of the longest have larger errors, relative to
        the responses at this time.
    frequencies : (m,)
        Positive frequencies of oscillations, in radians over time.  Times or frequencies have
        entries.
    """
    distinct = np.unique(np.asarray(frequencies, dtype=float))
    times = np.asarray(times, dtype=float)
    lows, highs = _ENDS_AT[0] * distinct, _ENDS_AT[1] * distinct
    tried = np.zeros(0)
    if np.size(times):
        longest = np.max(times)
        tried = np.geomspace(max(np.min(times), SHORTEST * longest), longest, _NUM_TRIED)
        lows, highs = np.append(lows, _ENDS[0] / longest), np.append(highs, _ENDS[1] / tried[0])
    for num in range(8, MAX_SHIFTS + 1, 2):
        values = np.geomspace(lows.min(), highs.max(), num)
        error = _error(values, tried, distinct)
        if error <= TOLERANCE:
            break
    early = times[times < tried[0]] if np.size(times) else tried
    return Shifts(values, max(error, _error_of_early(values, early, tried[:1])))


def response_weights(shifts: np.ndarray, times: np.ndarray, lengths=0.0, orders=0.0) -> np.ndarray:
    """Return weights, (n, K), of the shifted solutions in the response at each time after a step.

    For a positive length the response is the mean over the interval that ends at the time, or its
    moment of a positive order (:func:`~invlift.fem.time.moments.moment_of`).  Weights are zero at
    times that are not positive, before the step.
    """
    distinct, which = distinct_rows(times, lengths, orders)
    rates = response_rates(shifts)
    rows = np.zeros((len(distinct), len(shifts)))
    for row, (time, length, order) in zip(rows, distinct, strict=True):
        if time > 0.0:
            responses = _after_step(rates, time, length, order)
            row[:] = _fitted(shifts, rates, responses, impulse_at(time, length, order))[0]
    return rows[which]


def distinct_rows(*columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows, (r, c), of columns, (n,) or (), and the index of each row's."""
    rows = np.stack(np.broadcast_arrays(*columns), axis=1).astype(float)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    return distinct, which.ravel()


def oscillation_weights(shifts: np.ndarray, frequency: float) -> np.ndarray:
    """Return complex weights, (K,), of the shifted solutions in the response to exp(i omega t).

    This is the response after all transients: the weighted sum times exp(i omega t).
    """
    rates = response_rates(shifts)
    return _fitted(shifts, rates, _at_frequency(rates, frequency), 1j * frequency)[0]


def impulse_at(time: float, length: float, order: float) -> float:
    """Return the mean or moment of the derivative of a unit step at 0, for a time after it.

    It is 0 if the step is before the interval.  A step at the beginning of the interval is in it:
    the field at this time is that before the step.
    """
    is_within = length > 0.0 and time <= length * (1.0 + 1e-9)
    return max(1.0 - time / length, 0.0) ** order / length if is_within else 0.0


def response_rates(shifts: np.ndarray) -> np.ndarray:
    """Return the decay rates at which weights are fitted: 0, and a range around the shifts."""
    low, high = _BEYOND[0] * shifts.min(), _BEYOND[1] * shifts.max()
    return np.concatenate([[0.0], np.geomspace(low, high, _NUM_RATES)])


def _after_step(
    rates: np.ndarray, time: float, length: float = 0.0, order: float = 0.0
) -> np.ndarray:
    """Return responses of modes at a time after a unit step, or moments of the interval before.

    The part of the interval after the step has length l and begins at a.  The mean over it is
    (1 - exp(-r a) + exp(-r a) q) / r with q = 1 - (1 - exp(-r l)) / (r l), without cancellation,
    also where r l is small.
    """
    if order > 0.0:
        return moment_of(
            lambda times: np.stack([_after_step(rates, each) for each in times]),
            time, length, order,
        )  # fmt: skip
    begun = max(time - length, 0.0)
    after = time - begun if length else 0.0
    share = after / length if length else 1.0
    decayed, within = rates * begun, rates * after
    series = within * (1 / 2 - within * (1 / 6 - within * (1 / 24 - within / 120)))
    by_part = np.where(within < 1e-3, series, 1.0 + np.expm1(-within) / np.maximum(within, 1e-300))
    means = -np.expm1(-decayed) + np.exp(-decayed) * by_part
    at_rest = begun + 0.5 * after
    return share * np.where(rates > 0.0, means / np.maximum(rates, 1e-300), at_rest)


def _at_frequency(rates: np.ndarray, frequency: float) -> np.ndarray:
    """Return complex responses of modes to an oscillation of amplitude 1."""
    return 1.0 / (rates + 1j * frequency)


def weights_of(
    shifts: np.ndarray,
    rates: np.ndarray,
    responses: np.ndarray,
    sizes: np.ndarray,
    derivative: complex,
) -> np.ndarray:
    """Fit weights, (K,), to responses of modes at given rates; errors are relative to sizes.

    ``derivative`` is that of the value in time, the sum of the weights times the shifts.
    """
    value = sizes[-1] * rates[-1]  # fast modes follow the value
    ends = _FIRM * np.append(shifts, derivative) / (shifts.max() * value)
    terms = 1.0 / ((rates[:, None] + shifts) * sizes[:, None])
    rows = np.vstack([terms, ends[:-1].real])
    return np.linalg.lstsq(rows, np.append(responses / sizes, ends[-1]), rcond=1e-14)[0]


def _fitted(shifts, rates, responses, derivative) -> tuple[np.ndarray, np.ndarray]:
    """Fit weights, (K,), to responses of modes; return them and each response's relative error."""
    sizes = np.abs(responses)
    weights = weights_of(shifts, rates, responses, sizes, derivative)
    return weights, ((1.0 / (rates[:, None] + shifts)) @ weights - responses) / sizes


def _error(shifts: np.ndarray, times: np.ndarray, frequencies: np.ndarray) -> float:
    rates = response_rates(shifts)
    between = np.sqrt(rates[1:-1] * rates[2:])
    worst = 0.0
    for of_modes, values, turn in ((_after_step, times, 0.0), (_at_frequency, frequencies, 1j)):
        for value in values:
            weights, at_rates = _fitted(shifts, rates, of_modes(rates, value), turn * value)
            exact = of_modes(between, value)
            others = (1.0 / (between[:, None] + shifts)) @ weights - exact
            worst = max(worst, np.abs(at_rates).max(), np.abs(others / exact).max())
    return float(worst)


def _error_of_early(shifts: np.ndarray, early: np.ndarray, shortest: np.ndarray) -> float:
    """Return the largest error at times before the shortest resolved one, relative to that time.

    A mode that is faster than the shifts is finer than what the mesh resolves in this time.
    """
    if not early.size:
        return 0.0
    tried = np.geomspace(early.min(), early.max(), 4)
    rates = response_rates(shifts)
    rates = rates[rates <= shifts.max()]
    exact = np.stack([_after_step(rates, time) for time in tried])
    found = response_weights(shifts, tried) @ (1.0 / (rates[:, None] + shifts)).T
    return float(np.abs((found - exact) / _after_step(rates, shortest[0])).max())
