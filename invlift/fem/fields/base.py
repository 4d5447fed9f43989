"""What the table of every prior has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field

from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh
from invlift.files.tables import Table, number, problem
from invlift.unknowns.priors.base import Prior

#: Standard deviations of the log-conductivity that can be computed with.
MIN_STD, MAX_STD = 1e-9, 50.0
#: Largest size of its mean: the exponential must be a number.
MAX_MEAN = 300.0
Mean, Std = number(-MAX_MEAN, MAX_MEAN), number(MIN_STD, MAX_STD)


def _is_ascending(pair: list[float]) -> list[float]:
    if not pair[0] < pair[1]:
        found = f"{pair[0]:g} and {pair[1]:g}"
        raise problem("the lower and the higher of two numbers", found, "swap or correct them")
    return pair


#: The conductivity that is exceeded by 95 %, and that by 5 % of all draws from the prior.
Between = Annotated[
    list[number(1e-130, 1e130)],
    Field(min_length=2, max_length=2),
    AfterValidator(_is_ascending),
]
#: The standard normal distribution is below this in 95 %.
_POINT = 1.6448536269514722


def mean_and_std_between(between: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of the log-conductivity of which two points are known."""
    low, high = np.log(between)
    return 0.5 * (low + high), 0.5 * (high - low) / _POINT


def check_is_said_once(table: Table) -> None:
    """Refuse a table with keys for the spread and :data:`Between`, or with neither.

    The error of tables: see :func:`invlift.files.tables.problem`.
    """
    keys = [key for key in ("mean", "median", "std") if key in table.model_fields_set]
    if table.between is not None and keys:
        expected = "between alone, or the key std with mean or median"
        raise problem(expected, f"between and {' and '.join(keys)}", "keep one of both")
    if table.between is None and table.std is None:
        expected = "std, or between in its place"
        raise problem(expected, "neither", "give the standard deviation, or 5 % and 95 % points")


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


class PriorTable(Table):
    """[prior]: a prior of the log-conductivity. A subclass adds its own keys."""

    kind: str
    """The kind of prior."""

    def build(self, mesh: Mesh, where: Callable[..., str]) -> Prior:
        """Build the prior on a mesh.

        Parameters
        ----------
        mesh : Mesh
        where : callable
            Names of keys -> how an error message calls them: ``where("std")`` is
            "problem.toml, [prior] std".

        Returns
        -------
        prior
            With the members that docs/extending.md lists.

        Raises
        ------
        InputError
            If the keys do not fit the mesh. One of the library that blames "prior KEY" is told as
            an error of that key.
        """
        raise NotImplementedError


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
