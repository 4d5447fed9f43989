"""``invlift schema``: the JSON schema of problem files and the page of all keys made of it."""

import json
import tomllib
from pathlib import Path

from command_line import call

from invlift.app.problem.problem_file import parse_problem
from invlift.app.problem.problem_schema import key_reference, problem_schema
from invlift.app.problem.table_errors import forms

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*/problem.toml"))


def keys_of(node, path=()):
    """Each key of a schema with its own schema, in tables and forms of any depth."""
    for form in forms(node):
        for key, child in form.get("properties", {}).items():
            if "const" not in child:
                yield (*path, key), child
                yield from keys_of(child, (*path, key))
        if isinstance(form.get("additionalProperties"), dict):
            yield from keys_of(form["additionalProperties"], path)


def test_every_key_is_described():
    found = list(keys_of(problem_schema()))
    assert {
        ("pde", "robin", "coefficient"),
        ("noise", "sigma", "distribution"),
        ("prior", "range", "factor"),
        ("sampler", "options", "num_inner"),
    } <= {path for path, _ in found}
    assert [path for path, node in found if not node.get("description")] == []


#: What Python has for the types of JSON.
TYPES = {
    "object": {dict}, "array": {list}, "string": {str}, "boolean": {bool}, "integer": {int},
    "number": {int, float},
}  # fmt: skip


def fits(node, value):
    """Whether a value is what a JSON schema says, in the words that are used here."""
    if "type" in node and type(value) not in TYPES[node["type"]]:
        return False
    if value != node.get("const", value) or value not in node.get("enum", [value]):
        return False
    if type(value) in (int, float) and not (
        node.get("minimum", value) <= value <= node.get("maximum", value)
        and node.get("exclusiveMinimum", value - 1) < value
    ):
        return False
    if "anyOf" in node and not any(fits(form, value) for form in node["anyOf"]):
        return False
    if "oneOf" in node and sum(fits(form, value) for form in node["oneOf"]) != 1:
        return False
    if isinstance(value, list):
        return all(fits(node.get("items", {}), each) for each in value)
    if not isinstance(value, dict):
        return True
    known, others = node.get("properties", {}), node.get("additionalProperties", True)
    are_known = all(fits(known[key], each) for key, each in value.items() if key in known)
    rest = [each for key, each in value.items() if key not in known]
    can_be_more = others is True or all(others and fits(others, each) for each in rest)
    return set(node.get("required", ())) <= set(value) and are_known and can_be_more


def test_problems_fit_the_schema_also_as_they_are_written():
    schema, unlike = problem_schema(), []
    for path in EXAMPLES:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        again = tomllib.loads(parse_problem(data, path).to_toml())
        unlike += [path.parent.name for each in (data, again) if not fits(schema, each)]
    assert unlike == []


def test_mistakes_do_not_fit_the_schema():
    schema, data = problem_schema(), tomllib.loads(EXAMPLES[0].read_text(encoding="utf-8"))
    assert fits(schema, data)
    for section, wrong in (
        ("mesh", {}),
        ("mesh", {"file": 3}),
        ("prior", {"kind": "matern", "range": 1.0, "std": -1.0, "smoothness": 2.0}),
        ("prior", {"range": 1.0, "std": 1.0, "smoothness": 2.0}),
        ("prior", {"kind": "independent", "range": 1.0, "std": 1.0}),
        ("noise", {"sigma": {"distribution": "gamma", "scale": 1.0}}),
        ("noise", {"sigma": 0.1, "degrees_of_freedom": 4.0}),
        ("sampler", {"method": "pcn", "options": {"num_inner": 2}}),
        ("sampler", {"options": {"num_inner": 0}}),
        ("sampler", {"method": "cmhc"}),
        ("pde", {"robin": {"top": {"ambient": 1.0}}}),
    ):
        assert not fits(schema, data | {section: wrong}), (section, wrong)


def test_the_page_of_keys_is_up_to_date():
    page = (ROOT / "docs" / "problem_file.md").read_text(encoding="utf-8")
    assert page == key_reference(), "invlift schema --page > docs/problem_file.md"


def test_the_command_prints_either(capsys):
    assert call("schema") == 0
    assert json.loads(capsys.readouterr().out) == problem_schema()
    assert call("schema", "--page") == 0
    assert capsys.readouterr().out == key_reference()
