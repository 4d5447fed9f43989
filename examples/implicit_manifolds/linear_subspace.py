"""A Gaussian in a linear subspace, where mean and covariance are known.

The first experiment of M. A. Brubaker, M. Salzmann & R. Urtasun (2012), "A family of MCMC methods
on implicitly defined manifolds", AISTATS, poster: a normal distribution restricted to the subspace
on which a linear constraint holds.  Means and covariances of the draws of four constrained kernels
are compared with the exact ones.

    python examples/implicit_manifolds/linear_subspace.py           # half a minute
    python examples/implicit_manifolds/linear_subspace.py --plot    # from the saved data

Written are `data/linear_subspace*.csv` beside this file and `docs/images/linear_subspace.png`.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

import invlift
from invlift.files.atomic import replace_on_success
from invlift.posterior.figures.style import CHAIN_COLOURS, DOTS_PER_INCH, INK, STYLE
from invlift.posterior.statistics.diagnostics import diagnose
from invlift.samplers.kernels import (
    ConstrainedHMC,
    ConstrainedLangevin,
    ConstrainedRandomWalk,
    FixedConstrainedHMC,
    Kernel,
)

DATA = Path(__file__).resolve().parent / "data"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "linear_subspace.png"
TABLE, DRAWS = "linear_subspace.csv", "linear_subspace_draws.csv"

#: Dimension of the space, and number of constraints.
DIMENSION, NUM_CONSTRAINTS = 5, 2
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 500, 5_000
#: Draws of each kernel in the picture.
NUM_SHOWN = 400

#: By their names on the poster, and the library's default kernel.
KERNELS: dict[str, Kernel] = {
    "CHMC, quarter periods": ConstrainedHMC(splitting="stormer-verlet", persistence=0.0),
    "CHMC (L = 3)": FixedConstrainedHMC(splitting="stormer-verlet"),
    "CLangevin": ConstrainedLangevin(),
    "CMetropolis": ConstrainedRandomWalk(),
}


class Restricted(NamedTuple):
    """N(mean, covariance) restricted to {q : matrix q = offset}.

    Attributes
    ----------
    mean : (Q,)
    covariance : (Q, Q)
    matrix : (d, Q)
    offset : (d,)
    """

    mean: np.ndarray
    covariance: np.ndarray
    matrix: np.ndarray
    offset: np.ndarray

    def target(self) -> invlift.ManifoldProblem:
        """The density on the manifold {matrix q - offset = 0}."""
        precision = np.linalg.inv(self.covariance)

        def constraint(position):
            return self.matrix @ position - self.offset

        def log_density(position):
            return -0.5 * (position - self.mean) @ precision @ (position - self.mean)

        return invlift.manifold_problem(constraint, log_density, {"position": self.mean.shape})

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Exact mean (Q,) and covariance (Q, Q) on the subspace.

        m + K (b - B m) and C - K B C with K = C B^T (B C B^T)^-1.  On a subspace the restricted
        density is the conditional one: the Jacobian B of the constraint is the same everywhere.
        """
        cross = self.covariance @ self.matrix.T
        gain = np.linalg.solve(self.matrix @ cross, cross.T).T
        mean = self.mean + gain @ (self.offset - self.matrix @ self.mean)
        return mean, self.covariance - gain @ cross.T

    def principal_axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations (Q - d,) and axes (Q, Q - d) of the exact covariance, falling."""
        variances, axes = np.linalg.eigh(self.moments()[1])
        kept = np.arange(len(variances) - 1, len(self.offset) - 1, -1)
        return np.sqrt(variances[kept]), axes[:, kept]

    def starts(self, num_chains: int, seed: int) -> np.ndarray:
        """Positions on the subspace, (num_chains, Q), two standard deviations wide."""
        deviations, axes = self.principal_axes()
        scores = np.random.default_rng(seed).normal(size=(num_chains, len(deviations)))
        return self.moments()[0] + 2.0 * (scores * deviations) @ axes.T


def random_problem(seed: int = 1) -> Restricted:
    """Correlated, with standard deviations from about 0.5 to 1.5, and two random constraints."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(DIMENSION, DIMENSION)))[0]
    covariance = axes * np.linspace(0.5, 1.5, DIMENSION) ** 2 @ axes.T
    matrix = rng.normal(size=(NUM_CONSTRAINTS, DIMENSION))
    return Restricted(rng.normal(size=DIMENSION), covariance, matrix, np.array([1.0, -0.5]))


def draw(problem: Restricted, kernel: Kernel, num_draws: int = NUM_DRAWS, seed: int = 1):
    """Draws (chains, num_draws, Q) and the chains' mean acceptance rate."""
    plan = invlift.Plan(kernel, NUM_WARMUP, num_draws)
    run = invlift.run_chains(problem.target(), plan, problem.starts(NUM_CHAINS, seed), seed)
    rate = np.mean([chain.stats["acceptance_rate"] for chain in run.chains])
    return np.stack([chain.draws["position"] for chain in run.chains]), float(rate)


