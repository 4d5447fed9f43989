"""The wheel: what it holds, and the first result without the repository."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from command_line import assert_one_line, call

import invlift
from invlift.app.commands.example import EXAMPLES

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


def test_examples_are_written_without_the_repository(wheel, tmp_path):
    """The package is imported from the wheel's files, not from the repository."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    code = "import invlift; print(invlift.__file__, invlift.__version__)"
    answers = [
        subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
        ).stdout
        for arguments in (
            ("-c", code), ("-m", "invlift", "example"), ("-m", "invlift", "example", "disc"),
        )
    ]  # fmt: skip
    assert answers[0].startswith(str(tmp_path)), answers[0]
    assert answers[0].split()[1] == invlift.__version__
    assert re.findall(r"^(\w+)  ", answers[1], re.MULTILINE) == list(EXAMPLES)
    assert "invlift run disc/problem.toml" in answers[2]
    problem = tomllib.loads((tmp_path / "disc" / "problem.toml").read_text())
    assert (tmp_path / "disc" / problem["mesh"]["file"]).exists()


@pytest.mark.parametrize("name", EXAMPLES)
def test_written_examples_are_problems(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call("example", name, "--out", "mine") == 0
    command = capsys.readouterr().out.splitlines()[-1].removeprefix("Run it: invlift run ")
    assert call("simulate", command, "--seed", "1", "--out", "simulated.csv") == 0
    assert (tmp_path / "simulated.csv").exists()


def test_an_example_overwrites_nothing_and_unknown_ones_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disc").mkdir()
    assert call("example", "disc") == 2
    assert_one_line(capsys, ["--out", "disc, which exists"])
    assert list((tmp_path / "disc").iterdir()) == []
    assert call("example", "dsic") == 2
    assert_one_line(capsys, ["'dsic'", "'disc'"])


@pytest.mark.slow
def test_first_result_in_a_clean_environment(wheel, tmp_path):
    """Installs the wheel with all that it requires, and runs the disc for some draws."""
    fast = shutil.which("uv", path=Path(sys.executable).parent)  # a tenth of pip's time
    venv.create(tmp_path / "env", with_pip=fast is None)
    python = str(tmp_path / "env" / "bin" / "python")
    pip = [fast, "pip", "install", "-p", python] if fast else [python, "-m", "pip", "install"]
    subprocess.run([*pip, "-q", wheel], check=True, cwd=tmp_path)
    command = str(tmp_path / "env" / "bin" / "invlift")
    subprocess.run([command, "example", "disc"], check=True, cwd=tmp_path)
    few = ("--chains", "2", "--warmup", "50", "--draws", "100", "--out", "results")
    done = subprocess.run([command, "run", "disc/problem.toml", *few], cwd=tmp_path)
    assert done.returncode in (0, 3)  # so few draws may be too few for a good verdict
    assert (tmp_path / "results" / "posterior.vtu").exists()
