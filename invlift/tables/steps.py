"""Tables of a value that changes in steps."""

from __future__ import annotations

import os

import numpy as np

from invlift.errors import InputError
from invlift.fem.time.schedules import Steps, steps
from invlift.tables.table import read_table
from invlift.tables.times import Clock, with_times
from invlift.units import without_unit

#: Columns of a table of steps.
TIME, STRENGTH = "time", "strength"


def read_steps(path: str | os.PathLike, before: float = 0.0, clock: Clock | None = None) -> Steps:
    """Read steps from a table with the columns ``time`` and ``strength``.

    Parameters
    ----------
    path : str or path-like
    before : float
        Value before the first row.
    clock : Clock, optional
        Unit of time and start date for the times of the table; without a clock they are numbers.

    Returns
    -------
    Steps
        As from :func:`steps`.

    Raises
    ------
    InputError
        If the file cannot be read, or a column is missing; also as :func:`steps`, with the name of
        the file.
    """
    table = read_table(path, "a table of steps")
    names = [without_unit(each)[0].casefold() for each in table.columns]
    for column in (TIME, STRENGTH):
        if names.count(column) != 1:
            where, found = f"{table.name}, row {table.first}", ", ".join(table.columns)
            expected = f"columns {TIME} and {STRENGTH}"
            remedy = f"rename one {column}" if column in names else f"add {column}, or rename"
            raise InputError(where, expected, found, remedy)
    if not len(table.rows):
        expected = "rows of a time and the value from then on"
        raise InputError(table.name, expected, "none", "add them")
    units = [without_unit(each)[1] if clock else "" for each in table.columns]
    table = table.renamed(names, units)
    times = with_times(table, TIME, clock or Clock()).array(TIME)
    values = table.with_numbers([STRENGTH]).array(STRENGTH)
    for column, numbers in ((TIME, times), (STRENGTH, values)):
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            where, found = table.at(bad[0], column), f"{numbers[bad[0]]:g}"
            raise InputError(where, "a finite number", found, "correct it, or remove the row")
    return steps(np.stack([times, values], axis=1), before, table.name)
