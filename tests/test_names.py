"""The names of the library: what is imported when first used, and what editors are told."""

import re
from pathlib import Path

import pytest

import invlift

STUB = (Path(invlift.__file__).parent / "__init__.pyi").read_text()
STUB = re.sub(r"\(\s*(.*?),?\s*\)", r"\1", STUB)  # lines that were too long


@pytest.mark.parametrize("name", invlift.__all__)
def test_name_is_there_and_editors_know_it(name):
    thing = getattr(invlift, name)
    assert thing is not None
    (module,) = re.findall(rf"^from (\S+) import {name} as {name}$", STUB, re.MULTILINE)
    assert f"invlift.{invlift._MODULE_OF[name]}" == module


def test_editors_know_no_other_name():
    assert set(re.findall(r" as (\w+)$", STUB, re.MULTILINE)) == set(invlift.__all__)
    assert (Path(invlift.__file__).parent / "py.typed").exists()
