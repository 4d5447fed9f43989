"""What is known of a model on a mesh beside its readings, and that nothing is computed from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from invlift.unknowns.distributions import Distribution


class FieldPlaces(NamedTuple):
    """Where a model has the coefficients of a field on a mesh.

    Attributes
    ----------
    first : int
        Number of its first coefficient.
    points : (n, dim) array
        Where each of them is.
    known : (n,) array or None
        Values that the model has in their place, NaN where it takes the coefficient; None if it
        takes all.
    known_cells : (num_cells,) array or None
        Likewise what it has in cells, where a coefficient at a node may be of others as well.
    """

    first: int
    points: np.ndarray
    known: np.ndarray | None = None
    known_cells: np.ndarray | None = None


class OnMesh(NamedTuple):
    """The record of a model on a mesh; that of any other model is empty.

    Attributes
    ----------
    fields : tuple of FieldPlaces
    further : mapping of str to Distribution or Prior
        Of the coefficients behind those of the field, by name.
    sensors : Sensors or None
        The table of the readings.
    is_linear : bool
        Whether the solutions are linear between nodes.
    boundary_flux : callable or None
        What flows through boundary groups: see
        :func:`invlift.fem.equations.experiments.boundary_flux`.
    refined : callable or None
        ``refined(times)`` is the model of the same coefficients whose equation is solved on that
        mesh with each edge halved so many times, once by default.
    num_refined : int
        How often edges are halved in this model already.
    """

    fields: tuple[FieldPlaces, ...] = ()
    further: Mapping[str, Distribution] = {}
    sensors: Any = None
    is_linear: bool = True
    boundary_flux: Callable | None = None
    refined: Callable[..., Any] | None = None
    num_refined: int = 0

    @property
    def num_further(self) -> int:
        """Number of the coefficients behind those of the field."""
        return sum(math.prod(each.shape) for each in self.further.values())
