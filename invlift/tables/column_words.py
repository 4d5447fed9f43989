"""Columns of a table that affect its readings: validity, times, errors and units.

Tables often have more columns than needed.  A column that does not affect the readings is kept
beside the results and listed in a note.  A column that does is used, or refused with a remedy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from invlift.errors import InputError
from invlift.fem.readings.sensors import OF_SOLUTION, check_missing
from invlift.tables.table import Table
from invlift.units import factor_between, size_of, without_unit

#: Names of columns in small letters, without units.
_VALID = {"valid", "is valid"}
_TIMES = {"time", "times", "date", "datetime", "date time", "timestamp", "zeit", "datum", "uhrzeit"}
_REFUSED = {
    "sigma if it is the standard deviation of the value, in the value's unit": {
        "error", "errors", "err", "std", "sd", "stdev", "std dev", "standard deviation",
        "uncertainty", "accuracy",
    },
    "sigma, and give standard deviations instead of weights": {"weight", "weights"},
}  # fmt: skip
_UNITS = {"unit", "units"}
_YES, _NO = {"1", "1.0", "true", "yes"}, {"0", "0.0", "false", "no"}
#: Units of plain numbers, as headers write them.
NO_UNITS = "", "-", "1"
#: Columns that identify the measured quantity of a reading.
_PLACES = {*"xyzabmn", "x2", "y2", "z2", "radius", "kind", "over", "experiment", "survey"}
#: The kind of readings of a conductivity, used as logarithms, and the column of their error factor.
CONDUCTIVITY, FACTOR = "conductivity", "sigma_factor"
_LENGTHS = "x", "y", "z", "x2", "y2", "z2", "radius"
#: Units of temperature with the same size of a degree.
_KELVINS = {"K", "°C", "degC", "C", "℃"}


def used_rows(table: Table, has_times: bool = False) -> tuple[Table, list[str]]:
    """Return the table with its valid rows, and notes on columns and on rows left out.

    Rows with 0, false or no in a column ``valid`` are left out.  If ``has_times`` is true, columns
    of times are not checked here.

    Raises
    ------
    InputError
        If the column ``valid`` has another entry than yes or no, one place of a steady problem is
        read at several times, a column other than sigma seems to be an error or a weight, or rows
        are in several units.
    """
    notes = []
    for column in table.columns:
        word = _word(column)
        where = f"{table.name}, row {table.first}, column {column}"
        for remedy, refused in _REFUSED.items():
            if word in refused:
                what = f"rename it: {remedy}; or give it a name that does not mean an error"
                raise InputError(where, "a column sigma for the noise", repr(column), what)
        if word in _UNITS:
            table = _with_unit_of_value(table, column, where)
        if word in _TIMES and not has_times:
            notes += _note_on_times(table, column, where)
    table, left_out = valid_rows(table)
    return table, [*notes, *left_out]


def _with_unit_of_value(table: Table, column: str, where: str) -> Table:
    """Return the table with the unit of a column of units, if it is known, and without the column.

    It would be wrong beside converted values, also in a table that is written and read again.
    """
    unit, *others = sorted(set(map(str, table.array(column).tolist()))) or [""]
    if others:
        remedy = "convert the readings to one unit and remove the column"
        raise InputError(where, "one unit", f"{', '.join([unit, *others])}", remedy)
    if size_of(unit) is None or "voltage" in table.columns:
        return table
    if (given := table.units.get("value", unit)) != unit:
        remedy = "correct one of them"
        raise InputError(where, f"the unit in the header, {given!r}", repr(unit), remedy)
    frame = table.frame.drop(columns=column)
    return replace(table, frame=frame, units={**table.units, "value": unit})


def _word(column: str) -> str:
    return re.sub("[_-]+", " ", without_unit(column)[0]).casefold()


def valid_rows(table: Table) -> tuple[Table, list[str]]:
    """Return the table with its valid rows, and a note on the others."""
    column = next((each for each in table.columns if _word(each) in _VALID), None)
    if column is None or not len(table.rows):
        return table, []
    entries = table.frame[column].astype(str).str.casefold()
    bad = np.flatnonzero(~entries.isin(_YES | _NO))
    if bad.size:
        found = repr(f"{table.frame[column][bad[0]]}")
        remedy = "say whether the reading is valid, or remove the row or the column"
        raise InputError(table.at(bad[0], column), "1 or 0", found, remedy)
    is_valid = entries.isin(_YES).to_numpy()
    if not is_valid.any():
        remedy = "remove the column if its readings are valid"
        raise InputError(table.name, "at least one valid reading", "none", remedy)
    num = np.count_nonzero(~is_valid)
    note = [f"{num} rows are not valid by the column {column}"] if num else []
    return table.take(is_valid), note


def _note_on_times(table: Table, column: str, where: str) -> list[str]:
    """Refuse several times at one place; return a note on different times at different places."""
    times, places = table.frame[column], [each for each in table.columns if each in _PLACES]
    first = times.groupby([table.frame[each] for each in places], dropna=False).transform("first") \
        if places else times.where(times.index == 0).ffill()  # fmt: skip
    other = np.flatnonzero(times != first)
    if other.size:
        row, time, earlier = table.rows[other[0]], times[other[0]], first[other[0]]
        found = f"row {row} reads at {time} where an earlier row reads at {earlier}"
        remedy = "give [pde] storage if the field changes in time; else keep the rows of one "
        remedy += "time, at which nothing changes any more, or average them"
        raise InputError(where, "one time: the problem is steady", found, remedy)
    if times.nunique() <= 1:
        return []
    return ["readings of several times are taken as of one steady state"]


def unused(columns: Sequence[str], used: Sequence[str]) -> list[str]:
    """Return a note on columns that are not used."""
    others = [column for column in columns if column not in used]
    return [f"not used, only kept beside results: {', '.join(others)}"] if others else []


def sigma_factor(table: Table) -> float:
    """Return the factor from the unit of the column sigma to the unit of the value.

    Raises
    ------
    InputError
        If the unit of sigma is % or cannot be converted to that of the value; or if it is a part or
        a multiple of another one, mK for example, and the value has none.
    """
    value, sigma = table.units.get("value", ""), table.units.get("sigma", "")
    where = f"{table.name}, row {table.first}, column sigma"
    if sigma == "%":
        remedy = "multiply it by the values, or leave it out and give [noise] relative = true"
        raise InputError(where, "the unit of the value", "'%'", remedy)
    if not value and _is_multiple(sigma) and "value" in table.columns:
        remedy = "give the value its unit too: value [...]"
        raise InputError(where, "the unit of the value, which has none", repr(sigma), remedy)
    if not value or not sigma or {value, sigma} <= _KELVINS:
        return 1.0
    factor = factor_between(sigma, value)
    if factor is None:
        remedy = "convert it to the unit of the value"
        raise InputError(where, f"the unit of the value, {value!r}", repr(sigma), remedy)
    return factor


def with_logarithms(table: Table) -> Table:
    """Convert sigma to the unit of the value, and conductivities to their logarithms.

    The standard deviation of a log-conductivity is the logarithm of its error factor,
    :data:`FACTOR`.

    Raises
    ------
    InputError
        If a conductivity is not positive or has a sigma, a factor is not above 1 or belongs to
        another kind of reading, or a row of a table with factors does not have exactly one of
        factor and sigma.
    """
    kinds = table.array("kind") if "kind" in table.columns else np.full(len(table.rows), "")
    is_own, has_factors = kinds == CONDUCTIVITY, FACTOR in table.columns
    values = table.array("value") if "value" in table.columns else np.ones(len(kinds))
    bad = np.flatnonzero(is_own & ~(values > 0.0))
    if bad.size:
        where, found = table.at(bad[0], "value"), f"{values[bad[0]]:g}"
        raise InputError(where, "a positive conductivity", found, "correct or remove the row")
    own = {"sigma": table.array("sigma") * sigma_factor(table)} if "sigma" in table.columns else {}
    frame = own | {"kind": np.where(is_own, "log_conductivity", kinds)} if is_own.any() else own
    if is_own.any() and "value" in table.columns:
        frame["value"] = np.where(is_own, np.log(np.where(is_own, values, 1.0)), values)
    has_sigma = is_own & ~np.isnan(frame.get("sigma", np.full(len(kinds), np.nan)))
    if has_sigma.any():
        where, found = table.at(np.flatnonzero(has_sigma)[0], "sigma"), "a standard deviation"
        expected = f"an empty entry, as the reading is of kind {CONDUCTIVITY}"
        raise InputError(where, expected, found, f"give the factor it is off by: {FACTOR} = 2, say")
    if has_factors:
        factors = table.array(FACTOR)
        wrong = ~np.isnan(factors) & ~(is_own & (factors > 1.0))
        if wrong.any():
            where = table.at(np.flatnonzero(wrong)[0], FACTOR)
            expected = f"a number above 1, of a reading of kind {CONDUCTIVITY}"
            found = f"{factors[wrong][0]:g}"
            raise InputError(where, expected, found, "give sigma in its place, or correct it")
        sigma = frame.get("sigma", np.full(len(kinds), np.nan))
        not_once = np.flatnonzero(np.isnan(sigma) == np.isnan(factors))
        if not_once.size:
            found = "neither" if np.isnan(sigma[not_once[0]]) else "both"
            where = table.at(not_once[0], "sigma")
            raise InputError(where, f"sigma or {FACTOR}", found, "give one of them in each row")
        frame["sigma"] = np.where(np.isnan(factors), sigma, np.log(factors))
    taken = [f"the logarithm of {np.count_nonzero(is_own)} conductivities"] if is_own.any() else []
    whole = table.frame.assign(**frame).drop(columns=[FACTOR] if has_factors else [])
    # A unit of sigma says that it is no share of the reading: it is kept, now that of the value.
    units = {column: unit for column, unit in table.units.items() if column != "sigma"}
    if table.units.get("sigma", "") not in NO_UNITS:
        units["sigma"] = units.get("value", "")
    return replace(table, frame=whole, units=units, taken=(*table.taken, *taken))


def converted(table: Table, units: Mapping[str, str]) -> Table:
    """Convert columns with units to the given units of length, and of solution or conductivity.

    A column without a unit is in the given unit; sigma without one is in that of the value.

    Raises
    ------
    InputError
        If a column's unit cannot be converted, if lengths are in several units and no unit of
        length is given (one may be none beside a part or a multiple, cm for example), or if a
        column to be converted also has readings of other kinds.
    """
    if "length" not in units:
        _check_lengths(table)
    frame, taken, behind = {}, [], dict(table.units)
    kinds = set(table.array("kind").tolist()) if "kind" in table.columns else set()
    others = kinds - OF_SOLUTION
    of_value, wanted = "solution", dict.fromkeys(_LENGTHS, units.get("length"))
    of_conductivity, given = units.get("conductivity", ""), table.units.get("value")
    if CONDUCTIVITY in kinds and given and factor_between(given, of_conductivity) is not None:
        of_value, others = "conductivity", kinds - {CONDUCTIVITY}
    wanted["value"] = units.get(of_value)
    for column, unit in wanted.items():
        given = table.units.get(column)
        is_there = column in table.columns
        if not unit or given == unit or not (is_there or column == "value"):
            continue  # sigma has the unit of values that are still to be simulated
        where, remedy = f"{table.name}, row {table.first}, column {column}", "convert the numbers"
        if not given:
            own = others - {CONDUCTIVITY}  # its readings have no sigma
            if column == "value" and own and (of_sigma := table.units.get("sigma")):
                where, found = f"{table.name}, row {table.first}, column sigma", repr(of_sigma)
                expected = f"no unit, as there are readings of kind {min(own)} without one"
                raise InputError(where, expected, found, remedy)
            behind |= {} if column == "value" and own else {column: unit}
            continue
        factor = table.factor_to(column, unit)
        if column == "value" and others:
            found = f"readings of kind {min(others)} beside those of the {of_value}"
            raise InputError(where, "readings in one unit", found, remedy)
        behind[column] = unit
        if is_there:
            if column == "value":  # a conversion would change the codes
                check_missing(table.array(column), table.rows, table.name)
            frame[column] = factor * table.array(column)
        if column == "value" and "sigma" in table.columns and not table.units.get("sigma"):
            frame["sigma"], behind["sigma"] = factor * table.array("sigma"), unit
        if factor != 1.0:
            taken.append(f"{column} converted from {given} to {unit}")
    whole, remarks = table.frame.assign(**frame), table.remarks
    given = table.units.get("value", "")
    if CONDUCTIVITY in kinds and not of_conductivity and _is_multiple(given):
        note = "is taken as that of the field: name this by [units] conductivity"
        remarks = (*remarks, f"the unit of the conductivities, {given}, {note}")
    taken = (*table.taken, *taken)
    return replace(table, frame=whole, units=behind, taken=taken, remarks=remarks)


def _is_multiple(unit: str) -> bool:
    """Return whether a unit is a part or a multiple of another one, cm for example."""
    return (size_of(unit) or (1.0,))[0] != 1.0


def _check_lengths(table: Table) -> None:
    """Refuse lengths in several units."""
    found = {table.units.get(axis, "") for axis in _LENGTHS if axis in table.columns}
    is_multiple = any(map(_is_multiple, found))
    # x in m beside y is plain; a radius in cm beside both may be in another unit than theirs.
    if len(found - {""}) > 1 or (len(found) > 1 and is_multiple):
        remedy = "convert them to the unit of the mesh, or name it: [units] length"
        where, listed = f"{table.name}, row {table.first}", sorted(x or "none" for x in found)
        raise InputError(where, "lengths in one unit", ", ".join(listed), remedy)
