"""Tables of the problem file: JSON schemas, and errors worded from them with the keys of a file."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pytest
from pydantic import ValidationError

from invlift.app.problem.table_errors import expected, mistakes
from invlift.files.tables import (
    Table,
    integer,
    json_schema,
    number,
    one_of,
    problem,
    table_of_dataclass,
)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (number(-1e50, 1e50), "a number from -1e50 to 1e50"),
        (number(1e-9, 50.0), "a positive number, from 1e-9 to 50"),
        (number(above=0.0, high=10.0), "a positive number, at most 10"),
        (number(above=2.0), "a number above 2"),
        (number(-1.0), "a number of at least -1"),
        (integer(1), "an integer of at least 1"),
        (integer(0, 2**63 - 1), "an integer from 0 to 2^63 - 1"),
        (Literal["a"], '"a"'),
        (Literal["a", "b", "c"], '"a", "b" or "c"'),
        (number() | Literal["a"], 'a number or "a"'),
        (dict[str, integer(1)], "{name = integer}"),
        (list[number()], "a list of numbers"),
        (bool, "true or false"),
        (str, "a text in quotes"),
    ],
)
def test_what_is_expected_is_written_from_the_type(kind, text):
    class One(Table):
        value: kind

    assert expected(json_schema(One)["properties"]["value"]) == text


class Leaf(Table):
    """A leaf."""

    size: number(0.0, 1.0)
    """The size, in metres. More is not said."""


class Sized(Table):
    """What has a size."""

    form: str
    """The form."""
    size: integer(1) = 1
    """The number."""


FORMS = {"one": Sized}
VALUE = number(0.0, 1.0) | Literal["all"] | one_of(FORMS, "form")


class Tree(Table):
    """A tree."""

    value: VALUE = 0.5
    """The value, in kg."""
    leaves: dict[str, Leaf] = {}
    """The leaves by name."""
    values: dict[str, VALUE] = {}
    """The values by name."""
    amounts: list[number(above=0.0)] = []
    plain: int = 3


def errors_of(data, table=Tree):
    with pytest.raises(ValidationError) as caught:
        table.model_validate(data)
    return {".".join(path): tuple(parts) for path, _, *parts in mistakes(caught.value, table, data)}


ANY = 'a number from 0 to 1, "all" or {form = "one", ...}'


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        ({"value": 2.0}, {"value": (ANY, "2.0", "give the value, in kg (default: 0.5)")}),
        ({"value": "0.3"}, {"value": (ANY, 'the text "0.3"', "write it without quotes")}),
        (
            {"value": {"form": "one", "size": 0}},
            {"value.size": ("an integer of at least 1", "0", "give the number (default: 1)")},
        ),
        ({"value": {}}, {"value.form": ('"one"', "no such key", "add it: choose the form")}),
        (
            {"leaves": {"a": {}}},
            {"leaves.a.size": (
                "a number from 0 to 1", "no such key", "add it: give the size, in metres")},
        ),
        ({"leaves": {"a": 1.0}}, {"leaves.a": ("{size = number}", "1.0", "give a leaf")}),
        # names of pydantic's own forms are no keys, but a key may be called so
        (
            {"values": {"float": 0.5, "value": [1]}},
            {"values.value": (ANY, "a list of 1", "give the values by name")},
        ),
        ({"amounts": [1.0, 0]}, {"amounts.2": ("a positive number", "0", "give one")}),
        ({"plain": 1.5}, {"plain": ("an integer", "1.5", "give one (default: 3)")}),
        (
            {"plan": 1, "value": 2},
            {
                "plan": (
                    "one of the keys value, leaves, values, amounts, plain",
                    "an unknown key 'plan'",
                    "did you mean 'plain'?",
                ),
                "value": (ANY, "2", "give the value, in kg (default: 0.5)"),
            },
        ),
    ],
)  # fmt: skip
def test_errors_have_the_keys_of_the_file_and_the_three_parts(data, errors):
    found = errors_of(data)
    assert found == errors
    assert list(found) == list(errors)


class Pair(Table):
    left: int
    right: int

    def model_post_init(self, context):
        if self.left != self.right:
            raise problem("equals", f"{self.left}", "mend")


class Even(Table):
    pair: Pair | number()


def test_a_check_of_a_table_keeps_its_own_words():
    assert errors_of({"pair": {"left": 1, "right": 2}}, Even) == {"pair": ("equals", "1", "mend")}
    words = "{left = integer, right = integer} or a number"
    assert errors_of({"pair": "x"}, Even) == {"pair": (words, 'the text "x"', "give one")}
    assert Even(pair={"left": 1, "right": 1}).pair == Pair(left=1, right=1)


def test_a_type_that_json_does_not_know_is_told_in_the_words_of_pydantic():
    class Odd(Table):
        value: Callable[[], int]

    assert errors_of({"value": "x"}, Odd) == {"value": ("callable", 'the text "x"', "give one")}


def test_a_table_may_have_one_of_its_own_kind_in_it():
    registry = {"one": Sized}

    class Twice(Table):
        """Twice another."""

        form: str
        """The form."""
        of: one_of(registry, "form")

    class Root(Table):
        value: one_of(registry, "form")

    registry["twice"] = Twice
    deep = {"form": "twice", "of": {"form": "twice", "of": {"form": "one"}}}
    assert Root(value=deep).value.of.of.size == 1
    found = errors_of({"value": {"form": "twice", "of": {"form": "on"}}}, Root)
    assert list(found) == ["value.of.form"]


@dataclass(frozen=True)
class Options:
    """Some options.

    Attributes
    ----------
    size : float
        The size, in
        metres.
    """

    size: number(0.0, 1.0)
    names: dict = field(default_factory=dict)
    made: int = field(default=2, init=False)


def test_a_table_of_a_dataclass_has_its_fields_types_defaults_and_docstring():
    table = table_of_dataclass(Options)
    assert table is table_of_dataclass(Options)
    assert list(table.model_fields) == ["size", "names"]
    assert table(size=1).model_dump() == {"size": 1.0, "names": {}}
    missing = ("a number from 0 to 1", "no such key", "add it: give the size, in metres")
    assert errors_of({}, table) == {"size": missing}
    assert "made" in errors_of({"size": 1.0, "made": 3}, table)
    assert json_schema(table)["description"] == "Some options."


def test_the_schema_of_one_of_several_tables_lists_them_with_their_names():
    class Root(Table):
        value: one_of({"one": Sized, "leaf": Sized}, "form", default="leaf")

    node = json_schema(Root)["properties"]["value"]
    assert node["properties"]["form"]["enum"] == ["one", "leaf"]
    assert [form["properties"]["form"] for form in node["oneOf"]] == [
        {"const": "one"},
        {"const": "leaf"},
    ]
    assert [form["required"] for form in node["oneOf"]] == [["form"], []]
