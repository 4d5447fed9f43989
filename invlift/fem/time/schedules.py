"""What drives a field in time: numbers that change in steps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from invlift.errors import InputError, as_numbers
from invlift.fem.time.clock import Clock, times_of
from invlift.tables.table import read_table
from invlift.tables.units import without_unit

#: Columns of a table of steps.
TIME, STRENGTH = "time", "strength"


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

    Raises
    ------
    InputError
        If these are no finite numbers, or two are of the same time.
    """
    expected = "rows of a time and the value from then on"
    array = as_numbers(name, pairs, expected, "give [[0.0, 2.5], [60.0, 0.0]], for example")
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise InputError(name, expected, f"shape {array.shape}", "give two numbers a row")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        found = ", ".join(f"{each:g}" for each in array[bad[0]])
        raise InputError(f"{name}, row {bad[0] + 1}", "finite numbers", found, "correct it")
    array = array[np.argsort(array[:, 0], kind="stable")]
    same = np.flatnonzero(np.diff(array[:, 0]) == 0.0)
    if same.size:
        found = f"two at {array[same[0], 0]:g}"
        raise InputError(name, "one value from each time on", found, "keep one of them")
    return Steps(array[:, 0].copy(), array[:, 1].copy(), float(before))


def check_is_steady(conditions: Mapping[str, Any]) -> None:
    """Refuse numbers that change in time, where the field has no storage."""
    if _has_steps(conditions):
        expected, found = "the storage, as a number changes in time", "none"
        raise InputError("storage", expected, found, "give it, or a number that does not change")


def _has_steps(given: Any) -> bool:
    if isinstance(given, Steps):
        return True
    if isinstance(given, Mapping):
        given = list(given.values())
    return isinstance(given, list | tuple) and any(map(_has_steps, given))


def read_steps(path: str | os.PathLike, before: float = 0.0, clock: Clock | None = None) -> Steps:
    """Steps of a table with the columns ``time`` and ``strength``, of text with commas.

    The clock says what its times mean; without one they are numbers.

    Raises
    ------
    InputError
        If it cannot be read, or a column is missing; else as :func:`steps`, naming the file.
    """
    table = read_table(path, "a table of steps")
    names = [without_unit(each)[0].casefold() for each in table.columns]
    for column in (TIME, STRENGTH):
        if column not in names:
            where, found = f"{table.name}, row {table.first}", ", ".join(table.columns)
            expected = f"columns {TIME} and {STRENGTH}"
            raise InputError(where, expected, found, f"add {column}, or rename")
    if not len(table.rows):
        expected = "rows of a time and the value from then on"
        raise InputError(table.name, expected, "none", "add them")
    units = [without_unit(each)[1] if clock else "" for each in table.columns]
    table = table.renamed(names, units)
    times = times_of(table, TIME, clock or Clock())
    values = table.with_numbers([STRENGTH]).array(STRENGTH)
    return steps(np.stack([times, values], axis=1), before, table.name)
