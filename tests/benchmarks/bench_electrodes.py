"""Time of a step where many voltages are combinations of few resistances: of all of them, and of
those combinations that are lifted, with the steps and effective draws of a run.

``python tests/benchmarks/bench_electrodes.py [READINGS ...]``: of 16 electrodes on the disc, with
unknown contact impedances and noise; two steps of constrained HMC, there and back.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from one_core import sampled

import invlift
from invlift.app.checks.derivatives import evaluate, trial_step
from invlift.app.runs.sampling import target_of
from invlift.fem.electrodes.quadrupoles import injections_of, patterns_of_pairs
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.models.joined import Combinations
from invlift.samplers.kernels.chmc import ConstrainedHMC

NUM_ELECTRODES, NUM_TIMES, STEP = 16, 5, 0.3


def tank():
    """The unit disc with the electrodes as boundary groups."""
    disc = invlift.read_mesh("meshes/disc.msh")
    middles = disc.points[disc.boundary_facets].mean(axis=1)
    turn = np.arctan2(middles[:, 1], middles[:, 0]) / (2 * np.pi) % 1.0 * NUM_ELECTRODES
    groups = {
        f"e{k}": disc.boundary_facets[(turn >= k) & (turn < k + 0.5)] for k in range(NUM_ELECTRODES)
    }
    return invlift.mesh_from_arrays(disc.points, disc.cells, boundaries=groups)


def problem_of(mesh, num):
    """The first ``num`` of the voltages between neighbours, while any two drive."""
    size = NUM_ELECTRODES
    drives = [(k, (k + s) % size) for s in (1, 2, 4, 8, 6) for k in range(size)]
    rows = [(*drive, m, (m + 1) % size) for drive in drives for m in range(size)]
    found = injections_of(patterns_of_pairs(np.array(rows[:num]), size))
    model = Combinations(
        invlift.electrode_model(
            mesh,
            list(mesh.boundaries),
            found.currents,
            found.voltages,
            impedance=invlift.lognormal(median=0.05, factor=1.65),
        ),
        jax.device_put(found.matrix),
    )
    truth = np.concatenate([np.zeros(mesh.num_nodes), np.full(size, 0.05)])
    noise = 2e-3 * np.random.default_rng(0).standard_normal(num)
    prior = invlift.matern_prior(mesh, range=0.6, std=1.0, smoothness=2.0, boundary="robin")
    scale = invlift.gaussian_noise(invlift.lognormal(median=2e-3, factor=3.0))
    return invlift.inverse_problem(model, prior, scale, np.asarray(model(truth)) + noise)


def median(fn):
    """Milliseconds, of calls that are compiled."""
    times = []
    for number in range(NUM_TIMES + 1):
        began = time.perf_counter()
        jax.block_until_ready(fn(number))
        times.append(1e3 * (time.perf_counter() - began))
    return np.median(times[1:])


def main(counts):
    """Print a line for each number of readings, and for the numbers that stand for them."""
    invlift.enable_x64()
    mesh = tank()
    for num in counts:
        problem = problem_of(mesh, num)
        for target in (target_of(problem, ConstrainedHMC()), LiftedPosterior(problem)):
            theta = jnp.zeros(target.problem.num_unknowns)
            lifted = jax.jit(LiftedPosterior.lift)(LiftedPosterior(target.problem), theta)
            position = np.asarray(jax.jit(type(target).from_lifted)(target, lifted))
            point = evaluate(target, position)
            steps = median(lambda seed, at=target, p=point: trial_step(at, p, seed, STEP))
            single = median(lambda _, at=target, q=position: evaluate(at, q))
            size = point.constraint.size
            print(f"{num} readings, {size} lifted: {steps:.0f} ms, a point {single:.1f} ms")
        run, seconds = sampled(problem, "chmc", chains=1, warmup=150, draws=200, seed=1)
        sizes = [chain.step_size for chain in run.chains]
        row = invlift.Posterior(run.chains).summary().ess_bulk
        print(f"{num} readings: steps of {np.mean(sizes):.2f}, {seconds:.1f} s, ESS\n{row}")


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [264, 1264])