def features(positions: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Entries of q, and products of entries of q - mean: (..., Q) to (..., Q + Q (Q + 1) / 2)."""
    rows, columns = np.triu_indices(positions.shape[-1])
    off = positions - mean
    return np.concatenate([positions, off[..., rows] * off[..., columns]], axis=-1)


def exact_features(problem: Restricted) -> np.ndarray:
    """Exact means of :func:`features`."""
    mean, covariance = problem.moments()
    return np.concatenate([mean, covariance[np.triu_indices(len(mean))]])


def feature_names() -> list[str]:
    """Names of :func:`features`."""
    first, second = (1 + index for index in np.triu_indices(DIMENSION))
    means = [f"E q_{number}" for number in range(1, DIMENSION + 1)]
    return means + [f"cov(q_{i}, q_{j})" for i, j in zip(first, second, strict=True)]


def sample_all(data: Path, seed: int) -> None:
    """Draw by every kernel, print and save how far moments are from the exact ones."""
    problem = random_problem()
    exact, names = exact_features(problem), feature_names()
    _, axes = problem.principal_axes()
    table, shown = [], []
    headings = ("accepted", "ESS %", "R-hat", "means", "covariances")
    print("{:24} {:>9} {:>7} {:>7} {:>7} {:>12}".format("kernel", *headings))
    for name, kernel in KERNELS.items():
        positions, rate = draw(problem, kernel, seed=seed)
        values = features(positions, problem.moments()[0])
        found = diagnose(list(values), name)
        estimates = values.mean(axis=(0, 1))
        errors = values.std(axis=(0, 1)) / np.sqrt(found.ess_mean)
        distances = (estimates - exact) / errors
        share = 100.0 * found.ess_bulk.min() / positions[..., 0].size
        largest = np.abs(distances)
        print(
            f"{name:24} {rate:9.2f} {share:7.1f} {found.r_hat.max():7.3f} "
            f"{largest[:DIMENSION].max():7.1f} {largest[DIMENSION:].max():12.1f}"
        )
        columns = zip(names, exact, estimates, errors, distances, strict=True)
        keys = ("quantity", "exact", "estimate", "standard_error", "distance")
        table += [{"kernel": name} | dict(zip(keys, row, strict=True)) for row in columns]
        scores = (positions - problem.moments()[0]).reshape(-1, DIMENSION) @ axes
        picked = np.linspace(0, len(scores) - 1, NUM_SHOWN).astype(int)
        shown += [{"kernel": name, "first": x, "second": y} for x, y in scores[picked, :2]]
    print("the last two columns: largest distance from the exact value in standard errors")
    write_table(data / TABLE, table)
    write_table(data / DRAWS, shown)


def write_table(path: Path, rows: list[dict]) -> None:
    """Write rows as CSV with six digits."""
    with (
        replace_on_success(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: v if isinstance(v, str) else f"{v:.6g}" for k, v in row.items()})


def read_table(path: Path) -> list[dict]:
    """Rows of a CSV file, as texts."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def plot(data: Path, picture: Path) -> None:
    """Draws along the two longest principal axes, and the exact distribution's ellipses."""
    rows = read_table(data / DRAWS)
    deviations = random_problem().principal_axes()[0][:2]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 2.8), layout="constrained")
        panels = figure.subplots(1, len(KERNELS), sharex=True, sharey=True)
        for axes, name in zip(panels, KERNELS, strict=True):
            points = [(float(r["first"]), float(r["second"])) for r in rows if r["kernel"] == name]
            axes.scatter(*np.transpose(points), s=6, color=CHAIN_COLOURS[0], alpha=0.6, lw=0)
            for probability in (0.5, 0.95):
                width, height = 2.0 * np.sqrt(-2.0 * np.log(1.0 - probability)) * deviations
                axes.add_patch(
                    Ellipse((0.0, 0.0), width, height, fill=False, color=INK, linewidth=1.0)
                )
            axes.set_aspect("equal")
            axes.set_title(name)
            axes.set_xlabel("first principal axis")
        panels[0].set_ylabel("second principal axis")
        figure.suptitle(
            "Gaussian in a subspace of three dimensions: draws, and ellipses that hold 50 % and "
            "95 % of the exact distribution",
            x=0.01, ha="left", fontsize=10, color=INK,
        )  # fmt: skip
        with replace_on_success(picture) as temporary:
            figure.savefig(temporary, dpi=DOTS_PER_INCH, format="png")


def main() -> None:
    """Sample, compare, save and draw; or only draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true", help="draw the saved data, do not sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    invlift.enable_x64()
    if not options.plot:
        sample_all(options.data, options.seed)
    plot(options.data, options.picture)


if __name__ == "__main__":
    main()
