"""Common parts of the priors of a field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh

#: Smallest and largest standard deviation of the log-conductivity.
MIN_STD, MAX_STD = 1e-9, 50.0


class Nominal(NamedTuple):
    """Requested properties of a field in a part of the body; a mesh realises them approximately.

    Attributes
    ----------
    correlation_range : float
        Correlation range, in the unit of length; if it is unknown, its median.
    std : float or None
        Standard deviation.  If it is unknown, its root mean square, or its median if the mean
        square is infinite.  None if it was not requested.
    boundary : {"neumann", "robin"}
    layer : str
        Name of the part; empty for the whole body.
    cells : index of cells
        Cells of the part.
    """

    correlation_range: float
    std: float | None = None
    boundary: str = "robin"
    layer: str = ""
    cells: slice | np.ndarray = slice(None)


def partition(mesh: Mesh, names: Sequence[str], what: str, remedy: str) -> np.ndarray:
    """Return the index of each cell's subdomain, (num_cells,), in a partition of the body.

    Raises
    ------
    InputError
        If a subdomain does not exist, or the subdomains overlap or leave cells out.  The message
        calls them ``what``.
    """
    count = np.zeros(mesh.num_cells, dtype=int)
    of_cell = np.zeros(mesh.num_cells, dtype=int)
    for k, name in enumerate(names):
        cells = mesh.cells_of(name)
        count[cells] += 1
        of_cell[cells] = k
    if np.any(count != 1):
        cell = int(np.flatnonzero(count != 1)[0])
        holding = [name for name, cells in mesh.subdomains.items() if cell in cells]
        raise InputError(
            f"{mesh.name}, cell {cell}",
            f"every cell in exactly one {what} ({', '.join(names) or 'there is none'})",
            f"{count[cell]} (subdomains of the cell: {', '.join(holding) or 'none'})",
            remedy,
        )
    return of_cell
