"""Reading, checking and writing of problem files in TOML.

Only the file itself is checked here. The mesh, groups, fields and sensor table that it names are
checked when they are read, and their errors name the key by `ProblemSpec.where`.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import tomli_w
from pydantic import BaseModel, PrivateAttr, ValidationError

from invlift.app.problem.schedule_tables import ClockTable
from invlift.app.problem.sections import ExperimentTable, Sections
from invlift.app.problem.table_errors import MISSING, UNKNOWN, child, keys, mistakes
from invlift.errors import InputError, KeyPath, closest
from invlift.files.input_files import read_text
from invlift.files.tables import PROBLEM, Table, json_schema

#: Tables within a section that have a separate heading.
_HEADINGS = {("sampler", "options")}
#: Sections that hold tables by name.
_NAMED = {("experiment",), ("survey",)}
#: Keys of [pde] for units of time and dates.
_OF_CLOCK = tuple(ClockTable.model_fields)

#: Remedy for a line that is not TOML; and patterns of frequent mistakes in one, with a remedy.
_WRITE = "write key = value, with text in quotes and each key once"
_FREQUENT = (
    (r"=\s*[+-]?\d+,\d", "write numbers with a decimal point, 0.5"),
    (r'"[^"]*\\', "write a path with /, or in single quotes, as \\ has a meaning in double ones"),
)


class RunOptions:
    """Methods of a problem with the sections ``sampler`` and ``output``, and a name, ``_file``."""

    def where(self, section: str, *keys: str | int) -> str:
        """Return the name of a key in error messages, for example "problem.toml, [prior] range"."""
        return where_in(self._file, (section, *keys))

    def with_overrides(self, *, out: str | os.PathLike | None = None, **sampler: Any) -> Self:
        """Return the problem with command-line options in place of the file's values.

        ``out`` is the output directory, relative to the working directory. The others are keys of
        the sampler, for example ``draws``. Numbers may be texts, and None is an option that was not
        given. An InputError names the option, for example ``--draws``.
        """
        typed = {key: as_typed(value) for key, value in sampler.items() if value is not None}
        given = {"sampler": typed, "output": {} if out is None else {"dir": os.fspath(out)}}
        update = {
            name: self._validated(name, options) for name, options in given.items() if options
        }
        return self.model_copy(update=update)

    def with_output(self, out: str | None, suffix: str) -> Self:
        """Return the problem with another output directory, or the file's with a suffix."""
        directory = self.output.dir
        return self.with_overrides(
            out=directory.with_name(f"{directory.name}{suffix}") if out is None else out
        )

    def _validated(self, section: str, options: Mapping[str, Any]) -> Table:
        """Validate a section with options in it; errors name the option."""
        table = getattr(self, section)
        data = {**table.model_dump(exclude_none=True), **options}
        try:
            return type(table).model_validate(data, context={"base": Path.cwd()})
        except ValidationError as error:
            path, _, *parts = mistakes(error, type(table), data)[0]
            where = "--out" if path[0] == "dir" else f"--{path[0]}"
            if "options" in options:
                where = f"--option {' '.join(path[1:])}"
            elif path[0] == "options":  # options in the file do not fit the method
                where = self.where(section, *path)
            raise InputError(where, *parts) from None


class ProblemSpec(RunOptions, Sections):
    """The checked content of a problem file, with defaults filled in and absolute paths.

    Make one with `read_problem` or `parse_problem`.
    """

    _file: str = PrivateAttr(default="problem")

    @property
    def files(self) -> dict[str, str]:
        """The file that repeats the problem: its output directory is that of the file itself."""
        here = self.output.model_copy(update={"dir": Path()})
        return {"problem.toml": self.model_copy(update={"output": here}).to_toml()}

    def record(self) -> dict[str, Any]:
        """Return what the record of a run has of the problem file."""
        units = self.units.model_dump(exclude_none=True) if self.units else {}
        digest = hashlib.sha256(self.mesh.file.read_bytes()).hexdigest()
        return ({"units": units} if units else {}) | {"mesh_sha256": digest}

    def to_toml(self) -> str:
        """Write the problem as a TOML file that `read_problem` reads from any directory."""
        return tomli_w.dumps(_plain(self))

    def where_of_table(self, path: KeyPath, *, table: str = "") -> str | KeyPath:
        """Translate the place in an error of a table of readings to a key of this file.

        Other places are unchanged. ``table`` is a table in [observations], such as "reference", or
        "" for [observations] itself.
        """
        if path[0] in _OF_CLOCK:
            return self.where("pde", *path)
        inside = ("observations", table) if table else ("observations",)
        return self.where(*inside, *path) if path[0] == "columns" else path


