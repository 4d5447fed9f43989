"""What the table of every prior has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from invlift.fem.mesh.mesh import Mesh
from invlift.files.tables import Table, number

#: Standard deviations of the log-conductivity that can be computed with.
MIN_STD, MAX_STD = 1e-9, 50.0
#: Largest size of its mean: the exponential must be a number.
MAX_MEAN = 300.0
Mean, Std = number(-MAX_MEAN, MAX_MEAN), number(MIN_STD, MAX_STD)


class Nominal(NamedTuple):
    """What a Matern field was asked to be, which a mesh and its boundary give it nearly.

    Attributes
    ----------
    correlation_range : float
        In the unit of length; the median of one that is unknown.
    std : float
        Of one that is unknown the root of its mean square, or the median where it has none.
    boundary : {"neumann", "robin"}
    """

    correlation_range: float
    std: float
    boundary: str


class PriorTable(Table):
    """[prior]: a prior of the log-conductivity. A subclass adds its own keys."""

    kind: str
    """The kind of prior."""

    def build(self, mesh: Mesh, where: Callable[..., str]) -> Any:
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
