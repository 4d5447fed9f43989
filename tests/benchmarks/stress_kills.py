"""Runs that are killed again and again: every resume must end with the bits of a run left alone.

    python tests/benchmarks/stress_kills.py [--runs 50] [--kills 4] [--processes | --workers]

Each run has another sampling method, in turn, and stores few draws of its field.  It is killed
(SIGKILL) so many times at random moments, resumed after each, and then compared.  With --processes
the chains run in a pool of two, which dies with it.  With --workers they run in two processes of
Dask, and of these one is killed while the run goes on.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS), str(TESTS / "app")]
from problem_files import write_problem

from invlift.samplers.kernels import KERNELS

#: Saved, and handed out, far more often than usual.
COMMAND = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from invlift.app.commands import run
from invlift.samplers.chains import parallel, workers
parallel.SAVE_INTERVAL, workers.LOCAL_SECONDS, workers.REMOTE_SECONDS = 0.2, 0.05, 0.05
from invlift.__main__ import main
if sys.argv[1] == "pool":
    run._executor = lambda *_: ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
sys.argv = ["invlift", *sys.argv[2:]]
main()
"""


def start(
    problem: Path, method: str, out: str, *options: str, where: str = "threads"
) -> subprocess.Popen:
    """Start a run in a session of its own, its chains in threads or in a pool of processes."""
    settings = ["--method", method, "--chains", "3", "--warmup", "60", "--draws", "1500"]
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            COMMAND,
            where,
            "run",
            str(problem),
            *settings,
            "--out",
            out,
            *options,
        ],
        cwd=problem.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen) -> None:
    """Wait for a run, which must end as runs do."""
    _, errors = process.communicate(timeout=600)
    if process.returncode not in (0, 3) or "Traceback" in errors:
        raise SystemExit(f"exit status {process.returncode}: {errors}")


def draws_of(folder: Path) -> dict[str, np.ndarray]:
    """All draws and statistics of a run, by name."""
    with h5py.File(folder / "posterior.nc") as file:
        return {
            f"{group}/{name}": values[()]
            for group in ("posterior", "sample_stats", "warmup_sample_stats")
            for name, values in file[group].items()
        }


def workers_of(process: subprocess.Popen) -> list[int]:
    """Processes that Dask has started for a run."""
    listed = subprocess.run(["ps", "-eo", "pid,sid,args"], capture_output=True, text=True).stdout
    found = []
    for line in listed.splitlines()[1:]:
        pid, session, words = line.split(None, 2)
        if int(session) == process.pid and "spawn_main" in words:
            found.append(int(pid))
    return found


def wait_for_pieces(process: subprocess.Popen, chains: Path, num: int) -> None:
    """Wait until a run has saved so many more pieces, or has ended."""
    goal = len(list(chains.glob("*.piece"))) + num
    while process.poll() is None and len(list(chains.glob("*.piece"))) < goal:
        time.sleep(0.02)


def main() -> None:
    """Kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--kills", type=int, default=4, help="of each run")
    among = parser.add_mutually_exclusive_group()
    among.add_argument("--processes", action="store_true", help="chains in a pool of processes")
    among.add_argument("--workers", action="store_true", help="kill workers of Dask instead")
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args()
    where = "pool" if parsed.processes else "threads"
    rng, total, num_pieces = random.Random(parsed.seed), 0, []
    for index in range(parsed.runs):
        method = list(KERNELS)[index % len(KERNELS)]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            changes = {"output.max_field_megabytes": 0.02, "sampler.seed": index}
            problem = write_problem(folder, changes)
            finish(start(problem, method, "whole"))
            options = ("--workers", "2") if parsed.workers else ()
            process, done = start(problem, method, "part", *options, where=where), 0
            while done < parsed.kills and process.poll() is None:
                wait_for_pieces(process, folder / "part" / "chains", rng.randrange(6))
                time.sleep(rng.uniform(0.0, 0.3))
                victims = workers_of(process) if parsed.workers else [process.pid]
                if process.poll() is not None or not victims:
                    continue
                os.kill(rng.choice(victims), signal.SIGKILL)
                done += 1
                if parsed.processes:  # Python leaves a pool that has lost its parent waiting
                    os.killpg(process.pid, signal.SIGKILL)
                if not parsed.workers:
                    process.wait()
                    saved = folder / "part" / "chains" / "run.json"
                    again = ("--resume",) if saved.exists() else ()
                    if not again:  # killed before there was anything: begin anew
                        subprocess.run(["rm", "-rf", str(folder / "part")], check=True)
                    process = start(problem, method, "part", *again, where=where)
            finish(process)
            num_pieces.append(len(list((folder / "part" / "chains").glob("*.piece"))))
            one, other = draws_of(folder / "whole"), draws_of(folder / "part")
            same = one.keys() == other.keys() and all(
                np.array_equal(one[key], other[key], equal_nan=True) for key in one
            )
            total += done
            print(
                f"{index:3d} {method:>22}: {done} kills, {num_pieces[-1]} pieces, {same}",
                flush=True,
            )
            if not same:
                raise SystemExit("the resumed run differs")
    print(f"{total} kills in {parsed.runs} runs: all ends are the same")


if __name__ == "__main__":
    main()
