"""What a report shows, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from invlift.posterior.along_axis import Series
from invlift.posterior.quantity import Quantity
from invlift.posterior.run_folder import Record


@dataclass(frozen=True, eq=False)
class Body:
    """A mesh with the posterior on it.

    Attributes
    ----------
    points : (num_nodes, dim) array
        In the length unit of the mesh; dim is 2 or 3.
    cells : (num_cells, dim + 1) array of int
    on_nodes, on_cells : dict of str to (num_nodes,) or (num_cells,) array
        Fields by name, as in ``posterior.vtu``.
    """

    points: np.ndarray
    cells: np.ndarray
    on_nodes: dict[str, np.ndarray]
    on_cells: dict[str, np.ndarray]

    @property
    def dim(self) -> int:
        """Dimension, 2 or 3."""
        return self.points.shape[1]

    def find(self, name: str) -> np.ndarray | None:
        """A field, wherever it lives; None if there is none of the name."""
        return self.on_nodes.get(name, self.on_cells.get(name))


@dataclass(frozen=True, eq=False)
class Group:
    """A named part of the boundary.

    Attributes
    ----------
    name : str
    facets : (num_facets, dim) array of int
        Nodes of its edges or triangles.
    condition : str
        What the problem says of it, in words; empty if nothing.
    """

    name: str
    facets: np.ndarray
    condition: str


@dataclass(frozen=True, eq=False)
class FieldDraws:
    """A few draws of the log-conductivity.

    Attributes
    ----------
    values : (num, N) array
    chains, numbers : (num,) array of int
        The chain of each, and its number among the draws that were stored of that chain.
    """

    values: np.ndarray
    chains: np.ndarray
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class Content:
    """Everything a report shows; None, or nothing in a mapping, for what the folder does not hold.

    Attributes
    ----------
    title : str
        Name of the folder.
    record : Record or None
        From ``run.json``.
    body : Body or None
    groups : tuple of Group
    sensors : pandas.DataFrame or None
        ``sensor_fit.csv``, of which only the column ``observed`` is there for certain.
    draws : FieldDraws or None
    scalars : dict of str to (chains, num_draws) array
        Draws of the scalars, those of the summary first.
    quantities : dict of str to Quantity
        What there are draws of.
    series : sequence of Series
        What there is along axes of numbers.
    energy : (chains, num_draws) array or None
    summary : pandas.DataFrame or None
        ``summary.csv`` by name; NaN for "no value".
    problem : str or None
        The problem file.
    has_mesh : bool
        Whether the problem has one; if not, its parts are not missed.
    missing : dict of str to str
        Why a part is left out, in a sentence, by the part's name: ``record``, ``body``, ``groups``,
        ``sensors``, ``draws``, ``chains``, ``summary`` or ``problem``.
    """

    title: str
    record: Record | None = None
    body: Body | None = None
    groups: tuple[Group, ...] = ()
    sensors: pd.DataFrame | None = None
    draws: FieldDraws | None = None
    scalars: Mapping[str, np.ndarray] = field(default_factory=dict)
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    series: Sequence[Series] = ()
    energy: np.ndarray | None = None
    summary: pd.DataFrame | None = None
    problem: str | None = None
    has_mesh: bool = True
    missing: Mapping[str, str] = field(default_factory=dict)
