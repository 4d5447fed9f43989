"""From pydantic's report on a table to what was expected, what was found and what to do.

All is worded from the JSON schema of the table: pydantic's report says only where in it, and
whether a key is missing or unknown.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from invlift.tables import MISSING, PROBLEM, Table, json_schema

#: Pydantic's name for an unknown key.
UNKNOWN = "extra_forbidden"


class Mistake(NamedTuple):
    """What is wrong at a place of a table: the keys that lead there, and parts of an `InputError`.

    `type` is that of pydantic's error.
    """

    path: tuple[str, ...]
    type: str
    expected: str
    found: str
    remedy: str


def mistakes(error: ValidationError, table: type[Table], data: Mapping) -> list[Mistake]:
    """Return the mistakes in data that a table has refused, unknown keys first.

    Parameters
    ----------
    error : ValidationError
        What ``table.model_validate(data)`` raised.
    """
    schema = json_schema(table)
    found = {}
    for entry in error.errors(include_url=False):
        mistake = _mistake(entry, Schema(schema, schema), data)
        found.setdefault(mistake.path, mistake)
    # Of a value of several forms pydantic tells each form's errors: those inside say most.
    inner = [
        mistake
        for path, mistake in found.items()
        if not any(path == other[: len(path)] for other in found if other != path)
    ]
    # A misspelt key is also reported as missing: the misspelling is the cause.
    return sorted(inner, key=lambda mistake: mistake.type != UNKNOWN)


class Schema(NamedTuple):
    """A place in a JSON schema."""

    node: dict[str, Any]
    root: dict[str, Any]

    def resolved(self) -> Schema:
        """Return the same without a reference."""
        node = self.node
        while "$ref" in node:
            name = node["$ref"].removeprefix("#/$defs/")
            node = {**self.root["$defs"][name], **{k: v for k, v in node.items() if k != "$ref"}}
        return Schema(node, self.root)

    def forms(self, value: Any = None) -> Iterator[Schema]:
        """Yield this and the forms it may have; if a value is given, only those it chooses."""
        node = self.resolved().node
        yield Schema(node, self.root)
        key = node.get("discriminator", {}).get("propertyName")
        for form in node.get("anyOf", ()):
            yield from Schema(form, self.root).forms(value)
        for form in node.get("oneOf", ()):
            default = node["properties"][key].get("default")
            if value is None or _get(value, key, default) == form["properties"][key]["const"]:
                yield Schema(form, self.root)

    def child(self, key: str | int, value: Any = None) -> Schema | None:
        """Return the schema of a key of a value, or of an index; None if there is no such key."""
        found = None
        for form, _ in self.forms(value):
            child = form.get("properties", {}).get(key)
            others = form.get("items" if isinstance(key, int) else "additionalProperties")
            if child is None and isinstance(others, dict):
                child = {"description": self.node.get("description", ""), **others}
            found = child or found
        return None if found is None else Schema(found, self.root).resolved()

    def keys(self, value: Any = None) -> dict[str, None]:
        """Return the keys of a value, in order."""
        forms = self.forms(value)
        return dict.fromkeys(key for form, _ in forms for key in form.get("properties", ()))

    def names(self) -> list[str]:
        """Return the texts that may be chosen from."""
        forms = [form for form, _ in self.forms() if form.get("type") != "object"]
        every = [name for form in forms for name in form.get("enum", [form.get("const")])]
        return [name for name in every if isinstance(name, str)]

    def expected(self) -> str:
        """Return in words what a value may be."""
        node, names = self.node, self.names()
        kind = node.get("type")
        if "title" in node:
            return node["title"]
        if "anyOf" in node:
            forms = [Schema(form, self.root).resolved() for form in node["anyOf"]]
            return _listing([form.expected() for form in forms])
        if names:
            return quoted(names)
        if kind in ("number", "integer"):
            return _range(kind, *map(node.get, ("minimum", "maximum", "exclusiveMinimum")))
        if "discriminator" in node:
            key = node["discriminator"]["propertyName"]
            return f"{{{key} = {quoted(node['properties'][key]['enum'])}, ...}}"
        if kind == "object":
            keys = {key: self.child(key) for key in self.keys()} or {"name": self.child("name")}
            types = {key: (child and child.node.get("type")) or "value" for key, child in keys.items()}
            return f"{{{', '.join(f'{key} = {kind}' for key, kind in types.items())}}}"
        return {"boolean": "true or false", "array": "a list", "string": "a text"}.get(kind, "")

    def remedy(self, value: Any = None) -> str:
        """Return what to do about a value that is not what is expected."""
        names = self.names()
        if isinstance(value, str):
            close = did_you_mean(value, names)
            types = {form.get("type") for form, _ in self.forms()}
            if close:
                return f'did you mean "{close}"?'
            if types & {"number", "integer"} and _is_number(value):
                return "write it without quotes"
        about = self.node.get("description", "").split(". ")[0].removesuffix(".")
        if not about:
            return "correct it"
        about = about[0].lower() + about[1:] if about[1:2].islower() or about[1:2] == " " else about
        default = self.node.get("default")
        usual = f" (default: {toml(default)})" if isinstance(default, str | int | float) else ""
        return f"{'choose' if names and 'anyOf' not in self.node else 'give'} {about}{usual}"


def _mistake(entry, at: Schema, value: Any) -> Mistake:
    """Return one of pydantic's errors in words, by walking along its location."""
    path, owner, owned = (), at, value
    steps = iter(entry["loc"])
    for step in steps:
        if "anyOf" in at.node:  # pydantic's name of the form, which is no key of the file
            step = next(steps, None)
            if step is None:
                break
        path, owner, owned = (*path, str(step)), at, value
        at, value = at.child(step, value) or Schema({}, at.root), _get(value, step)
    kind = entry["type"]
    if kind == PROBLEM:
        return Mistake(path, kind, **entry["ctx"])
    if kind == UNKNOWN:
        known = list(owner.keys(owned))
        close = did_you_mean(path[-1], known)
        remedy = f"did you mean {close!r}?" if close else "remove it"
        expected = f"one of the keys {', '.join(known)}" if known else "a table without keys"
        return Mistake(path, kind, expected, f"an unknown key {path[-1]!r}", remedy)
    expected = at.expected() or entry["msg"].removeprefix("Input should be ")
    if kind == MISSING:
        return Mistake(path, kind, expected, "no such key", f"add it: {at.remedy()}")
    return Mistake(path, kind, expected, show(value), at.remedy(value))


