"""Whether the parts of a posterior fit together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from invlift.errors import InputError
from invlift.posterior.names import NOISE_SCORE, PREDICTED
from invlift.posterior.quantity import Quantity
from invlift.posterior.readings import SensorTable


class Mesh(Protocol):
    """What a posterior asks of a mesh.

    Attributes
    ----------
    points : (num_nodes, dim) array
        In its length unit.
    cells : (num_cells, dim + 1) array of int
        Triangles or tetrahedra.
    """

    points: np.ndarray
    cells: np.ndarray

    def values_at(self, points: np.ndarray, place: str) -> csr_array:
        """Values at k points of a field on "node" or "cell": a matrix (k, N)."""

    def mean_over(self, group: str | None, place: str) -> csr_array:
        """Mean of such a field over a group of cells or facets, or everywhere: (1, N)."""


def check_fields(
    shapes: Mapping[str, tuple[int, ...]], quantities: Iterable[Quantity], mesh: Mesh | None
) -> None:
    """Check that the draws of fields live on the mesh.

    Parameters
    ----------
    shapes : mapping of str to tuple
        From `check_chains`.
    quantities : iterable of Quantity
    mesh : Mesh or None

    Raises
    ------
    InputError
        If a field and the mesh differ in size.
    """
    for quantity in quantities:
        if quantity.place is None or mesh is None:
            continue
        size = len(mesh.points if quantity.place == "node" else mesh.cells)
        if shapes[quantity.name] != (size,):
            raise InputError(
                f"draws of {quantity.name}",
                f"one value for each of the {size} {quantity.place}s",
                f"shape {shapes[quantity.name]}",
                "pass the mesh that was used in the run",
            )


def check_readings(shapes: Mapping[str, tuple[int, ...]], sensors: SensorTable | None) -> None:
    """Check that there is a reading for each prediction and each noise variable.

    Parameters
    ----------
    shapes : mapping of str to tuple
        From `check_chains`.
    sensors : SensorTable or None

    Raises
    ------
    InputError
        If their numbers differ.
    """
    for name in (PREDICTED, NOISE_SCORE):
        if sensors is not None and name in shapes and np.shape(sensors.values) != shapes[name]:
            raise InputError(
                "sensors",
                f"one reading for each of the draws of {name} {shapes[name]}",
                f"readings {np.shape(sensors.values)}",
                "pass the sensors that were used in the run",
            )
