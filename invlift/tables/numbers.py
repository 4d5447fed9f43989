"""Numbers in the entries of a table, with decimal commas, thousands separators and units."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.units import size_of

_SPACES = " '’\u00a0\u202f"
#: Sign, digits with separators, exponent, and unit.
_NUMBER = rf"([+\-−]?)((?:\d[\d.,{_SPACES}]*)?[.,]?\d[.,]?)((?:[eE][+-]?\d+)?)\s*([^\d\s.,_<>].*)?"
_LIMIT = re.compile(r"([<>≤≥])\s*(?=[\d.,+-])")
_LIMITS = {"<": "<", "≤": "<", ">": ">", "≥": ">"}
#: Meaning of the marks in a number -> pattern; "either" is ambiguous.
_KINDS = {
    "whole": r"\d+",
    "spaced": rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d+)?",
    "either comma": r"[1-9]\d{0,2},\d{3}",
    "either point": r"[1-9]\d{0,2}\.\d{3}",
    "decimal comma": r"\d*,\d*",
    "decimal point": r"\d*\.\d*",
    "comma of thousands": r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*|(?<=,\d{3},\d{3}))",
    "point of thousands": r"[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*|(?<=\.\d{3}\.\d{3}))",
}
_EITHER_COMMA = re.compile(rf"[+-]?{_KINDS['either comma']}")
_MAX_SHOWN = 40


def is_number(entry: str) -> bool:
    """Return whether an entry looks like a number in any of the known notations."""
    match = re.fullmatch(_NUMBER, entry)
    return match is not None and (not match[4] or size_of(match[4]) is not None)


def is_plain_number(entry: str) -> bool:
    """Return whether an entry is a plain number, with at most a decimal point and an exponent."""
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", entry) is not None


def without_limits(entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split a "<" or ">" off the front of entries; return the entries and these marks, or ""."""
    matches = [_LIMIT.match(entry) for entry in entries]
    limits = ["" if match is None else _LIMITS[match[1]] for match in matches]
    rest = [entry if match is None else entry[match.end() :]
            for entry, match in zip(entries, matches, strict=True)]  # fmt: skip
    return np.array(rest, dtype=object), np.array(limits, dtype=str)


def plain_numbers(entries: list[str]) -> np.ndarray | None:
    """Convert entries to numbers, an empty one to NaN; None if any entry is not a plain number."""
    if any("_" in entry for entry in entries):  # Python also reads 1_000, which no table means
        return None
    try:
        return np.array([float(entry) if entry else np.nan for entry in entries])
    except ValueError:
        return None


def numbers_of(
    frame: pd.DataFrame, rows: np.ndarray, name: str
) -> tuple[pd.DataFrame, dict[str, str], list[str]]:
    """Convert columns of texts to numbers; also return the units of columns, and notes.

    All entries together decide whether a comma or a point is a decimal mark or a thousands
    separator.  Empty entries become NaN.

    Raises
    ------
    InputError
        If an entry is not a number or is ambiguous; the message names its row and column.
    """
    columns, size = list(frame), len(frame)
    entries = [entry for column in columns for entry in frame[column].tolist()]
    plain = plain_numbers(entries)
    if plain is not None:
        return _framed(plain, columns, size), {}, []
    if (plain := _with_decimal_commas(entries)) is not None:
        return _framed(plain, columns, size), {}, ["decimal commas"]
    cells = pd.Series(entries, dtype=object)

    def refuse(place: int, expected: str, found: str, remedy: str):
        where = f"{name}, row {rows[place % size]}, column {columns[place // size]}"
        raise InputError(where, expected, found, remedy)

    parts = cells.str.extract(rf"^{_NUMBER}$").fillna("")
    parts.columns = ["sign", "digits", "exponent", "unit"]
    is_word = cells.str.fullmatch(r"[+-]?(?:nan|inf|infinity)", case=False) | (cells == "")
    known = {unit for unit in parts["unit"].unique() if size_of(unit) is not None}
    kinds = pd.Series("", index=cells.index, dtype=object)
    for kind, pattern in reversed(_KINDS.items()):
        kinds = kinds.mask(parts["digits"].str.fullmatch(pattern), kind)
    has_exponent = parts["exponent"] != ""
    kinds = kinds.mask(has_exponent, kinds.str.replace("either", "decimal"))
    bad = np.flatnonzero(~is_word & ((kinds == "") | ~parts["unit"].isin({"", *known})))
    if bad.size:
        entry = entries[bad[0]]
        if _LIMIT.match(entry):
            found, expected = f"{entry!r}, a reading beyond a limit", "a number"
            remedy = "write a number: only readings, in the column value, may be censored"
            refuse(bad[0], expected, found, remedy)
        remedy = "write a number such as 12.5, or remove the row if there is no reading"
        refuse(bad[0], "a number", repr(entry[:_MAX_SHOWN]), remedy)
    texts, notes = _with_points(parts, kinds, is_word, entries, refuse)
    numbers = texts.where(~is_word, cells.replace("", "nan")).map(float)
    units = _units_behind(parts["unit"], is_word, columns, size, refuse)
    notes += [f"{column} in {unit}, as its entries say" for column, unit in units.items()]
    return _framed(numbers.to_numpy(float), columns, size), units, notes


