"""Dates as tables have them: ISO 8601, or day and month in an order that all entries tell."""

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
#: Places of year, month and day in a date by the order, as notes call it.
_ORDERS = {
    "day, month, year": (2, 1, 0),
    "month, day, year": (2, 0, 1),
    "year, month, day": (0, 1, 2),
}
#: What notes call dates that say their order.
_ISO = "ISO 8601"
_ZONE = re.compile(r"\b(?:UTC|GMT)\s*(?:([+-])(\d{1,2})(?::?(\d{2}))?)?(?![\w:])")


def date_of(text: str, where: str) -> datetime:
    """A date in ISO 8601, which writes year, month and day in this order."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        expected = "a date in ISO 8601, such as 2024-04-03T12:30:00 or 2024-04-03T12:30:00+02:00"
        raise InputError(where, expected, repr(text[:40]), IN_ORDER) from None


def zone_in(text: str) -> str:
    """The zone in the name of a column, "GMT+11:00" or "UTC", or ""."""
    match = _ZONE.search(text)
    return match[0] if match else ""


def zone_of(text: str) -> timezone | None:
    """The zone that a unit of times is, "GMT+11:00" or "UTC"; None if it is none."""
    match = _ZONE.fullmatch(text)
    if match is None:
        return None
    sign, hours, minutes = match.groups(default="0")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def dates_of(entries: Sequence[str], places: Sequence[str]) -> tuple[list[datetime], str]:
    """Dates of a table, and the order that they are in if it is not that of ISO 8601, or "".

    Days before months are told from months before days by all entries together: one with a number
    above 12 tells.  With points between them days are first.  In a table with dates in several
    formats, of other marks, each must tell by itself.

    Parameters
    ----------
    entries : sequence of str
    places : sequence of str
        Where they are, for error messages.

    Raises
    ------
    InputError
        For an entry that is no date, entries of several orders, and if several orders are possible
        and mean different days.
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
    """As :func:`dates_of`, of dates that are all in ISO 8601 or all have the same marks."""
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
    """The day of a date in an order, or None if it is none in this order."""
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
    """The time of day behind a date, on any day; midnight if there is none."""
    text = " ".join((match[5] or "0:00").replace(",", ".").upper().split())
    for clock in _CLOCKS:
        try:
            return datetime.strptime(text, clock)
        except ValueError:
            continue
    expected = "a time of day, such as 14:30:00 or 2:30:00 PM"
    raise InputError(where, expected, repr(match[5][:40]), IN_ORDER)
