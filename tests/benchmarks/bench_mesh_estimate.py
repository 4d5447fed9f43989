"""How good the estimate of the mesh's error is, beside the error against edges of an eighth.

    python tests/benchmarks/bench_mesh_estimate.py

One row for each body, load and field: nodes, and with edges halved once and twice for the estimate
the share of forty readings where it is within a factor of 2 of the true error, and the median of
the estimate divided by the true error.
"""

import sys
from dataclasses import replace
from pathlib import Path

import invlift

invlift.enable_x64()  # before anything starts JAX

import jax
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from structured import box_mesh, interior_points

from invlift.fem import linalg
from invlift.fem.electrodes.complete import electrode_model
from invlift.fem.electrodes.point_electrodes import point_electrode_model
from invlift.fem.mesh.construction import mesh_from_arrays

NUM_READINGS = 40
SOURCE = {"source": 5.0, "dirichlet": {"left": 1.0}, "robin": {"right": (2.0, 0.5)}}
#: Edges of the box along a side, in the plane and in space.
SIZES = {2: 8, 3: 4}
readings = jax.jit(lambda model, coefficients: model(coefficients))


def with_corner(mesh):
    """The box without the part above the middle of all axes: a re-entrant corner."""
    is_kept = ~(mesh.points[mesh.cells].mean(axis=1) > 0.5).all(axis=1)
    cells = mesh.cells[is_kept]
    nodes, numbers = np.unique(cells, return_inverse=True)
    new = np.full(mesh.num_nodes, -1)
    new[nodes] = np.arange(nodes.size)
    sides = {name: new[mesh.boundaries[name]] for name in ("left", "right")}
    sides = {name: facets[(facets >= 0).all(axis=1)] for name, facets in sides.items()}
    return mesh_from_arrays(mesh.points[nodes], numbers.reshape(cells.shape), boundaries=sides)


def equation(mesh, conditions):
    places = interior_points(mesh.dim, 8 * NUM_READINGS)
    places = places[~(places > 0.48).all(axis=1)][:NUM_READINGS]
    observation = invlift.locate(mesh, invlift.sensors_from_arrays(places, np.zeros(NUM_READINGS)))
    return invlift.assemble_poisson(mesh, observation, **conditions)


def well(dim):
    held = {"source": 0.0, "dirichlet": {"left": 0.0, "right": 1.0}}
    return held | {"point_sources": [((0.32, 0.37, 0.39)[:dim], 1.0)]}


def pairs(num):
    """Currents between neighbours of a row, and voltages between all neighbours."""
    return np.eye(num)[:-1] - np.eye(num)[1:]


def electrodes(mesh):
    """On the top, each two edges wide and as far from the next: six, by electrode."""
    mesh = box_mesh(2, 24)
    top = mesh.boundaries["top"]
    order = np.argsort(mesh.points[top].mean(axis=1)[:, 0])
    own = {f"electrode_{k}": top[order[4 * k + 1 : 4 * k + 3]] for k in range(6)}
    mesh = replace(mesh, boundaries=own)
    return mesh, electrode_model(mesh, list(own), pairs(6), pairs(6), impedance=0.02)


def points(mesh):
    mesh = box_mesh(2, 24)
    places = np.column_stack([np.linspace(0.25, 0.75, 7), np.ones(7)])
    model = point_electrode_model(mesh, places, pairs(7), pairs(7), surface="top")
    return mesh, model


def fields(mesh):
    x = mesh.points
    yield "smooth", np.sin(3.0 * x[:, 0]) + 0.5 * x[:, 1]
    yield "each node its own", np.random.default_rng(3).standard_normal(len(x))


def rows():
    """Body, mesh and model."""
    for dim, kind in ((2, "plane"), (3, "space")):
        box = box_mesh(dim, SIZES[dim])
        corner = with_corner(box)
        yield f"{kind}, source in the body", box, equation(box, SOURCE)
        yield f"{kind}, well", box, equation(box, well(dim))
        yield f"{kind}, re-entrant corner", corner, equation(corner, SOURCE)
        yield f"{kind}, re-entrant corner and well", corner, equation(corner, well(dim))
    yield "plane, electrodes of two edges", *electrodes(None)
    yield "plane, point electrodes", *points(None)


def main():
    """Print the table."""
    print("| body and load | field | nodes | once: share, % | median | twice: share, % | median |")
    print("|---|---|---|---|---|---|---|")
    for name, mesh, model in rows():
        with linalg.iteratively():
            finer = [model.on_mesh.refined(times) for times in (1, 2, 3)]
        for kind, field in fields(mesh):
            here, *there = (np.asarray(readings(each, field)) for each in (model, *finer))
            true = there[2] - here
            row = f"| {name} | {kind} | {mesh.num_nodes} "
            for times in (1, 2):
                ratio = (there[times - 1] - here) / true
                share = 100 * np.mean((ratio > 0.5) & (ratio < 2.0))
                row += f"| {share:.0f} | {np.median(ratio):.2f} "
            print(f"{row}|", flush=True)


if __name__ == "__main__":
    main()
