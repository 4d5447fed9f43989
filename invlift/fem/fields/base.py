"""What priors of a field have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh

#: Standard deviations of the log-conductivity that can be computed with.
MIN_STD, MAX_STD = 1e-9, 50.0


class Nominal(NamedTuple):
    """What a field was asked to be in a part of the body, which its mesh gives it nearly.

    Attributes
    ----------
    correlation_range : float
        In the unit of length; the median of one that is unknown.
    std : float or None
        Of one that is unknown the root of its mean square, or the median where it has none; None
        where nothing was asked.
    boundary : {"neumann", "robin"}
    layer : str
        Name of the part; empty for the whole body.
    cells : index of cells
        Of the part.
    """

    correlation_range: float
    std: float | None = None
    boundary: str = "robin"
    layer: str = ""
    cells: slice | np.ndarray = slice(None)


def partition(mesh: Mesh, names: Sequence[str], what: str, remedy: str) -> np.ndarray:
    """Index of the one of several subdomains that each cell is in, (num_cells,).

    Raises
    ------
    InputError
        If one does not exist, they overlap or leave cells out; ``what`` is what they are called.
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