def read_problem(path: str | os.PathLike) -> ProblemSpec:
    """Read a problem file; relative paths in it start at its directory.

    Parameters
    ----------
    path : str or path-like
        A file in TOML.

    Returns
    -------
    ProblemSpec
        For :func:`build_problem`.

    Raises
    ------
    InputError
        If the file cannot be read, is not TOML, or has an unknown key, a missing key, a value of
        the wrong type or out of range, or two conditions on one boundary group.
    """
    file, remedy = os.fspath(path), "give the path of a problem file in TOML"
    text = read_text(Path(path), file, "a problem file", remedy=remedy)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as reason:
        raise InputError(file, "valid TOML", *_wrong_line(text, f"{reason}")) from None
    return parse_problem(data, path)


def _wrong_line(text: str, reason: str) -> tuple[str, str]:
    """Return what was found in a file that is not TOML, with the line, and a remedy for the line.

    The line's number is at the end of the parser's message, as its errors have no such attribute
    before Python 3.14.
    """
    place = re.search(r"\(at line (\d+), column \d+\)$", reason)
    lines = re.split(r"\r?\n", text)
    number = int(place[1]) if place else 0
    if not 0 < number <= len(lines) or not (line := lines[number - 1].strip()):
        return reason, _WRITE
    remedy = next((remedy for pattern, remedy in _FREQUENT if re.search(pattern, line)), _WRITE)
    return f"{reason}: {line[:80]}", remedy


def parse_problem(data: Mapping[str, Any], file: str | os.PathLike) -> ProblemSpec:
    """Check a problem given as nested dictionaries, as read from TOML.

    `file` is the path of the problem file, which need not exist: relative paths start at its
    directory, errors name it, and the default output directory is results/<its name> beside it.
    Raises the InputErrors of `read_problem`, except those of reading the file.
    """
    name, path = os.fspath(file), Path(file)
    context = {"base": path.parent.resolve(), "name": path.stem}
    try:
        spec = ProblemSpec.model_validate(data, context=context)
    except ValidationError as error:
        raise from_validation_error(error, data, name) from None
    spec._file = name
    return spec


def _plain(value: Any) -> Any:
    """Return models as nested dictionaries, paths as text, and leave out empty tables and lists."""
    if isinstance(value, ExperimentTable):  # keys left out have the value in [pde]
        return {key: _plain(getattr(value, key)) for key in value.model_fields_set}
    if isinstance(value, BaseModel):
        value = {key: getattr(value, key) for key in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items() if entry not in (None, {}, [])}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value


def as_typed(value: Any) -> Any:
    """Return the number in a text; any other value is unchanged, for the check of types."""
    for number in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            return number(value)
    return value


def from_validation_error(error: ValidationError, data: Mapping[str, Any], file: str) -> InputError:
    """Return the most useful of the errors of a problem file's sections as an `InputError`."""
    (path, kind, expected, found, remedy), *others = mistakes(error, Sections, data)
    if len(path) == 1 and kind == UNKNOWN:
        close = closest(path[0], list(Sections.model_fields))
        expected = f"one of the tables {', '.join(f'[{name}]' for name in Sections.model_fields)}"
        found, remedy = "an unknown table", f"did you mean [{close}]?" if close else "remove it"
    elif (len(path) == 1 or path in _HEADINGS) and kind != PROBLEM:
        expected = f"a table [{'.'.join(path)}]"
        found = "no such table" if kind == MISSING else found
    if kind == UNKNOWN and remedy == "remove it":
        remedy = _move(path, data) or remedy
    listed = ", ".join(where_in("", other.path) for other in others[:4])
    listed += f", and {len(others) - 4} more" if len(others) > 4 else ""
    remark = f" (further mistakes: {listed})" if others else ""
    return InputError(where_in(file, path), expected, found, remedy + remark)


def where_in(file: str, path: tuple[str, ...]) -> str:
    """Return the name of a key with its file and table, "problem.toml, [prior] range"."""
    size = 2 if path[:2] in _HEADINGS or path[:1] in _NAMED else 1
    heading, key = (".".join(map(str, part)) for part in (path[:size], path[size:]))
    return ", ".join(filter(None, [file, f"[{heading}] {key}".strip() if path else ""]))


def _move(path: tuple[str, ...], data: Mapping[str, Any]) -> str | None:
    """Return advice if an unknown key of a table exists in another table, else None."""
    if len(path) > (3 if path[:1] in _NAMED else 2) and path[:-1] not in _HEADINGS:
        return None
    tables = dict(json_schema(Sections)["properties"])
    for outer, inner in _HEADINGS:
        tables[f"{outer}.{inner}"] = child(tables[outer], inner, data.get(outer))
    for heading, table in tables.items():
        if path[-1] in keys(table):
            if {heading, path[0]} == {"pde", "electrodes"}:  # a problem has only one of them
                return f"remove it: it is a key of [{heading}], in whose place there is [{path[0]}]"
            other = " of another kind" if path[:-1] == (heading,) else ""
            return f"it belongs in [{heading}]{other}"
    return None
