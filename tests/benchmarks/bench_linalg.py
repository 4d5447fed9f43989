"""Time the sparse factorisation against CHOLMOD (cvxopt) and SuperLU (scipy).

    taskset -c 0 python bench_linalg.py [NUM_UNKNOWNS ...] [cube]

One core. Every row repeats, in turn so that all methods see the same machine, a factorisation
followed by a solve with 1 and with 11 right-hand sides. The JAX program does ten of them in one
compiled loop, as a sampler does. Medians of milliseconds of processor time (wall-clock time on an
idle core, and less disturbed on a busy one), and the median ratio to CHOLMOD, whose better variant
(simplicial or supernodal) counts; it re-uses its symbolic analysis.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from cvxopt import cholmod, matrix, spmatrix
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.spatial import Delaunay
from skfem import MeshTet

from invlift.fem.linalg.multifrontal import factorise, solve
from invlift.fem.linalg.symbolic import analyse

NUM_REPEATS = 15
NUM_IN_LOOP = 10


def disc(num_unknowns):
    """Points and triangles of an irregular mesh of the unit disc, and its interior nodes."""
    rng = np.random.default_rng(0)
    spacing = 1.075 * np.sqrt(np.pi / (1.02 * num_unknowns + 40))
    steps = np.arange(-int(2.5 / spacing), int(2.5 / spacing) + 1)
    i, j = np.meshgrid(steps, steps)
    points = spacing * np.stack([i + 0.5 * (j % 2), np.sqrt(0.75) * j], axis=-1).reshape(-1, 2)
    points = points + rng.uniform(-0.15, 0.15, points.shape) * spacing
    points = points[np.linalg.norm(points, axis=1) < 1 - 0.6 * spacing]
    angle = np.linspace(0, 2 * np.pi, int(2 * np.pi / spacing), endpoint=False)
    points = np.concatenate([points, np.stack([np.cos(angle), np.sin(angle)], axis=1)])
    points = points[rng.permutation(len(points))]
    interior = np.flatnonzero(np.linalg.norm(points, axis=1) < 1 - 1e-9)
    return points, Delaunay(points).simplices, interior


def cube():
    """Points and tetrahedra of the unit cube with 18^3 interior nodes."""
    mesh = MeshTet.init_tensor(*[np.linspace(0, 1, 20)] * 3)
    return mesh.p.T, mesh.t.T, mesh.interior_nodes()


def contributions(points, cells, interior):
    """Contributions of the P1 stiffness matrix with log-normal coefficients."""
    corners = points[cells]
    edges = corners[:, 1:] - corners[:, :1]
    gradients = np.linalg.inv(edges).swapaxes(1, 2)
    gradients = np.concatenate([-gradients.sum(axis=1, keepdims=True), gradients], axis=1)
    weights = np.exp(np.random.default_rng(1).standard_normal(len(cells)))
    weights = weights * np.abs(np.linalg.det(edges))
    number = np.full(len(points), -1)
    number[interior] = np.arange(interior.size)
    i, j = np.tril_indices(cells.shape[1])
    rows, cols = number[cells[:, i]], number[cells[:, j]]
    is_free = (rows >= 0) & (cols >= 0)
    values = np.einsum("e,eid,ejd->eij", weights, gradients, gradients)[:, i, j]
    return rows[is_free], cols[is_free], values[is_free]


def milliseconds(function):
    """Processor time of one call."""
    start = time.process_time()
    function()
    return 1e3 * (time.process_time() - start)


def repeated(structure, values, rhs):
    """Factorise and solve, each time with values that depend on the solution before."""

    def step(_, carry):
        solution = solve(factorise(structure, values * (1 + 1e-300 * carry.ravel()[0])), rhs)
        return solution

    return jax.lax.fori_loop(0, NUM_IN_LOOP, step, jnp.zeros_like(rhs))


def cholmod_runs(lower, rhs):
    """Return functions that factorise and solve: simplicial and supernodal."""
    packed = spmatrix(lower.data, lower.row.tolist(), lower.col.tolist(), lower.shape)
    packed_rhs = matrix(rhs)
    runs = []
    for variant in (0, 2):
        cholmod.options["supernodal"] = variant
        symbolic = cholmod.symbolic(packed)

        def run(symbolic=symbolic):
            cholmod.numeric(packed, symbolic)
            cholmod.solve(symbolic, packed_rhs)

        runs.append(run)
    return runs


def bench(name):
    """Print the rows of one problem."""
    points, cells, interior = cube() if name == "cube" else disc(int(name))
    rows, cols, values = contributions(points, cells, interior)
    n = interior.size
    start = time.perf_counter()
    structure = analyse(rows, cols, n, points[interior])
    analysis = time.perf_counter() - start
    is_off = rows != cols
    full = sparse.csc_array(
        (
            np.concatenate([values, values[is_off]]),
            (np.concatenate([rows, cols[is_off]]), np.concatenate([cols, rows[is_off]])),
        ),
        shape=(n, n),
    )
    lower = sparse.coo_array(sparse.tril(full))
    for num_rhs in (1, 11):
        rhs = np.random.default_rng(2).standard_normal((n, num_rhs))
        args = structure, jnp.asarray(values), jnp.asarray(rhs)
        start = time.perf_counter()
        jitted = jax.jit(repeated).lower(*args).compile()
        compilation = time.perf_counter() - start
        solution = np.asarray(jitted(*args))
        residual = np.linalg.norm(full @ solution - rhs) / np.linalg.norm(rhs)
        runs = [
            lambda: jitted(*args).block_until_ready(),  # noqa: B023
            *cholmod_runs(lower, rhs),
            lambda: splu(full, options={"SymmetricMode": True}, diag_pivot_thresh=0.0).solve(rhs),  # noqa: B023
        ]
        times = np.array([[milliseconds(run) for run in runs] for _ in range(NUM_REPEATS)])
        times[:, 0] /= NUM_IN_LOOP
        medians = np.median(times, axis=0)
        best = 1 + int(np.argmin(medians[1:3]))
        ratio = np.median(times[:, 0] / times[:, best])
        print(
            f"{name:>6} n {n:6d} rhs {num_rhs:2d}: analysis {analysis:5.2f} s, compilation "
            f"{compilation:5.1f} s, residual {residual:.0e} | CPU ms: here {medians[0]:8.3f}, "
            f"CHOLMOD {medians[best]:8.3f}, SuperLU {medians[3]:8.2f} | ratio {ratio:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    for problem in sys.argv[1:] or ["481", "1985", "8065", "32513", "cube"]:
        bench(problem)
