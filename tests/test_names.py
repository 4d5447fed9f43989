"""The names of the library: each is where the stub says that it is."""

import importlib.metadata
from pathlib import Path

import invlift


def test_names_are_there_and_editors_know_of_types():
    assert [name for name in invlift.__all__ if getattr(invlift, name, None) is None] == []
    assert len(invlift.__all__) > 60
    assert invlift.__version__ == importlib.metadata.version("invlift")
    assert (Path(invlift.__file__).parent / "py.typed").exists()
