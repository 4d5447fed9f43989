"""Bands of posteriors hold truths that live on a finer mesh, by another generator and solver.

A Matern field is drawn as a series of cosines, which has the law of the prior without a mesh, and
its readings are simulated by scikit-fem on a mesh three or four times as fine as that of the
problem.  The noise is about three times the error that the coarser mesh makes in readings.
"""

import math
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import jax
import numpy as np
import pytest
import skfem
from structured import box_mesh, interior_points

import invlift
from invlift.unknowns.distributions import lognormal

pytestmark = [pytest.mark.slow, pytest.mark.long_chains]

NUM_SENSORS, NUM_SETS = 20, 40
RANGE, STD = 1.0, 0.7
#: By dimension edges of the coarse mesh and of the fine one, smoothness and noise.
COARSE, FINE = {2: 7, 3: 4}, {2: 28, 3: 12}
SMOOTHNESS, SIGMA = {2: 2.0, 3: 2.5}, {2: 0.5, 3: 1.0}
BANDS = 0.5, 0.9


class Truths(NamedTuple):
    """Fields at the nodes of the coarse mesh, (NUM_SETS, n), and readings without noise."""

    points: np.ndarray
    fields: np.ndarray
    readings: np.ndarray


def waves(points, num):
    """Cosines that are orthonormal on the unit cube, (num_points, num^dim), and their -Laplace."""
    numbers = np.arange(num)
    found, squares = np.ones((len(points), 1)), np.zeros(1)
    for x in points.T:
        own = np.cos(np.pi * np.outer(x, numbers)) * np.where(numbers > 0, np.sqrt(2.0), 1.0)
        found = (found[:, :, None] * own[:, None]).reshape(len(points), -1)
        squares = np.add.outer(squares, (np.pi * numbers) ** 2).ravel()
    return found, squares


def draws_of_fields(points, num, rng):
    """Matern fields of which nothing flows out, (NUM_SETS, num_points)."""
    dim = points.shape[1]
    smoothness = SMOOTHNESS[dim]
    order, kappa = smoothness + dim / 2, math.sqrt(8.0 * smoothness) / RANGE
    variance = math.gamma(smoothness) / math.gamma(order) / (4.0 * math.pi) ** (dim / 2)
    scale = STD / math.sqrt(variance * kappa ** (-2.0 * smoothness))
    functions, squares = waves(points, num)
    sizes = scale * (kappa**2 + squares) ** (-order / 2)
    return (sizes * rng.standard_normal((NUM_SETS, sizes.size))) @ functions.T


@skfem.BilinearForm
def conduction(u, v, w):
    return np.exp(w.phi) * np.sum(u.grad * v.grad, axis=0)


@skfem.LinearForm
def heating(v, w):
    return 10.0 * v


@cache
def truths(dim):
    kind, element = (
        (skfem.MeshTri, skfem.ElementTriP1) if dim == 2 else (skfem.MeshTet, skfem.ElementTetP1)
    )
    ticks = [np.linspace(0.0, 1.0, FINE[dim] + 1)] * dim
    basis = skfem.Basis(kind.init_tensor(*ticks), element())
    nodes = basis.mesh.p.T
    rng = np.random.default_rng(dim)
    fields = draws_of_fields(nodes, FINE[dim], rng)
    points = interior_points(dim, NUM_SENSORS, seed=dim)
    places, load = basis.probes(points.T), heating.assemble(basis)
    held = basis.get_dofs(lambda x: x[0] < 1e-9)
    readings = [
        places
        @ skfem.solve(
            *skfem.condense(conduction.assemble(basis, phi=basis.interpolate(each)), load, D=held)
        )
        for each in fields
    ]
    coarse = np.linalg.norm(nodes[None] - box_mesh(dim, COARSE[dim]).points[:, None], axis=2)
    assert coarse.min(axis=1).max() < 1e-12
    return Truths(points, fields[:, coarse.argmin(axis=1)], np.array(readings))


def coverage(dim, noise, std, num):
    """Shares of nodes within bands, (num, 2), in the posteriors of so many sets of readings."""
    mesh, known = box_mesh(dim, COARSE[dim]), truths(dim)
    sensors = invlift.sensors_from_arrays(known.points, np.zeros(NUM_SENSORS))
    model = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=10.0, dirichlet={"left": 0.0}
    )
    prior = invlift.matern_prior(mesh, range=RANGE, std=std, smoothness=SMOOTHNESS[dim])
    whole = invlift.inverse_problem(model, prior, noise, np.zeros(NUM_SENSORS))
    rng, found = np.random.default_rng(dim + 10), []
    for field, readings in zip(known.fields[:num], known.readings[:num], strict=True):
        values = readings + SIGMA[dim] * rng.standard_normal(NUM_SENSORS)
        problem = replace(whole, observed=jax.device_put(values))
        run = invlift.sample(problem, chains=1, warmup=60, draws=150, seed=len(found))
        draws = run.chains[0].draws["log_conductivity"]
        tails = [0.5 - 0.5 * band for band in BANDS]
        low, high = np.quantile(draws, tails, axis=0), np.quantile(draws, np.subtract(1, tails), 0)
        found.append(np.mean((low < field) & (field < high), axis=1))
    return np.array(found)


@pytest.mark.parametrize(("dim", "noise"), [(2, "unknown"), (3, "known")])
def test_bands_hold_their_share(dim, noise):
    unknown = invlift.gaussian_noise(lognormal(median=SIGMA[dim], factor=1.5))
    given = invlift.known_noise(SIGMA[dim]) if noise == "known" else unknown
    found = coverage(dim, given, STD, NUM_SETS)
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - BANDS) < 0.02 + 3.0 * error)


def test_bands_of_a_prior_half_as_wide_do_not():
    """Negative control."""
    found = coverage(2, invlift.known_noise(SIGMA[2]), 0.5 * STD, NUM_SETS // 2)
    assert np.all(found.mean(axis=0) < np.subtract(BANDS, 0.1))
