"""Sources and boundary conditions with unknown numbers, given as distributions.

Loads and held values are affine in these numbers, so the effect of one unit of each is assembled.
Robin coefficients change the matrix instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import skfem

from invlift.errors import InputError, KeyPath, closest
from invlift.fem.equations.conditions import (
    changed,
    check_conditions,
    coefficient_on,
    held_values,
    load_of,
    on_boundary,
)
from invlift.fem.equations.texts import without_texts
from invlift.fem.fields.random_field import RandomField
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.time.schedules import check_is_steady
from invlift.unknowns.distributions import Distribution, is_distribution, normal, one_number

#: Keys of conditions whose numbers may be unknown, in the order of their unknowns.
KEYS = "dirichlet", "source", "neumann", "point_sources", "robin"
#: Those of the load.
LOADS = "source", "neumann", "point_sources"
#: First part of the place of a point source, as in :func:`changed`.
POINT = "point_source"


class Unit(NamedTuple):
    """Load and held values of one unit of each of k unknown numbers.

    Attributes
    ----------
    load : (k, num_nodes) array or None
    values : (k, num_nodes) array or None
        Values at nodes where u is held.
    ambient : str or None
        Boundary group, if the unknown is its ambient value.
    """

    load: np.ndarray | None = None
    values: np.ndarray | None = None
    ambient: str | None = None


class Parts(NamedTuple):
    """Known and unknown parts of the conditions.

    Attributes
    ----------
    load : (num_nodes,) array
    held : (num_held,) array of int
        Nodes at which u is given.
    values : (num_nodes,) array
        Given values of u, zero elsewhere.
    held_groups : tuple of str
    robin : dict of str to (float, array or str, float or array)
        Coefficient of each group, or the name of an unknown one, and ambient value.
    units : dict of str to Unit
        Name of an unknown -> its unit.
    unknowns : dict of str to Distribution
        Distributions of these unknowns and of unknown Robin coefficients.
    """

    load: np.ndarray
    held: np.ndarray
    values: np.ndarray
    held_groups: tuple[str, ...]
    robin: dict[str, tuple[Any, Any]]
    units: dict[str, Unit]
    unknowns: dict[str, Distribution]


def parts_of(
    mesh: Mesh,
    basis: skfem.Basis,
    conditions: Mapping[str, Any],
    prefix: Callable[[str], str] = lambda key: "",
) -> Parts:
    """Separate the known from the unknown parts of conditions.

    Parameters
    ----------
    mesh : Mesh
    basis : skfem.Basis
    conditions : mapping
        As for :func:`invlift.assemble_poisson`.
    prefix : callable
        Key of a condition -> prefix of the names of its unknowns.

    Raises
    ------
    InputError
        As :func:`invlift.assemble_poisson`.
    """
    for key in conditions.keys() - {*KEYS}:
        close = closest(key, KEYS)
        remedy = f"did you mean {close!r}?" if close else "remove it"
        raise InputError(f"condition {key}", f"one of {', '.join(KEYS)}", repr(key), remedy)
    given = without_texts(mesh, {key: conditions[key] for key in KEYS if key in conditions})
    named = {key: given.get(key) or {} for key in KEYS if key != "source"}
    check_conditions(mesh, **named)
    held = dict.fromkeys(named["dirichlet"], 0.0)
    units: dict[str, Unit] = {}
    unknowns: dict[str, Distribution] = {}

    def add(where: KeyPath, distribution: Distribution, unit: Callable[[], Unit] | None) -> str:
        """Add an unknown, and return its name."""
        *parts, key = (*where[:2], "point_sources") if where[0] == POINT else (*where, where[0])
        name = re.sub(r"\W", "_", prefix(key) + "_".join(map(str, parts)))
        if name in unknowns:
            remedy = "rename a group: names have letters and digits in results"
            raise InputError(where, "an unknown of another name", name, remedy)
        unknowns[name] = distribution
        if unit is not None:
            units[name] = unit()
        return name

    def unit_of(where: KeyPath) -> Unit:
        if where[0] == "dirichlet":
            return Unit(values=held_values(mesh, held | {where[1]: 1.0})[1][None])
        if where[0] == "robin":
            return Unit(ambient=where[1])
        key, one = where[0], {where[1]: 1.0} if where[1:] else 1.0
        if key == POINT:
            key, one = "point_sources", [(given["point_sources"][where[1] - 1][0], 1.0)]
        return Unit(load=load_of(mesh, basis, **{key: one})[None])

    def known(where: KeyPath, value) -> Any:
        """Return a known value, 0 for an unknown one, or the name of an unknown coefficient."""
        check_is_steady(value)
        if where[0] == "dirichlet" and isinstance(value, RandomField):
            nodes = np.unique(mesh.facets(where[1]))
            modes = value.modes(mesh.points[nodes], where)
            nodal = np.zeros((modes.shape[1], mesh.num_nodes))
            nodal[:, nodes] = modes.T
            each = [held_values(mesh, held | {where[1]: mode})[1] for mode in nodal]
            add(where, normal(np.zeros(len(each)), 1.0), lambda: Unit(values=np.stack(each)))
            return value.mean
        is_coefficient = where[2:] == ("coefficient",)
        if is_distribution(value):
            distribution = one_number(where, value, is_positive=is_coefficient)
            name = add(where, distribution, None if is_coefficient else partial(unit_of, where))
            return name if is_coefficient else 0.0
        return coefficient_on(mesh, where[1], value) if is_coefficient else value

    found = changed(given, known)
    robin = {
        group: (coefficient, on_boundary(mesh, group, ("robin", group, "ambient"), ambient))
        for group, (coefficient, ambient) in found.get("robin", {}).items()
    }
    return Parts(
        load_of(mesh, basis, **{key: found[key] for key in LOADS if key in found}),
        *held_values(mesh, found.get("dirichlet", {})),
        tuple(held),
        robin,
        units,
        unknowns,
    )
