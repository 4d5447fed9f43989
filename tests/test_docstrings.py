"""Docstrings of public functions say what goes in and comes out, and their examples are true."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import invlift
from invlift.errors import InputError

ROOT = Path(__file__).parents[1]
FUNCTIONS = [name for name in sorted(invlift.__all__) if inspect.isfunction(getattr(invlift, name))]
#: Those whose arguments are not looked at, or that take none.
CANNOT_FAIL = {"enable_x64", "geometric_factors", "random_field"}
#: Base classes that the design names, each with its module: "`Noise`, `noise/base.py`".
SEAMS = re.findall(
    r"^\| [^|]* \| ([`\w, ]+), `([\w/]+)\.py` \|",
    (ROOT / "docs/design.md").read_text(),
    re.MULTILINE,
)
EXAMPLES = [name for name in FUNCTIONS if "Examples\n" in (getattr(invlift, name).__doc__ or "")]
SLOW = {"sample"}


def parts_missing(function, name):
    """What a docstring does not have: a section, or an argument's name."""
    text = inspect.getdoc(function) or ""
    arguments = [*inspect.signature(function).parameters]
    sections = ["Parameters"] * bool(arguments) + ["Raises"] * (name not in CANNOT_FAIL)
    missing = [section for section in sections if f"{section}\n---" not in text]
    if arguments and not re.search(r"^(Returns|Yields)\n---", text, re.MULTILINE):
        missing.append("Returns")
    return missing + [each for each in arguments if not re.search(rf"\b{each}\b", text)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_say_what_goes_in_and_comes_out(name):
    assert parts_missing(getattr(invlift, name), name) == []


def test_public_classes_say_what_they_are_made_of():
    classes = [name for name in invlift.__all__ if inspect.isclass(getattr(invlift, name))]
    assert len(classes) > 15
    texts = {name: getattr(invlift, name).__doc__ or "" for name in classes}
    sections = r"^ *(Parameters|Attributes)\n *---"
    missing = [name for name, text in texts.items() if not re.search(sections, text, re.MULTILINE)]
    assert missing == []


@pytest.mark.parametrize("name", ["at", "mean_over", "flux", "next_sensors", "write"])
def test_methods_of_a_posterior_say_what_goes_in_and_comes_out(name):
    method = inspect.getattr_static(invlift.Posterior, name)
    assert [each for each in parts_missing(method, name) if each != "self"] == []


def base_classes():
    """Base classes of parts that can be exchanged, the problem that they make, and their bases."""
    classes = [invlift.InverseProblem]
    for names, path in SEAMS:
        module = importlib.import_module(f"invlift.{path.replace('/', '.')}")
        classes += [getattr(module, name) for name in re.findall(r"\w+", names)]
    return {base for each in classes for base in each.__mro__ if "invlift." in base.__module__}


def method_parts_missing(method):
    """What the docstring of a method does not have.

    With several arguments it needs sections, with one array a shape in its line; and the errors
    that it raises.
    """
    text, signature = inspect.getdoc(method) or "", inspect.signature(method)
    arguments = [each for each in signature.parameters if each not in ("self", "cls")]
    missing = []
    if len(arguments) > 1:
        missing = [each for each in ("Parameters", "Returns") if f"{each}\n---" not in text]
        missing += [
            each for each in arguments if not re.search(rf"^\**{each}\b", text, re.MULTILINE)
        ]
    elif arguments and "rray" in str(signature) and not re.search(r"\(.*\)", text):
        missing = ["a shape"]
    if "raise InputError" in inspect.getsource(method) and "Raises\n---" not in text:
        missing.append("Raises")
    return missing


def test_methods_of_base_classes_say_what_goes_in_and_comes_out():
    methods = {
        f"{each.__name__}.{name}": method
        for each in base_classes()
        for name, method in vars(each).items()
        if inspect.isfunction(method) and method.__module__.startswith("invlift.")
        if not name.startswith("_") or name == "__call__"
    }
    assert len(methods) > 100
    missing = {name: method_parts_missing(method) for name, method in methods.items()}
    assert {name: parts for name, parts in missing.items() if parts} == {}


def test_a_docstring_without_its_parts_is_found():
    def measure(self, position: np.ndarray):
        """Do something there."""
        raise InputError("position", "a place", "none", "give one")

    def compare(self, first, second):
        """Compare both."""

    assert method_parts_missing(measure) == ["a shape", "Raises"]
    assert method_parts_missing(compare) == ["Parameters", "Returns", "first", "second"]

    def incomplete(length, *, unit):
        """Do something with a length."""

    assert parts_missing(incomplete, "incomplete") == ["Parameters", "Raises", "Returns", "unit"]


def test_the_most_used_functions_have_examples():
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in EXAMPLES],
)
def test_examples_of_docstrings_are_true(name, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    text = inspect.getdoc(getattr(invlift, name))
    names = {"invlift": invlift, "np": np, "jnp": jnp}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert results.failed == 0, capsys.readouterr().out