def _get(value: Any, key: str | int, default: Any = None) -> Any:
    """Return what a value has at a key or an index, if it has keys or indices."""
    if isinstance(value, Mapping):
        return value.get(key, default)
    return value[key] if isinstance(value, list) and isinstance(key, int) else default


def did_you_mean(name: str, known: Collection[str]) -> str | None:
    """Return the closest known name, if one is close."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1)
    return close[0] if close else None


def quoted(names: Collection[str]) -> str:
    """Write "a", "b" or "c"."""
    return _listing([f'"{name}"' for name in names])


def toml(value: Any) -> str:
    """Write a number, a text or whether something is so, as in a TOML file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def show(value: Any) -> str:
    """Write what was found, cut short."""
    if isinstance(value, str):
        return f'the text "{value[:60]}"' if value else "an empty text"
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
    """Write which numbers are allowed."""
    is_positive = above == 0 or (kind == "number" and low is not None and low > 0)
    limits = [f"above {_written(above)}"] if above else []
    if low is not None and high is not None:
        limits.append(f"from {_written(low)} to {_written(high)}")
    elif low is not None:
        limits.append(f"of at least {_written(low)}")
    elif high is not None:
        limits.append(f"at most {_written(high)}")
    noun = f"a positive {kind}" if is_positive else f"a{'n' * (kind == 'integer')} {kind}"
    needs_comma = limits and (is_positive or limits[0].startswith("at most"))
    return " ".join([noun + "," * bool(needs_comma), " and ".join(limits)]).strip()


def _written(value: float) -> str:
    """Write a number as people do: 1e-9, 2^63 - 1, 0.5."""
    if isinstance(value, int) and value > 2**31 and (value + 1).bit_count() == 1:
        return f"2^{value.bit_length()} - 1"
    if isinstance(value, int):
        return str(value)
    digits, _, exponent = f"{value:g}".partition("e")
    return f"{digits}e{int(exponent)}" if exponent else digits


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
