"""Keys of a problem file, as a JSON schema for editors and as a page in Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from invlift.app.problem.sections import Sections
from invlift.app.problem.table_errors import child, expected, forms, keys, toml
from invlift.files.tables import json_schema

_START = """\
# Keys of the problem file

This page lists all keys. `invlift schema --page` writes it, and editors take the same from
[a schema](commands/schema.md). The keys are explained with examples in the
[tutorial](tutorial.md) and on the pages [priors](priors.md), [noise](noise.md) and
[readings](readings.md). Lengths are in the unit of the mesh; solutions are in the unit of the
sensor table. A *distribution* and its keys are at the [end of the page](#distribution). For a
*distribution of positive numbers*, choose one that has no negative values: not normal,
truncated-normal, student-t or beta.
"""
_HEAD = "\n| key | value | default | |\n|---|---|---|---|\n"
#: Long lists of tables in the column of values, and the short text that replaces each.
_SHORT = (
    (r'\{distribution = (?:[^{}]*"normal")[^{}]*\}', "a distribution"),
    (r'\{distribution = "lognormal", "half[^{}]*\}', "a distribution of positive numbers"),
    (r"\{steps = [^{}]*\}", "[steps or a schedule](fields_in_time.md)"),
    (r'\{kind = "matern", [^{}]*\}', "a [prior](#prior)"),
)


def problem_schema() -> dict[str, Any]:
    """Return the JSON schema of a problem file, draft 2020-12."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **json_schema(Sections)}


def key_reference() -> str:
    """Return a page in Markdown with all keys: their values, defaults and descriptions."""
    page, inner, sections = [_START], {}, json_schema(Sections)["properties"]
    seen: dict[str, str] = {}
    written = [section.get("oneOf") for section in sections.values()]
    for name, section in sections.items():
        if "properties" not in section:  # tables with names that the user chooses
            name = f"{name}.NAME"
            section = {**child(section, "NAME"), "description": section["description"]}
        page += [
            f"\n## [{name}]\n\n{section['description']}\n",
            *_tables(section, f"[{name}]", seen),
        ]
        values = [child(section, key) for key in keys(section)]
        values += [child(value, "NAME") for value in values]
        for form in (form for value in values for form in forms(value)):
            if "discriminator" in form and form["oneOf"] not in written:
                key = form["discriminator"]["propertyName"]
                inner[key] = max(inner.get(key, form), form, key=_num_keys)
    for name, form in inner.items():
        page += [f"\n## {name.capitalize()}\n", *_tables(form, "", seen)]
    return "".join(page)


def _num_keys(table: dict) -> int:
    """Return the total number of keys of the forms of a table."""
    return sum(len(form["properties"]) for form in table["oneOf"])


def _tables(node: dict, where: str, seen: dict[str, str]) -> Iterator[str]:
    """Yield the keys of a table, and the additional keys of each of its forms.

    If several keys are already in another table of the page, only their names are listed.
    """
    properties = [form["properties"] for form in node.get("oneOf", ())]
    shared = {key: value for key, value in (properties[0] if properties else {}).items()
              if all(value == other.get(key) for other in properties)}  # fmt: skip
    shared = {**node["properties"], **shared}
    yield from _table({**node, "properties": shared}, where, seen)
    for form in node.get("oneOf", ()):
        name = node["discriminator"]["propertyName"]
        heading = f"{where} {name} = {toml(form['properties'][name]['const'])}".strip()
        yield f"\n### {heading}\n\n{form.get('description', '').removeprefix(heading + ': ')}\n"
        rest = {key: value for key, value in form["properties"].items()
                if key != name and value != shared.get(key)}  # fmt: skip
        yield from _table({**form, "properties": rest}, heading, seen)


def _table(node: dict, where: str, seen: dict[str, str]) -> Iterator[str]:
    """Yield the table of keys that are new, and the names of the others."""
    rows = list(_rows(node))
    times = Counter(seen.get(row) for row in rows)
    old = {row: seen[row] for row in rows if row in seen and times[seen[row]] > 1}
    new = "".join(row for row in rows if row not in old)
    yield _HEAD + new if new else ""
    for place in dict.fromkeys(old.values()):
        names = [row.split(" | ")[0].removeprefix("| ") for row in old if old[row] == place]
        yield f"\nAs in `{place}`: {', '.join(names)}.\n"
    seen |= {row: where for row in rows if row not in seen}


def _rows(table: dict, prefix: str = "") -> Iterator[str]:
    for key, node in table["properties"].items():
        if "properties" in node and "discriminator" not in node:  # options of a method
            yield from _rows(node, f"{prefix}{key}.")
            continue
        default = node.get("default")
        usual = "required" if key in table.get("required", ()) else ""
        usual = f"`{toml(default)}`" if isinstance(default, str | int | float) else usual
        cells = f"`{prefix}{key}`", _value(node), usual, node.get("description", "")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
        for step, name in (("NAME", ".NAME"), (0, "")):
            if "properties" in (inner := child(node, step)):
                yield from _rows(inner, f"{prefix}{key}{name}.")


def _value(node: dict) -> str:
    """Describe the values of a key, with short names for tables described elsewhere on the page."""
    text = expected(node)
    for pattern, short in _SHORT:
        text = re.sub(pattern, short, text)
    return text
