"""What a mesh of any size costs: memory, compilation, time per step and where that goes.

    python tests/benchmarks/bench_mesh.py [MESH] [--sensors 10] [--draws 10] [--boundary boundary]

MESH is a file, by default the basin's with 10,009 nodes, or disc-R, a disc of R rings (disc-100 has
30,301 nodes, disc-183 has 101,017), or cube-K, a cube of K^3 bricks of six tetrahedra (cube-36 has
50,653 nodes).  Run it pinned to one core.  Readings are simulated with 0.5 % noise, known; the
prior is a Matern field whose range is a fifth of the mesh's diameter.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import invlift

invlift.enable_x64()  # before anything starts JAX

from discs import disc

from invlift.fem import linalg
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.problems.starts.search import find_start
from invlift.programs.compilation import Program
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels import ConstrainedHMC

sys.path.append(str(Path(__file__).parents[1]))
from structured import box_mesh

BASIN = Path(__file__).parents[2] / "meshes/basin.msh"


def find_mesh(name: str) -> invlift.Mesh:
    kind, _, size = name.partition("-")
    if kind == "disc":
        nodes, cells, _ = disc(int(size))
        return invlift.mesh_from_arrays(nodes, cells)
    if kind == "cube":
        return box_mesh(3, int(size))
    return invlift.read_mesh(name)


def simulated(mesh: invlift.Mesh, num_sensors: int, boundary: str):
    rng = np.random.default_rng(1)
    centres = mesh.points[mesh.cells[rng.choice(mesh.num_cells, num_sensors, replace=False)]]
    sensors = invlift.sensors_from_arrays(centres.mean(axis=1), np.zeros(num_sensors))
    prior = invlift.matern_prior(
        mesh, range=mesh.diameter / 5, std=1.0, smoothness=1.0 if mesh.dim == 2 else 0.5
    )
    forward = invlift.assemble_poisson(
        mesh,
        invlift.locate(mesh, sensors),
        source=1.0 / mesh.diameter**2,
        dirichlet={boundary: 0.0},
    )
    truth = prior.transform(jnp.asarray(rng.standard_normal(prior.num_white)))
    clean = np.asarray(Program(lambda forward, phi: forward(phi), "none")(forward, truth))
    sigma = 0.005 * np.abs(clean).max()
    observed = clean + sigma * rng.standard_normal(clean.size)
    return invlift.inverse_problem(forward, prior, invlift.known_noise(sigma), observed)


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def milliseconds(fn, *arguments):
    """Median time of a few calls once compiled, and the result."""
    fn = jax.jit(fn)
    result = jax.block_until_ready(fn(*arguments))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(fn(*arguments))
        times.append(time.perf_counter() - began)
    return 1e3 * float(np.median(times)), result


def tell_parts(problem) -> float:
    """Where the time of a new position goes; returns that of one factorisation, seconds."""
    lifted = LiftedPosterior(problem)
    forward, prior = problem.model, problem.prior
    position = jnp.asarray(find_start(ConstrainedHMC(), lifted, 1, 0, evaluate_state)[0])
    whole, point = milliseconds(lambda system, q: system.point(q), lifted, position)
    phi = point.coefficients
    factorise, (_, factor) = milliseconds(lambda f, phi: f._factorise(phi), forward, phi)
    solves, _ = milliseconds(linalg.solve, factor, forward.observation_load)
    linearise, ((_, jacobian), expansion) = milliseconds(
        lambda f, phi: f.linearise(phi), forward, phi
    )
    there, _ = milliseconds(lambda p, x: p.sqrt_transpose(x.T), prior, jacobian)
    back, _ = milliseconds(lambda p, x: p.sqrt(x), prior, point.gradients)
    push_forward, (_, pushed) = milliseconds(
        lambda f, e, x: f.push_forward(e, x), forward, expansion, point.normal_coefficients
    )
    inverse, _ = milliseconds(lambda g, x: g.solve_right(x), point.gram, expansion.adjoint)
    pull_back, _ = milliseconds(
        lambda f, e, p: f.pull_back(e, p, lambda columns: columns), forward, expansion, pushed
    )
    print(
        f"a new position takes {whole:.1f} ms; alone, of its parts: factorisation {factorise:.1f}, "
        f"d solves {solves:.1f}, both with the Jacobian's product {linearise:.1f}, the prior there "
        f"{there:.1f} and back {back:.1f}, readings along that {push_forward:.1f}, inverse of the "
        f"Gram matrix applied {inverse:.1f}, gradient of log det G {pull_back:.1f} ms",
        flush=True,
    )
    return 1e-3 * factorise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mesh", nargs="?", default=str(BASIN))
    parser.add_argument("--sensors", type=int, default=10)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--boundary", default="boundary")
    options = parser.parse_args()
    began = time.perf_counter()
    mesh = find_mesh(options.mesh)
    problem = simulated(mesh, options.sensors, options.boundary)
    built = time.perf_counter() - began
    print(f"{mesh.num_nodes} nodes, {options.sensors} sensors: put together in {built:.0f} s")
    run = invlift.sample(problem, chains=1, warmup=20, draws=options.draws, seed=1)
    peak = peak_gigabytes()
    (chain,) = run.chains
    steps = chain.stats["num_steps"].sum()
    evaluations = chain.stats["num_factorisations"].sum()
    per_step = chain.sampling_seconds / steps
    print(
        f"{per_step:.4f} s per step, {chain.sampling_seconds / options.draws:.3f} s per draw, "
        f"{evaluations / options.draws:.1f} factorisations per draw, step size "
        f"{chain.step_size:.2f}, compiled in {run.compile_seconds:.0f} s, {peak:.1f} GB at most",
        flush=True,
    )
    with single_threaded_blas():
        factorise = tell_parts(problem)
    print(f"a step takes {per_step / factorise:.1f} times one factorisation")


if __name__ == "__main__":
    main()
