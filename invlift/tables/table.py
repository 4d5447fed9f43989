"""Reading of all tables, from a file, a data frame of pandas or a data set of xarray."""

from __future__ import annotations

import codecs
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.files.input_files import read_input
from invlift.tables.lines import Line, lines_of
from invlift.tables.numbers import numbers_of
from invlift.units import factor_between

_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def decoded(content: bytes, name: str) -> tuple[str, list[str]]:
    """Decode the text of a table; also return a note on its encoding if it is not UTF-8.

    A byte order mark gives the encoding and is removed.  Without one, text with zeros in many of
    the odd or even bytes is UTF-16.  Text that is not valid UTF-8 is Windows-1252, in which digits
    have the same bytes.

    Raises
    ------
    InputError
        If the text is in none of these encodings, or has control characters.
    """
    if content[:2] in _UTF_16:
        tries = [("utf-16", "UTF-16")]
    elif content[1:200:2].count(0) > len(content[:200]) // 4:
        tries = [("utf-16-le", "UTF-16")]
    elif content[:200:2].count(0) > len(content[:200]) // 4:
        tries = [("utf-16-be", "UTF-16")]
    else:
        tries = [("utf-8-sig", ""), ("cp1252", "Windows-1252")]
    for encoding, what in tries:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not any(mark in text for mark in map(chr, (*range(9), *range(14, 28), 127))):
            return text, [f"text in {what}"] if what else []
    found = "bytes that are not text"
    raise InputError(name, "a table of text", found, "save it as CSV in UTF-8") from None


MAX_BYTES = 2**24  # of a table: some 300,000 sensors
_REMEDY = "check the path (paths in a problem file are relative to that file)"


@dataclass(frozen=True, eq=False)
class Table:
    """A table with texts in columns, some of which may have been converted to numbers.

    Attributes
    ----------
    frame : DataFrame
        Stripped texts, or numbers; "" or NaN for a missing entry.
    rows : ndarray of int or str, shape (d,)
        Line of each row in the file; in a data frame the header counts as line 1.  For several
        files "3 of b.csv".
    name : str
        The file as the user gave it, for error messages.
    first : int
        Line of the header.
    units : mapping of str to str
        Units of columns, after they were separated from the names: :meth:`renamed`.
    taken : tuple of str
        Notes on how the table was read, such as "decimal commas".
    remarks : tuple of str
        Other notes.
    """

    frame: pd.DataFrame
    rows: np.ndarray
    name: str
    first: int = 1
    units: Mapping[str, str] = field(default_factory=dict)
    taken: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.frame)

    @property
    def notes(self) -> list[str]:
        """One note on how the table was read, if there is any such note, and the other notes."""
        return [*([f"read with {', '.join(self.taken)}"] if self.taken else []), *self.remarks]

    def at(self, row: int, column: str) -> str:
        """Return the place of an entry for error messages; ``row`` is the position of the row."""
        return f"{self.name}, row {self.rows[row]}, column {column}"

    def take(self, kept: np.ndarray) -> Table:
        """Return the table with only the rows at given positions, or where a mask is true."""
        frame = self.frame[kept] if kept.dtype == bool else self.frame.iloc[kept]
        return replace(self, frame=frame.reset_index(drop=True), rows=self.rows[kept])

    def renamed(self, columns: Sequence[str], units: Sequence[str]) -> Table:
        """Return the table with new names and units of its columns; "" is no unit."""
        known = {column: unit for column, unit in zip(columns, units, strict=True) if unit}
        return replace(self, frame=self.frame.set_axis(list(columns), axis=1), units=known)

    def with_numbers(self, columns: Collection[str], sparse: Collection[str] = ()) -> Table:
        """Convert these columns, if present, to numbers; a missing entry is NaN.

        Raises
        ------
        InputError
            If an entry is not a number, or is missing in a column that is not `sparse`; the message
            names its row and column.  Also if its unit differs from that in the header.
        """
        columns = [column for column in self.frame if column in columns]
        texts = [each for each in columns if not pd.api.types.is_numeric_dtype(self.frame[each])]
        frame, units, taken = numbers_of(self.frame[texts], self.rows, self.name)
        whole = self.frame.assign(**frame)
        for column in columns:
            written = self.frame[column]
            if column in sparse or column not in texts:
                continue
            empty = np.flatnonzero(written == "")
            if empty.size:
                remedy = "write a number such as 12.5, or remove the row if there is no reading"
                raise InputError(self.at(empty[0], column), "a number", "an empty entry", remedy)
        for column, unit in units.items():
            given = self.units.get(column, unit)
            if given != unit:
                where, remedy = self.at(0, column), "correct one of them"
                raise InputError(where, f"the unit of the header, {given!r}", repr(unit), remedy)
        taken = tuple(dict.fromkeys((*self.taken, *taken)))
        return replace(self, frame=whole, units={**self.units, **units}, taken=taken)

    def factor_to(self, column: str, unit: str) -> float:
        """Return the factor from the unit of a column to another unit; 1 if there is none of these.

        Raises
        ------
        InputError
            If the unit of the column cannot be converted.
        """
        given = self.units.get(column)
        factor = factor_between(given, unit) if given and unit else 1.0
        if factor is None:
            where = f"{self.name}, row {self.first}, column {column}"
            expected = f"a unit that can be converted to {unit!r}"
            raise InputError(where, expected, repr(given), "convert the numbers")
        return factor

    def with_column(self, column: str, numbers: np.ndarray | str) -> Table:
        """Return the table with a column set to numbers, or to one text in all rows."""
        return replace(self, frame=self.frame.assign(**{column: numbers}))

    def with_texts(self, columns: Collection[str]) -> Table:
        """Convert these columns to texts, also those with numbers from a data frame."""
        texts = {column: self.frame[column].map(_text) for column in columns}
        return replace(self, frame=self.frame.assign(**texts))

    def array(self, column: str) -> np.ndarray:
        """Return a column as an array of float64, or of texts."""
        entries = self.frame[column]
        if pd.api.types.is_numeric_dtype(entries):
            return entries.to_numpy(float)
        return np.array(entries.tolist(), dtype=str)


