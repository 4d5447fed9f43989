"""Structured meshes of boxes with a named group per side and two named halves, and their files."""

import numpy as np
import skfem

from invlift.fem.mesh.construction import mesh_from_arrays

SIDES = (("left", "right"), ("bottom", "top"), ("front", "back"))


def box_mesh(dim, num, size=1.0):
    """Mesh of [0, size]^dim with num cells per edge, cut into simplices.

    Boundaries are ``left``, ``right`` (x), ``bottom``, ``top`` (y) and ``front``, ``back`` (z),
    subdomains ``low`` and ``high`` the halves in x; ``ramp`` is 1 + x, at the nodes and the cells.
    """
    ticks = [np.linspace(0.0, size, num + 1)] * dim
    kind = skfem.MeshTri if dim == 2 else skfem.MeshTet
    grid = kind.init_tensor(*ticks)
    points, cells = grid.p.T, grid.t.T.copy()
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    is_inverted = np.linalg.det(edges) < 0
    cells[is_inverted, -2:] = cells[is_inverted, :-3:-1]
    facets = grid.facets.T[grid.boundary_facets()]
    middles = points[facets].mean(axis=1)
    boundaries = {
        name: facets[np.isclose(middles[:, axis], place)]
        for axis in range(dim)
        for name, place in zip(SIDES[axis], (0.0, size), strict=True)
    }
    centres = points[cells].mean(axis=1)[:, 0]
    return mesh_from_arrays(
        points,
        cells,
        boundaries=boundaries,
        subdomains={
            "low": np.flatnonzero(centres < size / 2),
            "high": np.flatnonzero(centres >= size / 2),
        },
        point_fields={"ramp": 1.0 + points[:, 0]},
        cell_fields={"ramp_in_cells": 1.0 + centres},
        name="box",
    )


def write_gmsh(path, mesh):
    """Write a mesh with its groups and its fields at the nodes as gmsh 2.2 text."""
    types = {2: (1, 2), 3: (2, 4)}[mesh.dim]  # gmsh's numbers of facets and cells
    groups = [(mesh.dim - 1, name, nodes) for name, nodes in mesh.boundaries.items()]
    groups += [(mesh.dim, name, mesh.cells[index]) for name, index in mesh.subdomains.items()]
    elements = [
        (types[dim - mesh.dim + 1], tag, *(nodes + 1))
        for tag, (dim, _, rows) in enumerate(groups, start=1)
        for nodes in rows
    ]
    points = np.column_stack([mesh.points, np.zeros((mesh.num_nodes, 3 - mesh.dim))])
    lines = ["$MeshFormat", "2.2 0 8", "$EndMeshFormat", "$PhysicalNames", len(groups)]
    lines += [f'{dim} {tag} "{name}"' for tag, (dim, name, _) in enumerate(groups, start=1)]
    lines += ["$EndPhysicalNames", "$Nodes", mesh.num_nodes]
    lines += [f"{k} {x!r} {y!r} {z!r}" for k, (x, y, z) in enumerate(points.tolist(), start=1)]
    lines += ["$EndNodes", "$Elements", len(elements)]
    for number, (kind, tag, *nodes) in enumerate(elements, start=1):
        lines.append(f"{number} {kind} 2 {tag} {tag} {' '.join(map(str, nodes))}")
    lines += ["$EndElements"]
    for name, values in mesh.point_fields.items():
        lines += ["$NodeData", 1, f'"{name}"', 1, 0.0, 3, 0, 1, mesh.num_nodes]
        lines += [f"{k} {value!r}" for k, value in enumerate(values.tolist(), start=1)]
        lines += ["$EndNodeData"]
    path.write_text("\n".join(map(str, lines)) + "\n", encoding="utf-8")


def interior_points(dim, count, seed=0, size=1.0):
    """Points well inside [0, size]^dim, (count, dim)."""
    rng = np.random.default_rng(seed)
    return size * (0.1 + 0.8 * rng.random((count, dim)))
