"""From pydantic's report on a problem file to one line that a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from invlift.app.sections import Sections
from invlift.errors import InputError
from invlift.table_errors import MISSING, UNKNOWN, did_you_mean, keys, mistakes
from invlift.tables import PROBLEM, json_schema

#: Tables within a section that are written with a heading of their own.
_HEADINGS = {("sampler", "options")}


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
    return InputError(where(file, path), expected, found, remedy + remark)


def where(file: str, path: tuple[str, ...]) -> str:
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
