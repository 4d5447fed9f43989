"""The names of the library: each is where the stub says that it is."""

from pathlib import Path

import pytest

import invlift


@pytest.mark.parametrize("name", invlift.__all__)
def test_name_is_there(name):
    assert getattr(invlift, name) is not None


def test_editors_know_of_types():
    assert len(invlift.__all__) > 60
    assert (Path(invlift.__file__).parent / "py.typed").exists()
