"""Transfer of conditions and readings from the given mesh to a refined mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from invlift.fem.equations.conditions import at_corners, changed, is_array, location_of
from invlift.fem.equations.discretisation import OfThickness
from invlift.fem.fields.random_field import RandomField
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.readings.base import FIELD, FLUXES, SOLUTION, Weights
from invlift.fem.readings.locate import Observation, weights_on


@dataclass(frozen=True, eq=False)
class InterpolatedField(RandomField):
    """A random field on a boundary, linear between the nodes of the given mesh.

    Attributes
    ----------
    given : (n, dim) array
        Points at which the random field is defined.
    matrix : (k, n) sparse array
        Interpolation from these points to k others.
    """

    given: np.ndarray
    matrix: Any

    def modes(self, points: np.ndarray, where: str) -> np.ndarray:
        """As :meth:`RandomField.modes`, (k, K), interpolated from the points ``given``."""
        return self.matrix @ super().modes(self.given, where)


@runtime_checkable
class MadeOfFields(Protocol):
    """A value of a condition that is made of fields at the nodes, such as one that changes."""

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> Any:
        """Return the value with a function of each field in its place."""


def conditions_on(refinement: Refinement, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Return conditions of :func:`invlift.assemble_poisson` with interpolated arrays and fields."""

    def interpolated(where, value):
        if isinstance(value, MadeOfFields):
            return value.mapped(partial(interpolated, where))
        if where == ("source",) and is_array(value):
            location = location_of(refinement.given, where, np.asarray(value))
            return at_corners(
                refinement.mesh, where, refinement.of_field(location) @ value, location
            )
        if isinstance(value, RandomField):
            nodes = np.unique(refinement.given.facets(where[1]))
            matrix = refinement.nodes[np.unique(refinement.mesh.facets(where[1]))][:, nodes]
            parts = interpolated(where, value.mean), value.sd, value.correlation_range
            return InterpolatedField(*parts, refinement.given.points[nodes], matrix)
        return refinement.nodes @ np.asarray(value) if is_array(value) else value

    return changed(conditions, interpolated)


def thickness_on(refinement: Refinement, given: Any) -> Any:
    """Interpolate the array of a thickness; return any other value unchanged."""
    if not is_array(given):
        return given
    location = location_of(refinement.given, "thickness", np.asarray(given))
    return OfThickness(refinement.of_field(location) @ given, location == "nodes")


def observation_on(refinement: Refinement, observation: Observation) -> Observation:
    """Return the same readings of the solution on a refined mesh.

    Points are located on the refined mesh.  Readings that were made without a mesh keep their
    nodes.  Readings of the field keep their values on the given mesh.
    """
    parts = dict(observation.parts)
    if observation.mesh is not None and (SOLUTION in parts or FLUXES in parts):
        located = weights_on(refinement, observation.sensors)
        parts |= {name: located[name] for name in (SOLUTION, FLUXES) if name in located}
    if FIELD in parts:
        places, weights = parts[FIELD]
        parts[FIELD] = Weights(refinement.corners.ravel()[places], weights)
    return replace(observation, parts=parts, mesh=refinement.mesh)
