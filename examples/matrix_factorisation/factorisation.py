"""Ratings predicted by a matrix factorisation, with orthonormal factors and with free ones.

Ratings of n users for m items are entries of U diag(s) V^T and normal noise.  U, (n, r), and V,
(m, r), have orthonormal columns, s has r entries: the model of M. A. Brubaker, M. Salzmann &
R. Urtasun (2012), "A family of MCMC methods on implicitly defined manifolds", AISTATS, poster,
"Collaborative filtering", whose density is that of the readings alone.  Beside it stands U V^T with
free U and V with a standard normal prior, as without one there is no posterior
(Salakhutdinov & Mnih 2008, "Probabilistic matrix factorization").  The ratings are simulated, from
known factors of rank 5.

    python examples/matrix_factorisation/factorisation.py           # some minutes for each method
    python examples/matrix_factorisation/factorisation.py --plot    # from the saved table

Written are `scores.csv` and `scores.png` beside this file.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.figure import Figure

import invlift
from invlift.posterior.figures.style import CHAIN_COLOURS, DOTS_PER_INCH, INK, STYLE
from invlift.posterior.statistics.diagnostics import diagnose

FOLDER = Path(__file__).resolve().parent
TABLE, PICTURE = "scores.csv", "scores.png"

#: Users, items, and the rank of what is simulated.
NUM_USERS, NUM_ITEMS, RANK = 60, 40, 5
#: Ratings that are known, and others that are to be predicted; standard deviation of their noise.
NUM_KNOWN, NUM_HELD_OUT, NOISE = 1200, 600, 0.5
RANKS = (5, 10, 15)
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 2, 400, 600
#: Singular values are of this order: with s in this unit all unknowns move about as far.
UNIT = np.sqrt(NUM_USERS * NUM_ITEMS / RANK)


def simulate(seed: int = 1) -> dict:
    """Rows, columns and ratings: ``known`` and ``held_out``."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(NUM_USERS, RANK)))[0]
    right = np.linalg.qr(rng.normal(size=(NUM_ITEMS, RANK)))[0]
    ratings = UNIT * (left * np.linspace(1.3, 0.7, RANK)) @ right.T
    ratings += NOISE * rng.normal(size=ratings.shape)
    order = rng.permutation(ratings.size)
    parts = {"known": order[:NUM_KNOWN], "held_out": order[NUM_KNOWN : NUM_KNOWN + NUM_HELD_OUT]}
    return {
        name: {"rows": at // NUM_ITEMS, "columns": at % NUM_ITEMS, "ratings": ratings.ravel()[at]}
        for name, at in parts.items()
    }


def predict(U, s, V, at):
    """Entries of U diag(s) V^T."""
    return jnp.sum(U[at["rows"]] * s * V[at["columns"]], axis=1)


def log_density(U, s, V, data):
    """Of the known ratings; flat on the manifold and in s."""
    known = data["known"]
    return -0.5 * jnp.sum((known["ratings"] - predict(U, UNIT * s, V, known)) ** 2) / NOISE**2


def held_out(U, s, V, data):
    """What is kept of a draw beside U, s and V."""
    return {"held_out": predict(U, UNIT * s, V, data["held_out"])}


def constrained(rank: int, data: dict) -> tuple:
    """U and V with orthonormal columns: problem and kernel."""
    unknowns = {
        "U": invlift.stiefel(NUM_USERS, rank),
        "s": (rank,),
        "V": invlift.stiefel(NUM_ITEMS, rank),
    }
    problem = invlift.manifold_problem(None, log_density, unknowns, data, derived=held_out)
    kernel = invlift.KERNELS["chmc-fixed"](num_steps=20, splitting="stormer-verlet")
    return problem, kernel


def free(rank: int, data: dict) -> tuple:
    """U and V with independent standard normal entries: problem and kernel."""

    def model(U, V):
        return predict(U, 1.0, V, data["known"]), {"held_out": predict(U, 1.0, V, data["held_out"])}

    unknowns = {
        "U": invlift.normal(np.zeros((NUM_USERS, rank)), 1.0),
        "V": invlift.normal(np.zeros((NUM_ITEMS, rank)), 1.0),
    }
    noise = invlift.known_noise(NOISE)
    problem = invlift.inverse_problem(model, unknowns, noise, data["known"]["ratings"])
    return problem, invlift.KERNELS["hmc"](num_steps=30)


METHODS = {"constrained": constrained, "free": free}


def score(run, ratings: np.ndarray) -> dict:
    """Of the predictions of held-out ratings, and of the chains that made them."""
    chains = [chain.draws["held_out"] for chain in run.chains]
    draws = np.concatenate(chains)
    densities = np.exp(-0.5 * ((ratings - draws) / NOISE) ** 2) / (NOISE * np.sqrt(2.0 * np.pi))
    found = diagnose(chains, "held_out")
    return {
        "rmse": float(np.sqrt(np.mean((ratings - draws.mean(axis=0)) ** 2))),
        "log_score": float(np.mean(np.log(np.mean(densities, axis=0)))),
        "ess": float(np.median(found.ess_mean)),
        "r_hat": float(np.quantile(found.r_hat, 0.95)),
    }


def compare(folder: Path, seed: int) -> None:
    """Sample with every method and rank, print and save the scores."""
    data = simulate(seed)
    rows = []
    for name, build in METHODS.items():
        for rank in RANKS:
            problem, kernel = build(rank, data)
            start = time.process_time()
            run = invlift.sample(
                problem, kernel, chains=NUM_CHAINS, warmup=NUM_WARMUP, draws=NUM_DRAWS, seed=seed
            )
            row = {"method": name, "rank": rank} | score(run, data["held_out"]["ratings"])
            row["seconds"] = time.process_time() - start
            rows.append(row)
            print(
                f"{name:11} r = {rank:2}  RMSE {row['rmse']:.3f}  log score {row['log_score']:.3f}"
                f"  ESS {row['ess']:.0f}  R-hat {row['r_hat']:.3f}  {row['seconds']:.0f} s",
                flush=True,
            )
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def plot(folder: Path) -> None:
    """RMSE and log score against the rank."""
    with (folder / TABLE).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 3.2), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, key, title in zip(
            panels,
            ("rmse", "log_score"),
            ("RMSE of held-out ratings", "mean log density of a held-out rating"),
            strict=True,
        ):
            for colour, name in zip(CHAIN_COLOURS, METHODS, strict=False):
                own = [row for row in rows if row["method"] == name]
                ranks, values = ([float(row[k]) for row in own] for k in ("rank", key))
                axes.plot(ranks, values, "o-", color=colour, label=name)
            axes.set_xticks(sorted({int(row["rank"]) for row in rows}))
            axes.set_xlabel("rank r of the model; of the data 5")
            axes.set_title(title)
        panels[0].axhline(NOISE, color=INK, linestyle=":", label="noise of the ratings")
        panels[0].legend()
        figure.savefig(folder / PICTURE, dpi=DOTS_PER_INCH, format="png")


def main() -> None:
    """Sample and draw; or only draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true", help="draw the saved table, do not sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the table and picture")
    options = parser.parse_args()
    invlift.enable_x64()
    if not options.plot:
        compare(options.folder, options.seed)
    plot(options.folder)


if __name__ == "__main__":
    main()
