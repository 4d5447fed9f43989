"""Parts of a posterior (mesh, readings, noise), and checks that they fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from invlift.chains import Chain
from invlift.errors import InputError
from invlift.posterior.names import KIND
from invlift.posterior.statistics.blocks import check_draws


class Mesh(Protocol):
    """A mesh of simplices: points (num_nodes, dim), and cells (num_cells, dim + 1) of int.

    Pictures show the `unit` of its lengths, edges inside it, (k, 2) of int, and the facets of its
    boundary groups, (k, dim) of int each.
    """

    points: np.ndarray
    cells: np.ndarray
    unit: str
    inner_facets: np.ndarray
    boundaries: Mapping[str, np.ndarray]

    def values_at(self, points: np.ndarray, place: str) -> csr_array:
        """Return a matrix (k, N) that gives values at k points of a field on "node" or "cell"."""

    def mean_over(self, group: str | None, place: str) -> csr_array:
        """Return a matrix (1, N) for the mean of a field over a group, or over the whole mesh."""

    def middles_of(self, group: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the centres, (k, dim), of cells or facets of a group, and their shares, (k,)."""


class BoundaryFlux(Protocol):
    """The flux through a boundary group: see :class:`invlift.models.on_mesh.BoundaryFlux`."""

    further: Sequence[str]
    solution: str
    lengths: int

    def of_draws(self, coefficients: np.ndarray, solutions: np.ndarray | None) -> np.ndarray:
        """Return fluxes, (k,), of draws of field and unknowns, (k, N), and of their solutions."""


#: Draws of each chain by name, (num_draws, ...) each.
Draws = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings that do not come from a sensor table.

    Attributes
    ----------
    values : (d,) array
        Readings.
    sigma : (d,) array, number or None
        Scale of the noise if it is known: the standard deviation of normal noise.
    points : (d, dim) array or None
        Positions, for models that have any.
    labels : sequence of d str or None
        Names of the readings.
    coordinates : mapping of str to sequence of d numbers or str
        Further coordinates of each reading, such as its time, by name.
    arrays : mapping of str to (mapping of str to sequence or None, array)
        Axes (as in `Quantity`) and values of readings that are named arrays of a model. Arrays
        without noise variables, such as counts, are not among the d readings.
    limits : (d,) array of str or None
        Censoring of each reading: "<" if the reading is only known to be below its value, ">" if
        above, "" if it is not censored.
    """

    values: np.ndarray
    sigma: np.ndarray | float | None = None
    points: np.ndarray | None = None
    labels: Sequence[str] | None = None
    coordinates: Mapping[str, Sequence] = field(default_factory=dict)
    arrays: Mapping[str, tuple[Mapping, np.ndarray]] = field(default_factory=dict)
    limits: np.ndarray | None = None


class ReadingNoise(Protocol):
    """Noise of the readings given the draws of the chains.

    Readings have the names of `Readings.arrays`, or "observed" if it is empty. The draws are every
    k-th of those in the chains, k = `every(chains)`.
    """

    def every(self, chains: Sequence[Chain]) -> int:
        """Return the thinning k of the draws of all quantities that are needed."""

    def new_readings(
        self, rng: np.random.Generator, chains: Draws, paths: Mapping[str, np.ndarray]
    ) -> dict[str, list[np.ndarray]]:
        """Return new readings by name, (num_draws, ...) for each chain, one set per draw.

        The result includes each path by name, (num_draws, k), with the noise of the readings in the
        given rows, (r,), unless the noise scale differs between these readings.
        """

    def log_likelihoods(self, chains: Draws) -> dict[str, list[np.ndarray]]:
        """Return log densities of readings by name given each draw, (num_draws, ...) per chain.

        They have the first axes of the readings, as all entries of a vector may have one joint
        density. They include all constants, in the logarithm of one over the unit of the readings.
        """


def total(stats: Sequence[Mapping[str, np.ndarray]], name: str) -> int | None:
    """Return the sum of a statistic over the chains that have it; None if no chain has it."""
    parts = [np.sum(part[name]) for part in stats if name in part]
    return int(sum(parts)) if parts else None


def every_of(chains: Sequence[Chain], name: str) -> int:
    """Return the thinning k of a quantity of which every k-th draw is stored."""
    return max(chain.every.get(name, 1) for chain in chains)


def check_chains(chains: Sequence[Chain]) -> dict[str, tuple[int, ...]]:
    """Return the shape of a draw by name; an InputError if the chains do not fit together."""
    known = {frozenset(chain.draws) for chain in chains}
    if known in (set(), {frozenset()}):
        raise InputError("posterior", "at least one chain with draws", "none", "run for longer")
    if len(known) > 1:
        expected = "draws of the same quantities in every chain"
        found = "; ".join(str(sorted(chain.draws)) for chain in chains)
        raise InputError("posterior", expected, found, "combine chains of one problem only")
    num_draws, shapes = {}, {}
    for name in chains[0].draws:
        _, num_draws[name], shapes[name] = check_draws([c.draws[name] for c in chains], name)
    if len({num for name, num in num_draws.items() if every_of(chains, name) == 1}) > 1:
        expected = "equally many draws of every quantity"
        raise InputError("posterior", expected, str(num_draws), "thin all quantities alike")
    return shapes


def of_solution(readings: Readings) -> np.ndarray:
    """Return which readings are values of the solution at a point, with its unit: (d,) of bool."""
    return np.asarray(readings.coordinates.get(KIND, ["point"] * len(readings.values))) == "point"
