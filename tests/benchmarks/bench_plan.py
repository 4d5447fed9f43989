"""What a run on a mesh takes before its first draw, and then for each new position.

    python tests/benchmarks/bench_plan.py [MESH] [--sensors 10]

MESH and problem are those of bench_mesh.py.  All times are processor time; pinned to one core they
do not depend much on what else runs.
"""

from __future__ import annotations

import argparse
import time

import bench_mesh
import jax
import numpy as np

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import compile_chain, evaluate_state
from invlift.samplers.kernels import ConstrainedHMC


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mesh", nargs="?", default=str(bench_mesh.BASIN))
    parser.add_argument("--sensors", type=int, default=10)
    options = parser.parse_args()
    began = time.process_time()
    mesh = bench_mesh.find_mesh(options.mesh)
    problem = bench_mesh.simulated(mesh, options.sensors, "boundary")
    built = time.process_time()
    target, kernel = LiftedPosterior(problem), ConstrainedHMC()
    dimension = problem.num_unknowns + problem.num_observations
    compile_chain(target, Plan(kernel, 20, 1), dimension)
    compiled, peak = time.process_time(), bench_mesh.peak_gigabytes()
    position, times = 0.1 * np.random.default_rng(1).standard_normal(dimension), []
    for _ in range(5):
        start = time.process_time()
        jax.block_until_ready(evaluate_state(kernel, target, position))
        times.append(time.process_time() - start)
    print(
        f"{mesh.num_nodes} nodes, {options.sensors} sensors: put together in "
        f"{built - began:.0f} s, evaluation and block of iterations compiled in "
        f"{compiled - built:.0f} s, {peak:.1f} GB at most; a new position takes "
        f"{1e3 * min(times):.1f} ms",
    )


if __name__ == "__main__":
    main()
