"""Chains on Dask: a cluster of this machine, a scheduler and workers of their own, losses."""

import os
import signal
import subprocess
import sys

import dask
import distributed
import numpy as np
import pytest
import xarray as xr
from command_line import call, wait_for_file
from problem_files import write_problem

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.app.runs.dask import dask_executor
from invlift.app.runs.sampling import sample
from invlift.errors import InputError
from invlift.samplers.chains import workers

RUN = {"method": "pcn", "chains": 2, "warmup": 30, "draws": 60, "seed": 4}


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    return build_problem(read_problem(write_problem(tmp_path_factory.mktemp("dask"))))


@pytest.fixture(scope="module")
def in_threads(problem):
    return sample(problem, **RUN)


@pytest.fixture(scope="module")
def address():
    """Of a scheduler and a worker that are threads of this process."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


#: Makes a worker return after every block of iterations, so that a chain takes many tasks.
BLOCKWISE = "from invlift.samplers.chains import workers; workers.REMOTE_SECONDS = 0.0"


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and a worker, each a process of its own, and how one more is started."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    python = [sys.executable, "-m"]
    blockwise = tmp_path / "blockwise.py"
    blockwise.write_text(BLOCKWISE)
    scheduler = subprocess.Popen(
        [
            *(*python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"),
            *("--no-dashboard", "--no-show"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    address = next(line.split()[-1] for line in scheduler.stderr if "Scheduler at" in line)

    def start_worker():
        return subprocess.Popen(
            [
                *(*python, "distributed.cli.dask_worker", address, "--nthreads", "1"),
                *("--no-nanny", "--no-dashboard", "--preload", str(blockwise)),
            ],
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    started = [start_worker()]
    yield address, started, start_worker
    for process in [*started, scheduler]:
        process.kill()
        process.wait()


def assert_same_draws(run, expected):
    for chain, other in zip(run.chains, expected.chains, strict=True):
        assert chain.num_draws == other.num_draws
        for name, values in other.draws.items():
            np.testing.assert_array_equal(chain.draws[name], values, err_msg=name)


def test_workers_draw_what_threads_draw(problem, in_threads, address, monkeypatch):
    monkeypatch.setattr(workers, "REMOTE_SECONDS", 0.0)
    news = []
    with dask_executor(address) as executor:
        run = sample(problem, executor=executor, on_progress=news.append, **RUN)
    assert_same_draws(run, in_threads)
    assert {progress.chain for progress in news} == {0, 1}
    assert len(news) == 2 * 9
    # Negative control: another seed draws something else.
    other = sample(problem, **RUN | {"seed": 5})
    with pytest.raises(AssertionError):
        assert_same_draws(other, in_threads)


@pytest.mark.slow
def test_workers_draw_what_threads_draw_whoever_is_killed(
    problem, in_threads, cluster, monkeypatch
):
    """After the first block of a chain, before any other of it is asked for from the next one.

    Workers start and compile by themselves, and one once more after the kill: 10 to 20 s.
    """
    monkeypatch.setattr("invlift.app.runs.dask.TIMEOUT", 600)
    address, started, start_worker = cluster
    news = []

    def kill_one(progress):
        news.append(progress)
        if len(news) == 1:
            started.append(start_worker())
            started[0].kill()

    with dask_executor(address) as executor:
        run = sample(problem, executor=executor, on_progress=kill_one, **RUN)
    assert_same_draws(run, in_threads)
    assert started[0].wait() == -signal.SIGKILL
    assert len(news) == 2 * 9


@pytest.mark.slow
def test_command_with_workers_of_this_machine(tmp_path):
    """Ctrl-C reaches everyone, and what was drawn is kept: that of threads."""
    path = write_problem(tmp_path)
    command = ["run", str(path), "--chains", "2", "--warmup", "30", "--seed", "4"]
    assert call(*command, "--draws", "60", "--out", tmp_path / "whole") == 3
    options = ["--draws", "1000000", "--workers", "1", "--out", "part"]
    process = subprocess.Popen(
        [sys.executable, "-m", "invlift", *command, *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_for_file(tmp_path / "part" / "chains", process, "*.piece")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 3, output
    assert "The run was interrupted" in output
    assert "Traceback" not in output
    part, expected = (
        xr.load_dataset(tmp_path / name / "posterior.nc", group="posterior")
        for name in ("part", "whole")
    )
    num = min(part.sizes["draw"], 60)
    assert num > 0
    for name in ("log_conductivity", "predicted"):
        np.testing.assert_array_equal(part[name][:, :num], expected[name][:, :num])


def test_what_cannot_work_is_told_in_a_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("invlift.app.runs.dask.TIMEOUT", 0.5)
    path = write_problem(tmp_path)
    for options, words in (
        (["--scheduler", "tcp://127.0.0.1:9"], ["--scheduler", "no answer from tcp://127.0.0.1:9"]),
        (["--workers", "0"], ["--workers", "found '0'"]),
        (["--workers", "2", "--scheduler", "tcp://h:1"], ["--workers", "choose one of the two"]),
    ):
        assert call("run", path, *options) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        for word in words:
            assert word in error
        # What asks Dask afterwards, as xarray does to write, is sent to no client that failed.
        assert dask.config.get("scheduler", None) is None


def test_without_the_package_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'invlift\[distributed\]'"):
        dask_executor(workers=1).__enter__()


def test_workers_that_die_again_and_again_are_an_error(problem, address, tmp_path, monkeypatch):
    def die(*_):
        raise distributed.KilledWorker("segment", type("Last", (), {"address": "tcp://w:1"}), 4)

    monkeypatch.setattr(workers, "run_segment", die)
    with pytest.raises(InputError, match="lost or killed"), dask_executor(address):
        sample(problem, checkpoint=tmp_path / "chains", **RUN)
