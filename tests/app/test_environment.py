"""What a command meets in its process: closed streams, limits, variables, a folder that is gone."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest
from command_line import call, environment
from problem_files import write_problem

from invlift.app.runs import environment as looked_over
from invlift.app.runs.environment import prepare_environment
from invlift.errors import InputError


def command(line, folder, **variables):
    """Run a line of the shell in which $invlift is the command; status, and what is printed."""
    places = environment() | variables | {"invlift": f"{sys.executable} -m invlift"}
    found = subprocess.run(["bash", "-c", line], env=places, cwd=folder, capture_output=True)
    return found.returncode, found.stdout.decode(), found.stderr.decode()


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("JAX_ENABLE_X64", "maybe", "'maybe'"),
        ("JAX_DISABLE_JIT", "1", "'1'"),
        ("XLA_FLAGS", "/no/such/file", "'/no/such/file'"),
    ],
)
def test_a_variable_that_would_end_jax_is_named(monkeypatch, name, value, found):
    monkeypatch.setenv("MPLBACKEND", "none of its")
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"^{name}: .*, found {found}; .*unset it"):
        prepare_environment()
    assert os.environ["MPLBACKEND"] == "agg"


def test_a_file_of_flags_is_read(monkeypatch, tmp_path):
    (tmp_path / "flags").write_text("--xla_one=1 --xla_two=2\n")
    monkeypatch.setenv("XLA_FLAGS", str(tmp_path / "flags"))
    prepare_environment()
    assert os.environ["XLA_FLAGS"] == "--xla_one=1 --xla_two=2"


def test_a_platform_that_cannot_be_started_is_named(tmp_path):
    """One for which JAX raises no RuntimeError."""
    status, _, err = command("$invlift check a.toml", tmp_path, JAX_PLATFORMS="rocm")
    assert (status, err.count("\n")) == (2, 1), err
    assert err.startswith("invlift: JAX_PLATFORMS: expected platforms that JAX can start here")
    assert "'rocm'" in err


def test_what_ends_a_command_before_its_imports(tmp_path):
    """A folder that is gone and a small limit are one line; closed streams take nothing."""
    gone = "mkdir gone; cd gone; rmdir ../gone; $invlift schema"
    status, _, err = command(gone, tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("invlift: working directory: expected one that exists")
    assert command(f"{gone} 2>&-", tmp_path) == (2, "", "")
    assert command("$invlift --help >&-", tmp_path) == (0, "", "")
    status, _, err = command("ulimit -v 1500000; $invlift schema", tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("invlift: ulimit -v: expected at least 4 GB, or none, found 1.54 GB;")


def test_a_full_stream_is_named(monkeypatch, capsys):
    full = open("/dev/full", "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", full)
    assert call("schema") == 2
    err = capsys.readouterr().err
    assert err.startswith("invlift: /dev/full: expected a file or directory that can be read")
    assert err.count("\n") == 1
    with suppress(OSError):
        full.close()


@pytest.mark.slow  # a process that looks over all of a problem
def test_the_least_limit_is_enough(tmp_path):
    """What is said to be enough is: a whole check, in a process of its own."""
    path = write_problem(tmp_path)
    limit = int(looked_over.LEAST_ADDRESSES / 1024) + 1
    status, out, err = command(f"ulimit -v {limit}; $invlift check {path}", tmp_path)
    assert status in (0, 3), err
    assert "ready to run" in out.lower()
