"""Sources and boundary conditions with unknown numbers, given as distributions.

Loads and held values are affine in these numbers, so the effect of one unit of each is assembled.
Robin coefficients change the matrix instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import skfem

from invlift.errors import InputError, KeyPath, as_path, closest, errors_at
from invlift.fem.equations.conditions import (
    check_conditions,
    coefficient_on,
    held_values,
    load_of,
    on_boundary,
)
from invlift.fem.fields.random_field import RandomField
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.time.schedules import check_is_steady
from invlift.unknowns.distributions import Distribution, as_distribution, is_distribution, normal

#: Keys of conditions whose numbers may be unknown.
KEYS = "source", "dirichlet", "neumann", "robin", "point_sources"


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
    given = {key: conditions.get(key) or {} for key in ("dirichlet", "neumann", "robin")}
    points = conditions.get("point_sources") or ()
    check_conditions(mesh, **given, point_sources=points)
    unknowns = _Unknowns(mesh, prefix)
    held = dict.fromkeys(given["dirichlet"], 0.0)
    values = dict(held)
    for group, value in given["dirichlet"].items():
        where = ("dirichlet", group)
        if isinstance(value, RandomField):
            nodes = np.unique(mesh.facets(group))
            modes = value.modes(mesh.points[nodes], where)
            nodal = np.zeros((modes.shape[1], mesh.num_nodes))
            nodal[:, nodes] = modes.T
            units = [held_values(mesh, held | {group: each})[1] for each in nodal]
            scores = normal(np.zeros(len(units)), 1.0)
            unknowns.add(
                "dirichlet", where, scores, lambda units=units: Unit(values=np.stack(units))
            )
            values[group] = value.mean
        else:
            unit = lambda group=group: Unit(  # noqa: E731
                values=held_values(mesh, held | {group: 1.0})[1][None]
            )
            values[group] = unknowns.known("dirichlet", where, value, unit)

    def load(**of_one) -> Callable[[], Unit]:
        return lambda: Unit(load=load_of(mesh, basis, **of_one)[None])

    source = conditions.get("source", 0.0)
    if isinstance(source, Mapping):
        source = {
            name: unknowns.known("source", ("source", name), value, load(source={name: 1.0}))
            for name, value in source.items()
        }
    else:
        source = unknowns.known("source", "source", source, load(source=1.0))
    neumann = {
        group: unknowns.known("neumann", ("neumann", group), value, load(neumann={group: 1.0}))
        for group, value in given["neumann"].items()
    }
    known_points = []
    for number, (place, strength) in enumerate(points, start=1):
        unit, where = load(point_sources=[(place, 1.0)]), ("point_source", number)
        known_points.append((place, unknowns.known("point_sources", where, strength, unit)))
    robin = {}
    for group, (coefficient, ambient) in given["robin"].items():
        where = ("robin", group, "ambient")
        unit = lambda group=group: Unit(ambient=group)  # noqa: E731
        robin[group] = (
            unknowns.coefficient(group, coefficient),
            on_boundary(mesh, group, where, unknowns.known("robin", where, ambient, unit)),
        )
    return Parts(
        load_of(mesh, basis, source=source, neumann=neumann, point_sources=known_points),
        *held_values(mesh, values),
        tuple(held),
        robin,
        unknowns.units,
        unknowns.unknowns,
    )


class _Unknowns:
    """Unknowns of the conditions found so far, by name."""

    def __init__(self, mesh: Mesh, prefix: Callable[[str], str]) -> None:
        self.mesh, self.prefix = mesh, prefix
        self.units: dict[str, Unit] = {}
        self.unknowns: dict[str, Distribution] = {}

    def add(
        self, key: str, where: str | KeyPath, distribution, unit: Callable[[], Unit] | None
    ) -> str:
        """Add an unknown, and return its name."""
        name = re.sub(r"\W", "_", self.prefix(key) + "_".join(map(str, as_path(where))))
        if name in self.unknowns:
            remedy = "rename a group: names have letters and digits in results"
            raise InputError(where, "an unknown of another name", name, remedy)
        self.unknowns[name] = distribution
        if unit is not None:
            self.units[name] = unit()
        return name

    def known(self, key: str, where: str | KeyPath, value, unit: Callable[[], Unit]):
        """Return the value, or zero if it is unknown; add the unknown."""
        check_is_steady(value)
        if not is_distribution(value):
            return value
        self.add(key, where, one_number(where, value), unit)
        return 0.0

    def coefficient(self, group: str, value):
        """Return a Robin coefficient, or the name of an unknown one; add the unknown."""
        check_is_steady(value)
        if not is_distribution(value):
            return coefficient_on(self.mesh, group, value)
        where = ("robin", group, "coefficient")
        return self.add("robin", where, one_number(where, value, is_positive=True), None)


def one_number(where: str | KeyPath, value, *, is_positive: bool = False) -> Distribution:
    """Return the distribution of one number, and check its shape and, if required, its support.

    Raises
    ------
    InputError
        If the value is not such a distribution.
    """
    with errors_at(where):
        found = as_distribution(value)
    if found.shape != ():
        raise InputError(where, "a distribution of one number", f"shape {found.shape}", "give one")
    if is_positive and not found.support[0] >= 0.0:
        expected, remedy = (
            "a distribution of a positive number",
            "give lognormal(median=..., factor=2), say",
        )
        raise InputError(where, expected, f"{value!r}"[:80], remedy)
    return found
