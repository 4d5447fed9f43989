"""The command line: called in this process, or started as a process of its own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from invlift.app.cli import main

HELD = Path(__file__).with_name("held.py")


def call(*arguments):
    """Run the command line in this process and return its exit status."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code


def assert_one_line(capsys, parts):
    captured = capsys.readouterr()
    assert captured.err.startswith("invlift: ")
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.endswith("\n")
    for words in ("expected", "found", ";", *parts):
        assert words in captured.err, captured.err
    assert "Traceback" not in captured.err + captured.out


def strict_json(path):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def environment():
    """That of the tests, but with the threads of OpenMP as a call in this process leaves them."""
    return os.environ | {"OMP_NUM_THREADS": "1"}


def start(*arguments, places=None, program=("-m", "invlift")):
    """Start a command; ``places`` are further variables of its environment."""
    return subprocess.Popen(
        [sys.executable, *map(str, (*program, *arguments))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | (places or {}),
    )


def start_held(number, *arguments, **options):
    """Start a command that waits at an iteration, and waits now.

    It goes on after a signal or :func:`let_go`.
    """
    process = start(*arguments, program=(HELD, number), **options)
    for line in process.stderr:
        if line == "held\n":
            return process
    raise AssertionError(process.communicate())


def let_go(process):
    """Have a command go on that waits."""
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for_file(folder, process, pattern):
    """Wait until a process has written a file."""
    while not list(folder.glob(pattern)):
        assert process.poll() is None
        time.sleep(0.02)


def finish(process):
    out, err = process.communicate()
    return process.returncode, out, err
