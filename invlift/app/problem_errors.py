"""From pydantic's report on a problem file to one line that a person can act on."""

from __future__ import annotations

from pydantic import ValidationError

from invlift.app.sections import Sections
from invlift.errors import InputError
from invlift.tables import MISSING, UNKNOWN, did_you_mean, tables_of

#: Tables within a section that are written with a heading of their own.
_HEADINGS = {("sampler", "options")}


def from_validation_error(error: ValidationError, file: str) -> InputError:
    """Return the most telling of the errors of a problem file's sections as an `InputError`."""
    entry, remark = first_error(error)
    path = tuple(map(str, entry["loc"]))
    expected, found, remedy = (entry["ctx"][part] for part in ("expected", "found", "remedy"))
    if len(path) == 1 and entry["type"] == MISSING:
        found = "no such table"
    elif len(path) == 1 and entry["type"] == UNKNOWN:
        expected, found, remedy = _unknown_section(path[0])
    if entry["type"] == UNKNOWN and remedy == "remove it":
        remedy = _move(path) or remedy
    return InputError(where(file, path), expected, found, remedy + remark)


def first_error(error: ValidationError) -> tuple[dict, str]:
    """Return the most telling of pydantic's errors, and a remark on how many more there are."""
    entries = error.errors(include_url=False)
    # A misspelt key is also reported as missing: the misspelling is the cause.
    entries.sort(key=lambda entry: entry["type"] != UNKNOWN)
    num_more = len(entries) - 1
    plural = "s" if num_more > 1 else ""
    return entries[0], f" ({num_more} more problem{plural})" if num_more else ""


def where(file: str, path: tuple[str, ...]) -> str:
    """Write "problem.toml, [prior] range"."""
    size = 2 if path[:2] in _HEADINGS else 1
    heading, key = ".".join(path[:size]), ".".join(path[size:])
    return ", ".join(filter(None, [file, f"[{heading}] {key}".strip() if path else ""]))


def _unknown_section(name: str) -> tuple[str, str, str]:
    """Return expected, found and remedy for a section that does not exist."""
    close = did_you_mean(name, list(Sections.model_fields))
    known = ", ".join(f"[{section}]" for section in Sections.model_fields)
    remedy = f"did you mean [{close}]?" if close else "remove it"
    return f"one of the tables {known}", "an unknown table", remedy


def _move(path: tuple[str, ...]) -> str | None:
    """Return advice if the key exists in another table."""
    for section, field in Sections.model_fields.items():
        tables = tables_of(field)
        if any(path[-1] in table.model_fields for table in tables):
            other = " of another kind" if path[:-1] == (section,) else ""
            return f"it belongs in [{section}]{other}"
    return None
