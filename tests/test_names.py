"""The names of the library: each is where the stub says that it is."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import invlift


def test_names_are_there_and_editors_know_of_types():
    assert [name for name in invlift.__all__ if getattr(invlift, name, None) is None] == []
    assert len(invlift.__all__) > 60
    assert invlift.__version__ == importlib.metadata.version("invlift")
    assert (Path(invlift.__file__).parent / "py.typed").exists()


def test_the_version_stands_in_changelog_and_citation():
    """That of the repository: an installed one may be older."""
    root = Path(__file__).parents[1]
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    newest = re.search(r"^## (\S+)$", (root / "docs/changelog.md").read_text(), re.MULTILINE)
    assert newest[1] == version
    assert f"\nversion: {version}\n" in (root / "docs/CITATION.cff").read_text()
