"""The error of the mesh of each shipped example, as `invlift check` tells it, and what that takes.

    python tests/benchmarks/bench_mesh_error.py [EXAMPLE ...]
    python tests/benchmarks/bench_mesh_error.py --settings [EXAMPLE ...]
    python tests/benchmarks/bench_mesh_error.py --cost [EXAMPLE ...]

Names of problem files below examples/, such as disc/problem; all of them without.  One row each:
nodes, worst and median error of the readings in standard deviations of their noise, at the mode and
at draws, the shift of a mean of the posterior in its own, the worst and median that a correction at
the mode leaves at draws (beyond).  With --settings a row for each number of refine_solution at
which a still finer mesh has at most 200,000 nodes, all at the same fields: the mode and draws of
the problem without refinement.  With --cost seconds of processor time of `check` with its
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
from invlift.fem import linalg
from invlift.fem.mesh.finer_mesh import MAX_TIMES
from invlift.problems.problem import coefficients_at
from invlift.programs.compilation import program
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels import KERNELS

EXAMPLES = Path(__file__).parents[2] / "examples"
MAX_NODES = 200_000
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


def by_settings(names):
    """Print the table of errors for each number of refinements, at the fields of the given mesh."""
    print("| problem | nodes | setting | at mode | median | at draws | median | shift |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        spec = open_problem(str(EXAMPLES / f"{name}.toml"))
        mesh = spec.mesh.model_copy(update={"refine_solution": 0})
        problem = build(spec.model_copy(update={"mesh": mesh}))
        fit = fit_of(problem)
        near = problem.searched, fit.white, fit.sd
        white, sd = fit.white, fit.sd
        rng = np.random.default_rng(0)
        shapes = (mesh_error.NUM_DRAWS, white.size), (mesh_error.NUM_DRAWS, sd.size)
        normal = zip(*map(rng.standard_normal, shapes), strict=True)
        moves = [np.asarray(mesh_error._moved(*near, *each)[0]) for each in normal]
        fields = coefficients_at(problem.prior, np.stack([white, *(white + x for x in moves)]))
        nodes = problem.mesh.num_nodes
        sizes = [2 ** (problem.mesh.dim * times) * nodes for times in range(MAX_TIMES + 1)]
        levels = range(sum(size <= MAX_NODES for size in sizes))
        with linalg.iteratively():
            models = [problem.model, *map(problem.model.on_mesh.refined, levels[1:])]
        values = [np.stack([readings(each, field) for field in fields]) for each in models]
        for level in levels[:-1]:
            left = values[-1] - values[level]
            bias, *others = (problem.of_searched(each) / sd for each in left)
            shift = np.sqrt(mesh_error._moved(*near, np.zeros(white.size), bias)[1])
            at_draws = np.mean(np.abs(others), axis=0)
            cells = [f"{fn(x):.2g}" for x in (np.abs(bias), at_draws) for fn in (np.max, np.median)]
            cells = [name, f"{nodes:,}", str(level), *cells, f"{shift:.2g}"]
            print(f"| {' | '.join(cells)} |", flush=True)


def fit_of(problem):
    """The mode near the start of a chain, and the standard deviations of the noise there."""
    kernel = KERNELS["chmc"]()
    with single_threaded_blas():
        starts = chosen_starts(problem, "prior", 1)(kernel, target_of(problem, kernel), 0)
        return starts.with_first().first.fit


@program
def readings(model, coefficients):
    """Values of the readings, (d,)."""
    return model(coefficients)


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
        found = mesh_error.errors_at(problem, finer, fit_of(problem))
        row += f"| {found.at_mode.max():.2g} | {np.median(found.at_mode):.2g} "
        row += f"| {found.readings.max():.2g} | {np.median(found.readings):.2g} "
        row += f"| {found.shift:.2g} | {found.beyond.max():.2g} | {np.median(found.beyond):.2g} |"
        print(row, flush=True)


if __name__ == "__main__":
    invlift.enable_x64()
    mode, names = sys.argv[1:2], sys.argv[2:]
    if mode == ["--check"]:
        print(seconds_of_check(names[0], names[1] == "1"))
    elif mode == ["--settings"]:
        by_settings(names or NAMES)
    elif mode == ["--cost"]:
        cost(names or NAMES)
    else:
        errors(sys.argv[1:] or NAMES)
