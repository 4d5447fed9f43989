"""Readings of currents that are driven at several electrodes at once.

In a table there is a column of the current of each electrode, ``current 1 [mA]`` to
``current K [mA]``, in the place of a and b.  In MAT-files matrices say what was driven, between
which electrodes was read, and what was read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.io

from invlift.errors import InputError, KeyPath, first_line
from invlift.fem.readings.sensors import MAX_SIZE
from invlift.files.input_files import read_input
from invlift.tables.table import MAX_BYTES, Table
from invlift.units import without_unit

#: What matrices are called in data of tanks, by what they are.
_MATRICES = {
    "current": ("CurrentPattern", "Inj", "Injref", "currents"),
    "pairs": ("MeasPattern", "Mpat", "measurements"),
    "voltage": ("Uel", "Uelref", "voltages"),
}
_UNITS = {"current": {"A": 1.0, "mA": 1e-3, "uA": 1e-6}, "voltage": {"V": 1.0, "mV": 1e-3}}
_CURRENT = re.compile(r"(?:current|i)[ _]?(\d+)", re.IGNORECASE)
#: Columns that give the current by its electrodes, instead of one column for each electrode.
_PAIRS = "a", "b", "current"
#: Currents add up to zero but for what was rounded when they were written.
_ROUNDED = 1e-3


class Read(NamedTuple):
    """Readings of patterns.

    Attributes
    ----------
    currents : (d, K) array
        In ampere, of each electrode.
    weights : (d, K) array
        Of the electrodes' potentials.
    values : (d,) array
        In volt.
    injections, pairs : (d,) array of int
        Numbers from 1 of what was driven, and of what was read.
    notes : list of str
    """

    currents: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    injections: np.ndarray
    pairs: np.ndarray
    notes: list[str]


def current_columns(table: Table) -> tuple[Table, np.ndarray | None]:
    """The table without its columns of electrodes' currents, and these in ampere, (d, K) or None.

    Raises
    ------
    InputError
        If numbers of electrodes are left out, a unit is none of currents, currents are all zero or
        do not add up to zero, or another column says what is driven as well.
    """
    by_electrode = {}
    for column in table.columns:
        own, unit = without_unit(column)
        if match := _CURRENT.fullmatch(own.strip()):
            by_electrode[int(match[1])] = column, unit
    if len(by_electrode) < 2:
        return table, None
    where = f"{table.name}, row {table.first}"
    names = [without_unit(column)[0].casefold() for column in table.columns]
    if others := [each for each in _PAIRS if each in names]:
        remedy = "remove it: the current is given twice"
        expected = "currents of the electrodes without a further column for them"
        raise InputError(where, expected, f"column {others[0]}", remedy)
    if sorted(by_electrode) != list(range(1, len(by_electrode) + 1)):
        expected = f"columns current 1 to current {len(by_electrode)}"
        listed = ", ".join(column for column, _ in by_electrode.values())
        raise InputError(where, expected, listed, "give one column for each electrode")
    currents = np.empty((len(table.rows), len(by_electrode)))
    for number, (column, unit) in by_electrode.items():
        own = table.with_numbers({column}).array(column)
        currents[:, number - 1] = own * _factor("current", unit, where)
    rest = table.frame.drop(columns=[column for column, _ in by_electrode.values()])
    return replace(table, frame=rest), _balanced(
        "currents", currents, lambda k: f"{table.name}, row {table.rows[k]}"
    )


def _factor(what: str, unit: str, where: str | KeyPath) -> float:
    known = _UNITS[what]
    if unit and unit not in known:
        raise InputError(where, f"a unit among {', '.join(known)}", repr(unit), "convert it")
    return known.get(unit, 1.0)


def _balanced(what: str, rows: np.ndarray, where: Callable[[int], str]) -> np.ndarray:
    """Rows that add up to zero; what rounding left of them is taken from all."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    bad = np.flatnonzero(~((largest > 0.0) & (largest <= MAX_SIZE)))
    if bad.size:
        expected = f"{what} that are not all zero, up to {MAX_SIZE:g} in size"
        raise InputError(where(bad[0]), expected, f"{largest[bad[0]]:g}", "correct or remove it")
    wrong = np.flatnonzero(~(np.abs(rows.sum(axis=1)) <= _ROUNDED * largest))
    if wrong.size:
        first = rows[wrong[0]]
        found = f"{first.sum():g}, of {np.abs(first).max():g} at most"
        remedy = "correct it, or add the electrode that is missing"
        raise InputError(where(wrong[0]), f"{what} that add up to zero", found, remedy)
    share = np.where(rows != 0.0, 1.0, 0.0)
    mean = rows.sum(axis=1, keepdims=True) / np.maximum(share.sum(axis=1, keepdims=True), 1.0)
    return rows - share * mean


