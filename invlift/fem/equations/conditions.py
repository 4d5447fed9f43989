"""Sources and boundary conditions on linear elements, independent of the coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import skfem

from invlift.errors import InputError, KeyPath, as_number, as_numbers, positive_number
from invlift.fem.equations.discretisation import (
    boundary_load,
    facet_basis,
    load_form,
    mass_form,
    weighted_mass_form,
)
from invlift.fem.mesh import checks as mesh_checks
from invlift.fem.mesh.mesh import Mesh

#: A number, a value per named subdomain, or an array over the nodes or the cells.
Source = float | dict[str, float] | np.ndarray
#: Coordinates (dim,) and strength of each.
PointSources = Sequence[tuple[Sequence[float], float]]


def changed(conditions: Mapping[str, Any], change: Callable[[KeyPath, Any], Any]) -> dict[str, Any]:
    """Apply a function to each number, field or distribution of conditions.

    Parameters
    ----------
    conditions : mapping
        As for :func:`invlift.assemble_poisson`; other keys are unchanged.
    change : function of (where, value)
        Returns the new value.  ``where`` is ("source",) or ("source", subdomain), ("dirichlet",
        group), ("neumann", group), ("robin", group, "coefficient" or "ambient") or
        ("point_source", number from 1, "strength").
    """

    def of(key, given):
        if key == "source" and not isinstance(given, Mapping):
            return change((key,), given)
        if key in ("source", "dirichlet", "neumann"):
            return {name: change((key, name), value) for name, value in by_name(key, given).items()}
        if key == "robin":
            return {
                group: tuple(
                    change((key, group, part), value)
                    for part, value in _pair((key, group), each, "coefficient", "ambient").items()
                )
                for group, each in by_name(key, given).items()
            }
        if key == "point_sources":
            return [
                (pair["place"], change((*where, "strength"), pair["strength"]))
                for number, each in enumerate(_listed(key, given), start=1)
                for where in [("point_source", number)]
                for pair in [_pair(where, each, "place", "strength")]
            ]
        return given

    return {key: of(key, given) for key, given in conditions.items()}


def by_name(where: str | KeyPath, given: Any) -> Mapping[str, Any]:
    """Return a mapping of names of groups or subdomains to values, empty for None.

    Raises
    ------
    InputError
        If it is something else.
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        remedy = 'name what each value is of: {"left": 1.0}, for example'
        raise InputError(where, "values by names", f"{given!r}"[:80], remedy)
    return given


def _listed(key: str, given: Any) -> Iterable[Any]:
    """Return the entries of a list, none for None."""
    given = () if given is None else given
    if isinstance(given, Mapping | str) or not np.iterable(given):
        remedy = "write [((x, y), strength)]"
        raise InputError(key, "a list of pairs (place, strength)", f"{given!r}"[:80], remedy)
    return given


def _pair(where: KeyPath, given: Any, *names: str) -> dict[str, Any]:
    """Return two values by their names."""
    is_pair = not isinstance(given, Mapping | str) and np.iterable(given) and len(given) == 2
    if not is_pair:
        expected, remedy = f"a pair ({', '.join(names)})", "give the two values in this order"
        raise InputError(where, expected, f"{given!r}"[:80], remedy)
    return dict(zip(names, given, strict=True))


def entries(conditions: Mapping[str, Any]) -> list[tuple[KeyPath, Any]]:
    """Return each number, field or distribution of conditions, with its place as in `changed`."""
    found = []
    changed(conditions, lambda *entry: found.append(entry))
    return found


