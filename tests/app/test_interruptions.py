"""Ctrl-C and the signal of batch systems while nothing listens: a compiler, a long block."""

import signal
import threading
import time

import numpy as np
import pytest
from command_line import call, finish, start
from problem_files import write_problem

from invlift.app.commands import check, common, run
from invlift.samplers.chains import workers
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.kernels import ConstrainedHMC

#: Within which everything is to end, and how long what listens to nothing would go on, s.
SOON, LONG = 6.0, 30.0


@pytest.fixture
def deaf():
    """A function that sends this process a signal, and ends when the test does, or after LONG."""
    is_over, sent, main = threading.Event(), [], threading.get_ident()

    def wait_for_end(number):
        end = time.monotonic() + LONG
        while time.monotonic() < end and not is_over.is_set():
            try:
                if not sent:  # once, of all threads that wait
                    sent.append(number)
                    time.sleep(0.2)  # until this is waited for
                    signal.pthread_kill(main, number)
                is_over.wait(0.05)
            except KeyboardInterrupt:  # as a compiler in this thread would not see it
                continue

    yield wait_for_end
    is_over.set()


#: What these two do next; the others build.
STEPS = {"check": (check, "check_problem"), "run": (run, "find_objections")}


@pytest.mark.parametrize(
    ("number", "command", "options"),
    [
        (signal.SIGTERM, "check", []),
        (signal.SIGINT, "run", []),
        (signal.SIGINT, "compare", ["--methods", "pcn"]),
        (signal.SIGTERM, "calibrate", ["--simulations", "3"]),
        (signal.SIGINT, "simulate", ["--seed", "1", "--out", "new.csv"]),
        (signal.SIGTERM, "serve", []),
    ],
)
def test_what_is_built_or_checked_is_left(
    number, command, options, deaf, tmp_path, monkeypatch, capsys
):
    module, step = STEPS.get(command, (common, "build"))
    monkeypatch.setattr(module, step, lambda *_, **__: deaf(number))
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    assert call(command, write_problem(tmp_path), *options) == 3
    assert time.monotonic() - began < SOON
    assert "invlift: interrupted\n" in capsys.readouterr().err


class _Sphere:
    """What chains are given; they come to no target here."""

    dimension = 3


@pytest.mark.parametrize("where", ["compile_chain", "run_blocks"])
def test_chains_that_compile_or_are_within_a_block_are_left(where, deaf, monkeypatch):
    monkeypatch.setattr(workers, "compile_chain", lambda *_: None)
    monkeypatch.setattr(workers, "check_start", lambda *_: None)
    monkeypatch.setattr(workers.Threads, "patience", 0.2)
    if where == "compile_chain":
        monkeypatch.setattr(workers, where, lambda *_: deaf(signal.SIGINT))
    else:
        monkeypatch.setattr(workers, where, lambda *_: iter([deaf(signal.SIGINT)]))
    began = time.monotonic()
    run = run_chains(_Sphere(), Plan(ConstrainedHMC(), 5, 5), np.zeros((1, 3)), 1)
    assert time.monotonic() - began < SOON
    assert run.is_interrupted
    assert run.chains == []


#: A command whose compiler hears of nothing: the process is to end with that thread still there.
COMPILING = f"""
import sys, time
from invlift.__main__ import main
from invlift.programs.compilation import Program

def compile_for_long(*_):
    print("compiling", file=sys.stderr, flush=True)
    end = time.monotonic() + {LONG}
    while time.monotonic() < end:
        try:
            time.sleep(1.0)
        except KeyboardInterrupt:
            continue

Program._make = compile_for_long
main()
"""


def test_the_process_ends_though_a_thread_compiles(tmp_path):
    process = start("check", write_problem(tmp_path), program=("-c", COMPILING))
    for line in process.stderr:
        if line == "compiling\n":
            break
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    status, _, err = finish(process)
    assert time.monotonic() - began < SOON
    assert status == 3
    assert err.endswith("invlift: interrupted\n")
