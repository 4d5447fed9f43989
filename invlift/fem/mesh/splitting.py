"""Cuts of meshes along groups of facets inside the body, where a solution may jump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from invlift.errors import InputError
from invlift.fem.mesh import checks as mesh_checks
from invlift.fem.mesh.mesh import BOUNDARY, Mesh
from invlift.fem.mesh.refinement import Refinement


def split(mesh: Mesh, groups: Sequence[str], key: str) -> Refinement:
    """Cut a mesh along boundary groups: the two sides get separate nodes.

    The groups divide the cells around a node into parts; the node gets a copy for each part but
    one.  The ends of a group inside the body therefore stay single nodes.

    Parameters
    ----------
    mesh : Mesh
    groups : sequence of str
    key : str
        Place for error messages, together with the group.

    Returns
    -------
    Refinement
        A refinement with the same cells, whose first nodes are those of the mesh.  The cut mesh has
        ``sides``, and the outer boundary of the given mesh as the group "boundary".

    Raises
    ------
    InputError
        If there is no such group, a facet of it is on the outer boundary, or it cuts nothing.
    """
    size = mesh.dim + 1
    rows, _ = mesh_checks.facets_of_cells(mesh.cells)
    ids, first = mesh_checks.row_ids(rows)
    distinct, is_inner = rows[first], np.bincount(ids) == 2
    is_cut = np.zeros(len(first), dtype=bool)
    numbers = {}
    for group in groups:
        numbers[group] = chosen = mesh_checks.find_rows(mesh.facets(group, (key, group)), distinct)
        if not is_inner[chosen].all():
            found = f"{np.count_nonzero(~is_inner[chosen])} of {len(chosen)} on its outer boundary"
            remedy = "name a group inside, or leave that part out: nothing flows there"
            raise InputError((key, group), "facets inside the body", found, remedy)
        is_cut[chosen] = True
    cells, of_copies = _with_copies(mesh, ids, rows, is_cut)
    last = np.zeros(len(first), dtype=int)
    last[ids] = np.arange(len(ids))

    def on_side(facets: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the new nodes of facets, in the same order, on the side of the cells of ``at``."""
        old, new = mesh.cells[at // size], cells[at // size]
        place = np.argmax(facets[:, :, None] == old[:, None, :], axis=2)
        return np.take_along_axis(new, place, axis=1)

    sides = {}
    for group, chosen in numbers.items():
        sides[group] = np.stack([on_side(distinct[chosen], at[chosen]) for at in (first, last)])
        if np.array_equal(*sides[group]):
            remedy = "mesh it with two edges at least, or let it end at the boundary"
            raise InputError((key, group), "a group with a node between its facets", "none", remedy)
    given_groups = {BOUNDARY: mesh.boundary_facets} | mesh.boundaries
    boundaries = {
        name: np.sort(on_side(facets, first[mesh_checks.find_rows(facets, distinct)]), axis=1)
        for name, facets in given_groups.items()
    }
    num = mesh.num_nodes + len(of_copies)
    given = np.concatenate([np.arange(mesh.num_nodes), of_copies])
    nodes = csr_array((np.ones(num), (np.arange(num), given)), shape=(num, mesh.num_nodes))
    whole = replace(
        mesh,
        points=mesh.points[given],
        cells=cells,
        boundaries=boundaries,
        point_fields={name: each[given] for name, each in mesh.point_fields.items()},
        sides=sides,
    )
    corners = np.arange(cells.size).reshape(cells.shape)
    return Refinement(mesh, whole, nodes, corners, 0)


def _with_copies(mesh: Mesh, ids, rows, is_cut) -> tuple[np.ndarray, np.ndarray]:
    """Return cells with copied nodes, (num_cells, dim + 1), and the original node of each copy."""
    size = mesh.dim + 1
    corners = mesh.cells.ravel()
    is_near = np.zeros(mesh.num_nodes, dtype=bool)
    is_near[rows[is_cut[ids]]] = True
    # Two corners of cells at the same node are joined if the cells share a facet that is not cut.
    order = np.argsort(ids, kind="stable")
    pair = np.flatnonzero((ids[order][1:] == ids[order][:-1]) & ~is_cut[ids[order][1:]])
    one, other = order[pair], order[pair + 1]
    shared = rows[one]
    ends = []
    for at in (one, other):
        place = np.argmax(shared[:, :, None] == mesh.cells[at // size][:, None, :], axis=2)
        ends.append((at // size * size)[:, None] + place)
    start, end = (each[is_near[shared]] for each in ends)
    graph = coo_array((np.ones(len(start)), (start, end)), shape=(len(corners),) * 2)
    parts = connected_components(graph, directed=False)[1]
    near = np.flatnonzero(is_near[corners])
    _, leader = np.unique(parts[near], return_index=True)
    leaders = near[leader]  # a corner of each part of each node
    _, keeps = np.unique(corners[leaders], return_index=True)
    copied = np.delete(leaders, keeps)
    number = np.full(parts.max() + 1, -1)
    number[parts[copied]] = mesh.num_nodes + np.arange(len(copied))
    copies = number[parts]
    return np.where(copies < 0, corners, copies).reshape(mesh.cells.shape), corners[copied]
