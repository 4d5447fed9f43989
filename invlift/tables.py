"""Tables of the problem file that describe themselves.

A table is a subclass of :class:`Table`; its fields are the keys. The type of a field says in one
place what its value may be and what to tell a user who gives something else::

    class MaternTable(Table):
        range: number(1e-50, 1e50, remedy="give the correlation length") = 1.0
        boundary: choice("neumann", "robin", remedy="choose one") = "neumann"

Every error of a table carries the parts of an `InputError` (expected, found, remedy), and its
location is made of keys of the file alone.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

#: Types of the errors that carry the parts of an `InputError`: what a check found, a value that is
#: not what its key expects, a key that is missing and one that does not exist.
PROBLEM, VALUE, MISSING, UNKNOWN = "problem", "value", "missing_key", "unknown_key"
_DESCRIBED = {PROBLEM, VALUE, MISSING, UNKNOWN}
#: Stands for the value of a key that is not there.
_ABSENT = object()


def problem(expected: str, found: str, remedy: str) -> PydanticCustomError:
    """Return the error that a check of a table raises; its parts are those of an `InputError`."""
    return _error(PROBLEM, expected, found, remedy)


@dataclasses.dataclass(frozen=True, eq=False)
class Key:
    """What a key expects and what to do about anything else, beside its type in `Annotated`.

    Attributes
    ----------
    expected : str or callable
        In words; a function of no arguments if it changes, as the names in a registry do.
    remedy : str
        An instruction.
    choices : collection of str
        Names among which the closest one is suggested.
    is_number : bool
        Whether a number in quotes should lose them.
    """

    expected: str | Callable[[], str]
    remedy: str
    choices: Collection[str] = ()
    is_number: bool = False

    def text(self) -> str:
        """Return what is expected."""
        return self.expected if isinstance(self.expected, str) else self.expected()

    def mismatch(self, value: Any) -> PydanticCustomError:
        """Return the error for a value that is not what is expected."""
        remedy = self.remedy
        close = did_you_mean(value, self.choices) if isinstance(value, str) else None
        if close:
            remedy = f'did you mean "{close}"?'
        elif self.is_number and isinstance(value, str) and _is_number(value):
            remedy = "write it without quotes"
        return _error(VALUE, self.text(), show(value), remedy)

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_wrap_validator_function(self._check, handler(source))

    def _check(self, value, validate):
        try:
            return validate(value)
        except ValidationError as error:
            # Of the value as a whole this key knows most, of what is in it the keys in there do.
            if all(
                entry["type"] in (_DESCRIBED if entry["loc"] else {PROBLEM})
                for entry in error.errors(include_url=False)
            ):
                raise
            raise self.mismatch(value) from None


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
    )

    @model_validator(mode="wrap")
    @classmethod
    def _describe_errors(cls, data, validate):
        try:
            return validate(data)
        except ValidationError as error:
            entries = error.errors(include_url=False)
            if not all(entry["loc"] for entry in entries):  # not a table at all
                raise
            described = [_details(cls._described(entry), entry) for entry in entries]
            raise ValidationError.from_exception_data(cls.__name__, described) from None

    @classmethod
    def _described(cls, entry) -> PydanticCustomError:
        """Return one of pydantic's errors as one that says what was expected."""
        kind, name = entry["type"], str(entry["loc"][0])
        if kind in _DESCRIBED:
            return PydanticCustomError(kind, "{expected}", entry["ctx"])
        if kind == "extra_forbidden":
            known = list(cls.model_fields)
            close = did_you_mean(name, known)
            remedy = f"did you mean {close!r}?" if close else "remove it"
            expected = f"one of the keys {', '.join(known)}" if known else "a table without keys"
            return _error(UNKNOWN, expected, f"an unknown key {name!r}", remedy)
        key = _key_of(cls.model_fields[name])
        if kind == "missing":
            expected = key.text() if key else f"a key {name}"
            remedy = f"add it: {key.remedy}" if key else "add it"
            return _error(MISSING, expected, "no such key", remedy)
        if key:
            return key.mismatch(entry["input"])
        expected = entry["msg"].removeprefix("Input should be ")
        return _error(VALUE, expected, show(entry["input"]), "correct it")


