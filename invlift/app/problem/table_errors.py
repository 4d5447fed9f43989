"""Error messages with expectation, finding and remedy from pydantic's report on a table.

The words come from the JSON schema of the table. The report only gives the place in the table, and
whether a key is missing or unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from invlift.errors import InputError, closest
from invlift.files.tables import PROBLEM, Table, json_schema

#: Pydantic's names for a missing key and for an unknown key.
MISSING, UNKNOWN = "missing", "extra_forbidden"


def check_options(table: type[Table], where: str = "", **options: Any) -> None:
    """Check arguments or options against the keys of the same names in a table.

    Numbers may be NumPy's, and None is an optional argument that was not given.

    Raises
    ------
    InputError
        For the first that the table refuses. The message names `where`, if given, instead of the
        key.
    """
    fields = table.model_fields
    values = {name: getattr(value, "tolist", lambda value=value: value)()
              for name, value in options.items()
              if value is not None or fields[name].default is not None}  # fmt: skip
    try:
        table.model_validate(values)
    except ValidationError as error:
        for path, _, *parts in mistakes(error, table, values):
            if path[0] in values:
                raise InputError(where or path[0], *parts) from None


class Mistake(NamedTuple):
    """A place in a table as keys, the type of pydantic's error, and parts of an `InputError`."""

    path: tuple[str, ...]
    type: str
    expected: str
    found: str
    remedy: str


def mistakes(error: ValidationError, table: type[Table], data: Mapping) -> list[Mistake]:
    """Return the mistakes in the data that a table has refused, unknown keys first."""
    schema = json_schema(table)
    by_path = {}
    for entry in error.errors(include_url=False):
        mistake = _mistake(entry, schema, data)
        if mistake is None:
            continue
        if mistake.path not in by_path or mistake.type == PROBLEM:  # the more specific message
            by_path[mistake.path] = mistake
    # All forms of a value are reported. Mistakes inside the value are more specific.
    outer = {path[:size] for path in by_path for size in range(len(path))}
    # A misspelt key is also reported as missing: the misspelling is the cause.
    inner = [mistake for path, mistake in by_path.items() if path not in outer]
    return sorted(inner, key=lambda mistake: mistake.type != UNKNOWN)


def _mistake(entry, node: dict, value: Any) -> Mistake | None:
    """Describe one of pydantic's errors, following its location in the schema.

    Return None if the error is about a form that does not apply to the value.
    """
    path, owner, owned = (), node, value
    steps = iter(entry["loc"])
    for step in steps:
        if "anyOf" in node:  # pydantic's name of a form, which is no key of the file
            if _is_another(node, step, value):
                return None
            step = next(steps, None)
            if step is None:
                break
        shown = step + 1 if isinstance(step, int) else step  # entries of a list count from 1
        path, owner, owned = (*path, str(shown)), node, value
        node, value = child(node, step, value), _get(value, step)
    kind = entry["type"]
    if kind == PROBLEM:
        return Mistake(path, kind, **entry["ctx"])
    if kind == UNKNOWN:
        known = list(keys(owner, owned))
        close = closest(path[-1], known)
        allowed = f"one of the keys {', '.join(known)}" if known else "a table without keys"
        remedy = f"did you mean {close!r}?" if close else "remove it"
        return Mistake(path, kind, allowed, f"an unknown key {path[-1]!r}", remedy)
    allowed = expected(node) or entry["msg"].removeprefix("Input should be ")
    if kind == MISSING:
        return Mistake(path, kind, allowed, "no such key", f"add it: {_remedy(node, None)}")
    return Mistake(path, kind, allowed, show(value), _remedy(node, value))


def _is_another(node: dict, form: str, value: Any) -> bool:
    """Return whether a form, by pydantic's name, does not apply to the value.

    A table has either known keys, or names that the user chooses.
    """
    known = keys(node)
    if not known or not isinstance(value, Mapping):
        return False
    if not any("additionalProperties" in each and "properties" not in each
               for each in node["anyOf"]):  # fmt: skip
        return False
    is_by_name = not any(key in value for key in known)
    return isinstance(form, str) and form.startswith("dict[") != is_by_name


def forms(node: dict, value: Any = None) -> Iterator[dict]:
    """Yield a JSON schema and its forms; with a value, only the form of a table it chooses."""
    yield node
    for form in node.get("anyOf", ()):
        yield from forms(form, value)
    for form in node.get("oneOf", ()):
        key = node["discriminator"]["propertyName"]
        chosen = _get(value, key, node["properties"][key].get("default"))
        if value is None or chosen == form["properties"][key]["const"]:
            yield form


