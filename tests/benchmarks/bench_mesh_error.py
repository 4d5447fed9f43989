"""The error of the mesh of each shipped example, as `invlift check` tells it, and what that takes.

    python tests/benchmarks/bench_mesh_error.py [EXAMPLE ...]

Names of problem files below examples/, all of them without.  One row each: nodes, worst and median
error of the readings in standard deviations of their noise, the shift of a mean of the posterior in
its own, seconds of a first and of a second estimate, and of `check`.
"""

import sys
import time
from pathlib import Path

import numpy as np

import invlift
from invlift.app.checks import check_problem, mesh_error
from invlift.app.checks.starts import with_first
from invlift.app.problems import build, open_problem
from invlift.app.runs.sampling import target_of
from invlift.app.runs.starts import chosen_starts
from invlift.samplers.kernels import KERNELS

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = (
    "disc/problem", "plate/problem", "plate/two_sheets", "insert/problem", "body3d/problem",
    "pumping_tests/problem", "electrodes/tank", "electrodes/trunk", "ground_line/problem",
    "wolfcamp/problem", "wolfcamp/rim_in_doubt",
)  # fmt: skip


def estimated(problem, fit):
    """Errors of the readings, (d,), the shift, and seconds."""
    start = time.perf_counter()
    errors = mesh_error.errors_at(problem, mesh_error.finer_model(problem), fit)
    return errors, time.perf_counter() - start


def main(names):
    """Print the table."""
    invlift.enable_x64()
    print("| problem | nodes | worst | median | shift | first, s | again, s | check, s |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        spec = open_problem(str(EXAMPLES / f"{name}.toml"))
        field = build(spec)
        problem = field
        kernel = KERNELS["chmc"]()
        starts = chosen_starts(problem, "prior", 1)(kernel, target_of(problem, kernel), 0)
        fit = with_first(starts).first.fit
        (found, first), (_, again) = (estimated(problem, fit) for _ in range(2))
        start = time.perf_counter()
        check_problem(field, spec)
        seconds = time.perf_counter() - start
        size = problem.prior.mesh.num_nodes
        row = f"| {name} | {size:,} | {found.readings.max():.2g} | {np.median(found.readings):.2g} "
        row += f"| {found.shift:.2g} | {first:.1f} | {again:.1f} | {seconds:.0f} |"
        print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or NAMES)