def number(
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    remedy: str,
):
    """Return the type of a number between bounds.

    Parameters
    ----------
    low, high : float, optional
        Smallest and largest that it may be.
    above : float, optional
        What it must be larger than, in place of `low`.
    remedy : str
        What to do about a value that is not allowed.
    """
    expected = _range("number", low, high, above)
    bounds = Field(ge=low, le=high, gt=above, strict=True, allow_inf_nan=False)
    return Annotated[float, bounds, Key(expected, remedy, is_number=True)]


def integer(low: int | None = None, high: int | None = None, *, remedy: str):
    """Return the type of an integer from `low` to `high`, both allowed."""
    expected = _range("integer", low, high, None)
    bounds = Field(ge=low, le=high, strict=True)
    return Annotated[int, bounds, Key(expected, remedy, is_number=True)]


def choice(*names: str, remedy: str):
    """Return the type of a text that is one of some names."""
    return Annotated[Literal[names], Key(quoted(names), remedy, names)]


def name_in(registry: Mapping[str, Any], *, remedy: str):
    """Return the type of a text that names an entry of a registry at the time of validation."""

    def check(name: str) -> str:
        if name not in registry:
            raise PydanticCustomError("unknown_name", "not a registered name")
        return name

    return Annotated[
        str, AfterValidator(check), Key(partial(quoted, registry), remedy, choices=registry)
    ]


def by_form(*, remedy: str, **parts: Any):
    """Return the type of a value that may have several forms, each of which has a type of its own.

    Parameters
    ----------
    remedy : str
        What to do about a value that has none of the forms.
    **parts
        Types by form, ``number``, ``name`` (any text) and ``table``, in the order in which an
        error lists them.
    """
    keys = [_key_of_type(part) for part in parts.values()]
    choices = keys[list(parts).index("name")].choices if "name" in parts else ()
    key = Key(
        lambda: _listing([key.text() for key in keys]), remedy, choices, is_number="number" in parts
    )
    return Annotated[Any, _ByForm(parts), key]


@dataclasses.dataclass(frozen=True, eq=False)
class _ByForm:
    """Makes pydantic choose the type of a value by its form."""

    parts: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, source, handler):
        choices = {form: handler.generate_schema(part) for form, part in self.parts.items()}
        union = core_schema.tagged_union_schema(choices, discriminator=form_of)
        return core_schema.no_info_wrap_validator_function(self._check, union)

    @staticmethod
    def _check(value, validate):
        try:
            return validate(value)
        except ValidationError as error:
            entries = error.errors(include_url=False)
            if not all(entry["type"] in _DESCRIBED for entry in entries):
                raise PydanticCustomError("form", "none of the forms") from None
            # pydantic puts the form first in the location, which is no key of the file.
            described = [
                _details(
                    PydanticCustomError(entry["type"], "{expected}", entry["ctx"]),
                    entry | {"loc": entry["loc"][1:]},
                )
                for entry in entries
            ]
            raise ValidationError.from_exception_data(error.title, described) from None


@dataclasses.dataclass(frozen=True, eq=False)
class OneOf:
    """Makes one of the keys of a table choose what table it is: put it into `Annotated`.

    Attributes
    ----------
    registry : dict
        Name -> subclass of :class:`Table` with a field called `key`. It is looked up whenever a
        table is validated.
    key : str
        The key that holds the name.
    default : str, optional
        The name where the key is left out.
    """

    registry: Mapping[str, type[Table]]
    key: str
    default: str | None = None

    def text(self) -> str:
        """Return what is expected."""
        return f"{{{self.key} = {quoted(self.registry)}, ...}}"

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value, info):
        if isinstance(value, Table):
            return value
        if not isinstance(value, Mapping):
            raise PydanticCustomError("table", "not a table")
        if self.default is not None:
            value = {self.key: self.default, **value}
        name = value.get(self.key, _ABSENT)
        if isinstance(name, str) and name in self.registry:
            return self.registry[name].model_validate(value, context=info.context)
        example = next(iter(self.registry), "")
        remedy = f'choose one, for example {self.key} = "{example}"'
        error = Key(quoted(self.registry), remedy, self.registry).mismatch(name)
        details = InitErrorDetails(type=error, loc=(self.key,), input=name)
        raise ValidationError.from_exception_data(self.key, [details])


