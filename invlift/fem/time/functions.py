"""Values that are a function of time, with responses to their piecewise linear interpolants."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from invlift.errors import InputError, as_input_error
from invlift.fem.mesh.expressions import evaluate, names_in
from invlift.fem.time.shifts import response_rates, weights_of

#: Largest interpolation error as a fraction of the value's range, and the largest number of
#: intervals.
TOLERANCE, MAX_TIMES = 3e-5, 2**17
_FIRST = 2**8
#: Points of an interval at which the error is checked.
_BETWEEN = 0.25, 0.5, 0.75


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

    def weights(self, shifts: np.ndarray, times: np.ndarray, lengths=0.0) -> np.ndarray:
        """Return weights, (n, K), of the shifted solutions in the response at times, (n,).

        The response of a mode of rate r is the integral over s of exp(-r (t - s)) times the change
        of the value at s, which is interpolated linearly between the times of :meth:`lines`.

        Raises
        ------
        InputError
            If a length is positive: means over an interval are not supported.
        """
        if np.any(lengths):
            expected = "steps or periodic, as readings are averaged over an interval"
            remedy = "give steps, or readings without averaged_over"
            raise InputError(self.where, expected, "a function of time", remedy)
        distinct, which = np.unique(np.asarray(times, dtype=float), return_inverse=True)
        found, later = np.zeros((len(distinct), len(shifts))), distinct > 0.0
        if later.any():
            rates, at = response_rates(shifts), distinct[later]
            responses, largest = _responses(rates, at, *self.lines(at[-1]))
            # The response of each mode if the value had been at its largest all the time.
            sizes = largest[:, None] * at[:, None] * _decaying(np.outer(at, rates))[1]
            found[later] = [
                weights_of(shifts, rates, *each) if each[1][0] > 0.0 else 0.0 * shifts
                for each in zip(responses, sizes, strict=True)
            ]
        return found[which.ravel()]

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


def _responses(rates, times, knots, values) -> tuple[np.ndarray, np.ndarray]:
    """Return responses of modes at ascending times, (n, r), and the largest absolute value so far.

    The value is linear between equidistant knots, so the response is exact from knot to knot.
    """
    width = knots[1]
    place = np.minimum((times / width).astype(int), len(knots) - 2)
    slopes = np.diff(values) / width
    decay, first, second = _decaying(rates * width)
    found, now, last = np.zeros((len(times), len(rates))), np.zeros(len(rates)), 0
    for row, (time, until) in enumerate(zip(times, place, strict=True)):
        for k in range(last, until):
            now = decay * now + width * (values[k] * first + width * slopes[k] * second)
        rest, last = time - knots[until], until
        less, one, two = _decaying(rates * rest)
        found[row] = less * now + rest * (values[until] * one + rest * slopes[until] * two)
    largest = np.maximum.accumulate(np.abs(values))[place + 1]
    return found, largest


def _decaying(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return exp(-z), (1 - exp(-z)) / z and (1 - (1 - exp(-z)) / z) / z."""
    small, safe = z < 1e-3, np.maximum(z, 1e-3)
    first = -np.expm1(-safe) / safe
    second = (1.0 - first) / safe
    return (
        np.exp(-z),
        np.where(small, 1.0 - z / 2.0 + z**2 / 6.0, first),
        np.where(small, 0.5 - z / 6.0 + z**2 / 24.0, second),
    )
