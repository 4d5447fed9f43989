"""What any problem that a command works on has beside the problem, and errors about its keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from invlift.app.sections import Sections
from invlift.errors import InputError
from invlift.table_errors import MISSING, UNKNOWN, did_you_mean, keys, mistakes
from invlift.tables import PROBLEM, Table, json_schema

#: Tables within a section that are written with a heading of their own.
_HEADINGS = {("sampler", "options")}


class RunOptions:
    """Methods of a table that has sections ``sampler`` and ``output``, and a name, ``_file``."""

    def where(self, section: str, *keys: str) -> str:
        """Return how error messages call a key, for example "problem.toml, [prior] range"."""
        return where_in(self._file, (section, *keys))

    def with_overrides(self, *, out: str | os.PathLike | None = None, **sampler: Any) -> Self:
        """Return the problem with command-line options in place of the file's values.

        ``out`` is the output directory, relative to the working directory; the rest are keys of the
        sampler, ``draws`` for example: numbers also as the text that was typed, None where an
        option was not given. An InputError names the option, for example ``--draws``.
        """
        typed = {key: _as_typed(value) for key, value in sampler.items() if value is not None}
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
        """Validate a section with options in it, blaming the option for an error."""
        table = getattr(self, section)
        data = {**table.model_dump(exclude_none=True), **options}
        try:
            return type(table).model_validate(data, context={"base": Path.cwd()})
        except ValidationError as error:
            path, _, *parts = mistakes(error, type(table), data)[0]
            where = "--out" if path[0] == "dir" else f"--{path[0]}"
            if path[0] == "options":  # those in the file do not fit the method that was asked for
                where = self.where(section, *path)
            raise InputError(where, *parts) from None


def _as_typed(value: Any) -> Any:
    """Return the number that a text holds; anything else is left for the check of types."""
    for number in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            return number(value)
    return value


def from_validation_error(error: ValidationError, data: Mapping[str, Any], file: str) -> InputError:
    """Return the most telling of the errors of a problem file's sections as an `InputError`."""
    (path, kind, expected, found, remedy), *others = mistakes(error, Sections, data)
    if len(path) == 1 and kind == UNKNOWN:
        close = did_you_mean(path[0], list(Sections.model_fields))
        expected = f"one of the tables {', '.join(f'[{name}]' for name in Sections.model_fields)}"
        found, remedy = "an unknown table", f"did you mean [{close}]?" if close else "remove it"
    elif (len(path) == 1 or path in _HEADINGS) and kind != PROBLEM:
        expected = f"a table [{'.'.join(path)}]"
        found = "no such table" if kind == MISSING else found
    if kind == UNKNOWN and remedy == "remove it":
        remedy = _move(path) or remedy
    remark = f" (and {len(others)} more)" if others else ""
    return InputError(where_in(file, path), expected, found, remedy + remark)


def where_in(file: str, path: tuple[str, ...]) -> str:
    """Write "problem.toml, [prior] range"."""
    size = 2 if path[:2] in _HEADINGS or path[:1] == ("experiment",) else 1
    heading, key = ".".join(path[:size]), ".".join(path[size:])
    return ", ".join(filter(None, [file, f"[{heading}] {key}".strip() if path else ""]))


def _move(path: tuple[str, ...]) -> str | None:
    """Return advice if the key exists in another table."""
    for section, table in json_schema(Sections)["properties"].items():
        if path[-1] in keys(table):
            other = " of another kind" if path[:-1] == (section,) else ""
            return f"it belongs in [{section}]{other}"
    return None
