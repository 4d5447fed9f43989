"""The truth behind the readings, and a picture of what was found of it.

Run as a script it makes ``sensors.csv`` again, and draws ``insert.png`` of a finished run.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import invlift

HERE = Path(__file__).parent
#: Least and largest x and y of the insert, in m, and its conductivity and that around it, W/(m K).
INSERT, STEEL, AROUND = ((0.85, 1.2), (0.3, 0.65)), 50.0, 16.0


def places():
    """A grid of sensors, 0.15 m apart, without those in the holes."""
    x, y = np.meshgrid(np.linspace(0.1, 1.9, 9), np.linspace(0.1, 0.9, 5))
    points = np.column_stack([x.ravel(), y.ravel()])
    holes = ((0.55, 0.55, 0.16), (1.5, 0.42, 0.22))
    away = [np.hypot(*(points - (x, y)).T) - radius for x, y, radius in holes]
    return points[np.min(away, axis=0) > 0.03]


def make_sensors(seed=5):
    """Simulate the readings of a plate whose insert has sharp edges."""
    spec = invlift.read_problem(HERE / "problem.toml")
    mesh = invlift.read_mesh(spec.mesh.file)
    points, middles = places(), mesh.points[mesh.cells].mean(axis=1)
    low, high = np.transpose(INSERT)
    is_steel = np.all((low <= middles) & (middles <= high), axis=1)
    sensors = invlift.sensors_from_arrays(points, np.zeros(len(points)))
    plate = invlift.assemble_poisson(
        mesh,
        invlift.locate(mesh, sensors),
        source=0.0,
        dirichlet=spec.pde.dirichlet,
        neumann=spec.pde.neumann,
        robin={name: (each.coefficient, each.ambient) for name, each in spec.pde.robin.items()},
        location="cells",
        refine_solution=2,
    )
    values = np.asarray(plate(np.log(np.where(is_steel, STEEL, AROUND))))
    values = values + spec.noise.sigma * np.random.default_rng(seed).standard_normal(len(values))
    rows = [f"{x:.4g},{y:.4g},{value:.2f}" for x, y, value in np.column_stack([points, values])]
    (HERE / "sensors.csv").write_text("\n".join(["x,y,value", *rows]) + "\n")


def draw(folder=HERE / "results/insert"):
    """The probability of steel at each place, the sensors, and the outline of the insert."""
    posterior = invlift.load(folder)
    mesh, fields = posterior.mesh, posterior.fields()
    name = next(each for each in fields if "above" in each)
    figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    field = {"shading": "gouraud", "cmap": "magma_r"}
    drawn = ax.tripcolor(*mesh.points.T, mesh.cells, fields[name], **field)
    figure.colorbar(drawn, label="probability of more than 27 W/(m K)")
    (left, right), (low, high) = INSERT
    ax.plot([left, right, right, left, left], [low, low, high, high, low], "c", lw=2)
    ax.plot(*places().T, "k.", ms=3)
    ax.set_aspect("equal")
    figure.savefig(HERE / "insert.png", dpi=110)


if __name__ == "__main__":
    invlift.enable_x64()
    make_sensors()
    if (HERE / "results/insert/posterior.nc").exists():
        draw()
