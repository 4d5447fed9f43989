"""Records of a model on a mesh, which are not used to compute its readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from invlift.unknowns.distributions import Distribution


class FieldPlaces(NamedTuple):
    """Places of the coefficients of a field on a mesh, in a model.

    Attributes
    ----------
    first : int
        Index of its first coefficient.
    points : (n, dim) array
        Position of each coefficient.
    known : (n,) array or None
        Values that the model uses in place of coefficients, NaN where it uses the coefficient; None
        if it uses all coefficients.
    known_cells : (num_cells,) array or None
        Likewise the values in cells; a coefficient at a node may also belong to other cells.
    """

    first: int
    points: np.ndarray
    known: np.ndarray | None = None
    known_cells: np.ndarray | None = None


class BoundaryFlux(NamedTuple):
    """The total flux into a body through a boundary group, as a function of draws.

    Attributes
    ----------
    further : tuple of str
        Names of the unknowns, beside the field, on which the flux depends.
    solution : str
        Name of the solution of the flux.
    lengths : int
        Its power of the unit of length L: the unit is C U L^lengths.
    of_draws : callable
        ``of_draws(coefficients, solutions)`` returns fluxes, (k,).  The coefficients, (k, N), are
        those of the field and of ``further``.  The solutions are their solutions, (k, num_nodes),
        or None to compute them.
    """

    further: tuple[str, ...]
    solution: str
    lengths: int
    of_draws: Callable


class OnMesh(NamedTuple):
    """The record of a model on a mesh; that of any other model is empty.

    Attributes
    ----------
    fields : tuple of FieldPlaces
    further : mapping of str to Distribution or Prior
        Priors of the coefficients after those of the field, by name.
    sensors : Sensors or None
        The table of the readings.
    is_linear : bool
        True if the solutions are linear between nodes: not across barriers.
    boundary_flux : callable or None
        Returns the :class:`BoundaryFlux` of a group: see
        :func:`invlift.fem.equations.experiments.boundary_flux`.
    refined : callable or None
        ``refined(times)`` returns the model of the same coefficients with each edge of the mesh
        halved that many times more, once by default, extrapolated from the last two meshes.
    solved_on : Refinement or None
        From the mesh of the fields to the mesh on which the equation is solved; None if ``refined``
        is.
    """

    fields: tuple[FieldPlaces, ...] = ()
    further: Mapping[str, Distribution] = {}
    sensors: Any = None
    is_linear: bool = True
    boundary_flux: Callable[..., BoundaryFlux] | None = None
    refined: Callable[..., Any] | None = None
    solved_on: Any = None

    @property
    def num_further(self) -> int:
        """Number of the coefficients after those of the field."""
        return sum(math.prod(each.shape) for each in self.further.values())