def matlab_data(path: Path, name: str, columns: Mapping[str, str] | None) -> Read:
    """Readings of a MAT-file.

    The matrices are known by their names, of KIT4 and of the Kuopio tomography challenge, or by
    ``columns``: ``{"current": "Inj [mA]", "pairs": "Mpat", "voltage": "Uel"}``, with units if they
    are not A and V.  Of K electrodes currents are (K, L), pairs (K, M), voltages (M, L) or one
    column of them, injection by injection.  Voltages that are NaN are left out.

    Raises
    ------
    InputError
        If the file cannot be read, a matrix is not there or has another shape, no voltage is left,
        currents or weights do not add up to zero, a unit is none of these, or ``columns`` has
        another key.
    """
    remedy = "check the path; it is relative to the problem file"
    content = read_input(path, name, "a MAT-file", remedy=remedy, max_bytes=MAX_BYTES)
    try:
        held = scipy.io.loadmat(io.BytesIO(content))
    except NotImplementedError:
        remedy = "save it with '-v7'"
        raise InputError(name, "a MAT-file of version 5 to 7", "version 7.3", remedy) from None
    except Exception as error:  # SciPy raises many kinds on a damaged file
        found = f"what cannot be read: {first_line(error)}"
        raise InputError(name, "a MAT-file", found, "copy it again, or save it again") from None
    held = {key: each for key, each in held.items() if not key.startswith("__")}
    if unknown := [key for key in columns or () if key not in _MATRICES]:
        expected = f"one of {', '.join(_MATRICES)}, as {name} is a MAT-file"
        raise InputError(("columns", unknown[0]), expected, "another", "rename it, or leave it out")
    arrays, said = {}, []
    for what, names in _MATRICES.items():
        wanted, unit = without_unit((columns or {}).get(what, ""))
        names = (wanted,) if wanted else names
        own = next((each for each in names if each in held), None)
        if own is None:
            listed = ", ".join(f"{key} {each.shape}" for key, each in held.items()) or "nothing"
            remedy = f'name it: columns = {{ {what} = "..." }}'
            raise InputError(name, f"a matrix {' or '.join(names)}, the {what}", listed, remedy)
        factor = _factor(what, unit, ("columns", what)) if what in _UNITS else 1.0
        arrays[what] = factor * np.asarray(held[own], dtype=float)
        said.append(f"{own} {held[own].shape} as {what}" + f" in {unit}" * bool(unit))
    currents, pairs, voltages = arrays["current"], arrays["pairs"], arrays["voltage"]
    num, size = pairs.shape[1], currents.shape[1]
    if pairs.shape[0] != currents.shape[0]:
        found = f"{currents.shape[0]} and {pairs.shape[0]} rows"
        raise InputError(name, "as many electrodes in currents as in pairs", found, "correct it")
    if voltages.shape == (num, size):
        values = voltages.T.ravel()
    elif voltages.size == num * size and 1 in voltages.shape:
        values = voltages.ravel()
    else:
        expected = f"voltages of {num} pairs and {size} injections, ({num}, {size}) or {num * size}"
        raise InputError(name, expected, f"shape {voltages.shape}", "name the right matrix")
    injections, numbers = np.repeat(np.arange(size), num), np.tile(np.arange(num), size)
    is_there = ~np.isnan(values)
    if not is_there.any():
        raise InputError(name, "voltages", "NaN throughout", "name the right matrix")
    injections, numbers, values = (each[is_there] for each in (injections, numbers, values))
    currents = _balanced(
        "currents", currents.T[injections], lambda k: f"{name}, injection {injections[k] + 1}"
    )
    weights = _balanced("weights", pairs.T[numbers], lambda k: f"{name}, pair {numbers[k] + 1}")
    notes = [f"read {', '.join(said)}"]
    if not is_there.all():
        notes.append(f"left out where the voltage is NaN: {np.count_nonzero(~is_there)}")
    return Read(currents, weights, values, injections + 1, numbers + 1, notes)
