"""Readings with currents at several electrodes at once.

A table has a column of the current at each electrode, ``current 1 [mA]`` to ``current K [mA]``, in
place of a and b.  A MAT-file has matrices of currents, pairs of electrodes and voltages.
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

#: Names of matrices in data sets of tanks.
_MATRICES = {
    "current": ("CurrentPattern", "Inj", "Injref", "currents"),
    "pairs": ("MeasPattern", "Mpat", "measurements"),
    "voltage": ("Uel", "Uelref", "voltages"),
}
_UNITS = {"current": {"A": 1.0, "mA": 1e-3, "uA": 1e-6}, "voltage": {"V": 1.0, "mV": 1e-3}}
_CURRENT = re.compile(r"(?:current|i)[ _]?(\d+)", re.IGNORECASE)
#: Columns that give the current by its electrodes, instead of one column for each electrode.
_PAIRS = "a", "b", "current"
#: Largest sum of currents, relative to the largest current, that is taken as a rounding error.
_ROUNDED = 1e-3


class Read(NamedTuple):
    """Readings of current patterns.

    Attributes
    ----------
    currents : (d, K) array
        Current at each electrode, in ampere.
    weights : (d, K) array
        Weights of the electrodes' potentials.
    values : (d,) array
        Voltages, in volt.
    injections, pairs : (d,) array of int
        Numbers of the injection and of the pair of each reading, from 1.
    notes : list of str
    """

    currents: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    injections: np.ndarray
    pairs: np.ndarray
    notes: list[str]


def current_columns(table: Table) -> tuple[Table, np.ndarray | None]:
    """Split off the columns of electrodes' currents; return them, (d, K) in ampere, or None.

    The first result is the table without these columns.

    Raises
    ------
    InputError
        If the numbers of electrodes have gaps, a unit is not a unit of current, currents are all
        zero or do not add up to zero, or another column gives currents too.
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
        own = replace(table, units={column: unit} if unit else {}).with_numbers({column})
        factor = _factor("current", own.units.get(column, ""), where)
        currents[:, number - 1] = factor * own.array(column)
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
    """Check that rows add up to zero, and spread the rounding error over their nonzero entries."""
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
    """Read current patterns and voltages from a MAT-file.

    The matrices have the names of KIT4 and of the Kuopio tomography challenge, or those in
    ``columns``: ``{"current": "Inj [mA]", "pairs": "Mpat", "voltage": "Uel"}``, with units if they
    are not A and V.  For K electrodes, L injections and M pairs the currents are (K, L), the pairs
    (K, M), and the voltages (M, L) or one column, sorted by injection.  Voltages that are NaN are
    left out.

    Raises
    ------
    InputError
        If the file cannot be read, a matrix is missing or has another shape, all voltages are NaN,
        currents or weights do not add up to zero, a unit is not known, or ``columns`` has another
        key.
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
