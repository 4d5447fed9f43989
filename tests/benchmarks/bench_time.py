"""Time of a step's work for a field in time: as times become more, and beside the steady equation.

    python tests/benchmarks/bench_time.py [--repeats 20]

Disc, five sensors, a well that is pumped and turned off; 10, 100 and 1,000 times at each sensor.
``step`` is the readings that are lifted (combinations of them, as many as there are sensors), their
derivatives, and the gradient of the logarithm of a Gram determinant: what a step of constrained HMC
asks of the model.  Processor time, one after the other in turns.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import invlift

DISC = Path(__file__).parents[2] / "meshes" / "disc.msh"
NUM_SENSORS, SPAN = 5, (1e-2, 1.0)


@jax.jit
def step(model, coefficients):
    (value, jacobian), expansion = model.linearise(coefficients)
    _, pushed = model.push_forward(expansion, jacobian.T)
    return value, model.pull_back(expansion, pushed, lambda rows: rows)


def models(rng):
    mesh = invlift.read_mesh(DISC)
    angles = 2.0 * np.pi * rng.random(NUM_SENSORS)
    places = 0.6 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    shared = {"source": 0.0, "dirichlet": {"rim": 0.0}}
    steady = invlift.sensors_from_arrays(places, np.zeros(NUM_SENSORS))
    yield (
        "steady",
        invlift.assemble_poisson(
            mesh, invlift.locate(mesh, steady), point_sources=[((0.0, 0.0), 1.0)], **shared
        ),
    )
    for num in (10, 100, 1000):
        times = np.tile(np.geomspace(*SPAN, num), NUM_SENSORS)
        points = np.repeat(places, num, axis=0)
        sensors = invlift.sensors_from_arrays(points, np.zeros(len(times)), times=times)
        well = invlift.steps([[0.0, 1.0], [0.4, 0.0]])
        model = invlift.assemble_poisson(
            mesh,
            invlift.locate(mesh, sensors),
            storage=2.0,
            point_sources=[((0.0, 0.0), well)],
            **shared,
        )
        matrix = np.linalg.qr(rng.standard_normal((len(times), NUM_SENSORS)))[0].T
        yield f"{num} times", model.combined(jnp.asarray(matrix))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    invlift.enable_x64()
    rng = np.random.default_rng(0)
    found = dict(models(rng))
    coefficients = jnp.asarray(0.3 * rng.standard_normal(found["steady"].num_coefficients))
    times = {name: [] for name in found}
    for repeat in range(repeats + 1):
        for name, model in found.items():
            began = time.process_time()
            jax.block_until_ready(step(model, coefficients))
            if repeat:  # the first time it is compiled
                times[name].append(time.process_time() - began)
    medians = {name: 1e3 * float(np.median(each)) for name, each in times.items()}
    for name, each in medians.items():
        ratio = each / medians["steady"]
        print(f"{name}: {each:.2f} ms, {ratio:.1f} times the steady equation")


if __name__ == "__main__":
    main()
