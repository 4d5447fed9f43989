"""Peak memory of runs of the disc against the number of draws and of chains.

    python tests/benchmarks/bench_memory.py [--megabytes 5] [--method pcn]

Each is a process of its own, pinned to one core, whose chains store few draws of their fields, so
that what grows with the number of draws shows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Chains and draws of each.
SIZES = ((4, 500), (4, 2000), (4, 20_000), (1, 2000), (2, 2000), (8, 2000))


def peak_of(arguments: list[str]) -> tuple[float, float]:
    """Peak of the resident memory of a run, MB, and its time, s."""
    began = time.monotonic()
    command = [sys.executable, "-m", "invlift", "run", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss / 1024, time.monotonic() - began


def main() -> None:
    """Run them all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=5.0, help="for the draws of the fields")
    parser.add_argument("--method", default="pcn")
    parsed = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    example = ROOT / "examples" / "disc" / "problem.toml"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = example.read_text(encoding="utf-8")
        text = text.replace("../../meshes", str(ROOT / "meshes"))
        text = text.replace('"sensors.csv"', f'"{example.with_name("sensors.csv")}"')
        problem = folder / "problem.toml"  # whose last table is [output]
        problem.write_text(f"{text.rstrip()}\nmax_field_megabytes = {parsed.megabytes}\n")
        for chains, draws in SIZES:
            out = folder / f"{chains}-{draws}"
            counts = ["--chains", str(chains), "--draws", str(draws)]
            options = ["--method", parsed.method, "--out", str(out), *counts]
            peak, seconds = peak_of([str(problem), *options])
            print(f"{chains} chains of {draws:6d} draws: {peak:5.0f} MB, {seconds:4.0f} s")


if __name__ == "__main__":
    main()
