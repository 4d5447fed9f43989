"""The wheel: what it holds, and the first result without the repository."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from command_line import assert_one_line, call

import invlift
from invlift.__main__ import main
from invlift.app.commands.example import EXAMPLES
from invlift.app.problems import build, open_problem

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def sources():
    """Files of the package in the repository."""
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "invlift").rglob("*.*")}
    return {file for file in files if not file.endswith(".pyc") and "__pycache__" not in file}


def test_wheel_holds_the_package_and_the_files_of_the_examples(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    examples = {f"invlift/{file}" for example in EXAMPLES.values() for file in example.files}
    assert names == sources() | examples
    assert wheel.stat().st_size < 1.5e6


FIRST = """
import contextlib
import invlift
from invlift.app.cli import main
print(invlift.__file__, invlift.__version__, flush=True)
for arguments in ["example"], ["example", "disc"]:
    with contextlib.suppress(SystemExit):
        main(arguments)
"""


def test_examples_are_written_without_the_repository(wheel, tmp_path):
    """The package is imported from the wheel's files, not from the repository."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", FIRST],
        cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    first, said = done.stdout.split("\n", 1)
    assert first.startswith(str(tmp_path)), first
    assert first.split()[1] == invlift.__version__
    assert re.findall(r"^(\w+)  ", said, re.MULTILINE) == list(EXAMPLES)
    assert "invlift run disc/problem.toml" in said
    problem = tomllib.loads((tmp_path / "disc" / "problem.toml").read_text())
    assert (tmp_path / "disc" / problem["mesh"]["file"]).exists()


@pytest.mark.parametrize("name", EXAMPLES)
def test_written_examples_are_problems(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call("example", name, "--out", "mine") == 0
    problem = capsys.readouterr().out.splitlines()[-1].removeprefix("Run it: invlift run ")
    assert build(open_problem(problem)).num_observations > 0


def test_an_example_overwrites_nothing_and_unknown_ones_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disc").mkdir()
    assert call("example", "disc") == 2
    assert_one_line(capsys, ["--out", "disc, which exists"])
    assert list((tmp_path / "disc").iterdir()) == []
    assert call("example", "dsic") == 2
    assert_one_line(capsys, ["'dsic'", "'disc'"])


def test_all_that_the_package_imports_is_required():
    """Other distributions are imported where an extra brings them, and in notebooks."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {name_of(each) for each in table["dependencies"]}
    extra = {name_of(each) for extra in ("distributed", "serve", "meshes")
             for each in table["optional-dependencies"][extra]}  # fmt: skip
    of_modules = packages_distributions() | {"IPython": list(required)}
    for path in (ROOT / "invlift").rglob("*.py"):
        for module in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if module == "invlift" or module in sys.stdlib_module_names:
                continue
            found = {name_of(each) for each in of_modules.get(module, [module])}
            assert found & (required | extra), (path, module)
    assert table["scripts"] == {"invlift": f"{main.__module__}:main"}


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def imported(tree):
    """First names of the modules that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]
