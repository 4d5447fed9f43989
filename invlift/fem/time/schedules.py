"""Schedules of values that change in time: steps, oscillations and functions of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from invlift.errors import InputError, KeyPath, as_numbers
from invlift.fem.mesh.expressions import evaluate, separated
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.time.functions import FunctionOfTime, function_of_time
from invlift.fem.time.moments import moment_of_turns
from invlift.fem.time.shifts import distinct_rows, oscillation_weights, response_weights


class Steps(NamedTuple):
    """A value that is constant between the times at which it changes; make one with :func:`steps`.

    Attributes
    ----------
    times : (n,) array
        Times of the changes, ascending.
    values : (n,) array
        Value from each of these times on.
    before : float
        Constant value at all times before the first change, when the field is steady.
    """

    times: np.ndarray
    values: np.ndarray
    before: float

    @property
    def changes(self) -> np.ndarray:
        """Size of the change at each of the times, (n,)."""
        return np.diff(self.values, prepend=self.before)

    @property
    def frequencies(self) -> np.ndarray:
        """Frequencies of periodic parts, in radians over time: none."""
        return np.zeros(0)

    def spans(self, times: np.ndarray) -> np.ndarray:
        """Return the positive differences between times, (n,), and times of changes, flat."""
        after = times[:, None] - self.times
        return after[after > 0.0]

    def weights(self, shifts: np.ndarray, times: np.ndarray, lengths=0.0, orders=0.0) -> np.ndarray:
        """Return weights, (n, K), of the shifted solutions in the response at times, (n,).

        Where a length is positive, the response is the mean over an interval of this length that
        ends at the time, or its moment of a positive order.
        """
        return sum(
            change * response_weights(shifts, times - begun, lengths, orders)
            for change, begun in zip(self.changes, self.times, strict=True)
        )

    def begun(self, before: float, where: KeyPath) -> Steps:
        """Return the value from time 0 on, which is ``before`` until then.

        Raises
        ------
        InputError
            If a value changes before time 0 or has no beginning.
        """
        if self.times[0] < 0.0:
            expected, found = "steps from time 0 on, as there is an initial state", "earlier ones"
            remedy = f"give their value at 0 (from {self.times[0]:g})"
            raise InputError(where, expected, found, remedy)
        first = [0.0] if self.times[0] > 0.0 else []
        values = np.append([self.before] * len(first), self.values)
        return Steps(np.append(first, self.times), values, float(before))


class Oscillation(NamedTuple):
    """A value that oscillates at all times; make one with :func:`oscillation`.

    Attributes
    ----------
    periods, amplitudes, peaks : (n,) array
        Periods and amplitudes of a sum of cosines, and a time of the maximum of each.
    before : float
        The mean: the field oscillates about the steady field of this value.
    """

    periods: np.ndarray
    amplitudes: np.ndarray
    peaks: np.ndarray
    before: float

    @property
    def frequencies(self) -> np.ndarray:
        """Frequencies of the cosines, in radians over time, (n,)."""
        return 2.0 * np.pi / self.periods

    def spans(self, times: np.ndarray) -> np.ndarray:
        """As :meth:`Steps.spans`: empty, as there are no steps."""
        return np.zeros(0)

    def weights(self, shifts: np.ndarray, times: np.ndarray, lengths=0.0, orders=0.0) -> np.ndarray:
        """As :meth:`Steps.weights`, for the response to the cosines."""
        total = np.zeros((len(times), len(shifts)))
        distinct, which = distinct_rows(lengths + 0.0 * times, orders)
        for frequency, amplitude, peak in zip(
            self.frequencies, self.amplitudes, self.peaks, strict=True
        ):
            means = np.array([moment_of_turns(frequency * each, order) for each, order in distinct])
            turned = np.exp(1j * frequency * (times - lengths - peak)) * means[which]
            total += amplitude * np.outer(turned, oscillation_weights(shifts, frequency)).real
        return total

    def begun(self, before: float, where: KeyPath) -> Steps:
        """Raise the error of :meth:`Steps.begun`."""
        expected, remedy = "steps, as there is an initial state", "leave out the initial state"
        raise InputError(where, expected, "a periodic number, which has no beginning", remedy)


Schedule = Steps | Oscillation | FunctionOfTime


class ChangingField(NamedTuple):
    """A field that changes in time: the values on a mesh of an expression in places and the time.

    Attributes
    ----------
    steady : (n,) array
        The part that does not change, at the nodes.
    terms : tuple
        Pairs of a field at the nodes, (n,), and the schedule that it is multiplied by.
    """

    steady: np.ndarray
    terms: tuple[tuple[np.ndarray, Schedule], ...]

    @property
    def before(self) -> np.ndarray:
        """Field at all times before the first change, (n,)."""
        with np.errstate(invalid="ignore"):  # off a boundary group a field may be infinite
            return self.steady + sum(field * schedule.before for field, schedule in self.terms)

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> ChangingField:
        """Apply a function, such as an interpolation, to each field."""
        terms = [(function(field), schedule) for field, schedule in self.terms]
        return ChangingField(function(self.steady), tuple(terms))

    def begun(self, before: float, where: KeyPath) -> ChangingField:
        """As :meth:`Steps.begun`, for a number before time 0."""
        terms = [(field, schedule.begun(0.0, where)) for field, schedule in self.terms]
        terms += [
            (self.steady, steps([[0.0, 1.0]])),
            (np.ones_like(self.steady), steps([[0.0, 0.0]], before)),
        ]
        return ChangingField(np.zeros_like(self.steady), tuple(terms))


#: Types of values that change in time.
SCHEDULES = Steps, Oscillation, FunctionOfTime, ChangingField


def terms_of(value: Any) -> tuple[tuple[float | np.ndarray, Schedule], ...]:
    """Return pairs of a factor and its schedule, which sum to what changes in a value."""
    if isinstance(value, ChangingField):
        return value.terms
    return ((1.0, value),) if isinstance(value, SCHEDULES) else ()


def changing_field(mesh: Mesh, expression: str, name: str | KeyPath) -> ChangingField:
    """Make the values on a mesh of an expression in places and the time.

    Parameters
    ----------
    mesh : Mesh
    expression : str
        A sum of products of expressions in x, y and z and expressions in t:
        ``"12.5 - 0.002 * x + exp(-y) * sin(2 * pi * t / 86400)"``.  The times are as for
        :func:`function_of_time`.
    name : str or path
        Name of the value in error messages.

    Returns
    -------
    ChangingField
        For a source or a boundary value of :func:`invlift.assemble_transient`.  Each different
        expression in t costs as much as one value that changes.

    Raises
    ------
    InputError
        If it is not such a sum, as ``exp(x - t)``, or not finite.
    """
    steady, terms = np.zeros(mesh.num_nodes), []
    for of_time, of_place in separated(expression, name):
        field = evaluate(of_place, mesh.points, name)
        if of_time is None:
            steady += field
        else:
            terms.append((field, function_of_time(of_time, name)))
    return ChangingField(steady, tuple(terms))


def steps(pairs: Sequence, before: float = 0.0, name: str = "steps") -> Steps:
    """Make a value that changes in steps, to use in place of a constant.

    Parameters
    ----------
    pairs : (n, 2) array_like
        Times, in the unit of the readings' times, and the value from each time on:
        ``[[0.0, -0.003], [5400.0, 0.0]]`` is a well that is pumped for 5,400 seconds.
    before : float
        Value before the first time.
    name : str
        Name of the value in error messages.

    Returns
    -------
    Steps
        For a source or a boundary value of :func:`invlift.assemble_transient`.

    Raises
    ------
    InputError
        If a number is not finite, or two rows have the same time.
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
    """Make a value that oscillates, to use in place of a constant.

    Parameters
    ----------
    rows : (n, 3) array_like
        Period, amplitude and a time of the maximum of each cosine:
        ``[[600.0, 0.003, 0.0]]`` is one with a period of 600 seconds and its maximum at time 0.
        The field is the periodic one, long after the oscillation began.
    mean : float
        Mean of the value.
    name : str
        Name of the value in error messages.

    Returns
    -------
    Oscillation
        For a source or a boundary value of :func:`invlift.assemble_transient`.

    Raises
    ------
    InputError
        If a number is not finite, or a period is not positive.
    """
    expected = "rows of a period, an amplitude and a time of the maximum"
    array = _rows(name, rows, 3, expected, "give [[600.0, 0.003, 0.0]], for example")
    bad = np.flatnonzero(array[:, 0] <= 0.0)
    if bad.size:
        where, found = (name, f"row {bad[0] + 1}"), f"{array[bad[0], 0]:g}"
        raise InputError(where, "a positive period", found, "give it in the unit of the times")
    return Oscillation(*array.T.copy(), float(mean))


def _rows(name: str, given: Sequence, width: int, expected: str, remedy: str) -> np.ndarray:
    """Return the rows as an array, (n, width), and check that all numbers are finite."""
    array = as_numbers(name, given, expected, remedy)
    if array.ndim != 2 or array.shape[1] != width or not len(array):
        raise InputError(name, expected, f"shape {array.shape}", f"give {width} numbers a row")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        found = ", ".join(f"{each:g}" for each in array[bad[0]])
        raise InputError((name, f"row {bad[0] + 1}"), "finite numbers", found, "correct it")
    return array


def check_is_steady(value: Any) -> None:
    """Refuse a value that changes in time, for a field without storage."""
    if isinstance(value, SCHEDULES):
        expected, found = "the storage, as a number changes in time", "none"
        raise InputError("storage", expected, found, "give it, or a number that does not change")