def one_of(registry: Mapping[str, type[Table]], key: str, *, default: str | None = None):
    """Return the type of a table that is one of those in a registry: see :class:`OneOf`."""
    choose = OneOf(registry, key, default)
    return Annotated[Table, choose, Key(choose.text, "choose one")]


def tables_of(field: FieldInfo) -> list[type[Table]]:
    """Return the tables that a field can be: one, those of a registry, or none."""
    for entry in field.metadata:
        if isinstance(entry, OneOf):
            return list(entry.registry.values())
    is_table = isinstance(field.annotation, type) and issubclass(field.annotation, Table)
    return [field.annotation] if is_table else []


@cache
def table_of_dataclass(cls: type) -> type[Table]:
    """Make a table of a dataclass: its keys are the fields, with their types and defaults.

    Parameters
    ----------
    cls : type
        A dataclass. Types of its fields may be made by :func:`number` and the like. A field whose
        metadata is ``{"option": False}`` is left out, as is one that `__init__` does not take.

    Returns
    -------
    type
        A subclass of :class:`Table`.
    """
    types = typing.get_type_hints(cls, include_extras=True)
    keys: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if not field.init or not field.metadata.get("option", True):
            continue
        if field.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=field.default_factory)
        else:
            default = ... if field.default is dataclasses.MISSING else field.default
        keys[field.name] = (types[field.name], default)
    return create_model(cls.__name__, __base__=Table, __doc__=cls.__doc__, **keys)


def form_of(value: Any) -> str:
    """Tell a number, a name and a table apart."""
    if isinstance(value, Mapping | Table):
        return "table"
    return "name" if isinstance(value, str) else "number"


def did_you_mean(name: str, known: Collection[str]) -> str | None:
    """Return the closest known name, if one is close."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1)
    return close[0] if close else None


def quoted(names: Collection[str]) -> str:
    """Write "a", "b" or "c"."""
    return _listing([f'"{name}"' for name in names])


def show(value: Any) -> str:
    """Write a value as in a TOML file, cut short."""
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the text "{value[:60]}"' if value else "an empty text"
    if isinstance(value, Mapping):
        return "a table with " + (", ".join(map(str, value)) or "no keys")
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "an integer beyond 2^63"
    return str(value)


def _error(kind: str, expected: str, found: str, remedy: str) -> PydanticCustomError:
    parts = {"expected": expected, "found": found, "remedy": remedy}
    return PydanticCustomError(kind, "{expected}", parts)


def _details(error: PydanticCustomError, entry) -> InitErrorDetails:
    return InitErrorDetails(type=error, loc=entry["loc"], input=entry["input"])


def _key_of(field: FieldInfo) -> Key | None:
    """Return what a field expects, if its type says so."""
    for entry in reversed(field.metadata):
        if isinstance(entry, Key):
            return entry
    if typing.get_origin(field.annotation) is Literal:
        names = [name for name in typing.get_args(field.annotation) if isinstance(name, str)]
        return Key(quoted(names), "choose one", names)
    return None


def _key_of_type(kind: Any) -> Key:
    """Return what a type made of `Annotated` expects."""
    return next(entry for entry in reversed(kind.__metadata__) if isinstance(entry, Key))


def _listing(texts: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def _range(kind: str, low, high, above) -> str:
    """Write what numbers are allowed."""
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
