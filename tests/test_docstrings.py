"""Docstrings of public functions say what goes in and comes out, and their examples are true."""

import doctest
import inspect
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import invlift

ROOT = Path(__file__).parents[1]
FUNCTIONS = [name for name in sorted(invlift.__all__) if inspect.isfunction(getattr(invlift, name))]
#: Those whose arguments are not looked at, or that take none.
CANNOT_FAIL = {"enable_x64", "geometric_factors", "random_field"}
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


def test_public_classes_have_docstrings():
    classes = [name for name in invlift.__all__ if inspect.isclass(getattr(invlift, name))]
    assert len(classes) > 15
    assert [name for name in classes if not getattr(invlift, name).__doc__] == []


def test_public_classes_say_what_they_are_made_of():
    classes = [name for name in invlift.__all__ if inspect.isclass(getattr(invlift, name))]
    texts = {name: inspect.getdoc(getattr(invlift, name)) for name in classes}
    sections = r"^(Parameters|Attributes)\n---"
    missing = [name for name, text in texts.items() if not re.search(sections, text, re.MULTILINE)]
    assert missing == []


@pytest.mark.parametrize("name", ["at", "mean_over", "flux", "next_sensors", "write"])
def test_methods_of_a_posterior_say_what_goes_in_and_comes_out(name):
    method = inspect.getattr_static(invlift.Posterior, name)
    assert [each for each in parts_missing(method, name) if each != "self"] == []


def test_a_docstring_without_its_parts_is_found():
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
