"""Time per step and per draw on a mesh of the user's choice, by default the one of 10,009 nodes.

    python tests/benchmarks/bench_mesh.py [MESH] [--sensors 10] [--draws 10] [--boundary coast]

Run it pinned to one core.  Readings are simulated with 0.5 % noise, known; the prior is a Matern
field whose range is a fifth of the mesh's diameter.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import invlift

BASIN = Path(__file__).parents[2] / "meshes/basin.msh"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mesh", nargs="?", default=BASIN)
    parser.add_argument("--sensors", type=int, default=10)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--boundary", default="coast")
    options = parser.parse_args()
    invlift.enable_x64()
    mesh = invlift.read_mesh(options.mesh)
    rng = np.random.default_rng(1)
    centres = mesh.points[mesh.cells[rng.choice(mesh.num_cells, options.sensors, replace=False)]]
    sensors = invlift.sensors_from_arrays(centres.mean(axis=1), np.zeros(options.sensors))
    prior = invlift.matern_prior(
        mesh, correlation_range=mesh.diameter / 5, std=1.0, smoothness=1.0 if mesh.dim == 2 else 0.5
    )
    forward = invlift.assemble_poisson(
        mesh,
        invlift.locate(mesh, sensors),
        source=1.0 / mesh.diameter**2,
        dirichlet={options.boundary: 0.0},
    )
    truth = prior.coefficients(jnp.asarray(rng.standard_normal(prior.num_white)))
    clean = np.asarray(forward(truth))
    sigma = 0.005 * np.abs(clean).max()
    problem = invlift.inverse_problem(
        forward, prior, invlift.known_noise(sigma), clean + sigma * rng.standard_normal(clean.size)
    )
    run = invlift.sample(problem, chains=1, warmup=50, draws=options.draws, seed=1)
    (chain,) = run.chains
    steps = chain.stats["num_steps"].sum()
    evaluations = chain.stats["num_factorisations"].sum()
    print(
        f"{mesh.num_nodes} nodes, {options.sensors} sensors: {chain.sampling_seconds / steps:.3f} s"
        f" per step, {chain.sampling_seconds / options.draws:.3f} s per draw, "
        f"{1e3 * chain.sampling_seconds / evaluations:.1f} ms per factorisation with its solves, "
        f"{evaluations / options.draws:.1f} factorisations per draw, step size "
        f"{chain.step_size:.2f}, compiled in {run.compile_seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