def check_conditions(mesh: Mesh, dirichlet, neumann, robin, point_sources=()) -> None:
    """Check that groups exist and do not overlap, and that they determine the solution.

    No point source may be where the solution is held, as it would have no effect there.
    """
    groups = {"dirichlet": dirichlet, "neumann": neumann, "robin": robin}
    _check_disjoint(mesh, groups)
    for kind, group in ((kind, group) for kind, named in groups.items() for group in named):
        if mesh.sides and mesh.is_on_sides(mesh.points[mesh.facets(group)].mean(axis=1)).any():
            remedy = "give it on a group beside the barrier, or leave out the barrier"
            raise InputError((kind, group), "a group beside the barrier", "one on it", remedy)
    check_anchored(mesh, [*dirichlet, *robin])
    held = held_values(mesh, dict.fromkeys(dirichlet, 0.0))[0]
    for number, (point, _) in enumerate(point_sources, start=1):
        where = ("point_source", number)
        nodes, weights = _at_point(mesh, where, point)
        if np.isin(nodes[np.abs(weights) > 1e-9], held).all():
            expected = f"a place off the boundary groups {', '.join(dirichlet)}"
            found = f"{np.asarray(point).tolist()}, where the solution is given"
            raise InputError(where, expected, found, "move it: it would change nothing there")


def check_anchored(mesh: Mesh, groups: Iterable[str]) -> None:
    """Check that each connected part of the body has a Dirichlet or Robin facet.

    Without one, the solution on that part is determined only up to a constant, and the stiffness
    matrix is singular.

    Parameters
    ----------
    mesh : Mesh
    groups : iterable of str
        The boundary groups with a Dirichlet or Robin condition.

    Raises
    ------
    InputError
        If there are no such groups, or a part has no condition; the message names its size and
        position.
    """
    groups = list(groups)
    if not groups:
        raise InputError(
            "boundary conditions",
            "a boundary with a Dirichlet or Robin condition",
            "none, so the solution is determined only up to a constant",
            "hold it on a boundary: give dirichlet a value for the group boundary, for example",
        )
    is_anchored = np.zeros(mesh.components.max() + 1, dtype=bool)
    for group in groups:
        is_anchored[mesh.components[mesh.facets(group)]] = True
    if is_anchored.all():
        return
    nodes = np.flatnonzero(mesh.components == np.flatnonzero(~is_anchored)[0])
    raise InputError(
        "boundary conditions",
        "a Dirichlet or Robin condition on each connected part of the mesh",
        f"{np.count_nonzero(~is_anchored)} of {len(is_anchored)} parts without one, the first "
        f"with {len(nodes)} nodes near {mesh_checks.place(mesh.points[nodes[0]])}",
        f"add a condition there, or merge the parts if mesh {mesh.name!r} should be connected",
    )


def load_of(
    mesh: Mesh,
    basis: skfem.Basis,
    *,
    source: float | dict[str, float] | np.ndarray = 0.0,
    neumann: Mapping[str, float] | None = None,
    point_sources: PointSources = (),
) -> np.ndarray:
    """Return the load vector of sources, as of :func:`at_corners`, and fluxes, (num_nodes,)."""
    load = skfem.asm(load_form, basis, source=_source_at(basis, mesh, source))
    for number, (point, strength) in enumerate(point_sources, start=1):
        nodes, weights = _at_point(mesh, ("point_source", number), point)
        load[nodes] += weights * _number(("point_source", number, "strength"), strength)
    for group, flux in (neumann or {}).items():
        flux = on_boundary(mesh, group, ("neumann", group), flux)
        load += facet_load(basis, mesh, group, flux)
    return load


def coefficient_on(mesh: Mesh, group: str, value) -> float | np.ndarray:
    """Return a Robin coefficient of a boundary group: a positive number, or one for each node.

    Raises
    ------
    InputError
        If the coefficient is not positive on the group, or is not valid for :func:`on_boundary`.
    """
    where = ("robin", group, "coefficient")
    value = on_boundary(mesh, group, where, value)
    own = value if np.ndim(value) == 0 else value[mesh.facets(group)]
    if not np.all(own > 0):
        remedy = "leave the boundary out to insulate it"
        raise InputError(where, "a positive number", f"{np.min(own)}", remedy)
    return value


def on_boundary(mesh: Mesh, group: str, where: str, value) -> float | np.ndarray:
    """Return a finite number, or nodal values that are finite on a boundary group and 0 elsewhere.

    Raises
    ------
    InputError
        If a value is not finite, or an array is not of the nodes.
    """
    if np.ndim(value) == 0:
        return _number(where, value)
    expected, remedy = f"{mesh.num_nodes} nodal values", "give a point field of the mesh"
    value = as_numbers(where, value, expected, remedy)
    nodes = np.unique(mesh.facets(group))
    if value.shape != (mesh.num_nodes,):
        raise InputError(where, expected, f"shape {value.shape}", remedy)
    _check_finite(where, value, mesh.points, nodes)
    values = np.zeros_like(value)  # values at other nodes may be NaN
    values[nodes] = value[nodes]
    return values


