"""Tables of voltages between electrodes, as CSV or in formats of geoelectric programs.

In each row a current enters the body at electrode a and leaves it at b.  The reading is the
potential of m less that of n for a unit of current, a resistance.  The unified data format is that
of BERT and pyGIMLi (Guenther, Ruecker & Spitzer 2006, "Three-dimensional modelling and inversion of
dc resistivity data incorporating topography - II", Geophys. J. Int. 166).  It has the number of
electrodes, their positions, the number of readings, a line with # and the names of columns, and the
readings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import ROLES, geometric_factors, numbered
from invlift.fem.readings.sensors import Sensors, check_missing, checked, concatenated
from invlift.tables.column_words import (
    NO_UNITS,
    converted,
    sigma_factor,
    unused,
    used_rows,
    valid_rows,
)
from invlift.tables.current_patterns import Read, current_columns, matlab_data
from invlift.tables.ground_formats import exported_data, ground_data
from invlift.tables.header import with_known_columns
from invlift.tables.mapping import with_columns
from invlift.tables.numbers import is_plain_number
from invlift.tables.sensors import with_entries, write_columns
from invlift.tables.several import Sources, check_all_have, notes_of, short_names, sources_of
from invlift.tables.table import Table, read_decoded, table_of_frame, table_of_text
from invlift.units import factor_between, without_unit

_NUMBERS = "value", "sigma", "voltage", "current"
#: Columns of numbers in formats of other programs.
_OF_READINGS = *_NUMBERS, "rhoa", "k", "err"
#: A whole number written as "3.0", which is common in tables with empty entries.
_DECIMAL = re.compile(r"^(-?\d+)\.0+$")
#: Units of columns, with factors to volt, ampere and ohm, or to a fraction of the reading.
_UNITS = {
    "voltage": {"v": 1.0, "mv": 1e-3, "uv": 1e-6},
    "current": {"a": 1.0, "ma": 1e-3, "ua": 1e-6},
    "value": {"ohm": 1.0, "ohmm": 1.0},
    "rhoa": {"ohm": 1.0, "ohmm": 1.0},
    "sigma": {"ohm": 1.0},
    "err": {"%": 1e-2, "ohm": 1.0, "1": 1.0},
}


#: Columns that all files of one measurement have, or none, with their attributes of a table.
_IN_ALL = {"sigma": "sigma", "name": "labels", "group": "groups", "survey": "surveys"}


def read_voltages(
    source: Any,
    dim: int,
    *,
    columns: Mapping[str, str] | None = None,
    needs_values: bool = True,
    in_space: bool = False,
) -> Sensors:
    """Read a table of voltages between electrodes.

    Parameters
    ----------
    source : path, pandas.DataFrame, or Dataset of xarray, or several of these
        A table for :func:`invlift.tables.table.read_table`. Several tables of one measurement are a
        list or a pattern of paths, "lines/*.csv"; each is read separately. The header names the
        columns, in any order and case: a, b, m and n, the names of electrodes or their numbers from
        1, and value, the voltage for a unit of current, or voltage and current, with units as in
        ``voltage [mV]``. Optional columns are sigma, the standard deviation of the value, group and
        name. Other columns are kept beside the results, unless they look like one of these.
        Or text in the unified data format. Its columns a, b, m, n, r or u and i or rhoa and k, err
        and valid are used, with units as in ``u/mV``; rows that are not valid are left out.
        Or an array of Res2DInv, a file of AGI (.stg) or Lippmann (.tx0), a table that a Syscal or a
        Terrameter LS exported, protocol.dat of R2 and ResIPy, or a MAT-file of current patterns.
    dim : int
        Dimension of the mesh, 2 or 3.
    columns : mapping of str to str, optional
        As for :func:`invlift.read_sensors`.
    needs_values : bool
        If False, values may be missing; they are then zero.
    in_space : bool
        True if currents spread in three dimensions. Then rhoa of electrodes on flat ground does not
        need k.

    Returns
    -------
    Sensors
        Readings with electrodes and without places; with positions of electrodes if the file has
        them.

    Raises
    ------
    InputError
        As :func:`invlift.read_sensors`; also if a current is zero, or if a and b, or m and n, are
        the same electrode.
    """
    if (sources := sources_of(source)) is not None:
        options = {"columns": columns, "needs_values": needs_values, "in_space": in_space}
        return _joined([read_voltages(each, dim, **options) for _, each in sources.parts], sources)
    is_text = isinstance(source, str | os.PathLike)
    if is_text and Path(source).suffix.lower() == ".mat":
        return _of_matrices(matlab_data(Path(source), os.fspath(source), columns), dim, source)
    text = read_decoded(source, "a table of voltages") if is_text else None
    found, positions, notes, factor = ground_data(*text[:2]) if is_text else None, None, [], 1.0
    currents = None
    if found is None:
        table = table_of_text(*text) if is_text else table_of_frame(source, "voltages")
        found = exported_data(table)
    if found is not None:
        positions, table = found
        if columns:
            key, pattern = next(iter(columns.items()))
            expected = f"no such key, as the format of {table.name} says what its columns are"
            remedy = "leave it out, or save a, b, m, n and value as CSV"
            raise InputError(("columns", key), expected, repr(pattern), remedy)
        units = table.units
        table = table.with_numbers({*_OF_READINGS, "valid"})
        table, left_out = valid_rows(table)
        table, zeros = _without_zeros(table)
        _check_codes(table)
        notes = [*table.notes, *left_out, *zeros]
    else:
        table = with_columns(table, columns) if columns else table
        table, currents = current_columns(table)
        table, lines = _with_known_columns(table, needs_values, currents is not None), table.rows
        table, notes = used_rows(table)
        if currents is not None:
            currents = currents[np.isin(lines, table.rows)]
        # Beside a current at each electrode a value is a voltage, else one for a unit of current.
        wanted = "Ohm" if currents is None else "V"
        table = _with_values_in(with_entries(table, _NUMBERS), wanted)
        _check_codes(table)
        notes, factor = [*table.notes, *notes], sigma_factor(table)
        # A value that is no resistance may have any unit, which is the unit of the reading.
        units = table.units if "value" not in table.columns else {}
    rows, name = table.rows, table.name
    by_name = {column: table.array(column) for column in table.columns}
    known = _UNITS
    if currents is not None:  # sigma is that of a voltage
        known = _UNITS | {"sigma": _UNITS["voltage"]}
        units = {"sigma": units.get("voltage")} | units
    units = {key: units[key].lower() for key in known if units.get(key) and key in by_name}
    for column, unit in units.items():
        if unit not in known[column]:
            where, expected = f"{name}, names of the columns, {column}", ", ".join(known[column])
            raise InputError(where, f"a unit among {expected}", repr(unit), "convert it")
        by_name[column] = by_name[column] * known[column][unit]
    if units.get("err") == "ohm":
        by_name["sigma"] = by_name.pop("err")
    labels = groups = None
    further, surveys = {}, by_name.pop("survey", None)
    if found is None:
        labels, groups = by_name.pop("name", None), by_name.pop("group", None)
        further = {key: by_name.pop(key) for key in {*by_name} - {*ROLES, *_NUMBERS}}
    elif surveys is not None:  # programs write the survey 2 as 2.0 too
        surveys = np.array([f"{float(each):.15g}" if is_plain_number(each) else each
                            for each in map(str, surveys)])  # fmt: skip
    if currents is not None:
        driven = np.unique(currents, axis=0, return_inverse=True)[1].ravel()
        by_name |= {"a": [f"pattern {each + 1}" for each in driven], "b": [""] * len(rows)}
    entries = [[_DECIMAL.sub(r"\1", entry) for entry in by_name[role]] for role in ROLES]
    electrodes = np.array(entries).T
    is_flat = in_space and "rhoa" in by_name and np.ptp(positions[:, -1]) == 0.0
    if has_factors := is_flat and "k" not in by_name:
        numbers = numbered(electrodes, range(1, len(positions) + 1), rows, name, are_points=True)
        by_name["k"] = geometric_factors(positions, numbers)
    if currents is not None and "voltage" in by_name:
        by_name["value"] = by_name.pop("voltage")
    values, used = _values(by_name, rows, name, needs_values)
    if has_factors and "rhoa" in used:
        notes.append("resistances by the factors k of electrodes on the surface of flat ground")
    used_names = [*ROLES, *_OF_READINGS, "name", "group", "survey", "valid"]
    notes += unused(table.columns, used_names)
    sigma = by_name["sigma"] * factor if "sigma" in by_name else None
    if "err" in by_name and used:  # it is relative
        sigma = by_name["err"] * np.abs(values)
    for first, second, what in ((0, 1, "where current leaves"), (2, 3, "against which is read")):
        same = np.flatnonzero(electrodes[:, first] == electrodes[:, second])
        if same.size:
            where = f"{name}, row {rows[same[0]]}, column {ROLES[second]}"
            found = f"{str(electrodes[same[0], second])!r} twice"
            raise InputError(where, f"another electrode, {what}", found, "correct it, or remove it")
    return checked(
        np.full((len(rows), dim), np.nan),
        values,
        sigma,
        rows,
        name,
        groups=groups,
        labels=labels,
        surveys=surveys,
        electrodes=electrodes,
        positions=positions,
        currents=currents,
        is_sigma_absolute=found is not None or "sigma" in table.units,
        further=further,
        notes=tuple(notes),
    )


def _check_codes(table: Table) -> None:
    """Refuse codes of missing readings, before a conversion changes them."""
    for column in ("voltage", "current", "rhoa"):
        if column in table.columns:
            check_missing(table.array(column), table.rows, table.name, column)


def _with_values_in(table: Table, wanted: str) -> Table:
    """Convert values in another unit, such as mOhm, and their sigma; a note on other quantities."""
    unit = table.units.get("value") or table.units.get("sigma", "")
    if "value" not in table.columns or unit in NO_UNITS:
        return table
    if factor_between(unit, wanted) is not None:
        return converted(table, {"solution": wanted})
    note = f"values in {unit} are taken as they are: only those in {wanted} or parts are converted"
    return replace(table, remarks=(*table.remarks, note))


def _without_zeros(table: Table) -> tuple[Table, list[str]]:
    """Leave out columns in which all is 0: BERT and pyGIMLi write so what they do not know."""
    zeros = [each for each in _OF_READINGS if each in table.columns and not table.array(each).any()]
    notes = [f"left out, as all is 0: {', '.join(zeros)}"] if zeros and len(table.rows) else []
    return replace(table, frame=table.frame.drop(columns=zeros)) if notes else table, notes


def _joined(tables: list[Sensors], sources: Sources) -> Sensors:
    """Join the tables of one measurement, whose electrodes have the same numbers and positions."""
    names = short_names([each.name for each in tables])
    placed = [each.positions for each in tables if each.positions is not None]
    for table, name in zip(tables, names, strict=True):
        if table.currents is not None:
            expected, remedy = "currents from one electrode to another", "join the files to one"
            raise InputError(name, expected, "currents at several, in one of several files", remedy)
        if table.positions is not None and not np.array_equal(table.positions, placed[0]):
            expected, found = "the same positions of electrodes in all files", "others"
            remedy = "give each file all electrodes, with the same numbers, or join the files"
            raise InputError(name, expected, found, remedy)
    for column, attribute in _IN_ALL.items():
        has_it = [getattr(each, attribute) is not None for each in tables]
        check_all_have(column, list(zip(names, has_it, strict=True)))
    whole = concatenated(dict(zip(names, tables, strict=True)))
    rows = [f"{row} of {name}" for table, name in zip(tables, names, strict=True)
            for row in table.rows]  # fmt: skip
    return replace(
        whole,
        rows=np.array(rows),
        name=sources.name,
        experiments=None,
        positions=placed[0] if placed else None,
        notes=tuple(notes_of(tables)),
    )


def _of_matrices(read: Read, dim: int, source: Any) -> Sensors:
    """Make sensors of the readings of a MAT-file."""
    pairs = [
        _pair(weights, number) for weights, number in zip(read.weights, read.pairs, strict=True)
    ]
    driven = [(f"pattern {each}", "") for each in read.injections]
    return checked(
        np.full((len(read.values), dim), np.nan),
        read.values,
        None,
        np.arange(1, len(read.values) + 1),
        os.fspath(source),
        electrodes=np.hstack([np.array(driven), np.array(pairs)]),
        currents=read.currents,
        weights=read.weights,
        notes=tuple(read.notes),
    )


def _pair(weights: np.ndarray, number: int) -> tuple[str, str]:
    """Return the numbers of electrodes m and n of a reading, or a name of its weights and ""."""
    used = np.flatnonzero(weights)
    if len(used) != 2 or np.abs(weights).max() != 1.0:
        return f"weights {number}", ""
    return str(np.argmax(weights) + 1), str(np.argmin(weights) + 1)


def _with_known_columns(table: Table, needs_values: bool, has_currents: bool) -> Table:
    """Check the columns, with values or the columns they are computed from; separate units."""
    if has_currents:
        name = {without_unit(column)[0].casefold() for column in table.columns} & {"voltage"}
        needed = [*ROLES[2:], *((list(name) or ["value"]) if needs_values else [])]
        return with_known_columns(table, needed, ["sigma", "group", "name"], ["voltage"])
    others = ["voltage", "current"]
    present = {without_unit(column)[0].casefold() for column in table.columns}
    values = ["value"]
    if found := [each for each in others if each in present]:
        if "value" in present:
            expected = "value, or voltage and current in its place"
            remedy, where = "remove or rename one of them", f"{table.name}, row {table.first}"
            raise InputError(where, expected, f"value and {found[0]}", remedy)
        values = others
    needed = [*ROLES, *(values if needs_values else [])]
    return with_known_columns(table, needed, ["sigma", "group", "name"], others)


def write_voltages(path: str | os.PathLike, sensors: Sensors) -> None:
    """Write a table for `read_voltages`; with positions it is in the unified data format.

    Differences to a reference are written as voltages.
    """
    if sensors.reference is not None:
        sensors = replace(sensors, values=sensors.values + sensors.reference, reference=None)
    columns = dict(zip(ROLES, sensors.electrodes.T, strict=True))
    if sensors.positions is not None:
        columns["r"] = sensors.values
        if sensors.sigma is not None:
            columns["err"] = sensors.sigma / np.abs(sensors.values)
        if sensors.surveys is not None:
            columns["survey"] = sensors.surveys
        rows = zip(*(each.tolist() for each in columns.values()), strict=True)
        axes = "xyz"[: sensors.positions.shape[1]]
        lines = [f"{len(sensors.positions)}# Number of electrodes", f"#{' '.join(axes)}"]
        lines += [" ".join(map(repr, each)) for each in sensors.positions.tolist()]
        lines += [f"{len(sensors.values)}# Number of readings", f"#{' '.join(columns)}"]
        lines += [" ".join(map(str, each)) for each in rows]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    if sensors.currents is not None:
        columns = _columns_of_currents(sensors)
    columns |= {"value": sensors.values, "sigma": sensors.sigma, "group": sensors.groups}
    columns |= {"name": sensors.labels, "survey": sensors.surveys}
    write_columns(path, columns | dict(sensors.further))


def _columns_of_currents(sensors: Sensors) -> dict[str, np.ndarray]:
    """Return the columns of the current at each electrode, and of m and n."""
    columns = {f"current {k + 1} [A]": each for k, each in enumerate(sensors.currents.T)}
    if (sensors.electrodes[:, 3] == "").any():
        expected, found = "readings between two electrodes", "others"
        remedy = "choose pairs: a table has no columns for other weights"
        raise InputError(sensors.name, expected, found, remedy)
    return columns | dict(zip(ROLES[2:], sensors.electrodes[:, 2:].T, strict=True))


def _values(by_name, rows, name: str, needs_values: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return voltages for a unit of current, (d,), and the columns they are computed from."""
    if "value" in by_name:
        return by_name["value"], ("value",)
    for above, below in (("voltage", "current"), ("rhoa", "k")):
        if above in by_name and below in by_name:
            zeros = np.flatnonzero(by_name[below] == 0.0)
            if zeros.size:
                where = f"{name}, row {rows[zeros[0]]}, column {below}"
                raise InputError(where, "a number other than 0", "0", "correct or remove the row")
            negative = np.flatnonzero(by_name[above] < 0.0)
            if above == "rhoa" and negative.size:
                where, row = f"{name}, row {rows[negative[0]]}, column rhoa", negative[0]
                remedy = "swap m and n of such rows, or remove them if they are noise"
                found = f"{by_name[above][row]:g}, of {negative.size} such rows"
                raise InputError(where, "a positive apparent resistivity", found, remedy)
            return by_name[above] / by_name[below], (above, below)
    if not needs_values:
        return np.zeros(len(rows)), ()
    raise InputError(
        f"{name}, names of the columns",
        "the resistance r, or u and i, or rhoa and its geometric factor k",
        ", ".join(by_name),
        "add a column: an apparent resistivity alone is one of points on flat ground in space",
    )
