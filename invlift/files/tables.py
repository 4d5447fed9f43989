"""Tables of the problem file: pydantic models whose fields are the keys.

The type of a field gives its allowed values, the text below it its meaning and unit. The JSON
schema made from both is used by errors, editors and the key reference::

    class MaternTable(PriorTable):
        range: number(1e-50, 1e50)
        \"\"\"The correlation length, in the length unit of the mesh.\"\"\"
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError, core_schema

#: Type of pydantic errors that contain the parts of an `InputError`.
PROBLEM = "problem"


def problem(expected: str, found: str, remedy: str) -> PydanticCustomError:
    """Return the error for a failed check of a table, with the parts of an `InputError`."""
    parts = {"expected": expected, "found": found, "remedy": remedy}
    return PydanticCustomError(PROBLEM, "{expected}", parts)


class Table(BaseModel):
    """A table of the problem file.

    Types are strict: a quoted number, `true` for 1 or 1.0 for an integer is an error, never
    converted.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )

    def given_of(self, *keys: str) -> list[str]:
        """Return those of the keys that have a value."""
        return [key for key in keys if getattr(self, key) is not None]


#: Registries whose tables are being described.
_DESCRIBED: ContextVar[tuple[Mapping, ...]] = ContextVar("described", default=())
#: Schemas that were made for the one being made, as most tables are in many others.
_MADE: ContextVar[dict | None] = ContextVar("made", default=None)


class _JsonSchema(GenerateJsonSchema):
    def handle_invalid_for_json_schema(self, schema, error_info) -> dict[str, Any]:
        return {}


def json_schema(table: type[Table]) -> dict[str, Any]:
    """Return the JSON schema of a table, with the present names in the registries.

    It has no references, no titles and no defaults that TOML cannot express. The description of a
    table is the first paragraph of its docstring.
    """
    made = _MADE.get()
    if made is None:
        token = _MADE.set(made := {})
        try:
            return json_schema(table)
        finally:
            _MADE.reset(token)
    key = table, *map(id, _DESCRIBED.get())
    if key not in made:
        schema = table.model_json_schema(schema_generator=_JsonSchema)
        made[key] = _plain(schema, schema.pop("$defs", {}))
    return copy.deepcopy(made[key])


def _plain(node: Any, definitions: Mapping[str, dict], within: tuple[str, ...] = ()) -> Any:
    if isinstance(node, list):
        return [_plain(each, definitions, within) for each in node]
    if not isinstance(node, dict):
        return node
    if name := node.get("$ref", "").removeprefix("#/$defs/"):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        node = rest if name in within else {**definitions[name], **rest}
        within = (*within, name)
    plain = {key: _plain(value, definitions, within) for key, value in node.items()}
    if isinstance(plain.get("title"), str):  # not a key with this name
        del plain["title"]
    if isinstance(plain.get("description"), str):
        plain["description"] = " ".join(plain["description"].split("\n\n")[0].split())
    if plain.get("default", "") is None:
        del plain["default"]
    return plain


def number(low: float | None = None, high: float | None = None, *, above: float | None = None):
    """Return the type of a number from `low` to `high`, or larger than `above`."""
    return Annotated[float, Field(ge=low, le=high, gt=above)]


def integer(low: int | None = None, high: int | None = None):
    """Return the type of an integer from `low` to `high`, both included."""
    return Annotated[int, Field(ge=low, le=high)]


@dataclasses.dataclass(frozen=True, eq=False)
class OneOf:
    """Annotation for a table whose kind is chosen by one of its keys; put it into `Annotated`.

    The registry has subclasses of :class:`Table` by name, with a field called `key` that contains
    the name. It is read whenever a table is validated or described. `default` is the name if the
    key is missing.  `other` is a table without this key, recognised by its other keys.
    """

    registry: Mapping[str, type[Table]]
    key: str
    default: str | None = None
    other: type[Table] | None = None

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value, info):
        if isinstance(value, Table):
            return value
        if not isinstance(value, Mapping):
            raise PydanticCustomError("table", "not a table")
        if self.other is not None and self.key not in value and set(value) & {*self.other.known_by}:
            return self.other.model_validate(value, context=info.context)
        if self.default is not None:
            value = {self.key: self.default, **value}
        name = value.get(self.key)
        if isinstance(name, str) and name in self.registry:
            return self.registry[name].model_validate(value, context=info.context)
        kind = PydanticCustomError("name", "not a name") if self.key in value else "missing"
        error = {"type": kind, "loc": (self.key,), "input": name}
        raise ValidationError.from_exception_data(self.key, [error])

    def __get_pydantic_json_schema__(self, schema, handler):
        if self.registry in _DESCRIBED.get():  # a table of the registry may contain another one
            return {"type": "object"}
        token = _DESCRIBED.set((*_DESCRIBED.get(), self.registry))
        try:
            forms = {name: json_schema(table) for name, table in self.registry.items()}
        finally:
            _DESCRIBED.reset(token)
        chooser = next(iter(forms.values()))["properties"][self.key]
        table = {"properties": {self.key: chooser}, "required": [self.key]}
        one_of = chosen({"type": "object", **table}, forms, self.key, self.default)
        return {"anyOf": [one_of, json_schema(self.other)]} if self.other else one_of


def chosen(table: dict, forms: Mapping[str, dict], key: str, default: str | None) -> dict[str, Any]:
    """Return the JSON schema of a table with a key that chooses among several forms.

    `table` has the keys common to all forms. `forms` are JSON schemas by name. `key` and `default`
    are those of :class:`OneOf`.
    """
    chooser = {**table["properties"][key], "enum": list(forms)}
    chooser |= {} if default is None else {"default": default}
    required = {name for name in table.get("required", ()) if name != key or default is None}
    branches = []
    for name, form in forms.items():
        needed = {*form.get("required", ()), key} - ({key} if name == default else set())
        form_of_name = {"properties": {**form["properties"], key: {"const": name}}}
        branches.append(form | form_of_name | {"required": sorted(needed)})
    return table | {
        "properties": {**table["properties"], key: chooser},
        "required": sorted(required),
        "oneOf": branches,
        "discriminator": {"propertyName": key},
    }


def one_of(
    registry: Mapping[str, type[Table]],
    key: str,
    *,
    default: str | None = None,
    other: type[Table] | None = None,
):
    """Return the type of a table from a registry: see :class:`OneOf`."""
    return Annotated[Table, OneOf(registry, key, default, other)]


@cache
def table_of_dataclass(cls: type) -> type[Table]:
    """Return a table with the constructor fields of a dataclass as keys.

    Descriptions of the keys come from the docstrings of the class and its bases, in numpydoc
    sections.
    """
    types = typing.get_type_hints(cls, include_extras=True)
    entry = re.compile(r"^(\w+) : .*\n((?:    .*\n?)+)", re.MULTILINE)
    docs = [inspect.cleandoc(base.__doc__ or "") for base in reversed(cls.__mro__)]
    texts = dict(found for doc in docs for found in entry.findall(doc))
    keys = {
        field.name: (Annotated[types[field.name], Field(description=texts.get(field.name))], field)
        for field in dataclasses.fields(cls)
        if field.init
    }
    return create_model(cls.__name__, __base__=Table, __doc__=cls.__doc__, **keys)