def _check_finite(where: str, values: np.ndarray, places: np.ndarray, needed) -> None:
    """Refuse values that are not finite among those that are needed; the message names a place."""
    bad = np.arange(len(values))[needed]
    bad = bad[~np.isfinite(values[bad])]
    if bad.size:
        found = f"{values[bad[0]]} at {mesh_checks.place(places[bad[0]])}"
        raise InputError(where, "finite values", found, "correct the field or the expression")


def facet_mass(basis: skfem.Basis, mesh: Mesh, group: str, weight: float | np.ndarray):
    """Return the matrix of integrals of a weight times u v over a boundary group."""
    facets = facet_basis(basis, mesh, group)
    if np.ndim(weight) == 0:
        return weight * skfem.asm(mass_form, facets)
    return skfem.asm(weighted_mass_form, facets, weight=facets.interpolate(weight))


def facet_load(basis: skfem.Basis, mesh: Mesh, group: str, flux: float | np.ndarray) -> np.ndarray:
    """Return the load vector of a flux, a number or (num_nodes,), through a boundary group."""
    facets = facet_basis(basis, mesh, group)
    if np.ndim(flux) == 0:
        return flux * skfem.asm(boundary_load, facets)
    return skfem.asm(load_form, facets, source=facets.interpolate(np.asarray(flux, dtype=float)))


def exchange_load(basis, mesh: Mesh, group: str, coefficient, ambient) -> np.ndarray:
    """Return the load vector of a Robin condition, coefficient times ambient value, (num_nodes,).

    If both are fields, each is interpolated, as in the matrix, so that u = ambient is an
    equilibrium.
    """
    if np.ndim(coefficient) and np.ndim(ambient):
        return facet_mass(basis, mesh, group, coefficient) @ ambient
    return facet_load(basis, mesh, group, np.multiply(coefficient, ambient))


def _number(where: str, value) -> float:
    """Return a finite number; the error message of any other value names its place."""
    number = as_number(value)
    if not np.isfinite(number):
        raise InputError(where, "a finite number", f"{value!r}", "correct the value")
    return number


