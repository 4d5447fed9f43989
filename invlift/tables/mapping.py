"""Renaming of columns by patterns, wide tables to long ones, and places from a second table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from invlift.errors import InputError, closest
from invlift.fem.readings.sensors import TEXTS
from invlift.tables.dates import zone_in
from invlift.tables.table import Table
from invlift.units import size_of, without_unit

#: Columns of values, sensor names and times; a wide table has a column of values for each sensor.
VALUE, NAME, TIME = "value", "name", "time"
#: Separator of the names of columns that are joined to one time.
JOIN = " + "


def with_columns(
    table: Table, columns: Mapping[str, str], where: str = "columns", name: str = ""
) -> Table:
    """Rename columns to their standard names, and make a wide table long.

    Parameters
    ----------
    table : Table
    columns : mapping of str to str
        Standard name -> pattern of the column's name, ``{"value": "Temp*", "time": "Date Time*"}``.
        A star is any text, and case does not matter.  If several columns match "value", each gives
        a reading a row; empty ones are left out.  The sensor's name is the text that the last star
        matches, without a unit that all columns end with, as in "Temp north, °C".
        ``{"time": "Date + Time"}`` joins a column of dates and one of times of day.
    where : str
        Place that error messages name.
    name : str
        Name of the sensor, if there is one column of values; else the star gives the names.

    Raises
    ------
    InputError
        If no column matches a pattern, or several match one other than that of "value".
    """
    if JOIN in columns.get(TIME, ""):
        table, joined = _with_joined(table, columns[TIME].split(JOIN), where)
        columns = {**columns, TIME: joined}
    found = {each: _matches(table, pattern, where, each) for each, pattern in columns.items()}
    names = {column: each for each, matches in found.items() if each != VALUE for column in matches}
    values = found.get(VALUE, {})
    names |= dict.fromkeys(values, VALUE) if len(values) == 1 else {}
    renamed = [names.get(each, each) for each in table.columns]
    units = {each: _unit_of(each) for each in (*names, *values)}
    units |= {each: zone_in(each) for each, what in names.items() if what == TIME and zone_in(each)}
    tails = {each.rpartition(", ")[2] if ", " in each else "" for each in values}
    if len(tails) == 1 and size_of(tail := tails.pop()):
        units |= dict.fromkeys(values, tail)
        values = {each: name.removesuffix(tail).rstrip(" ,") for each, name in values.items()}
    if len({units[each] for each in values}) > 1:
        found = ", ".join(sorted(units[each] or "none" for each in values))
        raise InputError((where, VALUE), "columns in one unit", found, "convert them to one")
    notes = _notes_on_units(names, values, units)
    for each in set(names.values()):
        if [name.casefold() for name in renamed].count(each) > 1:
            remedy = f"rename the column that is called {each!r} and means something else"
            remedy += f', or join both: "{columns[TIME]}{JOIN}{TIME}"' if each == TIME else ""
            raise InputError((where, each), "one such column", "another of that name", remedy)
    table = table.renamed(renamed, [""] * len(renamed))
    is_named = len(values) == 1 and name
    has_names = NAME in renamed or is_named or not any(values.values())
    table = _long(table, values, has_names) if values else table
    units = {names.get(each, VALUE): unit for each, unit in units.items() if unit}
    behind = [f"{each} [{units[each]}]" if each in units else each for each in table.columns]
    table = replace(table, remarks=(*table.remarks, *notes))
    return table.renamed(behind, [""] * len(behind))


def _notes_on_units(
    names: Mapping[str, str], values: Mapping[str, str], units: Mapping[str, str]
) -> list[str]:
    """Return notes on texts in brackets that are no known units, by column, of numbers."""
    of_numbers = {each for each, what in names.items() if what not in (TIME, *TEXTS)}
    texts = {each: without_unit(each)[1] for each in (*of_numbers, *values) if not units[each]}
    if len({texts.get(each) for each in values}) > 1:  # names of the sensors
        texts = {each: text for each, text in texts.items() if each not in values}
    return [
        f"{text!r} in {each!r} is not a known unit: the numbers are not converted"
        for each, text in texts.items()
        if any(map(str.isalpha, text))
    ]


def _with_joined(table: Table, patterns: list[str], where: str) -> tuple[Table, str]:
    """Join the entries of several columns with spaces; also return the new column's name."""
    columns = []
    for pattern in patterns:
        columns += _matches(table, pattern, where, TIME)
    name = " ".join(columns)
    frame = table.frame.drop(columns=columns)
    entries = table.frame[columns].astype(str).agg(" ".join, axis=1)
    frame.insert(0, name, entries)
    return replace(table, frame=frame), name


def _named(column: str) -> tuple[str, str]:
    """Split a column's name into name and unit; the unit is "" if it is not a known one."""
    name, unit = without_unit(column)
    return (name, unit) if size_of(unit) else (column, "")


