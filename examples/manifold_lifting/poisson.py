"""Efficiency against noise on the disc: the Poisson experiment of Au, Graham & Thiery (2023).

    python examples/manifold_lifting/poisson.py            # run what data/poisson.csv lacks, plot
    python examples/manifold_lifting/poisson.py --plot     # plot what it holds

Figure 8 of the paper (section 6.5): smallest effective sample size per second, and largest R-hat,
over the mean and standard deviation of the log-conductivity and the unknown noise scale, against
the scale s of the noise in the data.  The paper's range of s, 0.01 to 1, is extended to 1e-5, and
its methods by others that this library has for a density in hundreds of unknowns.  What takes hours
there takes some two hours on two cores; nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import csv
import math
from dataclasses import asdict
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import invlift
from invlift.app.studies.compare import compare
from invlift.posterior.figures.style import CHAIN_COLOURS, FAINT, STYLE
from invlift.posterior.statistics.comparison import Efficiency
from invlift.samplers.kernels import HMC, NUTS, ConstrainedHMC

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DATA = HERE / "data" / "poisson.csv"
PICTURE = ROOT / "docs" / "images" / "poisson.png"

#: The paper's scales and those below.
PAPER = (1e-2, 10**-1.5, 1e-1, 10**-0.5, 1.0)
SCALES = (1e-5, 1e-4, 1e-3, *PAPER)
#: Methods on the manifold: the paper's two solvers, in its splitting, and this library's default.
#: Methods on the density: dynamic HMC with both metrics, as in the paper.
METHODS = {
    "C-HMC, Newton": ConstrainedHMC(
        retraction="newton", splitting="stormer-verlet", persistence=0.0
    ),
    "C-HMC, symmetric Newton": ConstrainedHMC(
        retraction="symmetric-newton", splitting="stormer-verlet", persistence=0.0
    ),
    "C-HMC, default": ConstrainedHMC(),
    "NUTS, diagonal": NUTS(metric="diagonal"),
    "NUTS, dense": NUTS(metric="dense"),
    "HMC, identity": HMC(metric="identity"),
    "MAMS": "mams",
    "MALA": "mala",
    "pCN": "pcn",
    "elliptical slice": "elliptical-slice",
    "gpCN": "gpcn",
    "MALA, Laplace": "laplace-mala",
    "pd-RWM": "pd-rwm",
    "smMALA": "smmala",
    "pd-MALA": "pd-mala",
    "RM-HMC, Fisher": "rmhmc",
}
#: Time of each chain, s.
SECONDS, CHAINS, WARMUP, SEED = 8.0, 4, 500, 20260101
#: Standard normal draws behind the readings of examples/disc: 0.01 times these are in its table.
NOISE = np.loadtxt(HERE / "data" / "disc_noise.csv")


def problem(scale: float):
    """The disc example with its readings at another noise scale; the scale is unknown.

    Parameters
    ----------
    scale : float
        Of the noise in the data, in the unit of the readings.

    Returns
    -------
    InverseProblem
    """
    mesh = invlift.read_mesh(ROOT / "meshes" / "disc.msh")
    sensors = invlift.read_sensors(ROOT / "examples" / "disc" / "sensors.csv", 2)
    forward = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=100.0, dirichlet={"rim": 0.0}
    )
    prior = invlift.matern_prior(mesh, range=1.0, std=1.0, smoothness=2.0)
    observed = sensors.values + (scale - 0.01) * NOISE
    return invlift.inverse_problem(
        forward, prior, invlift.gaussian_noise(invlift.lognormal(0.0, 3.0)), observed
    )


def run(methods, seconds: float) -> None:
    """Add to the saved data every method and scale that it lacks.

    Parameters
    ----------
    methods : sequence of str
        Keys of ``METHODS``.
    seconds : float
        Time of each chain.
    """
    done = {(row["method"], row["scale"]) for row in read()}
    for method in methods:
        for scale in SCALES:
            if (method, scale) in done:
                continue
            named = {method: METHODS[method]}
            (found,) = compare(
                problem(scale), named, budget=seconds, chains=CHAINS, warmup=WARMUP, seed=SEED
            )
            append(scale, found)
            print(
                f"{method:>24}, s = {scale:7.1e}: R-hat {found.r_hat:6.3f}, "
                f"ESS {found.ess_bulk:8.1f}, {found.ess_per_second:8.3f} per second, "
                f"step {found.step_size:.2g}",
                flush=True,
            )


def append(scale: float, found: Efficiency) -> None:
    """Add a row to the saved data."""
    record = {"scale": scale} | asdict(found) | {"ess_per_second": found.ess_per_second}
    is_new = not DATA.exists()
    with DATA.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(record))
        if is_new:
            writer.writeheader()
        writer.writerow(record)


def read() -> list[dict]:
    """The saved data: a dict for each row, with numbers as numbers."""
    if not DATA.exists():
        return []
    with DATA.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    numbers = ("scale", "ess_per_second", "r_hat", "ess_bulk", "step_size")
    return [row | {name: float(row[name]) for name in numbers} for row in rows]


def conclude(rows: list[dict]) -> None:
    """Print by how much C-HMC varies below 0.1, and what it is ahead of every other method."""
    best = {}
    for row in rows:
        if row["method"] == "C-HMC, default" and row["scale"] <= 0.1 * (1 + 1e-9):
            best[row["scale"]] = row["ess_per_second"]
    if not best:
        return
    spread = max(best.values()) / min(best.values())
    print(
        f"C-HMC, default, s <= 0.1: {min(best.values()):.1f} to {max(best.values()):.1f} effective "
        f"draws per second, a factor of {spread:.2f}"
    )
    for method in METHODS:
        if method.startswith("C-HMC"):
            continue
        own = [row for row in rows if row["method"] == method and row["scale"] in best]
        found = [row for row in own if math.isfinite(row["ess_per_second"])]
        ratios = [best[row["scale"]] / row["ess_per_second"] for row in found]
        if own and not found:
            print(f"{method:>20}: no draws in the time at any of {len(own)} scales")
        unconverged = sum(not has_converged(row) for row in own)
        if ratios:
            print(
                f"{method:>20}: at least {min(ratios):8.0f} times as many as this; "
                f"{unconverged} of {len(own)} had not converged"
            )


def has_converged(row: dict) -> bool:
    """Whether R-hat is at most 1.01, of 100 effective draws for each chain or more."""
    return row["r_hat"] <= 1.01 and row["ess_bulk"] >= 100 * int(row["num_chains"])


def excess(row: dict) -> float:
    """R-hat less 1, at least 1e-4, as it is plotted."""
    return max(row["r_hat"] - 1.0, 1e-4)


def plot(rows: list[dict]) -> None:
    """Draw the saved data."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        handles = []
        for index, method in enumerate(METHODS):
            own = sorted((row for row in rows if row["method"] == method), key=lambda r: r["scale"])
            own = [row for row in own if math.isfinite(row["ess_per_second"])]
            if not own:
                continue
            is_constrained = method.startswith("C-HMC")
            colour = CHAIN_COLOURS[index % len(CHAIN_COLOURS)]
            style = {
                "color": colour,
                "linewidth": 2.0 if is_constrained else 0.9,
                "linestyle": ("-", "--", ":")[index // 6],
            }
            scales = [row["scale"] for row in own]
            (line,) = left.plot(scales, [row["ess_per_second"] for row in own], **style)
            right.plot(scales, [excess(row) for row in own], **style)
            for row in own:
                fill = colour if has_converged(row) else "white"
                mark = {"marker": "o", "markersize": 4, "color": colour, "markerfacecolor": fill}
                left.plot(row["scale"], row["ess_per_second"], **mark)
                right.plot(row["scale"], excess(row), **mark)
            handles.append((line, method))
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("scale s of the noise in the data")
            axes.grid(color=FAINT, alpha=0.3, linewidth=0.5)
        left.set_title("Smallest effective draws per second of a chain")
        right.set_title("Largest R-hat, less 1 (full marks: converged)")
        right.axhline(0.01, color=FAINT, linewidth=0.8)
        figure.legend(*zip(*handles, strict=True), loc="outside right center")
        figure.savefig(PICTURE, dpi=160)


def main() -> None:
    """Run what is missing, plot and conclude."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true", help="from saved data alone")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time of each chain")
    options = parser.parse_args()
    if not options.plot:
        invlift.enable_x64()
        run(options.methods, options.seconds)
    rows = read()
    conclude(rows)
    plot(rows)


if __name__ == "__main__":
    main()
