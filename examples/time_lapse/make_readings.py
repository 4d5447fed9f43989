"""Simulate the readings of the tank before and after a plume has come, ``voltages.csv``."""

from pathlib import Path

import numpy as np

import invlift

HERE = Path(__file__).parent
SIGMA = 2e-3


def fields(mesh):
    """Log-conductivities of both surveys: a bad conductor, and a plume beside it later."""
    x, y = mesh.points.T
    before = -1.5 * (np.hypot(x + 0.35, y + 0.3) < 0.25)
    plume = np.exp(-0.5 * ((x - 0.3) ** 2 + (y - 0.15) ** 2) / 0.2**2)
    return {"before": before, "after": before + 0.8 * plume}


def main(seed=5):
    """Neighbours drive and all neighbours are read, in two surveys with the same contacts."""
    mesh, rng = invlift.read_mesh(HERE / "../../meshes/tank.msh"), np.random.default_rng(seed)
    electrodes, steps = [f"electrode_{k}" for k in range(1, 13)], range(1, 12)
    pairs = [np.eye(12)[k - 1] - np.eye(12)[k] for k in steps]
    table = [(a, a + 1, m, m + 1) for a in steps for m in steps]
    impedances = 0.05 * np.exp(0.4 * rng.standard_normal(12))
    # Twice finer than the mesh that the readings are explained with.
    model = invlift.electrode_model(
        mesh, electrodes, pairs, pairs, impedance=impedances, refine_solution=2
    )
    lines = ["a,b,m,n,survey,value"]
    for survey, field in fields(mesh).items():
        values = np.asarray(model(field)) + SIGMA * rng.standard_normal(len(table))
        for pattern, value in zip(table, values, strict=True):
            lines.append(f"{','.join(map(str, pattern))},{survey},{value:.6f}")
    (HERE / "voltages.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
