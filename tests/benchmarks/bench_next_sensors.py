"""Are the places of ``next_sensors`` better than a regular grid and than chance?

    python tests/benchmarks/bench_next_sensors.py [disc|plate] [--truths 12] [--chains 2]

A body, four sensors, and noise of 0.3 (the solution goes up to about 35 on the disc, 60 on the
plate).  For each of several fields drawn from the prior, some more places are chosen from the draws
of a run with the four, on a regular grid, at random, and on the disc on a ring turned into the gaps
of the four; readings are simulated there, and the run is made again with them.  Prints how much of
the variance that the four have left is gone, and the error of the mean, over the body.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import invlift

MESHES, SIGMA = Path(__file__).parents[2] / "meshes", 0.3


class Body(NamedTuple):
    """Conditions, range of the prior, the first sensors, and patterns of further ones."""

    conditions: dict
    correlation_range: float
    first: list
    patterns: dict


def polar(radii, angles):
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


def grid(xs, ys):
    return np.stack([each.ravel() for each in np.meshgrid(xs, ys)], axis=1)


BODIES = {
    "disc": Body(
        {"source": 100.0, "dirichlet": {"rim": 0.0}},
        1.0,
        [[0.5, 0.0], [-0.25, 0.43], [-0.25, -0.43], [0.0, 0.1]],
        {
            "grid": grid([-0.5, 0.5], [-0.5, 0.5]),
            "ring": polar(np.full(4, 0.6), 2.0 * np.pi * (np.arange(4) / 4 + 1 / 6)),
        },
    ),
    # Of the example, heated on the left: a body without symmetry.
    "plate": Body(
        {
            "source": 0.0,
            "dirichlet": {"hole_1": 60.0},
            "neumann": {"left": 20.0},
            "robin": {"hole_2": (10.0, 15.0), "top": (0.5, 20.0), "bottom": (0.5, 20.0)},
        },
        0.7,
        [[0.2, 0.5], [0.9, 0.8], [1.1, 0.2], [1.8, 0.6]],
        {"grid": grid([1 / 3, 1.0, 5 / 3], [0.25, 0.75])},
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("body", nargs="?", choices=BODIES, default="disc")
    parser.add_argument("--truths", type=int, default=12)
    parser.add_argument("--chains", type=int, default=2)
    settings = parser.parse_args()
    body, first = BODIES[settings.body], np.array(BODIES[settings.body].first)
    more = len(body.patterns["grid"])
    invlift.enable_x64()
    mesh, rng = invlift.read_mesh(MESHES / f"{settings.body}.msh"), np.random.default_rng(0)
    prior = invlift.matern_prior(mesh, range=body.correlation_range, std=1.0, smoothness=2.0)
    areas = mesh.mean_over(None, "node").toarray()[0]

    def posterior_of(places, truth, seed):
        sensors = invlift.sensors_from_arrays(places, np.zeros(len(places)))
        forward = invlift.assemble_poisson(mesh, invlift.locate(mesh, sensors), **body.conditions)
        noise = SIGMA * np.random.default_rng(seed).standard_normal(len(places))
        values = np.asarray(forward(truth)) + noise
        sensors = invlift.sensors_from_arrays(places, values)
        problem = invlift.inverse_problem(forward, prior, invlift.known_noise(SIGMA), values)
        run = invlift.sample(problem, chains=settings.chains, warmup=100, draws=400, seed=seed)
        return problem.posterior(run)

    def score(posterior, truth):
        fields = posterior.fields()
        error = fields["log_conductivity_mean"] - np.asarray(truth)
        return areas @ fields["log_conductivity_sd"] ** 2, areas @ error**2

    def at_random():
        """Anywhere in the body, all places alike."""
        cells = rng.choice(mesh.num_cells, more, p=mesh.volumes / mesh.volumes.sum())
        shares = rng.dirichlet(np.ones(3), more)
        return np.einsum("kc,kcd->kd", shares, mesh.points[mesh.cells[cells]])

    found = {name: [] for name in ("chosen", *body.patterns, "chance", "expected")}
    for seed in range(settings.truths):
        truth = prior.transform(jnp.asarray(rng.standard_normal(mesh.num_nodes)))
        before = posterior_of(first, truth, seed)
        best = before.next_sensors(more).best
        further = {"chosen": best[["x", "y"]].to_numpy(), **body.patterns, "chance": at_random()}
        variance, error = score(before, truth)
        for name, places in further.items():
            after = score(posterior_of(np.concatenate([first, places]), truth, seed), truth)
            found[name].append((1.0 - after[0] / variance, after[1] / error))
        found["expected"].append((best["share"].iloc[-1], np.nan))
        print(
            seed,
            {name: np.round(rows[-1], 3).tolist() for name, rows in found.items()},
            flush=True,
        )
    for name, rows in found.items():
        (gone, error), spread = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
        spread = spread / np.sqrt(len(rows))
        print(
            f"{name}: {gone:.3f} ({spread[0]:.3f}) of the variance gone, squared error "
            f"{error:.2f} ({spread[1]:.2f}) of that before"
        )


if __name__ == "__main__":
    main()
