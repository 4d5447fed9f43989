"""Values that are a function of time, with responses to their piecewise linear interpolants."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from invlift.errors import InputError, KeyPath, as_input_error
from invlift.fem.mesh.expressions import evaluate, names_in
from invlift.fem.time.moments import moment_of
from invlift.fem.time.shifts import distinct_rows, impulse_at, response_rates, weights_of

#: Largest interpolation error as a fraction of the value's range, and the largest number of
#: intervals.
TOLERANCE, MAX_TIMES = 3e-5, 2**17
_FIRST = 2**8
#: Points of an interval at which the error is checked.  They are many, for short pulses, and not
#: equidistant, because an oscillation may have the same value at all equidistant ones.
_BETWEEN = np.sort(np.arange(1, 32) * 0.6180339887498949 % 1.0)


class FunctionOfTime(NamedTuple):
    """A value that is a function of time from time 0 on; make one with :func:`function_of_time`.

    Attributes
    ----------
    function : callable
        Maps times, (n,), to values, (n,).
    before : float
        Constant value at all times before 0, when the field is steady.
    where : str
        Place that error messages name.
    """

    function: Callable[[np.ndarray], np.ndarray]
    before: float
    where: str

    @property
    def frequencies(self) -> np.ndarray:
        """Return an empty array: a function of time has no periodic part."""
        return np.zeros(0)

    def spans(self, times: np.ndarray) -> np.ndarray:
        """Return the positive ones of times, (n,), and the time scale of the value if shorter."""
        after = times[times > 0.0]
        if not after.size:
            return after
        knots, values = self.lines(after.max())
        change = np.abs(values).max()
        slope = np.abs(np.diff(values)).max() / knots[1]
        if change == 0.0:
            return after[:0]
        return np.append(after, change / slope) if slope * knots[-1] > change else after

    def weights(self, shifts: np.ndarray, times: np.ndarray, lengths=0.0, orders=0.0) -> np.ndarray:
        """Return weights, (n, K), of the shifted solutions in the response at times, (n,).

        The response of a mode of rate r is the integral over s of exp(-r (t - s)) times the change
        of the value at s, which is interpolated linearly between the times of :meth:`lines`.  Where
        a length is positive, the response is the mean over an interval of this length that ends at
        the time, or its moment of a positive order.
        """
        distinct, which = distinct_rows(times, lengths, orders)
        found, later = np.zeros((len(distinct), len(shifts))), distinct[:, 0] > 0.0
        if later.any():
            rates, (ends, over, of_order) = response_rates(shifts), distinct[later].T
            begins = np.maximum(ends - over, 0.0)
            at, places = np.unique([begins, ends], return_inverse=True)
            first, last = places.reshape(2, -1)
            lines = self.lines(at[-1])
            responses, integrals, largest = _responses(rates, at, *lines)
            # The response of each mode if the value had been at its largest all the time.
            sizes = largest[:, None] * at[:, None] * _decaying(np.outer(at, rates))[1]
            means = (integrals[last] - integrals[first]) / np.where(over > 0.0, over, 1.0)[:, None]
            wanted = np.where(over[:, None] > 0.0, means, responses[last])
            slopes = _slopes(*lines, ends, over)
            for row in np.flatnonzero(of_order > 0.0):
                interval = ends[row], over[row], of_order[row]
                wanted[row] = moment_of(
                    lambda times: _responses(rates, times, *lines)[0], *interval
                )
                slopes[row] = moment_of(lambda times: _slopes(*lines, times), *interval)
                slopes[row] += lines[1][0] * impulse_at(*interval)
            found[later] = [
                weights_of(shifts, rates, *each) if each[1][0] > 0.0 else 0.0 * shifts
                for each in zip(wanted, sizes[last], slopes, strict=True)
            ]
        return found[which]

    def begun(self, before: float, where: KeyPath) -> FunctionOfTime:
        """As :meth:`invlift.fem.time.schedules.Steps.begun`."""
        return self._replace(before=float(before))

    def lines(self, longest: float) -> tuple[np.ndarray, np.ndarray]:
        """Return equidistant times from 0 to the longest, and the changes to interpolate linearly.

        Raises
        ------
        InputError
            If a value is not finite, or needs more than :data:`MAX_TIMES` intervals.
        """
        size, parts = _FIRST, np.array([0.0, *_BETWEEN])
        while size <= MAX_TIMES:
            fine = np.append((np.arange(size)[:, None] + parts).ravel(), size) * (longest / size)
            values = self.at(fine) - self.before
            knots = values[:: len(parts)]
            rows = values[:-1].reshape(size, -1)[:, 1:]
            between = knots[:-1, None] + np.diff(knots)[:, None] * parts[1:]
            if np.abs(rows - between).max() <= TOLERANCE * np.ptp(np.append(values, 0.0)):
                return fine[:: len(parts)], knots
            size *= 2
        found = f"one that changes too quickly until time {longest:g}"
        remedy = "give steps where it jumps, and periodic where it oscillates many times"
        raise InputError(self.where, "a function that is smooth in time", found, remedy)

    def at(self, times: np.ndarray) -> np.ndarray:
        """Return the values at times, (n,)."""
        with as_input_error(self.where, "a function of an array of times", "see numpy"):
            values = np.broadcast_to(np.asarray(self.function(times), dtype=float), times.shape)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            found = f"{values[bad[0]]} at time {times[bad[0]]:g}"
            raise InputError(self.where, "finite values", found, "correct the expression")
        return values


def function_of_time(function: str | Callable, where: str = "function of time") -> FunctionOfTime:
    """Make a value that changes smoothly in time, to use in place of a constant.

    Parameters
    ----------
    function : str or callable
        An expression in t, "12.5 + 0.3 * sin(2 * pi * t / 86400)", or a function of an array of
        times, in the unit of the readings' times, from time 0 on.  Before time 0 the value is that
        at time 0, and the field is steady.
    where : str
        Name of the value in error messages.

    Returns
    -------
    FunctionOfTime
        For a source or a boundary value of :func:`invlift.assemble_transient`.  It is interpolated
        linearly between close times; the error is below 3e-5 of its range.

    Raises
    ------
    InputError
        If it is not an expression in t alone, or not finite.
    """
    if isinstance(function, str):
        text = function
        names = names_in(text) or set()
        if "t" not in names or names & {*"xyz"}:
            expected, found = "an expression in t alone", repr(text[:80])
            remedy = "give a number, or one for each of several groups, where places differ"
            raise InputError(where, expected, found, remedy)

        def function(times):
            return evaluate(text, np.zeros((len(times), 0)), where, {"t": times})

    made = FunctionOfTime(function, 0.0, where)
    return made._replace(before=float(made.at(np.zeros(1))[0]))


def _slopes(knots, values, ends, over=0.0) -> np.ndarray:
    """Return derivatives of the value at times, (n,), or their means over intervals before.

    A mean contains the jump at time 0, if the interval does.
    """
    at_ends, at_begins = (np.interp(at, knots, values) for at in (ends, ends - over))
    means = (at_ends - np.where(ends - over > 0.0, at_begins, 0.0)) / np.where(over > 0, over, 1.0)
    slopes = np.interp(ends, knots, np.gradient(values, knots[1], edge_order=2))
    return np.where(over > 0.0, means, slopes)


def _responses(rates, times, knots, values) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return responses of modes at ascending times, and their integrals until then, (n, r) each.

    The third result is the largest absolute value so far, (n,).  The value is linear between
    equidistant knots, so responses and integrals are exact from knot to knot.
    """
    width = knots[1]
    place = np.minimum((times / width).astype(int), len(knots) - 2)
    slopes = np.diff(values) / width

    def after(step, decaying, state, value, slope):
        response, integral = state
        decay, one, two, three = decaying
        return (
            decay * response + step * (value * one + step * slope * two),
            integral + step * (response * one + step * (value * two + step * slope * three)),
        )

    of_width, now, last = _decaying(rates * width), 2 * (np.zeros(len(rates)),), 0
    found = np.zeros((2, len(times), len(rates)))
    for row, (time, until) in enumerate(zip(times, place, strict=True)):
        for k in range(last, until):
            now = after(width, of_width, now, values[k], slopes[k])
        rest, last = time - knots[until], until
        found[:, row] = after(rest, _decaying(rates * rest), now, values[until], slopes[until])
    largest = np.maximum.accumulate(np.abs(values))[place + 1]
    return *found, largest


def _decaying(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return exp(-z), a = (1 - exp(-z)) / z, b = (1 - a) / z and (1 / 2 - b) / z."""
    # Below 0.03 the differences would lose digits.
    small, safe = z < 3e-2, np.maximum(z, 3e-2)
    first = -np.expm1(-safe) / safe
    second = (1.0 - first) / safe
    third = (0.5 - second) / safe
    series = [sum((-z) ** n / math.factorial(n + order) for n in range(6)) for order in (1, 2, 3)]
    return np.exp(-z), *map(partial(np.where, small), series, (first, second, third))
