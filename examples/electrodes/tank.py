"""A tank with twelve electrodes: conductivity, contact impedances and noise from voltages.

``invlift run examples/electrodes/tank.py`` samples the posterior; run as a script it makes
``voltages.csv`` again.
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

import invlift

HERE = Path(__file__).parent
NUM, SHARE = 12, 0.5  # electrodes, and the part of the rim that they cover


def tank():
    """The unit disc with the electrodes as boundary groups."""
    disc = invlift.read_mesh(HERE / "../../meshes/disc.msh")
    middles = disc.points[disc.boundary_facets].mean(axis=1)
    turn = np.arctan2(middles[:, 1], middles[:, 0]) / (2 * np.pi) % 1.0 * NUM
    groups = {
        f"electrode_{k}": disc.boundary_facets[(turn >= k) & (turn < k + SHARE)] for k in range(NUM)
    }
    return invlift.mesh_from_arrays(disc.points, disc.cells, boundaries=groups)


def equation(mesh, table):
    """Voltages m - n while a unit current enters at a and leaves at b."""
    unit = np.eye(NUM)
    pairs, start = np.unique(table[:, :2], axis=0, return_index=True)
    pairs = pairs[np.argsort(start)]
    voltages = []
    for pair in pairs:
        m, n = table[(table[:, :2] == pair).all(axis=1), 2:].T
        voltages.append(unit[m] - unit[n])
    currents = unit[pairs[:, 0]] - unit[pairs[:, 1]]
    return invlift.electrode_model(mesh, list(mesh.boundaries), currents, voltages)


def inclusions(points):
    """Log-conductivity of the truth: a good conductor and a bad one."""
    x, y = points.T
    good, bad = np.hypot(x - 0.35, y - 0.2) < 0.27, np.hypot(x + 0.35, y + 0.3) < 0.25
    return 1.5 * good - 1.5 * bad


def problem():
    """The inverse problem."""
    mesh = tank()
    data = np.loadtxt(HERE / "voltages.csv", delimiter=",", skiprows=1)
    unknowns = {
        "log_conductivity": invlift.matern_prior(
            mesh, correlation_range=0.6, std=1.0, smoothness=2.0, boundary="robin"
        ),
        "impedance": invlift.lognormal(location=np.full(NUM, np.log(0.05)), scale=0.5),
    }
    model = equation(mesh, data[:, :4].astype(int))
    noise = invlift.gaussian_noise(invlift.lognormal(median=2e-3, factor=3.0))
    return invlift.inverse_problem(model, unknowns, noise, data[:, 4])


def make_voltages(seed=3):
    """Simulate the readings: neighbours drive, and all neighbours are read."""
    mesh, rng = tank(), np.random.default_rng(seed)
    steps = np.arange(NUM - 1)
    table = np.array([(a, a + 1, m, m + 1) for a in steps for m in steps])
    impedances = 0.05 * np.exp(0.4 * rng.standard_normal(NUM))
    truth = jnp.concatenate([jnp.asarray(inclusions(mesh.points)), jnp.asarray(impedances)])
    values = np.asarray(equation(mesh, table)(truth)) + 1e-3 * rng.standard_normal(len(table))
    rows = [f"{a},{b},{m},{n},{v:.6f}" for (a, b, m, n), v in zip(table, values, strict=True)]
    (HERE / "voltages.csv").write_text("\n".join(["a,b,m,n,value", *rows]) + "\n")


if __name__ == "__main__":
    invlift.enable_x64()
    make_voltages()
