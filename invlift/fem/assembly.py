"""Assembly of the forward map with scikit-fem: everything that does not depend on phi, once."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real

import jax
import numpy as np
import skfem
from scipy.sparse import csr_array

from invlift.errors import InputError
from invlift.fem import linalg, sparse
from invlift.fem.conductivity import Conductivity
from invlift.fem.discretisation import (
    boundary_load,
    cell_basis,
    facet_basis,
    load_form,
    mass_form,
)
from invlift.fem.flux import BoundaryFlux
from invlift.fem.mesh.mesh import Mesh, check_anchored
from invlift.fem.poisson import PoissonMap
from invlift.fem.sensors import Observation
from invlift.precision import require_float64

#: A number, a value per named subdomain, or an array over the nodes or the cells.
Source = float | dict[str, float] | np.ndarray


def assemble_poisson(
    mesh: Mesh,
    observation: Observation,
    *,
    source: Source,
    dirichlet: dict[str, float | np.ndarray] | None = None,
    neumann: dict[str, float] | None = None,
    robin: dict[str, tuple[float, float]] | None = None,
    location: str = "nodes",
) -> PoissonMap:
    """Assemble the forward map.

    Parameters
    ----------
    mesh : Mesh
        Triangles or tetrahedra; lengths in the mesh's own unit, m say.
    observation : Observation
        Sensors as basis functions at their positions, from :func:`invlift.fem.sensors.locate`.
    source : float, dict or array
        f: a number, a value per named subdomain (zero elsewhere), or values at the nodes or cells.
    dirichlet : dict
        Named boundary -> value of u, a number or an array over the nodes.
    neumann : dict
        Named boundary -> inward flux, conductivity * du/dn.  Boundaries not named are insulated.
    robin : dict
        Named boundary -> (coefficient, ambient): conductivity * du/dn = coefficient
        * (ambient - u), coefficient > 0.
    location : {"nodes", "cells"}
        Where the coefficients of phi live.

    Returns
    -------
    PoissonMap

    Raises
    ------
    InputError
        If a group is unknown, two groups overlap, a source or a value is not finite, neither a
        Dirichlet nor a Robin boundary is given (the equation then fixes u only up to a constant),
        a part of the mesh touches none of them, or JAX is not in double precision.
    """
    require_float64(points=mesh.points)
    dirichlet, neumann, robin = dirichlet or {}, neumann or {}, robin or {}
    _check_disjoint(mesh, {"dirichlet": dirichlet, "neumann": neumann, "robin": robin})
    check_anchored(mesh, [*dirichlet, *robin])
    basis = cell_basis(mesh)
    cells = basis.mesh.t
    corners = mesh.dim + 1
    gradients = np.stack([basis.basis[i][0].grad[:, :, 0] for i in range(corners)])
    volumes = basis.dx.sum(axis=1)

    load = skfem.asm(load_form, basis, source=_source_at(basis, mesh, source))
    robin_matrix = csr_array((mesh.num_nodes, mesh.num_nodes))
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
        robin_matrix = robin_matrix + coefficient * skfem.asm(mass_form, facets)

    held, values = _dirichlet_values(mesh, dirichlet)
    whole_load = load.copy()
    load -= robin_matrix @ values
    free = np.setdiff1d(np.arange(mesh.num_nodes), held)
    if free.size == 0:
        raise InputError(
            "dirichlet",
            "a mesh with nodes off the Dirichlet boundary",
            "none left free",
            "refine the mesh",
        )
    number = np.full(mesh.num_nodes, free.size)
    number[free] = np.arange(free.size)
    unknowns = number[cells]
    first, second = np.tril_indices(corners)
    rows, cols = unknowns[first].ravel(), unknowns[second].ravel()
    kept = np.flatnonzero((rows < free.size) & (cols < free.size))
    products = np.sum(gradients[first] * gradients[second], axis=1)
    robin_rows, robin_cols, robin_values = sparse.lower_half(robin_matrix, number, free.size)
    structure = linalg.analyse(
        np.concatenate([rows[kept], robin_rows]),
        np.concatenate([cols[kept], robin_cols]),
        free.size,
        mesh.points[free],
    )
    observation_unknowns = number[observation.nodes]
    observation_load = np.zeros((free.size + 1, observation_unknowns.shape[0]))
    np.add.at(
        observation_load,
        (observation_unknowns, np.arange(observation_unknowns.shape[0])[:, None]),
        observation.weights,
    )
    conductivity, num_coefficients = _conductivity(basis, mesh, location)
    nodes = np.asarray(conductivity.nodes)
    sensitivity, sensitivity_entries = sparse.pattern(
        nodes[:, None], unknowns[None], num_coefficients, free.size
    )
    couplings, coupling_entries = sparse.pattern(
        unknowns[:, None], unknowns[None], free.size, free.size
    )
    return PoissonMap(
        conductivity=conductivity,
        gradients=jax.device_put(gradients),
        volumes=jax.device_put(volumes),
        cells=sparse.as_index(cells),
        sensitivity=sensitivity,
        sensitivity_entries=sparse.as_index(sensitivity_entries),
        couplings=couplings,
        coupling_entries=sparse.as_index(coupling_entries),
        free=sparse.as_index(free),
        unknowns=sparse.as_index(unknowns),
        kept_cells=sparse.as_index(kept % mesh.num_cells),
        kept_products=jax.device_put(products.ravel()[kept]),
        robin_values=jax.device_put(robin_values),
        structure=structure,
        load=jax.device_put(load[free]),
        dirichlet=jax.device_put(values),
        held_cells=sparse.as_index(np.flatnonzero(np.any(values[cells] != 0, axis=0))),
        observation_nodes=sparse.as_index(observation.nodes),
        observation_unknowns=sparse.as_index(observation_unknowns),
        observation_weights=jax.device_put(observation.weights),
        observation_load=jax.device_put(observation_load[:-1]),
        boundary_flux=BoundaryFlux(
            mesh, conductivity, cells, gradients, whole_load, robin_matrix, tuple(dirichlet)
        ),
    )


def _number(where: str, value) -> float:
    """A finite number, or an error that says where it stands."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value):
        raise InputError(where, "a finite number", f"{value!r}", "correct the value")
    return float(value)


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


def _conductivity(basis, mesh: Mesh, location: str) -> tuple[Conductivity, int]:
    """The map phi -> element conductivities for phi at the nodes or in the cells, and its size."""
    cells = basis.mesh.t
    if location == "nodes":
        points, weights = basis.X, basis.W
        shape = np.stack([basis.elem.lbasis(points, i)[0] for i in range(cells.shape[0])], axis=1)
        conductivity = Conductivity(
            sparse.as_index(cells),
            jax.device_put(shape),
            jax.device_put(weights / weights.sum()),
        )
        return conductivity, mesh.num_nodes
    if location == "cells":
        own = sparse.as_index(np.arange(mesh.num_cells)[None, :])
        one = jax.device_put(np.ones((1, 1)))
        return Conductivity(own, one, jax.device_put(np.ones(1))), mesh.num_cells
    raise InputError(
        "argument location", '"nodes" or "cells"', f"{location!r}", "say where phi lives"
    )
