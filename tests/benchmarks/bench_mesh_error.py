"""The error of the mesh of each shipped example, as `invlift check` tells it, and what that takes.

    python tests/benchmarks/bench_mesh_error.py [EXAMPLE ...]
    python tests/benchmarks/bench_mesh_error.py --cost [EXAMPLE ...]

Names of problem files below examples/, such as disc/problem; all of them without.  One row each:
nodes, worst and median error of the readings in standard deviations of their noise, at the mode and
at draws, the shift of a mean of the posterior in its own, the worst and median that a correction at
the mode leaves at draws (beyond).  With --cost seconds of processor time of `check` with its
estimate and without it, each in a process of its own that compiles all.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import invlift
from invlift.app import checks
from invlift.app.checks import check_problem, mesh_error
from invlift.app.problems import build, open_problem
from invlift.app.runs.sampling import target_of
from invlift.app.runs.starts import chosen_starts
from invlift.samplers.kernels import KERNELS

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = (
    "disc/problem", "plate/problem", "plate/two_sheets", "insert/problem", "body3d/problem",
    "pumping_tests/problem", "electrodes/tank", "electrodes/trunk", "ground_line/problem",
    "wolfcamp/problem", "wolfcamp/rim_in_doubt", "well_test/problem", "lauswiesen/problem",
    "kit4/problem",
)  # fmt: skip


def seconds_of_check(name: str, is_told: bool) -> float:
    """Of processor time, in this process."""
    if not is_told:
        checks.finer_model = lambda problem: None
    spec = open_problem(str(EXAMPLES / f"{name}.toml"))
    problem = build(spec)
    start = time.process_time()
    check_problem(problem, spec)
    return time.process_time() - start


def cost(names):
    """Print what the estimate takes."""
    print("| problem | check, s | without, s | share, % |")
    print("|---|---|---|---|")
    for name in names:
        command = [sys.executable, __file__, "--check", name]
        with_it, without = (
            float(subprocess.check_output([*command, told], text=True).split()[-1])
            for told in ("1", "0")
        )
        share = 100.0 * (with_it - without) / with_it
        print(f"| {name} | {with_it:.1f} | {without:.1f} | {share:.0f} |", flush=True)


def errors(names):
    """Print the table of errors."""
    print("| problem | nodes | at mode | median | at draws | median | shift | beyond | median |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        problem = build(open_problem(str(EXAMPLES / f"{name}.toml")))
        row = f"| {name} | {problem.mesh.num_nodes:,} "
        finer = mesh_error.finer_model(problem)
        if finer is None or finer.model is None:
            print(f"{row}| {'' if finer is None else finer.reason} |", flush=True)
            continue
        kernel = KERNELS["chmc"]()
        starts = chosen_starts(problem, "prior", 1)(kernel, target_of(problem, kernel), 0)
        found = mesh_error.errors_at(problem, finer, starts.with_first().first.fit)
        row += f"| {found.at_mode.max():.2g} | {np.median(found.at_mode):.2g} "
        row += f"| {found.readings.max():.2g} | {np.median(found.readings):.2g} "
        row += f"| {found.shift:.2g} | {found.beyond.max():.2g} | {np.median(found.beyond):.2g} |"
        print(row, flush=True)


if __name__ == "__main__":
    invlift.enable_x64()
    mode, names = sys.argv[1:2], sys.argv[2:]
    if mode == ["--check"]:
        print(seconds_of_check(names[0], names[1] == "1"))
    elif mode == ["--cost"]:
        cost(names or NAMES)
    else:
        errors(sys.argv[1:] or NAMES)
