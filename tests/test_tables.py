"""Tables that describe themselves: texts made of ranges, and errors with the keys of a file."""

from dataclasses import dataclass, field
from typing import Annotated, get_args

import pytest
from pydantic import ValidationError

from invlift.tables import (
    Key,
    Table,
    by_form,
    choice,
    integer,
    name_in,
    number,
    one_of,
    problem,
    table_of_dataclass,
)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (number(-1e50, 1e50, remedy=""), "a number from -1e50 to 1e50"),
        (number(1e-9, 50.0, remedy=""), "a positive number, from 1e-9 to 50"),
        (number(above=0.0, high=10.0, remedy=""), "a positive number, at most 10"),
        (number(above=0.0, remedy=""), "a positive number"),
        (number(above=2.0, remedy=""), "a number above 2"),
        (number(above=2.0, high=3.0, remedy=""), "a number above 2 and at most 3"),
        (number(high=0.5, remedy=""), "a number, at most 0.5"),
        (number(-1.0, remedy=""), "a number of at least -1"),
        (number(remedy=""), "a number"),
        (integer(1, remedy=""), "an integer of at least 1"),
        (integer(0, 2**63 - 1, remedy=""), "an integer from 0 to 2^63 - 1"),
        (choice("a", remedy=""), '"a"'),
        (choice("a", "b", "c", remedy=""), '"a", "b" or "c"'),
        (name_in({"a": 1, "b": 2}, remedy=""), '"a" or "b"'),
    ],
)
def test_what_is_expected_is_written_from_the_range(kind, text):
    assert get_args(kind)[-1].text() == text


class Leaf(Table):
    size: number(0.0, 1.0, remedy="measure it")


class Sized(Table):
    form: str
    size: integer(1, remedy="count it") = 1


FORMS = {"one": Sized}
VALUE = by_form(
    number=number(0.0, 1.0, remedy="inner"),
    name=choice("all", remedy="inner"),
    table=one_of(FORMS, "form"),
    remedy="outer",
)


class Tree(Table):
    value: VALUE = 0.5
    leaves: Annotated[dict[str, Leaf], Key("{name = leaf}", "name them")] = {}
    values: Annotated[dict[str, VALUE], Key("{name = value}", "name them")] = {}
    plain: int = 3


def errors_of(data, table=Tree):
    with pytest.raises(ValidationError) as caught:
        table.model_validate(data)
    found = caught.value.errors(include_url=False)
    return {".".join(entry["loc"]): tuple(entry["ctx"].values()) for entry in found}


ANY = 'a number from 0 to 1, "all" or {form = "one", ...}'


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        ({"value": 2.0}, {"value": (ANY, "2.0", "outer")}),
        ({"value": "al"}, {"value": (ANY, 'the text "al"', 'did you mean "all"?')}),
        (
            {"value": {"form": "one", "size": 0}},
            {"value.size": ("an integer of at least 1", "0", "count it")},
        ),
        (
            {"value": {}},
            {"value.form": ('"one"', "nothing", 'choose one, for example form = "one"')},
        ),
        (
            {"leaves": {"a": {"size": 2}}},
            {"leaves.a.size": ("a number from 0 to 1", "2", "measure it")},
        ),
        (
            {"leaves": {"a": {}}},
            {"leaves.a.size": ("a number from 0 to 1", "no such key", "add it: measure it")},
        ),
        ({"leaves": {"a": 1.0}}, {"leaves": ("{name = leaf}", "a table with a", "name them")}),
        ({"values": {"value": [1]}}, {"values.value": (ANY, "a list of 1", "outer")}),
        ({"values": 1}, {"values": ("{name = value}", "1", "name them")}),
        ({"plain": 1.5}, {"plain": ("a valid integer", "1.5", "correct it")}),
        (
            {"plan": 1, "value": 2},
            {
                "plan": (
                    "one of the keys value, leaves, values, plain",
                    "an unknown key 'plan'",
                    "did you mean 'plain'?",
                ),
                "value": (ANY, "2", "outer"),
            },
        ),
    ],
)
def test_errors_have_the_keys_of_the_file_and_the_three_parts(data, errors):
    assert errors_of(data) == errors


def test_a_check_of_a_table_keeps_its_own_words():
    class Even(Table):
        pair: Annotated[Pair, Key("a pair", "give one")]

    assert errors_of({"pair": {"left": 1, "right": 2}}, Even) == {"pair": ("equals", "1", "mend")}
    assert errors_of({"pair": 3}, Even) == {"pair": ("a pair", "3", "give one")}
    assert Even(pair={"left": 1, "right": 1}).pair == Pair(left=1, right=1)


class Pair(Table):
    left: int
    right: int

    def model_post_init(self, context):
        if self.left != self.right:
            raise problem("equals", f"{self.left}", "mend")


@dataclass(frozen=True)
class Options:
    """Some options."""

    size: number(0.0, 1.0, remedy="measure it")
    names: dict = field(default_factory=dict)
    hidden: int = field(default=1, metadata={"option": False})
    made: int = field(default=2, init=False)


def test_a_table_of_a_dataclass_has_its_fields_types_and_defaults():
    table = table_of_dataclass(Options)
    assert table is table_of_dataclass(Options)
    assert list(table.model_fields) == ["size", "names"]
    assert table(size=1).model_dump() == {"size": 1.0, "names": {}}
    missing = ("a number from 0 to 1", "no such key", "add it: measure it")
    assert errors_of({}, table) == {"size": missing}
    assert "hidden" in errors_of({"size": 1.0, "hidden": 3}, table)
