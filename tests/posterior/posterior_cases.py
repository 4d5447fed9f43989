"""Meshes and made-up runs for the tests of the posterior layer."""

from dataclasses import replace

import numpy as np
from normal_noise import NormalNoise
from scipy.stats import norm

import invlift.chains
from invlift.moments import Moments
from invlift.posterior import Posterior, Quantity, Readings
from invlift.posterior.output.run_folder import SavedMesh as Mesh


def Chain(draws, *parts, **more):
    """A chain as sampling returns it."""
    times = {"step_size": 0.5, "warmup_seconds": 1.0, "sampling_seconds": 2.0}
    return invlift.chains.Chain(draws, *parts, **times | more)


def square(num=5):
    """Triangles of the unit square with num x num nodes."""
    x = np.linspace(0, 1, num)
    points = np.array([(a, b) for b in x for a in x])
    corner = np.array([i + num * j for j in range(num - 1) for i in range(num - 1)])
    lower = np.stack([corner, corner + 1, corner + num], axis=1)
    upper = np.stack([corner + 1, corner + num + 1, corner + num], axis=1)
    return points, np.concatenate([lower, upper])


def box(num=4, height=0.5):
    """Tetrahedra (six to a cube) of a unit square box of the given height."""
    x = np.linspace(0, 1, num)
    points = np.array([(a, b, height * c) for c in x for b in x for a in x])
    step = np.array([1, num, num * num])
    cells = []
    for k in range(num - 1):
        for j in range(num - 1):
            for i in range(num - 1):
                origin = np.dot((i, j, k), step)
                for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2)):
                    path = origin + np.concatenate([[0], np.cumsum(step[list(order)])])
                    cells.append(path if order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)) else
                                 path[[0, 2, 1, 3]])  # fmt: skip
    return points, np.array(cells)


def make_chains(size, num_nodes, *, num_chains=4, num_draws=400, num_sensors=6, seed=0):
    """Independent draws of two fields, a noise scale and predictions; everything is right here."""
    rng = np.random.default_rng(seed)
    chains = []
    for _ in range(num_chains):
        fields = 0.3 + 0.5 * rng.normal(size=(num_draws, size))
        solution = 2.0 + 0.1 * rng.normal(size=(num_draws, num_nodes))
        chains.append(
            Chain(
                draws={
                    "log_conductivity": fields,
                    "solution": solution,
                    "sigma": np.exp(0.1 * rng.normal(size=num_draws)) * 0.1,
                    "predicted": 1.0 + 0.03 * rng.normal(size=(num_draws, num_sensors)),
                },
                stats={
                    "acceptance_rate": rng.uniform(0.7, 1.0, num_draws),
                    "is_accepted": np.ones(num_draws, dtype=bool),
                    "num_steps": np.full(num_draws, 3),
                    "num_projection_failures": np.zeros(num_draws, dtype=int),
                    "num_factorisations": np.full(num_draws, 30),
                },
                moments={"solution": Moments.of(solution)},
                warmup_stats={"acceptance_rate": rng.uniform(0.5, 1.0, 100)},
            )
        )
    return chains


def field_quantities(place="node", prior_sd=None):
    """What the draws of a field problem are of."""
    solution = Quantity("solution", {"node": None}, is_derived=True)
    return Quantity("log_conductivity", {place: None}, prior_sd=prior_sd), solution


def make_posterior(location="nodes", mesh=square, *, seed=0, prior_sd=1.0, **changes):
    """A posterior on a small mesh; `changes` go to the constructor."""
    mesh, place = (mesh if isinstance(mesh, Mesh) else Mesh(*mesh())), location.removesuffix("s")
    size = len(mesh.points if place == "node" else mesh.cells)
    rng = np.random.default_rng(seed + 1)
    sensors = Readings(
        values=1.0 + 0.1 * rng.normal(size=6),
        points=rng.uniform(0.1, 0.4, (6, mesh.points.shape[1])),
    )
    arguments = {
        "chains": make_chains(size, len(mesh.points), seed=seed),
        "quantities": field_quantities(place, prior_sd),
        "mesh": mesh,
        "sensors": sensors,
        "num_draws_requested": 400,
    }
    arguments |= changes
    if arguments["sensors"] is not None:
        observed = arguments["sensors"].values
        arguments["chains"] = [with_scores(chain, observed) for chain in arguments["chains"]]
        arguments.setdefault("noise", NormalNoise(observed))
    return Posterior(**arguments)


def with_scores(chain, observed):
    """The chain with the noise variables of normal noise among its draws."""
    draws = chain.draws
    if not {"predicted", "sigma"} <= set(draws) or "noise_score" in draws:
        return chain
    if np.shape(observed) != draws["predicted"].shape[1:]:
        return chain
    with np.errstate(all="ignore"):
        scores = (observed - draws["predicted"]) / np.reshape(draws["sigma"], (-1, 1))
    return replace(chain, draws=draws | {"noise_score": scores})


def normal_posterior(predicted, observed, sigma):
    """A posterior of predictions alone, (num_draws, d) for each chain, with known normal noise."""
    chains = [Chain({"predicted": p, "noise_score": (observed - p) / sigma}) for p in predicted]
    sensors, noise = Readings(observed, sigma=sigma), NormalNoise(observed, sigma)
    return Posterior(chains, sensors=sensors, noise=noise)


class LinearModel:
    """y = A x + sigma eta with standard normal x: posterior and predictions in closed form."""

    num_sensors = 8

    def __init__(self, sigma, num_unknowns=3, seed=0):
        rng = np.random.default_rng(seed)
        self.sigma, self.num_unknowns = sigma, num_unknowns
        self.matrix = rng.normal(size=(self.num_sensors, num_unknowns)) / np.sqrt(num_unknowns)
        truth = self.matrix @ rng.normal(size=num_unknowns)
        self.observed = truth + sigma * rng.normal(size=self.num_sensors)

    def predicted(self, rng, num_draws):
        """Independent draws of A x from the posterior, (num_draws, d)."""
        precision = np.eye(self.num_unknowns) + self.matrix.T @ self.matrix / self.sigma**2
        mean = np.linalg.solve(precision, self.matrix.T @ self.observed) / self.sigma**2
        lower = np.linalg.cholesky(np.linalg.inv(precision))
        draws = mean + rng.normal(size=(num_draws, self.num_unknowns)) @ lower.T
        return draws @ self.matrix.T

    def posterior(self, rng, num_draws=500, num_chains=4):
        draws = [self.predicted(rng, num_draws) for _ in range(num_chains)]
        return normal_posterior(draws, self.observed, self.sigma)

    def left_out(self):
        """Distribution of each reading given all others.

        Rasmussen & Williams (2006), Gaussian processes for machine learning, eq. 5.12.
        """
        covariance = self.matrix @ self.matrix.T + self.sigma**2 * np.eye(self.num_sensors)
        precision = np.linalg.inv(covariance)
        variance = 1.0 / np.diag(precision)
        return norm(self.observed - variance * (precision @ self.observed), np.sqrt(variance))
