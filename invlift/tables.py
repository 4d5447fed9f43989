"""Tables of the problem file: pydantic models, whose fields are the keys.

The type of a field says in pydantic's words what its value may be, and its description what it is
about and in what unit. The JSON schema made of them is what errors (:mod:`invlift.table_errors`),
editors and the key reference go by::

    class MaternTable(Table):
        range: number(1e-50, 1e50, description="The correlation length, in the mesh's unit.") = 1.0
        boundary: Literal["neumann", "robin"] = Field("neumann", description="The condition ...")
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

#: Type of the errors that carry the parts of an `InputError`, and of that of a missing key.
PROBLEM, MISSING = "problem", "missing"


def problem(expected: str, found: str, remedy: str) -> PydanticCustomError:
    """Return the error that a check of a table raises; its parts are those of an `InputError`."""
    parts = {"expected": expected, "found": found, "remedy": remedy}
    return PydanticCustomError(PROBLEM, "{expected}", parts)


def _brief(schema: dict[str, Any]) -> None:
    """Leave of what pydantic writes of a table the first paragraph of its docstring."""
    del schema["title"]
    schema["description"] = _joined(schema.get("description", "").split("\n\n")[0])


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
        json_schema_extra=_brief,
    )


class _JsonSchema(GenerateJsonSchema):
    """Titles say what is expected of a value: where there is none, the type does."""

    def field_title_should_be_set(self, schema) -> bool:
        return False

    def handle_invalid_for_json_schema(self, schema, error_info) -> dict[str, Any]:
        return {}


def json_schema(table: type[Table]) -> dict[str, Any]:
    """Return the JSON schema of a table (draft 2020-12), with the names in the registries of now.

    A title says what is expected where its type does not, a description what the value is about.
    """
    return table.model_json_schema(schema_generator=_JsonSchema)


def number(
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    description: str | None = None,
):
    """Return the type of a number from `low` to `high`, or larger than `above`."""
    return Annotated[float, Field(ge=low, le=high, gt=above, description=description)]


def integer(low: int | None = None, high: int | None = None, *, description: str | None = None):
    """Return the type of an integer from `low` to `high`, both allowed."""
    return Annotated[int, Field(ge=low, le=high, description=description)]


@dataclasses.dataclass(frozen=True, eq=False)
class OneOf:
    """Makes one of the keys of a table choose what table it is: put it into `Annotated`.

    Attributes
    ----------
    registry : dict
        Name -> subclass of :class:`Table` with a field called `key`. It is looked up whenever a
        table is validated or described.
    key : str
        The key that holds the name.
    default : str, optional
        The name where the key is left out.
    """

    registry: Mapping[str, type[Table]]
    key: str
    default: str | None = None

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value, info):
        if isinstance(value, Table):
            return value
        if not isinstance(value, Mapping):
            raise PydanticCustomError("table", "not a table")
        if self.default is not None:
            value = {self.key: self.default, **value}
        name = value.get(self.key)
        if isinstance(name, str) and name in self.registry:
            return self.registry[name].model_validate(value, context=info.context)
        error = "name" if self.key in value else MISSING
        details = InitErrorDetails(
            type=PydanticCustomError(error, "no known name"), loc=(self.key,), input=name
        )
        raise ValidationError.from_exception_data(self.key, [details])

    def __get_pydantic_json_schema__(self, schema, handler):
        tables = {name: handler(table.__pydantic_core_schema__) for name, table in
                  self.registry.items()}  # fmt: skip
        forms = {name: handler.resolve_ref_schema(form) for name, form in tables.items()}
        key = {**next(iter(forms.values()))["properties"][self.key], "enum": list(forms)}
        if self.default is not None:
            key["default"] = self.default
        properties = {self.key: key}
        return {"type": "object", "properties": properties} | chosen(forms, self.key, self.default)


def chosen(forms: Mapping[str, dict], key: str, default: str | None) -> dict[str, Any]:
    """Return the part of a JSON schema that makes a key choose the schema of its table.

    Parameters
    ----------
    forms : dict
        Name -> JSON schema of the table.
    key, default : str
        As of :class:`OneOf`.
    """
    branches = []
    for name, form in forms.items():
        required = [each for each in form.get("required", ()) if each != key]
        required += [] if name == default else [key]
        properties = {**form["properties"], key: {"const": name}}
        branches.append({**form, "properties": properties, "required": required})
    return {"oneOf": branches, "discriminator": {"propertyName": key}}


def one_of(registry: Mapping[str, type[Table]], key: str, *, default: str | None = None):
    """Return the type of a table that is one of those in a registry: see :class:`OneOf`."""
    return Annotated[Table, OneOf(registry, key, default)]


@cache
def table_of_dataclass(cls: type) -> type[Table]:
    """Make a table of a dataclass: its keys are the fields, with their types and defaults.

    Parameters
    ----------
    cls : type
        A dataclass. A field whose metadata is ``{"option": False}`` is left out, as is one that
        `__init__` does not take. The docstring describes them.

    Returns
    -------
    type
        A subclass of :class:`Table`.
    """
    types = typing.get_type_hints(cls, include_extras=True)
    texts = {name: text for base in reversed(cls.__mro__) for name, text in _attributes(base)}
    keys: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if not field.init or not field.metadata.get("option", True):
            continue
        if field.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=field.default_factory)
        else:
            default = ... if field.default is dataclasses.MISSING else field.default
        kind = types[field.name]
        if field.name in texts:
            kind = Annotated[kind, Field(description=texts[field.name])]
        keys[field.name] = (kind, default)
    return create_model(cls.__name__, __base__=Table, __doc__=cls.__doc__, **keys)


def _attributes(cls: type) -> Iterator[tuple[str, str]]:
    """Yield what a docstring says of each attribute."""
    entry = re.compile(r"^(\w+) : .*\n((?:    .*\n?)+)", re.MULTILINE)
    for match in entry.finditer(inspect.cleandoc(cls.__doc__ or "")):
        yield match[1], _joined(match[2])


def _joined(text: str) -> str:
    return " ".join(text.split())
