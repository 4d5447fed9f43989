"""What a posterior is made of, and whether the parts fit together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from invlift.chains import Chain
from invlift.errors import InputError
from invlift.posterior.names import FIELD, KIND, NOISE_SCORE, PREDICTED
from invlift.posterior.statistics.blocks import check_draws
from invlift.posterior.statistics.quantity import Quantity


class Mesh(Protocol):
    """A mesh of simplices: points (num_nodes, dim), and cells (num_cells, dim + 1) of int."""

    points: np.ndarray
    cells: np.ndarray

    def values_at(self, points: np.ndarray, place: str) -> csr_array:
        """Values at k points of a field on "node" or "cell": a matrix (k, N)."""

    def mean_over(self, group: str | None, place: str) -> csr_array:
        """Mean of such a field over a group of cells or facets, or everywhere: (1, N)."""

    def middles_of(self, group: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Middles, (k, dim), of the cells or facets of a group, and their shares of it, (k,)."""


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
        Scale of the noise where it is known: the standard deviation, if it is normal.
    points : (d, dim) array or None
        Positions, for models that have any.
    labels : sequence of d str or None
        Names of the readings.
    coordinates : mapping of str to sequence of d numbers or str
        What else is known of each reading, such as its time, by name.
    arrays : mapping of str to (mapping of str to sequence or None, array)
        Of a model whose readings are arrays with names: their axes, as those of a `Quantity`, and
        values. Those without noise variables, such as counts, are not among the d.
    limits : (d,) array of str or None
        Which readings are censored: "<" where only a value is known that the reading is below, ">"
        where it is above, "" where it is the value.
    """

    values: np.ndarray
    sigma: np.ndarray | float | None = None
    points: np.ndarray | None = None
    labels: Sequence[str] | None = None
    coordinates: Mapping[str, Sequence] = field(default_factory=dict)
    arrays: Mapping[str, tuple[Mapping, np.ndarray]] = field(default_factory=dict)
    limits: np.ndarray | None = None


class ReadingNoise(Protocol):
    """What a posterior asks of the noise of the readings, given the draws of its chains.

    Readings go by the names that `Readings.arrays` has, and are "observed" where it has none.
    """

    def new_readings(
        self, rng: np.random.Generator, chains: Draws, paths: Mapping[str, np.ndarray]
    ) -> dict[str, list[np.ndarray]]:
        """New readings by name, (num_draws, ...) for each chain, one set for each draw.

        And of the draws of each path by name, (num_draws, k), with the noise of the readings whose
        rows, (r,), are given, unless these differ in its scale.
        """

    def log_likelihoods(self, chains: Draws) -> dict[str, list[np.ndarray]]:
        """Log densities by name of readings given each draw, (num_draws, ...) for each chain.

        Along their first axes, as the entries of a vector may have one density; with all constants,
        in the logarithm of one over the unit of the readings.
        """


def total(stats: Sequence[Mapping[str, np.ndarray]], name: str) -> int | None:
    """Sum of a statistic over the chains that have it; None if none has."""
    parts = [np.sum(part[name]) for part in stats if name in part]
    return int(sum(parts)) if parts else None


def every_of(chains: Sequence[Chain], name: str) -> int:
    """Every how many-th draw of a quantity is stored."""
    return max(chain.every.get(name, 1) for chain in chains)


def check_chains(chains: Sequence[Chain]) -> dict[str, tuple[int, ...]]:
    """Shape of a draw by name; an InputError if the draws of all chains are not one sample."""
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


def of_solution(sensors: Any) -> np.ndarray:
    """Which readings are of the solution at a place, and so in its unit: (d,) of bool."""
    kinds = getattr(sensors, "coordinates", {}).get(KIND)
    return np.ones(len(sensors.values), bool) if kinds is None else np.asarray(kinds) == "point"


def check_fit(
    shapes: Mapping[str, tuple[int, ...]],
    quantities: Iterable[Quantity],
    mesh: Mesh | None,
    sensors: Readings | None,
    thresholds: Sequence[float],
) -> None:
    """Check that fields live on the mesh, predictions at the sensors, and thresholds are such.

    An InputError if sizes differ, a threshold is not positive, or there is no field to exceed it.
    """
    sizes = {} if mesh is None else {"node": len(mesh.points), "cell": len(mesh.cells)}
    parts = [(each.name, (sizes[each.place],)) for each in quantities if each.place in sizes]
    if sensors is not None:
        parts += [(name, np.shape(sensors.values)) for name in (PREDICTED, NOISE_SCORE)]
    for name, shape in parts:
        if shapes.get(name, shape) != shape:
            expected, found = f"a value for each node, cell or reading, {shape}", f"{shapes[name]}"
            remedy = "pass the mesh and sensors that were used in the run"
            raise InputError(f"draws of {name}", expected, found, remedy)
    if len(thresholds) and not (FIELD in shapes and np.all(np.asarray(thresholds) > 0)):
        expected = f"positive numbers, and draws of {FIELD}"
        remedy = "give conductivities in their unit, or leave exceedance out"
        raise InputError("posterior, exceedance", expected, f"{thresholds}", remedy)
