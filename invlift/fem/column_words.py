"""Columns of a table that change what its readings are: valid or not, times, errors, units.

Tables of people have more columns than the readings need.  One that says nothing about the readings
is kept beside the results, and named; one that does is used, or refused with what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from invlift.errors import InputError

Lines = list[tuple[int, list[str]]]

#: Names of columns in small letters, without units.
_VALID = {"valid", "is valid"}
_TIMES = {"time", "times", "date", "datetime", "date time", "timestamp", "zeit", "datum", "uhrzeit"}
_REFUSED = {
    "sigma if it is the standard deviation of the value, in the value's unit": {
        "error", "errors", "err", "std", "sd", "stdev", "std dev", "standard deviation",
        "uncertainty", "accuracy",
    },
    "sigma with the standard deviation that the weight stands for": {"weight", "weights"},
}  # fmt: skip
_UNITS = {"unit", "units"}
_YES, _NO = {"1", "1.0", "true", "yes"}, {"0", "0.0", "false", "no"}
#: Columns that say what a reading is of.
_PLACES = {*"xyzabmn", "x2", "y2", "z2", "radius", "kind", "over", "experiment"}
_UNIT = re.compile(r"\s*(\[[^\]]*\]|\([^)]*\))$")
#: Prefixes of units, and their factors.
_PREFIXES = {"": 1.0, "G": 1e9, "M": 1e6, "k": 1e3, "d": 0.1, "c": 1e-2, "m": 1e-3, "u": 1e-6,
             "µ": 1e-6, "μ": 1e-6, "n": 1e-9}  # fmt: skip
#: Units whose differences are the same.
_KELVINS = {"K", "°C", "degC", "C", "℃"}


def without_unit(column: str) -> tuple[str, str]:
    """The name of a column, and the unit behind it: "x [m]" or "x (m)" is x in m."""
    bare = _UNIT.sub("", column)
    return bare, column[len(bare) :].strip()[1:-1].strip()


def used_lines(lines: Lines, name: str, has_times: bool = False) -> tuple[Lines, list[str]]:
    """The lines of a table that are readings, the header first, and notes on the others.

    Rows that a column ``valid`` marks with 0 or false are left out.  With times a column of them is
    one of the readings'.

    Raises
    ------
    InputError
        If that column has another entry than a yes or a no; if one place is read at several times,
        which a steady problem does not have; if a column seems to be an error or a weight under
        another name than sigma; if rows are in several units.
    """
    (first, header), *rows = lines
    words = [re.sub("[_-]+", " ", without_unit(column)[0]).casefold() for column in header]
    notes, is_whole = [], all(len(entries) == len(header) for _, entries in rows)
    for number, word in enumerate(words):
        where = f"{name}, row {first}, column {header[number]}"
        for remedy, refused in _REFUSED.items():
            if word in refused:
                what = f"rename it: {remedy}; or to a name that says nothing of errors"
                raise InputError(where, "a column sigma for the noise", repr(header[number]), what)
        if not is_whole:  # which is told where entries are read
            continue
        if word in _UNITS and len(found := {entries[number] for _, entries in rows}) > 1:
            remedy = "convert the readings to one unit and remove the column"
            raise InputError(where, "one unit", f"{', '.join(sorted(found))}", remedy)
        if word in _TIMES and not has_times:
            notes += _note_on_times(rows, header, number, where)
    if is_whole:
        rows, left_out = _valid_rows(rows, header, words, name)
        notes += left_out
    return [(first, header), *rows], notes


def _valid_rows(rows: Lines, header, words, name: str) -> tuple[Lines, list[str]]:
    column = next((number for number, word in enumerate(words) if word in _VALID), None)
    if column is None:
        return rows, []
    for row, entries in rows:
        if entries[column].casefold() not in _YES | _NO:
            where, found = f"{name}, row {row}, column {header[column]}", repr(entries[column])
            remedy = "say whether the reading is valid, or remove the row or the column"
            raise InputError(where, "1 or 0", found, remedy)
    kept = [line for line in rows if line[1][column].casefold() in _YES]
    if not kept and rows:
        remedy = "remove the column if its readings are valid"
        raise InputError(name, "at least one valid reading", "none", remedy)
    num = len(rows) - len(kept)
    return kept, [f"{num} rows are not valid by the column {header[column]}"] if num else []


def _note_on_times(rows: Lines, header, column: int, where: str) -> list[str]:
    """Refuse several times of one place; a note on different times of different places."""
    places = [number for number, each in enumerate(header) if without_unit(each)[0] in _PLACES]
    seen: dict[tuple, str] = {}
    for row, entries in rows:
        place, time = tuple(entries[number] for number in places), entries[column]
        if seen.setdefault(place, time) != time:
            found = f"row {row} reads at {time} where an earlier row reads at {seen[place]}"
            remedy = "give [pde] storage if the field changes in time; else keep the rows of one "
            remedy += "time, at which nothing changes any more, or average them"
            raise InputError(where, "one time: the problem is steady", found, remedy)
    if len({*seen.values()}) == 1:
        return []
    return ["readings of several times are taken as of one steady state"]


def unused(columns: Sequence[str], used: Sequence[str]) -> list[str]:
    """A note on columns that say nothing here."""
    others = [column for column in columns if column not in used]
    return [f"not used, only kept beside results: {', '.join(others)}"] if others else []


def sigma_factor(header: Sequence[str], name: str) -> float:
    """By what entries of sigma are multiplied to be in the unit of the value.

    Raises
    ------
    InputError
        If both have units of which one is not the other with another prefix.
    """
    units = dict(map(without_unit, header))
    value, sigma = units.get("value", ""), units.get("sigma", "")
    if sigma == "%":
        remedy = "multiply it by the values, or leave it out and give [noise] relative = true"
        raise InputError(f"{name}, row 1, column sigma", "the unit of the value", "'%'", remedy)
    if not value or not sigma or value == sigma or {value, sigma} <= _KELVINS:
        return 1.0
    factors = [
        _PREFIXES[own] / _PREFIXES[other]
        for own in _PREFIXES
        for other in _PREFIXES
        if sigma.startswith(own) and value.startswith(other)
        and sigma[len(own) :] == value[len(other) :] != ""
    ]  # fmt: skip
    if not factors:
        where = f"{name}, row 1, column sigma"
        remedy = "convert it to the unit of the value"
        raise InputError(where, f"the unit of the value, {value!r}", repr(sigma), remedy)
    return factors[0]


def check_lengths(header: Sequence[str], name: str) -> None:
    """Refuse coordinates in several units."""
    units = dict(map(without_unit, header))
    axes = "x", "y", "z", "x2", "y2", "z2", "radius"
    found = {units[axis] for axis in axes if units.get(axis)}
    if len(found) > 1:
        remedy = "convert them to the unit of the mesh"
        raise InputError(
            f"{name}, row 1", "coordinates in one unit", ", ".join(sorted(found)), remedy
        )
