"""Dates in tables: ISO 8601, or an order of day and month found from all entries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from invlift.errors import InputError

IN_ORDER = "write year, month and day in this order, and say the zone once, in [pde] start"
_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?:[T ,]+(\d.*))?")
_CLOCKS = [
    f"{clock}{zone}"
    for clock in ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
    for zone in ("", "%z", " %z")
]
#: Name of an order in notes -> positions of year, month and day in a date.
_ORDERS = {
    "day, month, year": (2, 1, 0),
    "month, day, year": (2, 0, 1),
    "year, month, day": (0, 1, 2),
}
#: Name in notes of dates with a standard order.
_ISO = "ISO 8601"
_ZONE = re.compile(r"\b(?:UTC|GMT)\s*(?:([+-])(\d{1,2})(?::?(\d{2}))?)?(?![\w:])")


def date_of(text: str, where: str) -> datetime:
    """Parse a date in ISO 8601, with year, month and day in this order."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        expected = "a date in ISO 8601, such as 2024-04-03T12:30:00 or 2024-04-03T12:30:00+02:00"
        raise InputError(where, expected, repr(text[:40]), IN_ORDER) from None


def zone_in(text: str) -> str:
    """Return the time zone in the name of a column, "GMT+11:00" or "UTC", or ""."""
    match = _ZONE.search(text)
    return match[0] if match else ""


def zone_of(text: str) -> timezone | None:
    """Return the time zone of a text such as "GMT+11:00" or "UTC"; None for any other text."""
    match = _ZONE.fullmatch(text)
    if match is None:
        return None
    sign, hours, minutes = match.groups(default="0")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def dates_of(entries: Sequence[str], places: Sequence[str]) -> tuple[list[datetime], str]:
    """Parse the dates of a table; also return the name of their order, "" for ISO 8601.

    The order of day and month is found from all entries together: a number above 12 decides.  Dates
    with points do not begin with the month.  If a table has dates with different separators, each
    date must be unambiguous by itself.

    Parameters
    ----------
    entries : sequence of str
    places : sequence of str
        Places of the entries for error messages.

    Raises
    ------
    InputError
        If an entry is not a date, entries have different orders, or several orders are possible and
        give different days.
    """
    matches = [_DATE.fullmatch(entry) for entry in entries]
    formats = [_ISO if _is_iso(entry) else match and match[2]
               for entry, match in zip(entries, matches, strict=True)]  # fmt: skip
    if None in formats[1:] and formats[0]:
        row = formats.index(None)
        found = f"{entries[row]!r} beside {entries[0]!r}"
        raise InputError(places[row], "a date as the others", found, IN_ORDER)
    if len(set(formats)) == 1 or not formats[0]:
        return _of_one_format(entries, places, matches)
    orders = {}
    for each in dict.fromkeys(formats):
        own = [row for row, found in enumerate(formats) if found == each]
        parts = ([given[row] for row in own] for given in (entries, places, matches))
        orders[_of_one_format(*parts)[1] or _ISO] = None
    dates = [_of_one_format([entry], [place], [match])[0][0]
             for entry, place, match in zip(entries, places, matches, strict=True)]  # fmt: skip
    return dates, f"{' or '.join(orders)}, row by row"


def _of_one_format(entries, places, matches) -> tuple[list[datetime], str]:
    """As :func:`dates_of`, for dates that are all in ISO 8601 or all have the same separator."""
    if matches[0] is None or _is_iso(entries[0]):
        return [date_of(*each) for each in zip(entries, places, strict=True)], ""
    clocks = [_clock_of(*each) for each in zip(matches, places, strict=True)]
    read = {order: [_date(match, *order) for match in matches] for order in _ORDERS.values()}
    possible = {name: read[order] for name, order in _ORDERS.items() if None not in read[order]}
    if not possible:
        row = max(each.index(None) for each in read.values())
        found = repr(entries[row]) + (f" beside {entries[0]!r}" if row else "")
        raise InputError(places[row], "dates of one order", found, IN_ORDER)
    (name, dates), *others = possible.items()
    for _, other in others:
        row = next((k for k, (a, b) in enumerate(zip(dates, other, strict=True)) if a != b), None)
        if row is not None:
            expected = f"{dates[row]:%d %B %Y} or {other[row]:%d %B %Y}"
            found = f"{entries[row]!r}, which may be either"
            raise InputError(places[row], expected, found, IN_ORDER)
    whole = [
        datetime.combine(date, clock.timetz()) for date, clock in zip(dates, clocks, strict=True)
    ]
    return whole, name


def _is_iso(entry: str) -> bool:
    try:
        datetime.fromisoformat(entry)
    except ValueError:
        return False
    return True


def _date(match: re.Match, year: int, month: int, day: int) -> datetime | None:
    """Return the day of a date in an order; None if it is not a date in this order."""
    digits = match[1], match[3], match[4]
    has_century = len(digits[year]) == 4
    is_other = match[2] == "." and (month == 0 or (year == 0 and not has_century))
    if is_other or max(len(digits[month]), len(digits[day])) > 2:
        return None
    try:
        text = f"{digits[year]} {digits[month]} {digits[day]}"
        return datetime.strptime(text, "%Y %m %d" if has_century else "%y %m %d")
    except ValueError:
        return None


def _clock_of(match: re.Match, where: str) -> datetime:
    """Return the time of day after a date, on an arbitrary day; midnight if there is none."""
    text = " ".join((match[5] or "0:00").replace(",", ".").upper().split())
    for clock in _CLOCKS:
        try:
            return datetime.strptime(text, clock)
        except ValueError:
            continue
    expected = "a time of day, such as 14:30:00 or 2:30:00 PM"
    raise InputError(where, expected, repr(match[5][:40]), IN_ORDER)
