"""Inverse problems on the unit disc at any resolution, number of sensors and noise."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import invlift
from invlift.posterior.statistics.diagnostics import diagnose

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "meshes"))
from make_disc import disc

#: Standard normal draws behind the example's readings, whose noise is 0.01 times these.
NOISE = np.loadtxt(ROOT / "examples/manifold_lifting/data/disc_noise.csv")


def parts(num_rings: int, points: np.ndarray):
    """Forward map and prior of the disc example on a mesh of so many rings, sensors at points."""
    nodes, cells, rim = disc(num_rings)
    mesh = invlift.mesh_from_arrays(nodes, cells, boundaries={"rim": rim})
    sensors = invlift.sensors_from_arrays(points, np.zeros(len(points)))
    forward = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=100.0, dirichlet={"rim": 0.0}
    )
    return forward, invlift.matern_prior(mesh, range=1.0, std=1.0, smoothness=2.0)


def example(noise: float, num_rings: int = 12):
    """The disc example with unknown noise, its readings at another noise level or mesh."""
    sensors = invlift.read_sensors(ROOT / "examples/disc/sensors.csv", 2)
    forward, prior = parts(num_rings, sensors.points)
    observed = sensors.values + (noise - 0.01) * NOISE
    return invlift.inverse_problem(
        forward, prior, invlift.gaussian_noise(invlift.lognormal(0.0, 3.0)), observed
    )


def simulated(num_rings: int, num_sensors: int, relative_noise: float = 0.005, seed: int = 1):
    """Sensors spread over the disc, readings of a prior draw, known noise."""
    index = np.arange(num_sensors) + 0.5
    radius, angle = 0.95 * np.sqrt(index / num_sensors), np.pi * (1 + np.sqrt(5)) * index
    points = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    forward, prior = parts(num_rings, points)
    rng = np.random.default_rng(seed)
    white = jnp.asarray(rng.normal(size=prior.num_white))
    clean = np.asarray(jax.jit(lambda f, p, w: f(p.transform(w)))(forward, prior, white))
    sigma = relative_noise * np.abs(clean).max()
    observed = clean + sigma * rng.normal(size=num_sensors)
    return invlift.inverse_problem(forward, prior, invlift.known_noise(sigma), observed)


def smallest(draws: dict[str, list[np.ndarray]]) -> tuple[float, float]:
    """Smallest bulk ESS and largest R-hat over the scalars, each a list of chains."""
    found = [diagnose([chain[:, None] for chain in chains], name) for name, chains in draws.items()]
    return min(float(x.ess_bulk[0]) for x in found), max(float(x.r_hat[0]) for x in found)


def scalars(sigma, fields) -> dict[str, list[np.ndarray]]:
    return {
        "sigma": list(sigma),
        "mean": [field.mean(axis=1) for field in fields],
        "std": [field.std(axis=1) for field in fields],
    }
