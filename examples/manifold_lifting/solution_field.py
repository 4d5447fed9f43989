"""Posterior standard deviation of the solution, and efficiency against noise: 207 unknowns.

    python examples/manifold_lifting/solution_field.py            # sample, save, plot
    python examples/manifold_lifting/solution_field.py --plot     # plot what was saved

Figure 7 of the first version of the paper (Au, Graham & Thiery 2020, arXiv:2003.03950, section
5.3): -div(exp(phi) grad u) = f with u = 0 on the rim, 207 nodal values of phi, five sensors, known
noise.  Left, the posterior standard deviation of u, small at the sensors; right, the efficiency of
constrained HMC and of HMC with the identity as its metric, against the scale of the noise.

The paper does not give its mesh, source, sensors or true field.  Here: the unit disc with 207
nodes, f = 100, five sensors on two circles, and a draw of the prior of examples/disc.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.spatial import Delaunay

import invlift
from invlift.app.studies.compare import compare
from invlift.posterior.figures.style import CHAIN_COLOURS, FAINT, STYLE
from invlift.samplers.kernels import HMC, ConstrainedHMC

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIELD, EFFICIENCY = HERE / "data" / "solution_field.csv", HERE / "data" / "solution_field_ess.csv"
PICTURE = ROOT / "docs" / "images" / "solution_field.png"

NUM_NODES, NUM_RIM = 207, 44
ANGLES = 2 * np.pi * np.arange(5) / 5
SENSORS = np.array([0.35, 0.65, 0.35, 0.65, 0.5])[:, None] * np.column_stack(
    [np.cos(ANGLES), np.sin(ANGLES)]
)
#: Noise of the left panel, and of the right one, in the unit of u.
SCALE, SCALES = 0.01, (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
METHODS = {"C-HMC": ConstrainedHMC(persistence=0.0), "HMC, identity": HMC(metric="identity")}
SECONDS, CHAINS, WARMUP, SEED = 10.0, 4, 500, 20260101


def disc() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The unit disc with 207 nodes: (207, 2) points, (M, 3) triangles, (44, 2) edges of the rim."""
    angle = 2 * np.pi * np.arange(NUM_RIM) / NUM_RIM
    rim = np.column_stack([np.cos(angle), np.sin(angle)])
    num = NUM_NODES - NUM_RIM
    # Vogel's spiral: as even as points of any number can be.
    turn = np.pi * (3 - np.sqrt(5)) * np.arange(num)
    radius = 0.93 * np.sqrt((np.arange(num) + 0.5) / num)
    inside = radius[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    points = np.concatenate([rim, inside])
    edges = np.column_stack([np.arange(NUM_RIM), (np.arange(NUM_RIM) + 1) % NUM_RIM])
    return points, Delaunay(points).simplices, edges


def problem(scale: float):
    """The problem at a scale of the noise, with the same field and normal draws at every scale.

    Parameters
    ----------
    scale : float
        In the unit of u.

    Returns
    -------
    InverseProblem
    """
    points, cells, edges = disc()
    mesh = invlift.mesh_from_arrays(points, cells, boundaries={"rim": edges})
    sensors = invlift.sensors_from_arrays(SENSORS, np.zeros(len(SENSORS)))
    forward = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=100.0, dirichlet={"rim": 0.0}
    )
    prior = invlift.matern_prior(mesh, range=1.0, std=1.0, smoothness=2.0)
    rng = np.random.default_rng(7)
    white = rng.normal(size=prior.num_white)
    clean = np.asarray(forward(prior.transform(white)))
    observed = clean + scale * rng.normal(size=len(clean))
    return invlift.inverse_problem(forward, prior, invlift.known_noise(scale), observed)


def run() -> None:
    """Sample, and save the moments of u and a table of efficiencies."""
    result = invlift.sample(problem(SCALE), chains=CHAINS, warmup=WARMUP, draws=1000, seed=SEED)
    posterior = invlift.Posterior(result.chains)
    print(posterior.verdict())
    parts = [chain.moments["solution"] for chain in result.chains]
    moments = parts[0]
    for part in parts[1:]:
        moments = moments.merge(part)
    table = np.column_stack([disc()[0], moments.mean, moments.sd])
    np.savetxt(
        FIELD, table, delimiter=",", header="x,y,solution_mean,solution_sd", comments="", fmt="%.9g"
    )
    with EFFICIENCY.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["method", "scale", "ess_bulk", "ess_per_second", "r_hat", "step_size"])
        for scale in SCALES:
            for row in compare(
                problem(scale), METHODS, budget=SECONDS, chains=CHAINS, warmup=WARMUP, seed=SEED
            ):
                values = (row.ess_bulk, row.ess_per_second, row.r_hat, row.step_size)
                writer.writerow([row.method, scale, *(f"{value:.6g}" for value in values)])
                print(
                    f"{row.method:>14}, sigma {scale:g}: {row.ess_per_second:.3g} effective draws "
                    f"per second, R-hat {row.r_hat:.3f}, step {row.step_size:.2g}",
                    flush=True,
                )


def plot() -> None:
    """Draw what was saved."""
    points, cells, _ = disc()
    sd = np.genfromtxt(FIELD, delimiter=",", names=True)["solution_sd"]
    with EFFICIENCY.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        drawn = left.tripcolor(*points.T, cells, sd, shading="gouraud", cmap="viridis")
        left.plot(*SENSORS.T, "*", color="#f0e442", markersize=11, markeredgecolor="black")
        left.set_aspect("equal")
        left.set_axis_off()
        left.set_title(f"Posterior standard deviation of u, sigma = {SCALE:g}")
        figure.colorbar(drawn, ax=left, shrink=0.85)
        for colour, method in zip(CHAIN_COLOURS, METHODS, strict=False):
            own = [row for row in rows if row["method"] == method]
            scales = [float(row["scale"]) for row in own]
            values = [float(row["ess_per_second"]) for row in own]
            right.plot(scales, values, color=colour, label=method)
            for scale, value, row in zip(scales, values, own, strict=True):
                fill = colour if float(row["r_hat"]) <= 1.01 else "white"
                right.plot(scale, value, "o", color=colour, markerfacecolor=fill)
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xlabel("scale sigma of the noise, known")
        right.set_title("Effective draws per second (hollow: R-hat above 1.01)")
        right.grid(color=FAINT, alpha=0.3, linewidth=0.5)
        right.legend()
        figure.savefig(PICTURE, dpi=160)


def main() -> None:
    """Sample if asked to, and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true", help="from saved data alone")
    options = parser.parse_args()
    invlift.enable_x64()
    if not options.plot:
        run()
    plot()


if __name__ == "__main__":
    main()
