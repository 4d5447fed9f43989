"""Simulate the readings of the tank, ``tank.csv``, and of the trunk, ``trunk.ohm``."""

import runpy
import sys
from pathlib import Path

import numpy as np

import invlift

HERE = Path(__file__).parent
MESHES = HERE / "../../meshes"


def resistances(mesh, electrodes, log_conductivity, impedances, **options):
    """Potential of each of K electrodes for a unit current into each that leaves at the first.

    The matrix (K, K) has all that any voltages between electrodes can tell.
    """
    size = len(electrodes)
    currents = np.eye(size)[1:] - np.eye(size)[0]
    model = invlift.electrode_model(
        mesh, electrodes, currents, currents, impedance=impedances, **options
    )
    found = np.zeros((size, size))
    found[1:, 1:] = np.reshape(model(log_conductivity), (size - 1, size - 1))
    return found


def voltages(resistances, table):
    """Of rows a, b, m and n, numbers from 1: m less n for a unit current from a to b."""
    a, b, m, n = np.asarray(table).T - 1
    return resistances[m, a] - resistances[n, a] - resistances[m, b] + resistances[n, b]


def make_tank(seed=3):
    """Neighbours drive and all neighbours are read, between a good and a bad conductor."""
    mesh, rng = invlift.read_mesh(MESHES / "tank.msh"), np.random.default_rng(seed)
    electrodes, steps = [f"electrode_{k}" for k in range(1, 13)], range(1, 12)
    x, y = mesh.points.T
    good, bad = np.hypot(x - 0.35, y - 0.2) < 0.27, np.hypot(x + 0.35, y + 0.3) < 0.25
    impedances = 0.05 * np.exp(0.4 * rng.standard_normal(12))
    # On a finer mesh: the readings of a real tank have no error of the problem's mesh.
    truth = resistances(mesh, electrodes, 1.5 * good - 1.5 * bad, impedances, refine_solution=2)
    table = [(a, a + 1, m, m + 1) for a in steps for m in steps]
    values = voltages(truth, table) + 2e-3 * rng.standard_normal(len(table))
    rows = [f"{a},{b},{m},{n},{v:.6f}" for (a, b, m, n), v in zip(table, values, strict=True)]
    (HERE / "tank.csv").write_text("\n".join(["a,b,m,n,value", *rows]) + "\n")


def make_trunk(seed=1):
    """Neighbours drive and other neighbours are read, round drier heartwood with a cavity."""
    sys.path.insert(0, str(MESHES))
    positions = runpy.run_path(str(MESHES / "make_trunk.py"))["electrodes"]()
    mesh, rng = invlift.read_mesh(MESHES / "trunk.msh"), np.random.default_rng(seed)
    groups = {}
    for number, position in enumerate(positions, start=1):
        node = np.argmin(np.linalg.norm(mesh.points - position, axis=1))
        groups[f"{number}"] = mesh.boundary_facets[(mesh.boundary_facets == node).any(axis=1)]
    mesh = invlift.mesh_from_arrays(mesh.points, mesh.cells, boundaries=groups)
    x, y = mesh.points.T
    heart, cavity = np.hypot(x, y) < 0.17, np.hypot(x + 0.04, y - 0.03) < 0.08
    field = np.log(np.where(cavity, 0.0006, np.where(heart, 0.004, 0.01)))
    impedances = 2.0 * np.exp(0.5 * rng.standard_normal(len(positions)))
    # As of the tank.
    truth = resistances(mesh, list(groups), field, impedances, refine_solution=2)
    size = len(positions)
    pairs = [(k, k % size + 1) for k in range(1, size + 1)]
    table = [(*p, *q) for k, p in enumerate(pairs) for q in pairs[k + 2 :] if not {*p} & {*q}]
    values = voltages(truth, table)
    current, noise = 0.5, 0.01 * np.abs(values) + 2e-4  # mA; the noise in ohm
    values += noise * rng.standard_normal(len(table))
    lines = [f"{size}# Number of electrodes", "#x y", *(f"{x:.5f} {y:.5f}" for x, y in positions)]
    lines += [f"{len(table)}# Number of data", "#a b m n i/mA u/mV err/%"]
    for pattern, value, sd in zip(table, values, noise, strict=True):
        error = 100.0 * sd / abs(value)
        lines.append(f"{' '.join(map(str, pattern))} {current} {current * value:.5g} {error:.3g}")
    (HERE / "trunk.ohm").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    invlift.enable_x64()
    make_tank()
    make_trunk()
