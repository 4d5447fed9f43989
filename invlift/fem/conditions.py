"""Sources and boundary conditions on linear elements, which no coefficient changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import skfem
from scipy.sparse import csr_array

from invlift.errors import InputError
from invlift.fem.discretisation import boundary_load, facet_basis, load_form, mass_form
from invlift.fem.mesh.mesh import Mesh, check_anchored

#: A number, a value per named subdomain, or an array over the nodes or the cells.
Source = float | dict[str, float] | np.ndarray
#: Coordinates (dim,) and strength of each.
PointSources = Sequence[tuple[Sequence[float], float]]


@dataclass(frozen=True, eq=False)
class Conditions:
    """Assembled conditions on all nodes.

    Attributes
    ----------
    load : (num_nodes,) array
        Source, Neumann and Robin ambient terms.
    robin : (num_nodes, num_nodes) sparse array
        Boundary matrix of Robin conditions.
    held : (num_held,) int array
        Nodes at which u is given.
    values : (num_nodes,) array
        u there, zero elsewhere.
    held_groups : tuple of str
        Boundary groups on which u is given.
    """

    load: np.ndarray
    robin: csr_array
    held: np.ndarray
    values: np.ndarray
    held_groups: tuple[str, ...]


def assemble_conditions(
    mesh: Mesh,
    basis: skfem.Basis,
    *,
    source: Source = 0.0,
    dirichlet: Mapping[str, float | np.ndarray] | None = None,
    neumann: Mapping[str, float] | None = None,
    robin: Mapping[str, tuple[float, float]] | None = None,
    point_sources: PointSources = (),
) -> Conditions:
    """Assemble source and boundary conditions: see :func:`invlift.assemble_poisson`."""
    dirichlet, neumann, robin = dirichlet or {}, neumann or {}, robin or {}
    _check_disjoint(mesh, {"dirichlet": dirichlet, "neumann": neumann, "robin": robin})
    check_anchored(mesh, [*dirichlet, *robin])
    load = skfem.asm(load_form, basis, source=_source_at(basis, mesh, source))
    matrix = csr_array((mesh.num_nodes, mesh.num_nodes))
    for number, (point, strength) in enumerate(point_sources, start=1):
        nodes, weights = _at_point(mesh, f"point_source, {number}", point)
        load[nodes] += weights * _number(f"point_source, {number}, strength", strength)
    for group, flux in neumann.items():
        load += _number(f"neumann, {group}", flux) * skfem.asm(
            boundary_load, facet_basis(basis, mesh, group)
        )
    for group, (coefficient, ambient) in robin.items():
        if not _number(f"robin, {group}, coefficient", coefficient) > 0:
            raise InputError(
                f"robin, {group}, coefficient",
                "a positive number",
                f"{coefficient}",
                "leave the boundary out to insulate it",
            )
        facets = facet_basis(basis, mesh, group)
        load += (
            coefficient
            * _number(f"robin, {group}, ambient", ambient)
            * skfem.asm(boundary_load, facets)
        )
        matrix = matrix + coefficient * skfem.asm(mass_form, facets)

    held, values = _dirichlet_values(mesh, dirichlet)
    if held.size == mesh.num_nodes:
        raise InputError(
            "dirichlet",
            "a mesh with nodes off the Dirichlet boundary",
            "none left free",
            "refine the mesh",
        )
    return Conditions(load, matrix, held, values, tuple(dirichlet))


def _number(where: str, value) -> float:
    """A finite number, or an error that says where it stands."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value):
        raise InputError(where, "a finite number", f"{value!r}", "correct the value")
    return float(value)


def _at_point(mesh: Mesh, where: str, point: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of the cell at a place, and their basis functions there, (dim + 1,) each."""
    place = np.asarray(point, dtype=float)
    is_inside = place.shape == (mesh.dim,)
    if is_inside:
        cells, weights = mesh.find_cells(place[None])
        is_inside = cells[0] >= 0
    if not is_inside:
        box = " to ".join(str(edge.tolist()) for edge in (mesh.points.min(0), mesh.points.max(0)))
        raise InputError(
            where,
            f"{mesh.dim} coordinates of a place inside the mesh {mesh.name!r}, which spans {box}",
            f"{place.tolist()}",
            "correct it",
        )
    return mesh.cells[cells[0]], weights[0]


def _source_at(basis, mesh: Mesh, source: Source) -> np.ndarray:
    """Source at the quadrature points, (num_cells, num_points)."""
    shape = basis.dx.shape
    if isinstance(source, dict):
        per_cell = np.zeros(mesh.num_cells)
        for name, value in source.items():
            per_cell[mesh.cells_of(name, "source")] += _number(f"source, {name}", value)
        return np.broadcast_to(per_cell[:, None], shape)
    if np.ndim(source) == 0:
        return np.full(shape, _number("source", source))
    source = np.asarray(source, dtype=float)
    if not np.all(np.isfinite(source)):
        where = int(np.flatnonzero(~np.isfinite(source))[0])
        raise InputError(
            f"source, entry {where}", "finite values", f"{source[where]}", "correct the field"
        )
    if source.shape == (mesh.num_nodes,):
        return np.asarray(basis.interpolate(source))
    if source.shape == (mesh.num_cells,):
        return np.broadcast_to(source[:, None], shape)
    raise InputError(
        "source",
        f"{mesh.num_nodes} values at nodes or {mesh.num_cells} in cells",
        f"an array of shape {source.shape}",
        "give a field of this mesh",
    )


def _check_disjoint(mesh: Mesh, groups: dict[str, Iterable[str]]) -> None:
    """Groups, by kind of their condition, must exist, and no facet may carry two conditions."""
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


def _dirichlet_values(mesh: Mesh, dirichlet) -> tuple[np.ndarray, np.ndarray]:
    """Nodes held by Dirichlet values, and the nodal vector of these values."""
    values = np.zeros(mesh.num_nodes)
    held = np.zeros(mesh.num_nodes, dtype=bool)
    for group, value in dirichlet.items():
        nodes = np.unique(mesh.facets(group))
        if np.ndim(value) == 0:
            values[nodes] = _number(f"dirichlet, {group}", value)
        else:
            value = np.asarray(value, dtype=float)
            if value.shape != (mesh.num_nodes,) or not np.all(np.isfinite(value[nodes])):
                raise InputError(
                    f"dirichlet, {group}",
                    f"{mesh.num_nodes} finite nodal values",
                    f"shape {value.shape}, or NaN on the boundary",
                    "give a point field of the mesh",
                )
            values[nodes] = value[nodes]
        held[nodes] = True
    return np.flatnonzero(held), values