def read_table(source: Any, what: str = "a sensor table") -> Table:
    """Read a table.

    Parameters
    ----------
    source : path, DataFrame, Series, or Dataset or DataArray of xarray
        In a file the encoding, the separator of columns and the header are found automatically.
        An index with a name becomes a column.
    what : str
        Name of the table in error messages.

    Raises
    ------
    InputError
        If the table cannot be read, is empty, or a row has too few or too many entries.
    """
    if isinstance(source, str | os.PathLike):
        return table_of_text(*read_decoded(source, what))
    return table_of_frame(source, what)


def read_decoded(path: str | os.PathLike, what: str) -> tuple[str, str, list[str]]:
    """Return the text of a table, the name of its file, and notes on its encoding."""
    name = os.fspath(path)
    content = read_input(Path(path), name, what, remedy=_REMEDY, max_bytes=MAX_BYTES)
    text, taken = decoded(content, name)
    return text, name, taken


def table_of_text(text: str, name: str, taken: Sequence[str] = ()) -> Table:
    """Read the table in a text; see :func:`read_table`."""
    if text.lstrip().startswith(("<?xml", "<!DOCTYPE", "<html")):
        remedy = "export it as CSV: of a Solinst logger (.xle) by File, Export in its software"
        raise InputError(name, "a table of text", "an XML or HTML file", remedy)
    (first, header), rows, notes = lines_of(text, name)
    table = table_of_lines(rows, header, name)
    return replace(table, first=first, taken=(*taken, *notes))


def table_of_lines(lines: Sequence[Line], columns: Sequence[str], name: str) -> Table:
    """Make a table of lines, each a line number and one entry for each column."""
    bad = next((line for line in lines if len(line[1]) != len(columns)), None)
    if bad is not None:
        row, entries = bad
        raise InputError(
            f"{name}, row {row}",
            f"{len(columns)} entries ({','.join(columns)})",
            f"{len(entries)}",
            "write one number per column, with a point as decimal mark",
        )
    entries = np.array([entries for _, entries in lines], dtype=object)
    frame = pd.DataFrame(entries.reshape(len(lines), len(columns)), columns=list(columns))
    return Table(frame, np.array([row for row, _ in lines], dtype=int), name)


def table_of_frame(source: Any, name: str) -> Table:
    """Make a table of a data frame or series, or of data of xarray."""
    if hasattr(source, "to_dataframe"):
        source = source.to_dataframe()
    frame = source.to_frame() if isinstance(source, pd.Series) else source
    if not isinstance(frame, pd.DataFrame):
        found, remedy = f"a {type(frame).__name__}", "give a path, or a pandas.DataFrame"
        raise InputError(name, "a table: a file, or a data frame", found, remedy)
    named = [each for each in frame.index.names if each is not None]
    frame = frame.reset_index(level=named).reset_index(drop=True)
    if frame.columns.nlevels > 1:
        remedy = "give the columns names of one level"
        raise InputError(name, "names of columns", "several levels of names", remedy)
    names = [f"{each}".strip() for each in frame]
    if not names:
        raise InputError(name, "a table with columns", "none", "give the columns")
    entries = [_entries(frame.iloc[:, k]) for k in range(len(names))]
    frame = pd.concat(entries, axis=1).set_axis(names, axis=1)
    return Table(frame, np.arange(2, len(frame) + 2), name)


def _entries(column: pd.Series) -> pd.Series:
    """Return numbers as floats, and all other entries as stripped texts."""
    is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if is_number and not pd.api.types.is_complex_dtype(column):
        return column.astype(float)
    texts = column.astype(object).where(column.notna(), "").map(lambda each: f"{each}".strip())
    return texts.astype(object)


def _text(entry: Any) -> str:
    if isinstance(entry, float):
        return "" if np.isnan(entry) else f"{entry!r}".removesuffix(".0")
    return f"{entry}"
