"""The search for starts: once for each chain, told, within the budget, no longer than it pays."""

import io
import logging
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest
from command_line import call
from problem_files import SENSORS, write_problem
from rich.console import Console

from invlift import inverse_problem, known_noise, normal, sample
from invlift.app.commands import run as run_command
from invlift.app.runs import progress, sampling
from invlift.app.runs import starts as of_starts
from invlift.app.runs.progress import phases_display
from invlift.app.runs.sampling import find_kernel, target_of
from invlift.errors import InputError
from invlift.problems.choice import partly_lifted
from invlift.problems.choice.lift_choice import choose
from invlift.problems.laplace_approximation import laplace_approximation
from invlift.problems.starts.search import PHASES, find_start
from invlift.programs.compilation import Program
from invlift.samplers.chains.programs import evaluate_state

QUICK = {"sampler.draws": 4, "sampler.warmup": 4, "sampler.method": "pcn"}


@pytest.fixture
def looked_at():
    """Chains and phases that searches tell."""
    found = []

    class Handler(logging.Handler):
        def emit(self, record):
            found.append((record.chain, record.getMessage()))

    PHASES.addHandler(handler := Handler())
    yield found
    PHASES.removeHandler(handler)


def test_each_chain_is_searched_for_once_and_a_resumed_run_looks_no_more(
    tmp_path, looked_at, monkeypatch
):
    """What is lifted is chosen once as well: in the chains that are resumed it is kept."""
    chosen = []
    monkeypatch.setattr(
        sampling, "choose", lambda each, **options: chosen.append(each) or choose(each, **options)
    )
    path = write_problem(tmp_path, QUICK)
    assert call("run", path) == 3
    firsts = [chain for chain, phase in looked_at if phase == "searching for a start, attempt 1"]
    assert sorted(firsts) == [0, 1]
    looked_at.clear()
    assert call("run", path, "--resume", "--draws", 8) == 3
    assert not looked_at
    assert len(chosen) == 1
    # Without what was found, or with a damaged file of it, the problem is looked over again.
    (tmp_path / "out" / "chains" / "objections.json").write_text("[1")
    assert call("run", path, "--resume", "--draws", 9) == 3
    assert {chain for chain, _ in looked_at} == {0}


def test_the_laplace_approximation_is_found_once(tmp_path, monkeypatch):
    """Of method and starts.  It is stored with the chains: a resumed run does not look for it."""
    found = []
    for module in (partly_lifted, of_starts):
        monkeypatch.setattr(
            module,
            "laplace_approximation",
            lambda problem: found.append(problem) or laplace_approximation(problem),
        )
    changes = QUICK | {"sampler.method": "laplace-mala", "sampler.starts": "laplace"}
    path = write_problem(tmp_path, changes)
    assert call("run", path) == 3
    assert len(found) == 1
    assert call("run", path, "--resume", "--draws", 8) == 3
    assert len(found) == 1


def test_further_starts_are_looked_at_where_data_are_not_as_the_prior_has_them(looked_at):
    """Data of the prior's own scale need one; those of nine times its variance three.

    A linear model of 120 unknowns, whose prior makes readings of variance 1.
    """
    size, kernel = 120, find_kernel("chmc")
    matrix = np.random.default_rng(1).standard_normal((20, size)) / np.sqrt(size)
    prior, data = {"a": normal(np.zeros(size), 1.0)}, np.random.default_rng(2).standard_normal(20)
    for scale, num in ((0.5, 1), (3.0, 3)):
        looked_at.clear()
        problem = inverse_problem(
            lambda a: jnp.asarray(matrix) @ a, prior, known_noise(0.01), scale * data
        )
        find_start(kernel, target_of(problem, kernel), 1, 0, evaluate_state)
        expected = [f"searching for a start, attempt {k + 1}" for k in range(num)]
        assert [phase for _, phase in looked_at] == expected


def test_the_search_is_within_the_budget(tmp_path, capsys, monkeypatch):
    is_over = threading.Event()
    monkeypatch.setattr(run_command, "find_objections", lambda *_: is_over.wait(60))
    try:
        assert call("run", write_problem(tmp_path, QUICK), "--budget", 0.5) == 3
    finally:
        is_over.set()
    err = capsys.readouterr().err
    assert "the budget of 0.5 s was over during the search for starts" in err


def test_a_phase_is_told_in_lines_where_nobody_watches(monkeypatch):
    """Which it is, whether a program is compiled, and the seconds; and again while it lasts."""
    monkeypatch.setattr(progress, "LINE_INTERVAL", 0.01)
    monkeypatch.setattr(Program, "compiling", {evaluate_state})
    printed = io.StringIO()

    def wait_for(text, num=1):
        for _ in range(2000):
            if printed.getvalue().count(text) >= num:
                return
            time.sleep(0.01)
        raise AssertionError(printed.getvalue())

    with phases_display(Console(file=printed), "preparing", "chain 0 (of 4): "):
        wait_for("preparing (compiling), after 0 s\n")
        Program.compiling.clear()
        PHASES.info("searching for a start, attempt 1", extra={"chain": 0})
        wait_for("chain 0 (of 4): searching for a start, attempt 1, after ")
        assert printed.getvalue().count("attempt 1") == 1
        monkeypatch.setattr(progress, "LONGEST_SILENCE", 0.0)
        wait_for("attempt 1", 3)
    PHASES.info("searching for a start, attempt 2", extra={"chain": 0})
    assert "attempt 2" not in printed.getvalue()


def test_readings_that_are_alike_but_far_apart_are_named(tmp_path, capsys):
    """At noise so small that no derivative is finite any more."""
    table = SENSORS.replace("0.8,0.2,3.1", "0.3,0.4,2.6")
    path = write_problem(tmp_path, QUICK | {"noise.sigma": 1e-9}, sensors=table)
    assert call("run", path) == 2
    said = "".join(capsys.readouterr())
    assert "smaller std" not in said
    assert "2.1" in said
    assert "2.6" in said


def test_a_program_finds_progress_in_its_log_and_needs_a_problem(caplog):
    problem = inverse_problem(lambda a: jnp.stack([a]), {"a": normal(0.0, 1.0)}, 0.1, [0.3])
    with caplog.at_level(logging.INFO, "invlift"):
        sample(problem, chains=1, warmup=5, draws=5, seed=1)
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("chain 0: 10/10 sampling") for line in lines), lines
    with pytest.raises(InputError, match="problem: expected a problem, or a target, found None"):
        sample(None)
