"""``invlift schema``: the JSON schema of problem files and the page of all keys made of it."""

import json
import tomllib
from pathlib import Path

from command_line import call
from jsonschema import Draft202012Validator  # which nbformat requires

from invlift.app.problem.problem_file import parse_problem
from invlift.app.problem.problem_schema import problem_schema
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


def test_problems_fit_the_schema_also_as_they_are_written_and_mistakes_do_not():
    schema = Draft202012Validator(problem_schema())
    for path in EXAMPLES:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        again = tomllib.loads(parse_problem(data, path).to_toml())
        for each in (data, again):
            schema.validate(each)
    for section, wrong in (
        ("mesh", {}),
        ("mesh", {"file": 3}),
        ("prior", {"kind": "matern", "range": 1.0, "std": -1.0, "smoothness": 2.0}),
        ("prior", {"range": 1.0, "std": 1.0, "smoothness": 2.0}),
        ("prior", {"kind": "independent", "range": 1.0, "std": 1.0}),
        ("noise", {"sigma": {"distribution": "gamma", "scale": 1.0}}),
        ("sampler", {"method": "pcn", "options": {"num_inner": 2}}),
        ("sampler", {"method": "cmhc"}),
        ("pde", {"robin": {"top": {"ambient": 1.0}}}),
    ):
        assert not schema.is_valid(data | {section: wrong}), (section, wrong)


def test_the_command_prints_either_and_the_page_of_keys_is_up_to_date(capsys):
    assert call("schema") == 0
    assert json.loads(capsys.readouterr().out) == problem_schema()
    assert call("schema", "--page") == 0
    page = (ROOT / "docs" / "problem_file.md").read_text(encoding="utf-8")
    assert page == capsys.readouterr().out, "invlift schema --page > docs/problem_file.md"
