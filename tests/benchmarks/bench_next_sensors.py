"""Are the places of ``next_sensors`` better than a regular pattern and than chance?

    python tests/benchmarks/bench_next_sensors.py [--truths 12] [--more 3]

Disc, four sensors, noise of 0.3 (the solution goes up to about 35).  For each of several fields
drawn from the prior, some more places are chosen from the draws of a run with the four, on a ring,
and at random; readings are simulated there, and the run is made again with them.  Prints how much
of the variance that the four have left is gone, and the error of the mean, over the body.
"""

import argparse
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import invlift

DISC = Path(__file__).parents[2] / "meshes" / "disc.msh"
SIGMA, FIRST = 0.3, np.array([[0.5, 0.0], [-0.25, 0.43], [-0.25, -0.43], [0.0, 0.1]])


def polar(radii, angles):
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truths", type=int, default=12)
    parser.add_argument("--more", type=int, default=3)
    settings = parser.parse_args()
    invlift.enable_x64()
    mesh, rng = invlift.read_mesh(DISC), np.random.default_rng(0)
    prior = invlift.matern_prior(mesh, correlation_range=1.0, std=1.0, smoothness=2.0)
    areas = mesh.mean_over(None, "node").toarray()[0]

    def posterior_of(places, truth, seed):
        sensors = invlift.sensors_from_arrays(places, np.zeros(len(places)))
        forward = invlift.assemble_poisson(
            mesh, invlift.locate(mesh, sensors), source=100.0, dirichlet={"rim": 0.0}
        )
        noise = SIGMA * np.random.default_rng(seed).standard_normal(len(places))
        values = np.asarray(forward(truth)) + noise
        sensors = invlift.sensors_from_arrays(places, values)
        problem = invlift.inverse_problem(forward, prior, invlift.known_noise(SIGMA), values)
        run = invlift.sample(problem, chains=2, warmup=150, draws=500, seed=seed)
        return problem.posterior(run)

    def score(posterior, truth):
        fields = posterior.fields()
        error = fields["log_conductivity_mean"] - np.asarray(truth)
        return areas @ fields["log_conductivity_sd"] ** 2, areas @ error**2

    found = {name: [] for name in ("chosen", "ring", "chance", "expected")}
    for seed in range(settings.truths):
        truth = prior.transform(jnp.asarray(rng.standard_normal(mesh.num_nodes)))
        before = posterior_of(FIRST, truth, seed)
        best = before.next_sensors(settings.more).best
        turn = 2.0 * np.pi * (np.arange(settings.more) / settings.more + 1 / 6)
        further = {
            "chosen": best[["x", "y"]].to_numpy(),
            "ring": polar(np.full(settings.more, 0.6), turn),
            "chance": polar(
                np.sqrt(rng.random(settings.more)) * 0.95, 2.0 * np.pi * rng.random(settings.more)
            ),
        }
        variance, error = score(before, truth)
        for name, places in further.items():
            after = score(posterior_of(np.concatenate([FIRST, places]), truth, seed), truth)
            found[name].append((1.0 - after[0] / variance, after[1] / error))
        found["expected"].append((best["share"].iloc[-1], np.nan))
        print(seed, {name: np.round(rows[-1], 3).tolist() for name, rows in found.items()})
    for name, rows in found.items():
        (gone, error), spread = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
        spread = spread / np.sqrt(len(rows))
        print(
            f"{name}: {gone:.3f} ({spread[0]:.3f}) of the variance gone, squared error "
            f"{error:.2f} ({spread[1]:.2f}) of that before"
        )


if __name__ == "__main__":
    main()