def keys(node: dict, value: Any = None) -> dict[str, None]:
    """Return the keys of a table, in order."""
    return dict.fromkeys(key for form in forms(node, value) for key in form.get("properties", ()))


def child(node: dict, key: str | int, value: Any = None) -> dict:
    """Return the JSON schema of a key or an index of a value; {} if it has none."""
    merged, chosen = {}, {}
    for form in forms(node, value):
        others = form.get("items" if isinstance(key, int) else "additionalProperties")
        if key in form.get("properties", ()):
            chosen = form["properties"][key]
        elif isinstance(others, dict):
            merged = {"description": node.get("description", ""), **others}
    return chosen or merged


def expected(node: dict) -> str:
    """Describe the allowed values."""
    kind, names = node.get("type"), _names(node)
    if "anyOf" in node:
        return _listing([expected(form) for form in node["anyOf"]])
    if names:
        return _listing([toml(name) for name in names])
    if kind in ("number", "integer"):
        return _range(kind, *map(node.get, ("minimum", "maximum", "exclusiveMinimum")))
    if "discriminator" in node:
        key = node["discriminator"]["propertyName"]
        return f"{{{key} = {expected(node['properties'][key])}, ...}}"
    if kind == "object":
        inner = {key: child(node, key) for key in keys(node) or ["name"]}
        return f"{{{', '.join(f'{key} = {_brief(each)}' for key, each in inner.items())}}}"
    if kind == "array":
        return f"a list of {_brief(node['items'])}s"
    text = f"a {node.get('format', 'text')} in quotes"
    return {"boolean": "true or false", "string": text}.get(kind, "")


def _brief(node: dict) -> str:
    """Describe the allowed values briefly, for use inside a list or a table."""
    kind = node.get("type", "value")
    return expected(node) if kind == "object" else kind


def _names(node: dict) -> list[str]:
    """Return the allowed texts."""
    choices = [form.get("enum", [form.get("const")]) for form in forms(node) if "oneOf" not in node]
    return [name for names in choices for name in names if isinstance(name, str)]


def _remedy(node: dict, value: Any) -> str:
    """Return the remedy for a missing key or a wrong value."""
    names, types = _names(node), [form.get("type") for form in forms(node)]
    if isinstance(value, str):
        if close := closest(value, names):
            return f'did you mean "{close}"?'
        is_number = re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", value.lower())
        if is_number and {"number", "integer"} & {*types}:
            return "write it without quotes"
    verb = "choose" if types == ["boolean"] or (names and len(types) == 1) else "give"
    default = node.get("default")
    usual = f" (default: {toml(default)})" if isinstance(default, str | int | float) else ""
    what = (node.get("description") or "one").split(". ")[0].removesuffix(".")
    return f"{verb} {what[:1].lower()}{what[1:]}{usual}"


def _get(value: Any, key: str | int, default: Any = None) -> Any:
    if isinstance(value, Mapping):
        return value.get(key, default)
    return value[key] if isinstance(value, list) and isinstance(key, int) else default


def toml(value: Any) -> str:
    """Write a number, a text or a truth value as in a TOML file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def show(value: Any) -> str:
    """Return a short description of the value that was found."""
    if isinstance(value, str):
        return f"the text {toml(value[:60])}" if value else "an empty text"
    if isinstance(value, Mapping):
        return "a table with " + (", ".join(map(str, value)) or "no keys")
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "an integer beyond 2^63"
    return toml(value)


def _listing(texts: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def _range(kind: str, low, high, above) -> str:
    """Describe the allowed numbers."""
    limits = [f"above {_written(above)}"] if above else []
    if low is not None:
        upper = "" if high is None else f" to {_written(high)}"
        limits.append(f"from {_written(low)}{upper}" if upper else f"of at least {_written(low)}")
    elif high is not None:
        limits.append(f"at most {_written(high)}")
    if above == 0 or (kind == "number" and (low or 0) > 0):
        return ", ".join([f"a positive {kind}", *limits])
    noun = "an integer" if kind == "integer" else "a number"
    return f"{noun} {' and '.join(limits)}".strip()


def _written(value: float) -> str:
    """Format a number for people: 1e-9, 2^63 - 1, 0.5."""
    return "2^63 - 1" if value == 2**63 - 1 else re.sub(r"e\+?(-?)0*", r"e\1", f"{value:g}")
