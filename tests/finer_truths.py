"""Do bands of posteriors hold truths whose readings are those of a mesh four times finer?

The truth is a field of the prior on the fine mesh, node by node, or one of the given mesh; the
equation of the truth is assembled and solved here, by code that shares nothing with ``fem/``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import spsolve

import invlift

sys.path.append(str(Path(__file__).parents[1] / "meshes"))
from make_disc import disc

from invlift.app.runs.mesh_correction import corrected_at_mode
from invlift.fem.mesh.refinement import refined
from invlift.models.joined import Combinations
from invlift.problems.laplace_approximation import laplace_approximation
from invlift.problems.problem import InverseProblem

PRIOR = {"range": 1.0, "std": 1.0, "smoothness": 1.0}
SOURCE = 100.0
#: Draws behind the covariance of what the model misses.
NUM_ERRORS = 60
BANDS = 0.9, 0.5
#: Iterations of each of two chains that tune it, and that are kept.
WARMUP, DRAWS = 40, 100


def solved(mesh, phi):
    """The solution, (n,), for a log-conductivity at the nodes, (n,), that is zero on the rim."""
    points, cells, size = mesh.points, mesh.cells, mesh.num_nodes
    corners = points[cells]
    edges = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)  # in columns
    area = np.abs(np.linalg.det(edges)) / 2.0
    gradients = np.linalg.inv(edges)
    gradients = np.concatenate([-gradients.sum(axis=1, keepdims=True), gradients], axis=1)
    middles = 0.5 * (phi[cells] + phi[np.roll(cells, 1, axis=1)])  # exact to degree 2
    each = np.einsum("cid,cjd,c->cij", gradients, gradients, area * np.exp(middles).mean(axis=1))
    rows, columns = np.repeat(cells, 3, axis=1).ravel(), np.tile(cells, (1, 3)).ravel()
    matrix = coo_array((each.ravel(), (rows, columns)), shape=(size, size)).tocsc()
    load = np.bincount(cells.ravel(), np.repeat(SOURCE * area / 3.0, 3), size)
    free = np.setdiff1d(np.arange(size), np.unique(mesh.boundary_facets))
    solution = np.zeros(size)
    solution[free] = spsolve(matrix[free][:, free], load[free])
    return solution


@jax.jit
def transformed(prior, white):
    return jax.vmap(prior.transform)(white)


@jax.jit
def coloured(problem, approximation, white):
    return jax.vmap(lambda each: problem.prior.transform(approximation.colour(each)))(white)


@jax.jit
def predicted(model, fields):
    return jax.lax.map(model, fields)


class Held(NamedTuple):
    """Shares of the nodes whose bands hold the truth, and the error of the field's mean in standard
    deviations of the posterior.
    """

    in_90: float
    in_50: float
    z: float


class Truth(NamedTuple):
    """A field at the nodes of the given mesh, (n,), and readings without noise, (d,)."""

    field: np.ndarray
    readings: np.ndarray


@dataclass(frozen=True, eq=False)
class Disc:
    """Sensors spread at random over a disc of so many rings, and the same disc with finer meshes.

    The disc of the examples has 12 rings, and 469 nodes.
    """

    num_rings: int
    num_sensors: int

    def __post_init__(self):
        nodes, cells, rim = disc(self.num_rings)
        mesh = invlift.mesh_from_arrays(nodes, cells, boundaries={"rim": rim})
        rng = np.random.default_rng(11)
        radius = 0.9 * np.sqrt(rng.random(self.num_sensors))
        angle = 2 * np.pi * rng.random(self.num_sensors)
        places = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        finer = refined(mesh, 2)
        model, of_fine = (self._model(each, places) for each in (mesh, finer.mesh))
        known = model.on_mesh
        model = replace(model, on_mesh=known._replace(refined=cache(known.refined)))
        parts = {
            "mesh": mesh,
            "finer": finer,
            "model": model,
            "of_fine": of_fine,
            "prior": invlift.matern_prior(mesh, **PRIOR),
            "fine_prior": invlift.matern_prior(finer.mesh, **PRIOR),
            "at_sensors": finer.mesh.values_at(places, "node"),
            "mean": np.asarray(mesh.mean_over(None, "node").todense()).ravel(),
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def _model(self, mesh, places):
        sensors = invlift.sensors_from_arrays(places, np.zeros(len(places)))
        observation = invlift.locate(mesh, sensors)
        return invlift.assemble_poisson(mesh, observation, source=SOURCE, dirichlet={"rim": 0.0})

    def truth(self, rng, is_rough: bool) -> Truth:
        """A field that varies between the nodes of the given mesh, or does not."""
        prior = self.fine_prior if is_rough else self.prior
        field = np.asarray(transformed(prior, rng.standard_normal((1, prior.num_white))))[0]
        fine = field if is_rough else self.finer.nodes @ field
        readings = self.at_sensors @ solved(self.finer.mesh, fine)
        return Truth(fine[: self.mesh.num_nodes], readings)

    def problem(self, values, noise: float) -> InverseProblem:
        return invlift.inverse_problem(self.model, self.prior, noise, values)

    def with_noise_of_errors(self, problem: InverseProblem) -> InverseProblem:
        """What the model misses, at draws of its posterior that vary between the nodes, as noise.

        Kaipio & Somersalo 2007, updated by the posterior as in Calvetti et al. 2018.
        """
        rng = np.random.default_rng(3)
        approximation = laplace_approximation(problem)
        white = rng.standard_normal((NUM_ERRORS, approximation.mode.size))
        fields = np.asarray(coloured(problem, approximation, white))
        between = rng.standard_normal((NUM_ERRORS, self.fine_prior.num_white))
        between = np.asarray(transformed(self.fine_prior, between))
        nodes, size = self.finer.nodes, self.mesh.num_nodes
        fine = fields @ nodes.T + between - between[:, :size] @ nodes.T
        errors = np.asarray(predicted(self.of_fine, fine) - predicted(problem.model, fields))
        mean, apart = errors.mean(axis=0), errors - errors.mean(axis=0)
        sigma = float(problem.noise.scale.known)
        covariance = sigma**2 * np.eye(mean.size) + apart.T @ apart / (NUM_ERRORS - 1)
        values, vectors = np.linalg.eigh(covariance)
        whitening = (vectors / np.sqrt(values)) @ vectors.T
        observed = whitening @ (np.asarray(problem.observed) - mean)
        model = Combinations(problem.model, jax.device_put(whitening))
        return invlift.inverse_problem(model, self.prior, 1.0, observed)

    def ways(self) -> dict[str, Callable[[InverseProblem], InverseProblem]]:
        """What makes a problem of the given mesh one with less of its error."""

        def refined(problem, times=1):
            return replace(problem, model=problem.model.on_mesh.refined(times))

        return {
            "none": lambda problem: problem,
            "1": refined,
            "2": lambda problem: refined(problem, 2),
            "mode": corrected_at_mode,
            "noise": self.with_noise_of_errors,
            "1, noise": lambda problem: self.with_noise_of_errors(refined(problem)),
            "mode, noise": lambda problem: self.with_noise_of_errors(corrected_at_mode(problem)),
        }

    def held(self, problem: InverseProblem, truth: Truth) -> Held:
        """By chains of the posterior."""
        run = invlift.sample(problem, chains=2, warmup=WARMUP, draws=DRAWS, seed=1)
        fields = np.concatenate([chain.draws["log_conductivity"] for chain in run.chains])
        means = fields @ self.mean
        z = (means.mean() - truth.field @ self.mean) / means.std()
        return Held(*(np.mean(is_held(fields, truth.field, band)) for band in BANDS), z)


def is_held(fields, truth, band):
    """Is the truth, (n,), within the band of each node, of draws (k, n)?"""
    outside = (1.0 - band) / 2.0
    below, above = np.quantile(fields, [outside, 1.0 - outside], axis=0, method="weibull")
    return (below < truth) & (truth < above)
