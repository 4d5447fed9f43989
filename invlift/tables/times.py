"""Times in tables, numbers with a unit or dates, as numbers in one unit; and tables of steps."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import NamedTuple

import numpy as np
import pandas as pd

from invlift.errors import InputError, KeyPath, as_text
from invlift.fem.readings.sensors import check_missing
from invlift.fem.time.schedules import Steps, steps
from invlift.tables.dates import IN_ORDER, dates_of, zone_of
from invlift.tables.numbers import is_number
from invlift.tables.table import Table, read_table
from invlift.units import TIMES, without_unit

#: Seconds of each unit, by its name in a problem file.
SECONDS = {name: TIMES[name] for name in ("s", "min", "h", "d", "week", "year")}
_NAMES = {seconds: name for name, seconds in SECONDS.items()}
#: Dates such as 1.5.2011 and 01.05.11, as opposed to numbers with points between thousands.
_IN_POINTS = re.compile(r"\d{1,2}\.\d{1,2}\.\d{2,4}\b")
#: A time of day without a date.
_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]\.?m\.?)?", re.IGNORECASE)


class Clock(NamedTuple):
    """Units of time and start date of the tables of a problem.

    Attributes
    ----------
    unit : str or None
        The unit of time of the equation, one of :data:`SECONDS`, also of the storage, of steps and
        of results.
    start : datetime or None
        The date of time 0.  Its offset from UTC, if any, is that of all dates without one.
    written : str or None
        The unit of times in a table, if it differs from ``unit``.
    """

    unit: str | None = None
    start: datetime | None = None
    written: str | None = None


def with_times(table: Table, column: str, clock: Clock) -> Table:
    """Convert the times in a column to numbers, as :func:`read_times`.

    The unit in the header may be a unit of time, or the time zone of dates.
    """
    entries, unit = table.frame[column].tolist(), table.units.get(column, "")
    places = [table.at(row, column) for row in range(len(entries))]
    if _has_dates(table, column):
        zone, texts = zone_of(unit), list(map(str, entries))
        times, order = _read(texts, places, clock, zone)
        taken = [f"dates as times in {clock.unit} since {clock.start.isoformat()}"]
        taken += [f"dates in the order {order}"] if order else []
        taken += [f"dates in {unit}, as the header says"] if zone else []
        table = replace(table, taken=(*table.taken, *taken))
        return _in_unit_of_clock(table, column, times)
    table = table.with_numbers([column])
    unit = table.units.get(column, "")  # of the header, or behind all entries
    _check_are_no_dates(table.array(column), places, clock, has_unit=bool(unit))
    times = table.array(column) * _factor(clock, unit, places[0])
    return _in_unit_of_clock(table, column, times)


def _has_dates(table: Table, column: str) -> bool:
    return any(isinstance(entry, str) and _is_date(entry) for entry in table.frame[column])


def _in_unit_of_clock(table: Table, column: str, times: np.ndarray) -> Table:
    """Return the table with converted times and without their unit in the header."""
    units = {name: unit for name, unit in table.units.items() if name != column}
    return replace(table.with_column(column, times), units=units)


def with_lengths(table: Table, column: str, beside: str, clock: Clock) -> Table:
    """Convert lengths of time in a column to the unit of the equation; a missing entry is NaN.

    Their unit is that of the column, in its header or behind its entries, else that of the column
    of times, `beside`, else that of the clock.
    """
    columns = [column] if _has_dates(table, beside) else [column, beside]
    table = table.with_numbers(columns, sparse={column})
    of_times = table.units.get(beside, "")
    unit = table.units.get(column) or (of_times if _name_of(of_times) else "")
    factor = _factor(clock, unit, table.at(0, column))
    return _in_unit_of_clock(table, column, table.array(column) * factor)


def read_times(entries: Sequence[str], places: Sequence[str | KeyPath], clock: Clock) -> np.ndarray:
    """Convert times of a table to numbers, (n,), in the unit of the equation.

    Parameters
    ----------
    entries : sequence of n str
        All numbers, or all dates.
    places : sequence of n str, or paths
        Places of the entries for error messages.
    clock : Clock

    Raises
    ------
    InputError
        If an entry is neither a number nor a date, dates are mixed with numbers, only some dates
        have a time zone, or a needed unit or start is missing.
    """
    return _read(entries, places, clock, None)[0]


def _read(entries, places, clock: Clock, zone: timezone | None) -> tuple[np.ndarray, str]:
    """Return times, and the name of the order of dates, "" for ISO 8601 or numbers."""
    is_date = [_is_date(entry) for entry in entries]
    if not any(is_date):
        numbers = np.array([_number_of(*each) for each in zip(entries, places, strict=True)])
        _check_are_no_dates(numbers, places, clock)
        return numbers * _factor(clock, "", places[0]), ""
    if not all(is_date):
        first, other = is_date.index(True), is_date.index(False)
        if _is_number(entries[other]) or (not first and entries[other]):
            date_or = f"{entries[other]!r} beside {entries[first]!r}"
            remedy = "write all times of a table in one way"
            raise InputError(places[other], "dates alone, or numbers alone", date_or, remedy)
        _number_of(entries[other], places[other])
    alone = next((k for k, each in enumerate(entries) if _OF_DAY.fullmatch(each)), None)
    if alone is not None:
        remedy = 'join it with the column of dates: columns = { time = "Date + Time" }'
        raise InputError(places[alone], "a date and a time", repr(entries[alone]), remedy)
    dates, order = dates_of(entries, places)
    if zone is not None and all(date.tzinfo is None for date in dates):
        dates = [date.replace(tzinfo=zone) for date in dates]
    return _since_start(dates, entries, places, clock), order


def _check_are_no_dates(
    times: np.ndarray, places: Sequence[str | KeyPath], clock: Clock, has_unit: bool = False
) -> None:
    """Refuse times that are all dates as numbers: 20240403, or days or seconds since an epoch."""
    if (dates := _as_dates(times)).size:
        date, of = pd.Timestamp(dates[0]), ""
    elif clock.start is not None and (of := _epoch_near(times, clock, has_unit)):
        unit, epoch = _EPOCHS[of]
        date, of = epoch + pd.to_timedelta(times[0], unit), f" {of}"
    else:
        return
    expected = "a number, or a date with marks such as 2024-04-03"
    found = f"{times[0]:.15g}, which may be the date {date:%d %B %Y}{of}"
    raise InputError(places[0], expected, found, "write the date with marks: 2024-04-03")


def _as_dates(times: np.ndarray) -> np.ndarray:
    """Return times such as 20240403 as dates, (n,); empty if not all are dates."""
    if not np.all((times >= 19000101) & (times <= 21001231)):  # no text of 100,000 times is made
        return np.zeros(0, "datetime64[ns]")
    texts = pd.Series(times).map("{:.15g}".format)
    dates = pd.to_datetime(texts, format="%Y%m%d", errors="coerce")
    return dates.to_numpy() if dates.notna().all() else np.zeros(0, "datetime64[ns]")


#: Numbers that programs write for dates: unit and date of 0.
_EPOCHS = {
    "of a spreadsheet": ("D", pd.Timestamp("1899-12-30")),
    "as seconds since 1970": ("s", pd.Timestamp("1970-01-01")),
    "as milliseconds since 1970": ("ms", pd.Timestamp("1970-01-01")),
}
#: Farthest from the start that dates are expected.
_SPAN = pd.Timedelta(days=5 * 365.25)


def _epoch_near(times: np.ndarray, clock: Clock, has_unit: bool) -> str:
    """Return the name of the numbers if all times are then dates near the start, else ""."""
    start = pd.Timestamp(clock.start).tz_localize(None)
    for name, (unit, epoch) in _EPOCHS.items():
        size = pd.Timedelta(1, unit)
        if np.all(np.abs(times - (start - epoch) / size) <= _SPAN / size):
            # 43200 s is half a day: whole numbers of short units are times.
            is_short = (clock.written or clock.unit) in ("s", "min")
            is_time = has_unit or (is_short and np.all(times % 1.0 == 0.0))
            return "" if unit == "D" and is_time else name
    return ""


def _number_of(entry: str, where: str) -> float:
    if not _is_number(entry):
        expected, found = "a number or a date", repr(entry[:40]) if entry else "an empty entry"
        raise InputError(where, expected, found, "correct it, or remove the row")
    return float(entry)


def _is_number(entry: str) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True


def _is_date(entry: str) -> bool:
    """Return whether an entry looks like a date: it starts with a digit and is not a number."""
    if _IN_POINTS.match(entry):
        return True
    return not is_number(entry) and entry[:1].isdigit() and any(mark in entry for mark in "-/.:")


def _name_of(unit: str) -> str | None:
    """Return the name of a unit of time in a problem file; None if it is not a unit of time."""
    return _NAMES.get(TIMES.get(unit.casefold()))


def _factor(clock: Clock, heading: str, where: str) -> float:
    """Return the factor from the unit of times in a table to the unit of the equation."""
    above = _name_of(heading)
    if heading and above is None:
        expected = f"a unit of time in the header, one of {', '.join(SECONDS)}"
        raise InputError(where, expected, repr(heading), "correct it, or leave it out")
    if heading and clock.written and above != clock.written:
        expected, found = (
            f"time in {clock.written}, as time_unit says",
            f"{heading!r} in the header",
        )
        raise InputError(where, expected, found, "leave out one of the two")
    written = above or clock.written
    if not written:
        return 1.0
    if clock.unit is None:
        _refuse_without_unit(f"as {as_text(where)} is in {written}")
    return SECONDS[written] / SECONDS[clock.unit]


def _refuse_without_unit(why: str) -> None:
    expected = f"the unit of time of the equation, {why}"
    remedy = f"give the one of storage and steps, one of {', '.join(SECONDS)}"
    raise InputError("time_unit", expected, "none", remedy)


def _since_start(dates, entries, places, clock: Clock) -> np.ndarray:
    first = as_text(places[0])
    if clock.unit is None:
        _refuse_without_unit(f"as {first} is a date")
    if clock.start is None:
        expected, remedy = (
            f"the date of time 0, as {first} is a date",
            f"give {entries[0]!r}",
        )
        raise InputError("start", expected, "none", f"{remedy}, say")
    has_zone = [date.tzinfo is not None for date in dates]
    if any(has_zone) and not all(has_zone):
        row = has_zone.index(not has_zone[0])
        kinds = "a date without a zone beside dates with one"
        if not has_zone[0]:
            kinds = "a date with a zone beside dates without one"
        expected = "dates that all have a zone, or none"
        raise InputError(places[row], expected, f"{entries[row]!r}, {kinds}", IN_ORDER)
    if all(has_zone) and clock.start.tzinfo is None:
        expected = f"a start with a zone, as {first} has one"
        found = clock.start.isoformat()
        raise InputError("start", expected, found, f"write {found}+00:00 if this is UTC")
    if not any(has_zone):
        dates = [date.replace(tzinfo=clock.start.tzinfo) for date in dates]
    seconds = [(date - clock.start).total_seconds() for date in dates]
    return np.array(seconds) / SECONDS[clock.unit]


#: Columns of a table of steps.
TIME, STRENGTH = "time", "strength"


def read_steps(
    path: str | os.PathLike, before: float = 0.0, clock: Clock | None = None, unit: str = ""
) -> Steps:
    """Read steps from a table with the columns ``time`` and ``strength``.

    Parameters
    ----------
    path : str or path-like
    before : float
        Value before the first row.
    clock : Clock, optional
        Unit of time and start date for the times of the table; without a clock they are numbers.
    unit : str
        Unit of the result, if it is known; a strength with another unit in its header is converted.

    Returns
    -------
    Steps
        As from :func:`steps`.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, or the unit of the strength cannot be
        converted; also as :func:`steps`, with the name of the file.
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
    units = [without_unit(each)[1] for each in table.columns]
    if clock is None:
        units[names.index(TIME)] = ""
    table = table.renamed(names, units)
    times = with_times(table, TIME, clock or Clock()).array(TIME)
    table = table.with_numbers([STRENGTH])
    check_missing(table.array(STRENGTH), table.rows, table.name, STRENGTH)
    # The unit is that of the header, or behind all entries.
    values = table.factor_to(STRENGTH, unit) * table.array(STRENGTH)
    for column, numbers in ((TIME, times), (STRENGTH, values)):
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            where, found = table.at(bad[0], column), f"{numbers[bad[0]]:g}"
            raise InputError(where, "a finite number", found, "correct it, or remove the row")
    return steps(np.stack([times, values], axis=1), before, table.name)