def _at_point(mesh: Mesh, where: str, point: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of the cell at a point, and their basis functions there, (dim + 1,) each."""
    place = as_numbers(where, point, f"{mesh.dim} coordinates", "give the place of the source")
    is_inside = place.shape == (mesh.dim,)
    if is_inside:
        cells, weights = mesh.find_cells(place[None])
        is_inside = cells[0] >= 0
    if not is_inside:
        expected = f"{mesh.dim} coordinates of a place inside the mesh {mesh.name!r}, which spans "
        raise InputError(where, expected + mesh.extent, f"{place.tolist()}", "correct it")
    if mesh.is_on_sides(place[None]).any():
        remedy = "move it to one of its sides"
        raise InputError(where, "a place beside the barrier", f"{place.tolist()}, on it", remedy)
    return mesh.cells[cells[0]], weights[0]


def numbers_of_subdomains(
    mesh: Mesh, key: str, given: Mapping[str, float] | None, remedy: str = "correct it"
) -> np.ndarray:
    """Return positive numbers of named subdomains in their cells, (num_cells,), NaN elsewhere.

    Raises
    ------
    InputError
        As :func:`by_name`; if there is no such subdomain, a value is not a positive number, or two
        subdomains overlap.
    """
    numbers = np.full(mesh.num_cells, np.nan)
    for name, value in by_name(key, given).items():
        cells, value = mesh.cells_of(name, (key, name)), positive_number((key, name), value, remedy)
        if not np.isnan(numbers[cells]).all():
            expected, apart = "a subdomain that no other overlaps", "name disjoint ones"
            raise InputError((key, name), expected, "one that another overlaps", apart)
        numbers[cells] = value
    return numbers


def is_array(value: Any) -> bool:
    """Return whether a value of a condition is a field, an array or a sequence of numbers."""
    # Schedules are named tuples, and no fields.
    return (type(value) in (list, tuple) or hasattr(value, "__array__")) and np.ndim(value) > 0


def location_of(mesh: Mesh, where: KeyPath | str, values: np.ndarray) -> Literal["nodes", "cells"]:
    """Return where an array has its values, by its shape.

    Raises
    ------
    InputError
        If it has another shape, or the mesh has as many cells as nodes.
    """
    is_nodal, is_in_cells = (values.shape == (size,) for size in (mesh.num_nodes, mesh.num_cells))
    if is_nodal and is_in_cells:
        expected, found = "numbers by subdomain, or a field of the mesh by its name", "an array"
        raise InputError(where, expected, found, "name them: this mesh has as many cells as nodes")
    if not (is_nodal or is_in_cells):
        expected = f"{mesh.num_nodes} values at nodes or {mesh.num_cells} in cells"
        raise InputError(where, expected, f"an array of shape {values.shape}", "give one for each")
    return "nodes" if is_nodal else "cells"


def at_corners(mesh: Mesh, where: KeyPath, values, location: str | None = None) -> np.ndarray:
    """Return a source at the corners of cells, (num_cells, dim + 1), where it has one meaning.

    Raises
    ------
    InputError
        If a value is not finite; without a location also as :func:`location_of`.
    """
    values = as_numbers(where, values)
    if values.shape == mesh.cells.shape:
        return values
    location = location or location_of(mesh, where, values)
    _check_finite(where, values, mesh.places_of(location), slice(None))
    if location == "nodes":
        return values[mesh.cells]
    return np.broadcast_to(values[:, None], mesh.cells.shape)


def _source_at(basis, mesh: Mesh, source: float | dict[str, float] | np.ndarray) -> np.ndarray:
    """Return the source at the quadrature points, (num_cells, num_points).

    Fields are values at the corners of cells.
    """
    shape = basis.dx.shape
    if isinstance(source, dict):
        per_cell = np.zeros(mesh.num_cells)
        for name, value in source.items():
            per_cell[mesh.cells_of(name, "source")] += _number(("source", name), value)
        return np.broadcast_to(per_cell[:, None], shape)
    if np.ndim(source) == 0:
        return np.full(shape, _number("source", source))
    # scikit-fem has its own order of a triangle's nodes.
    order = np.argmax(mesh.cells[:, None] == basis.element_dofs.T[..., None], axis=2)
    own = np.take_along_axis(source, order, axis=1)
    return sum(np.asarray(each) * own[:, [k]] for k, (each,) in enumerate(basis.basis))


def _check_disjoint(mesh: Mesh, groups: dict[str, Iterable[str]]) -> None:
    """Check that the groups of all conditions exist, and that no facet has two conditions."""
    owner: dict[tuple, str] = {}
    for kind, group in ((kind, group) for kind, named in groups.items() for group in named):
        for facet in map(tuple, np.sort(mesh.facets(group, kind), axis=1).tolist()):
            if owner.setdefault(facet, group) != group:
                raise InputError(
                    "boundary conditions",
                    "one condition on each part of the boundary",
                    f"groups {owner[facet]!r} and {group!r} overlapping",
                    "name disjoint groups, or drop one of the conditions",
                )


def held_values(mesh: Mesh, dirichlet) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes with Dirichlet values, and the nodal vector of these values."""
    values = np.zeros(mesh.num_nodes)
    held = np.zeros(mesh.num_nodes, dtype=bool)
    for group, value in dirichlet.items():
        nodes = np.unique(mesh.facets(group))
        value = on_boundary(mesh, group, ("dirichlet", group), value)
        values[nodes] = value if np.ndim(value) == 0 else value[nodes]
        held[nodes] = True
    if held.all():
        raise InputError(
            "dirichlet",
            "a mesh with nodes off the Dirichlet boundary",
            "none left free",
            "refine the mesh",
        )
    return np.flatnonzero(held), values