def _unit_of(column: str) -> str:
    """Return the unit in a column's name, also in front of brackets: "Temp, °C (LGR S/N: 7)"."""
    bare, unit = without_unit(column)
    tail = bare.rpartition(", ")[2] if bare != column and ", " in bare else ""
    return next((each for each in (unit, tail) if size_of(each)), "")


def _matches(table: Table, pattern: str, where: str, key: str) -> dict[str, str]:
    """Return the columns that match a pattern, each with the text that the last star matches.

    Several are an error, but for those of values.
    """
    parts = "(.*)".join(map(re.escape, pattern.split("*")))
    by_pattern = {
        each: next(filter(None, (re.fullmatch(parts, name, re.IGNORECASE) for name in
                                 (_named(each)[0], without_unit(each)[0], each))), None)
        for each in table.columns
    }  # fmt: skip
    matches = {each: (match.groups() or ("",))[-1].strip(" _-,:.;")
               for each, match in by_pattern.items() if match}  # fmt: skip
    if not matches:
        close = closest(pattern.strip("*"), table.columns)
        remedy = f"did you mean {close!r}?" if close else "write the name of one"
        listed = ", ".join(map(repr, table.columns))
        raise InputError((where, key), f"a column of {table.name}: {listed}", pattern, remedy)
    if len(matches) > 1 and key != VALUE:
        expected, listed = f"one column of {table.name}", ", ".join(map(repr, matches))
        raise InputError((where, key), expected, listed, "write more of its name")
    return matches


def _long(table: Table, values: Mapping[str, str], has_names: bool) -> Table:
    """Make a row of each value that is not empty, with the sensor's name."""
    columns = [VALUE] if len(values) == 1 else list(values)
    others = table.frame.drop(columns=columns)
    parts = []
    for column, name in zip(columns, values.values(), strict=True):
        own = others.assign(**{VALUE: table.frame[column]})
        parts.append(own if has_names else own.assign(**{NAME: name}))
    frame = pd.concat(parts, ignore_index=True)
    is_there = (frame[VALUE].notna() & (frame[VALUE] != "")).to_numpy()
    taken = [f"{len(columns)} columns of values as rows"] if len(columns) > 1 else []
    empty = int(np.count_nonzero(~is_there))
    taken += [f"{empty} empty value{'s' * (empty > 1)} left out"] if empty else []
    rows = np.tile(table.rows, len(columns))
    whole = replace(table, frame=frame, rows=rows, taken=(*table.taken, *taken))
    return whole.take(is_there)


def with_places(table: Table, places: Table) -> Table:
    """Add the columns of a table of places to the rows with the same sensor name.

    If readings have no names and there is one place, it is that of all readings, as in the file of
    one logger.

    Raises
    ------
    InputError
        If a table has no column ``name``, the table of places lacks a name or has one twice, or
        both tables have another column in common.
    """
    places = _with_name(places)
    if len(places.rows) == 1 and NAME not in map(str.casefold, table.columns):
        table = table.with_column(NAME, str(places.frame[NAME][0]))
    table = _with_name(table)
    both = [each for each in places.columns if each in table.columns and each != NAME]
    if both:
        found = f"{both[0]!r} in {table.name} too"
        raise InputError(places.name, "columns of places", found, "remove one of them")
    names, known = table.frame[NAME].astype(str), places.frame[NAME].astype(str)
    twice = np.flatnonzero(known.duplicated())
    if twice.size:
        found = f"{known[twice[0]]!r} again"
        raise InputError(places.at(twice[0], NAME), "each name once", found, "remove one of them")
    place = pd.Index(known).get_indexer(names)
    missing = np.flatnonzero(place < 0)
    if missing.size:
        lost = list(dict.fromkeys(names[missing]))
        more = f" and {len(lost) - 4} more" if len(lost) > 4 else ""
        found = ", ".join(map(repr, lost[:4])) + more
        close = closest(lost[0], list(known), 0.75)
        remedy = f"did you mean {close!r}?" if close else "add them, or remove the readings"
        expected = f"names that {places.name} has places of"
        raise InputError(table.at(missing[0], NAME), expected, found, remedy)
    own = places.frame.drop(columns=NAME).iloc[place].reset_index(drop=True)
    return replace(table, frame=pd.concat([table.frame, own], axis=1))


def without_readings(places: Table, table: Table) -> list[str]:
    """Return a note on the places without readings."""
    known = _with_name(places).frame[NAME].astype(str)
    unread = known[~known.isin(table.frame[NAME].astype(str))].tolist()
    return [f"no readings of {', '.join(unread)} in {places.name}"] if unread else []


def _with_name(table: Table) -> Table:
    columns = [NAME if each.casefold() == NAME else each for each in table.columns]
    if columns.count(NAME) != 1:
        where, found = f"{table.name}, row {table.first}", ", ".join(table.columns)
        raise InputError(where, "one column 'name'", found, "add it: places are joined by name")
    return table.renamed(columns, [""] * len(columns))
