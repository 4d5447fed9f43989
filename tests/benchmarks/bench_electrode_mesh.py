"""What readings are off by where few edges of the mesh are across an electrode.

    python tests/benchmarks/bench_electrode_mesh.py

A uniform disc with six electrodes on half of its rim.  One row for each impedance, as a share of
the width of an electrode over the conductivity, and number of edges across an electrode: the
largest errors of voltages at electrodes that drive and elsewhere, by edges of an eighth; what is
added to impedances that are fitted to the true voltages, of themselves and of an edge over the
conductivity, and the largest errors that this leaves at both.
"""

import invlift

invlift.enable_x64()  # before anything starts JAX

import discs  # noqa: F401, which finds the next
import jax
import numpy as np
from make_disc import disc

from invlift.fem import linalg

NUM, SHARES, EDGES = 6, (0.01, 0.1, 1.0), (1, 2, 3, 4, 6, 8, 12)
WIDTH = np.pi / NUM
readings = jax.jit(lambda model, coefficients: model(coefficients))


def tank(edges):
    """Every second piece of the rim is an electrode."""
    points, cells, rim = disc(2 * edges)
    middles = points[rim].mean(axis=1)
    piece = (np.arctan2(middles[:, 1], middles[:, 0]) // WIDTH).astype(int) + NUM
    groups = {f"e{k}": rim[piece == 2 * k] for k in range(NUM)}
    return invlift.mesh_from_arrays(points, cells, boundaries=groups)


def voltages(mesh, impedance, times=0):
    """Between neighbours, while neighbours drive, (NUM - 1, NUM - 1)."""
    pairs = np.eye(NUM)[:-1] - np.eye(NUM)[1:]
    model = invlift.electrode_model(mesh, list(mesh.boundaries), pairs, pairs, impedance=impedance)
    with linalg.iteratively():
        model = model.on_mesh.refined(times) if times else model
    found = readings(model, np.zeros(mesh.num_nodes))
    return np.asarray(found).reshape(NUM - 1, NUM - 1)


def main():
    """Print the table."""
    apart = np.abs(np.subtract.outer(np.arange(NUM - 1), np.arange(NUM - 1)))
    where = apart < 2, apart > 1
    print(
        "| share | edges | driven, % | others, % | added, % | of an edge | left: driven | others |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for share in SHARES:
        for edges in EDGES:
            mesh, impedance = tank(edges), share * WIDTH
            here, true = voltages(mesh, impedance), voltages(mesh, impedance, 3)
            slope = (voltages(mesh, 1.001 * impedance) - here) / (1e-3 * impedance)
            added = np.sum(slope * (true - here)) / np.sum(slope**2)
            errors = [here - true, here + added * slope - true]
            parts = [100 * np.abs(e / true)[of].max() for e in errors for of in where]
            row = f"| {share} | {edges} | {parts[0]:.2g} | {parts[1]:.2g} "
            row += f"| {100 * added / impedance:.2g} | {added * edges / WIDTH:.2g} "
            row += f"| {parts[2]:.2g} | {parts[3]:.2g} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
