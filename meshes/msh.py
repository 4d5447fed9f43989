"""Write meshes in gmsh's format with named groups, and take them out of a gmsh model.

Shared by the ``make_*.py`` scripts beside it.  Files are gmsh 2.2 ASCII: the one version in
which every element carries its group, so that readers agree on what the names mean.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

ELEMENT_TYPES = {2: 1, 3: 2, 4: 4}  # number of nodes of a simplex: gmsh's number for it


def write_msh(path, points, cells, boundaries, subdomains, point_fields=None, digits=".17g"):
    """Write a simplex mesh whose boundary and interior groups have names.

    Parameters
    ----------
    path : path-like
        File to write.
    points : array of shape (num_nodes, dim)
        Node coordinates.
    cells : array of shape (num_cells, dim + 1)
        Node indices of triangles or tetrahedra; each is turned round if its volume is negative.
    boundaries : dict of str to array of shape (num_facets, dim)
        Node indices of the edges or triangles in each boundary group.
    subdomains : dict of str to array of shape (num_cells_in_group,)
        Indices into ``cells``; every cell belongs to exactly one subdomain.
    point_fields : dict of str to array of shape (num_nodes,), optional
        Scalars on the nodes.
    digits : str
        Format of coordinates and field values; the default loses nothing.

    Raises
    ------
    ValueError
        If the subdomains leave out a cell or share one, if a node belongs to no cell, or if a
        cell has no volume.
    """
    dim = points.shape[1]
    cells = orient(points, cells)
    cell_order = np.concatenate(list(subdomains.values()))
    if not np.array_equal(np.sort(cell_order), np.arange(len(cells))):
        raise ValueError("subdomains must share out all cells, each to one subdomain")
    if len(np.unique(cells)) != len(points):
        raise ValueError("some nodes belong to no cell")

    lines = ["$MeshFormat", "2.2 0 8", "$EndMeshFormat"]
    groups = [(dim - 1, name) for name in boundaries] + [(dim, name) for name in subdomains]
    lines += ["$PhysicalNames", str(len(groups))]
    lines += [f'{d} {tag} "{name}"' for tag, (d, name) in enumerate(groups, 1)]
    lines += ["$EndPhysicalNames", "$Nodes", str(len(points))]
    padded = np.column_stack([points, np.zeros((len(points), 3 - dim))]).tolist()
    lines += [
        f"{node} {x:{digits}} {y:{digits}} {z:{digits}}" for node, (x, y, z) in enumerate(padded, 1)
    ]
    blocks = [*boundaries.values(), *(cells[members] for members in subdomains.values())]
    # Element: number, type, number of tags, group, geometrical entity, nodes counted from one.
    elements = [
        f"{ELEMENT_TYPES[block.shape[1]]} 2 {tag} {tag} {' '.join(map(str, nodes))}"
        for tag, block in enumerate(blocks, 1)
        for nodes in (block + 1).tolist()
    ]
    lines += ["$EndNodes", "$Elements", str(len(elements))]
    lines += [f"{number} {element}" for number, element in enumerate(elements, 1)]
    lines += ["$EndElements"]
    for name, values in (point_fields or {}).items():
        # One name, one (unused) time, then step, number of components, number of nodes.
        lines += ["$NodeData", "1", f'"{name}"', "1", "0.0", "3", "0", "1", str(len(values))]
        lines += [f"{node} {value:{digits}}" for node, value in enumerate(values.tolist(), 1)]
        lines += ["$EndNodeData"]
    Path(path).write_text("\n".join(lines) + "\n", encoding="ascii")


def orient(points, cells):
    """Cells of shape (num_cells, dim + 1), reordered where needed to have positive volume."""
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    determinants = np.linalg.det(edges)
    if np.any(determinants == 0.0):
        raise ValueError("a cell has no volume")
    cells = cells.copy()
    is_negative = determinants < 0
    cells[is_negative, :2] = cells[is_negative, 1::-1]
    return cells


def arrays_of(model, dim, decimals):
    """Points, cells, boundaries and subdomains of the meshed gmsh model ``gmsh.model``.

    Parameters
    ----------
    model : module
        ``gmsh.model`` after ``model.mesh.generate(dim)``; its named physical groups of dimension
        ``dim - 1`` become boundaries, those of dimension ``dim`` subdomains.
    dim : int
        Two or three.
    decimals : int
        Coordinates are rounded to this many decimals of the length unit.

    Returns
    -------
    points : array of shape (num_nodes, dim)
    cells : array of shape (num_cells, dim + 1)
    boundaries : dict of str to array of shape (num_facets, dim)
    subdomains : dict of str to array of shape (num_cells_in_group,)
    """
    node_tags, coordinates, _ = model.mesh.getNodes()
    boundaries = {name: _elements(model, dim - 1, tag) for tag, name in _groups(model, dim - 1)}
    blocks = {name: _elements(model, dim, tag) for tag, name in _groups(model, dim)}
    cells = np.concatenate(list(blocks.values()))
    ends = np.cumsum([len(block) for block in blocks.values()])
    subdomains = {
        name: np.arange(end - len(block), end)
        for (name, block), end in zip(blocks.items(), ends, strict=True)
    }
    # Centres of circles and the like are nodes of the model, not of the mesh.
    used = np.unique(cells)
    position = {tag: row for row, tag in enumerate(node_tags.tolist())}
    rows = np.array([position[tag] for tag in used.tolist()])
    points = coordinates.reshape(-1, 3)[rows, :dim].round(decimals) + 0.0
    boundaries = {name: np.searchsorted(used, facets) for name, facets in boundaries.items()}
    return points, np.searchsorted(used, cells), boundaries, subdomains


def _groups(model, dim):
    return [(tag, model.getPhysicalName(dim, tag)) for _, tag in model.getPhysicalGroups(dim)]


def _elements(model, dim, group):
    """Node tags, shape (num_elements, dim + 1), of one physical group of simplices."""
    tags = [
        nodes.reshape(-1, dim + 1)
        for entity in model.getEntitiesForPhysicalGroup(dim, group)
        for nodes in model.mesh.getElements(dim, entity)[2]
    ]
    return np.concatenate(tags).astype(np.int64)
