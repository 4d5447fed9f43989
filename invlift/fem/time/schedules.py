"""What drives a field in time: numbers that change in steps, oscillate or are functions of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from invlift.errors import InputError, as_numbers
from invlift.fem.time.functions import FunctionOfTime
from invlift.fem.time.shifts import oscillation_weights, response_weights


class Steps(NamedTuple):
    """A number that changes at times and stays until the next; make one with :func:`steps`.

    Attributes
    ----------
    times : (n,) array
        When it changes, ascending.
    values : (n,) array
        What it is from then on.
    before : float
        What it was before the first change, for ever: the field then is steady.
    """

    times: np.ndarray
    values: np.ndarray
    before: float

    @property
    def changes(self) -> np.ndarray:
        """By how much it changes at each of the times, (n,)."""
        return np.diff(self.values, prepend=self.before)

    @property
    def frequencies(self) -> np.ndarray:
        """Of what oscillates, in radians over time: none."""
        return np.zeros(0)

    def spans(self, times: np.ndarray) -> np.ndarray:
        """How long times, (n,), are after changes that come before them, flat."""
        after = times[:, None] - self.times
        return after[after > 0.0]

    def weights(self, shifts: np.ndarray, times: np.ndarray, lengths=0.0) -> np.ndarray:
        """Weights, (n, K), of the solutions with each shift in what the changes add at times.

        Where a length is positive: on average over the interval of this length before the time.
        """
        return sum(
            change * response_weights(shifts, times - begun, lengths)
            for change, begun in zip(self.changes, self.times, strict=True)
        )


class Oscillation(NamedTuple):
    """A number that oscillates, and has done so for long; make one with :func:`oscillation`.

    Attributes
    ----------
    periods, amplitudes, peaks : (n,) array
        Of cosines that are added, and a time at which each is at its largest.
    before : float
        The mean: the field oscillates round the steady one of it.
    """

    periods: np.ndarray
    amplitudes: np.ndarray
    peaks: np.ndarray
    before: float

    @property
    def frequencies(self) -> np.ndarray:
        """In radians over time, (n,)."""
        return 2.0 * np.pi / self.periods

    def spans(self, times: np.ndarray) -> np.ndarray:
        """As of :class:`Steps`: there are no changes."""
        return np.zeros(0)

    def weights(self, shifts: np.ndarray, times: np.ndarray, lengths=0.0) -> np.ndarray:
        """As of :class:`Steps`, for what the cosines add."""
        total = np.zeros((len(times), len(shifts)))
        for frequency, amplitude, peak in zip(
            self.frequencies, self.amplitudes, self.peaks, strict=True
        ):
            half = 0.5 * frequency * np.asarray(lengths)  # of the angle that the interval is
            turned = np.exp(1j * (frequency * (times - peak) - half)) * np.sinc(half / np.pi)
            total += amplitude * np.outer(turned, oscillation_weights(shifts, frequency)).real
        return total


#: Numbers that change in time.
SCHEDULES = Steps, Oscillation, FunctionOfTime
Schedule = Steps | Oscillation | FunctionOfTime


def steps(pairs: Sequence, before: float = 0.0, name: str = "steps") -> Steps:
    """A number that changes in steps, in the place of one that does not.

    Parameters
    ----------
    pairs : (n, 2) array_like
        Times, in the unit of the readings' times, and what the number is from then on:
        ``[[0.0, -0.003], [5400.0, 0.0]]`` is a well that is pumped for 5,400 seconds.
    before : float
        What it was before the first of them.
    name : str
        What error messages call it.

    Returns
    -------
    Steps
        For a source or a boundary value of :func:`invlift.assemble_transient`.

    Raises
    ------
    InputError
        If these are no finite numbers, or two are of the same time.
    """
    expected = "rows of a time and the value from then on"
    array = _rows(name, pairs, 2, expected, "give [[0.0, 2.5], [60.0, 0.0]], for example")
    array = array[np.argsort(array[:, 0], kind="stable")]
    same = np.flatnonzero(np.diff(array[:, 0]) == 0.0)
    if same.size:
        found = f"two at {array[same[0], 0]:g}"
        raise InputError(name, "one value from each time on", found, "keep one of them")
    return Steps(array[:, 0].copy(), array[:, 1].copy(), float(before))


def oscillation(rows: Sequence, mean: float = 0.0, name: str = "periodic") -> Oscillation:
    """A number that oscillates, in the place of one that does not change.

    Parameters
    ----------
    rows : (n, 3) array_like
        Period, amplitude and a time of the maximum of each cosine:
        ``[[600.0, 0.003, 0.0]]`` is one with a period of 600 seconds and its maximum at time 0.
        The field is the one long after they began.
    mean : float
        What the number oscillates about.
    name : str
        What error messages call it.

    Returns
    -------
    Oscillation
        For a source or a boundary value of :func:`invlift.assemble_transient`.

    Raises
    ------
    InputError
        If these are no finite numbers, or a period is not positive.
    """
    expected = "rows of a period, an amplitude and a time of the maximum"
    array = _rows(name, rows, 3, expected, "give [[600.0, 0.003, 0.0]], for example")
    bad = np.flatnonzero(array[:, 0] <= 0.0)
    if bad.size:
        where, found = (name, f"row {bad[0] + 1}"), f"{array[bad[0], 0]:g}"
        raise InputError(where, "a positive period", found, "give it in the unit of the times")
    return Oscillation(*array.T.copy(), float(mean))


def _rows(name: str, given: Sequence, width: int, expected: str, remedy: str) -> np.ndarray:
    """Rows of finite numbers, (n, width)."""
    array = as_numbers(name, given, expected, remedy)
    if array.ndim != 2 or array.shape[1] != width or not len(array):
        raise InputError(name, expected, f"shape {array.shape}", f"give {width} numbers a row")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        found = ", ".join(f"{each:g}" for each in array[bad[0]])
        raise InputError((name, f"row {bad[0] + 1}"), "finite numbers", found, "correct it")
    return array


def check_is_steady(value: Any) -> None:
    """Refuse a number that changes in time, where the field has no storage."""
    if isinstance(value, SCHEDULES):
        expected, found = "the storage, as a number changes in time", "none"
        raise InputError("storage", expected, found, "give it, or a number that does not change")