def _with_decimal_commas(entries: list[str]) -> np.ndarray | None:
    """Convert entries with decimal commas; None if any has a point or all commas are ambiguous.

    This is a fast path: the general search gives the same result and takes much longer.
    """
    with_comma = [entry for entry in entries if "," in entry]
    if all(map(_EITHER_COMMA.fullmatch, with_comma)) or any("." in entry for entry in entries):
        return None
    return plain_numbers([entry.replace(",", ".") for entry in entries])


def _framed(numbers: np.ndarray, columns: list[str], size: int) -> pd.DataFrame:
    return pd.DataFrame(dict(zip(columns, numbers.reshape(len(columns), size), strict=True)))


def _with_points(parts, kinds, is_word, entries, refuse) -> tuple[pd.Series, list[str]]:
    """Rewrite entries with decimal points and without thousands separators; also return notes."""
    digits, found = parts["digits"], set(kinds[~is_word])
    decimal_comma = "decimal comma" in found or "point of thousands" in found
    decimal_point = "decimal point" in found or "comma of thousands" in found
    comma_is_decimal = decimal_comma and not decimal_point
    meanings = {
        "either comma": "decimal" if comma_is_decimal
        else "thousands" if "comma of thousands" in found and not decimal_comma else "",
        "either point": "thousands" if "point of thousands" in found and not decimal_point
        else "" if decimal_comma or "either comma" in found else "decimal",
    }  # fmt: skip
    if "comma of thousands" in found and "either comma" in found and decimal_comma:
        meanings["either comma"] = ""
    for kind, meaning in meanings.items():
        if kind in found and not meaning:
            place = np.flatnonzero(~is_word & (kinds == kind))[0]
            mark = "," if kind == "either comma" else "."
            whole, part = digits[place].replace(mark, ""), digits[place].replace(mark, ".")
            remedy = "write it without a mark between thousands, and with digits that tell: "
            remedy += "1012 or 1.0"
            what = f"{entries[place]}, which may be either"
            refuse(place, f"{whole} or {part}", what, remedy)
    has_comma = digits.str.contains(",", regex=False) & ~is_word
    digits = digits.str.replace(rf"[{_SPACES}]", "", regex=True)
    is_decimal_comma = kinds.isin(["decimal comma", "point of thousands"]) | (kinds == "spaced")
    if meanings["either comma"] == "decimal":
        is_decimal_comma |= kinds == "either comma"
    is_thousands_comma = kinds.isin(["comma of thousands", "either comma"]) & ~is_decimal_comma
    is_thousands_point = kinds == "point of thousands"
    if meanings["either point"] == "thousands":
        is_thousands_point |= kinds == "either point"
    digits = digits.mask(is_thousands_point, digits.str.replace(".", "", regex=False))
    digits = digits.mask(is_thousands_comma, digits.str.replace(",", "", regex=False))
    digits = digits.mask(is_decimal_comma, digits.str.replace(",", ".", regex=False))
    notes = []
    if (is_decimal_comma & has_comma).any():
        notes.append("decimal commas")
    for mark, is_there in (("commas", is_thousands_comma), ("points", is_thousands_point)):
        if (is_there & ~is_word).any():
            notes.append(f"{mark} between thousands")
    return parts["sign"].str.replace("−", "-") + digits + parts["exponent"], notes


def _units_behind(units, is_word, columns, size, refuse) -> dict[str, str]:
    """Return the unit of the entries of each column that has one."""
    by_column = {}
    for number, column in enumerate(columns):
        own = units.iloc[number * size : (number + 1) * size]
        own = own[~is_word.loc[own.index]]
        if len(own) and (own != "").any():
            other = np.flatnonzero(own != own.iloc[0])
            if other.size:
                what = f"{own.iloc[other[0]] or 'no unit'}, and {own.iloc[0] or 'none'} above"
                refuse(own.index[other[0]], "one unit in a column", what, "convert it")
            by_column[column] = own.iloc[0]
    return by_column
