"""What a command meets in its process: closed streams, limits, variables, a folder that is gone."""

import os
import subprocess
import sys

import pytest
from command_line import environment
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


@pytest.mark.parametrize("platform", ["rocm", "abacus"])
def test_a_platform_that_cannot_be_started_is_named(tmp_path, platform):
    """What JAX knows and has not, and what it does not know.  A process each: 2 s."""
    status, _, err = command("$invlift check a.toml", tmp_path, JAX_PLATFORMS=platform)
    assert (status, err.count("\n")) == (2, 1), err
    assert err.startswith("invlift: JAX_PLATFORMS: expected platforms that JAX can start here")
    assert repr(platform) in err


def test_a_folder_that_is_gone_and_a_small_limit_are_one_line(tmp_path):
    """Before anything that takes time is imported."""
    status, _, err = command("mkdir gone; cd gone; rmdir ../gone; $invlift schema", tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("invlift: working directory: expected one that exists")
    status, _, err = command("ulimit -v 1500000; $invlift schema", tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("invlift: ulimit -v: expected at least 4 GB, or none, found 1.54 GB;")


def test_closed_and_full_streams(tmp_path):
    """Closed ones take nothing; one that is full is named.  A process each: 3 s."""
    path = write_problem(tmp_path)
    done = command("$invlift schema >&-", tmp_path)
    assert done == (0, "", "")
    status, out, _ = command(
        f"$invlift schema --page 2>&-; $invlift run {path} --draws x 2>&-", tmp_path
    )
    assert status == 2
    assert out
    status, _, err = command("$invlift schema >/dev/full", tmp_path)
    assert status == 2
    assert err.startswith("invlift: <stdout>: expected a file or directory that can be read")
    assert err.count("\n") == 1


def test_the_least_limit_is_enough(tmp_path):
    """What is said to be enough is: a whole check, in a process of its own."""
    path = write_problem(tmp_path)
    limit = int(looked_over.LEAST_ADDRESSES / 1024) + 1
    status, out, err = command(f"ulimit -v {limit}; $invlift check {path}", tmp_path)
    assert status in (0, 3), err
    assert "ready to run" in out.lower()
