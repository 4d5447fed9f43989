"""Time of a step's work for several experiments with one matrix, and beside linear elements.

    python tests/benchmarks/bench_experiments.py [--repeats 40]

Disc, ten sensors that each of k experiments reads.  ``step`` is the Jacobian and the gradient of
the logarithm of a Gram determinant, what a step of constrained HMC asks of the model; time of the
processor, one after the other in turns.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import invlift

DISC = Path(__file__).parents[2] / "meshes" / "disc.msh"


def step(model, coefficients):
    (value, jacobian), expansion = model.linearise(coefficients)
    _, pushed = model.push_forward(expansion, jacobian.T)
    return value, model.pull_back(expansion, pushed, lambda rows: rows)


WORK = {
    "step": jax.jit(step),
    "Jacobian": jax.jit(lambda model, coefficients: model.linearise(coefficients)[0]),
    "readings": jax.jit(lambda model, coefficients: model.expand(coefficients)[0]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    repeats = parser.parse_args().repeats
    invlift.enable_x64()
    mesh, rng = invlift.read_mesh(DISC), np.random.default_rng(0)
    radii, angles = 0.9 * np.sqrt(rng.random(10)), 2.0 * np.pi * rng.random(10)
    places = radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    sensors = invlift.locate(mesh, invlift.sensors_from_arrays(places, np.zeros(10)))

    def conditions(angle):
        well = (0.5 * np.cos(angle), 0.5 * np.sin(angle))
        return {"source": 1.0, "dirichlet": {"rim": 0.0}, "point_sources": [(well, 1.0)]}

    models = {"linear elements": invlift.assemble_poisson(mesh, sensors, **conditions(0.0))}
    for num in (1, 2, 4, 8):
        parts = [invlift.Experiment(f"{k}", sensors, conditions(0.8 * k)) for k in range(num)]
        models[f"{num} experiments"] = invlift.assemble_experiments(mesh, parts)
    coefficients = jnp.asarray(0.3 * rng.standard_normal(mesh.num_nodes))
    times = {(name, work): [] for name in models for work in WORK}
    for repeat in range(repeats + 1):
        for name, work in times:
            began = time.process_time()
            jax.block_until_ready(WORK[work](models[name], coefficients))
            if repeat:  # the first time it is compiled
                times[name, work].append(time.process_time() - began)
    for work in WORK:
        medians = {name: 1e3 * float(np.median(times[name, work])) for name in models}
        one = medians["1 experiments"]
        parts = (f"{name} {each:.2f} ms ({each / one:.2f})" for name, each in medians.items())
        print(f"{work}: {', '.join(parts)}")


if __name__ == "__main__":
    main()
