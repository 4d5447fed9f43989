"""The names of the library: each is where the stub says that it is."""

import ast
import importlib.metadata
import re
import sys
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


def outside_libraries():
    """Names of the libraries that the modules of the package import, wherever they do so."""
    package = Path(invlift.__file__).parent
    nodes = [
        n for path in package.rglob("*.py") for n in ast.walk(ast.parse(path.read_text("utf-8")))
    ]
    whole = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    parts = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    names = {name.split(".")[0] for name in (*whole, *parts)}
    return names - set(sys.stdlib_module_names) - {"invlift"}


def test_all_libraries_that_are_imported_are_declared():
    """A library that another one brings along may be gone with its next version."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["distributed"], *extras["serve"]]
    declared = {re.match(r"[\w-]+", each)[0] for each in declared}
    of_module = importlib.metadata.packages_distributions()
    used = {
        name: {each.replace("_", "-") for each in of_module.get(name, [])}
        for name in outside_libraries()
    }
    undeclared = {name for name, packages in used.items() if not packages & declared}
    assert undeclared == {"IPython"}  # found only in a notebook, which brings it
    assert declared - set().union(*used.values()) == set()
