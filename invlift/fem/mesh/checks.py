"""Checks that a mesh must pass before it is used.

Each check takes plain arrays, and returns nothing (or the corrected array).  It raises one
`InputError` that names the file and the first wrong elements or nodes, counted from 0 in file
order, and their position, because mesh programs number elements and nodes differently.
"""

from __future__ import annotations

import math

import numpy as np

from invlift.errors import InputError, as_numbers

#: Largest coordinate, and smallest extent of a body, in its length unit: their squares, cubes and
#: inverses must also be finite.
MAX_COORDINATE, MIN_EXTENT = 1e20, 1e-20
_NAME_OF = {3: "triangle", 4: "tetrahedron"}


def listing(numbers, limit: int = 4) -> str:
    """Format numbers as "3, 7, 9, 12 and 5 more"."""
    numbers = list(numbers)
    text = ", ".join(str(number) for number in numbers[:limit])
    return text if len(numbers) <= limit else f"{text} and {len(numbers) - limit} more"


def place(point: np.ndarray) -> str:
    """Format a point as "(0.25, -1)"."""
    return "(" + ", ".join(f"{float(x):.9g}" for x in point) + ")"


def checked_places(points, dim: int) -> np.ndarray:
    """Return points as an array (k, dim) of finite numbers, or raise an InputError."""
    expected, remedy = f"an array (k, {dim}) of finite numbers", "give x, y[, z] of each"
    points = as_numbers("points", points, expected, remedy)
    if points.ndim != 2 or points.shape[1] != dim:
        raise InputError("points", expected, f"shape {points.shape}", remedy)
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise InputError(f"points, row {bad[0]}", expected, str(points[bad[0]]), remedy)
    return points


def check_arrays(points: np.ndarray, cells: np.ndarray, name: str) -> None:
    """Check shapes, node indices and finite coordinates.

    Parameters
    ----------
    points : ndarray, shape (num_nodes, 2 or 3)
    cells : ndarray, shape (num_cells, 3 or 4)
    name : str
    """
    if points.ndim != 2 or points.shape[1] not in (2, 3) or points.dtype.kind not in "iuf":
        raise InputError(
            name,
            "real coordinates of shape (num_nodes, 2 or 3)",
            f"shape {points.shape} of {points.dtype}",
            "give one row of coordinates per node",
        )
    if cells.ndim != 2 or cells.shape[1] not in _NAME_OF or cells.dtype.kind not in "iu":
        raise InputError(
            name,
            "integer node indices of shape (num_cells, 3) or (num_cells, 4)",
            f"shape {cells.shape} of {cells.dtype}",
            "give triangles (2-D) or tetrahedra (3-D)",
        )
    if len(cells) == 0:
        raise InputError(name, "at least one element", "none", "mesh the body")
    if cells.shape[1] == 4 and points.shape[1] == 2:
        raise InputError(
            name,
            "three coordinates per node for tetrahedra",
            "two",
            "give the z coordinate or use triangles",
        )
    bad = np.flatnonzero(~(np.abs(points) <= MAX_COORDINATE).all(axis=1))
    if len(bad):
        is_finite = np.isfinite(points[bad[0]]).all()
        raise InputError(
            f"{name}, node {bad[0]}",
            f"coordinates up to {MAX_COORDINATE:g} in size" if is_finite else "finite coordinates",
            f"{place(points[bad[0]])}; {len(bad)} such nodes in all",
            "repair or remesh the geometry",
        )
    extent = float(np.ptp(points, axis=0).max())
    if extent < MIN_EXTENT:
        raise InputError(
            name, f"a body that extends over {MIN_EXTENT:g} or more", f"{extent:g}", "rescale it"
        )
    bad = np.flatnonzero(((cells < 0) | (cells >= len(points))).any(axis=1))
    if len(bad):
        raise InputError(
            f"{name}, element {bad[0]}",
            f"node indices from 0 to {len(points) - 1}",
            f"{cells[bad[0]].tolist()}",
            "the element refers to a node that does not exist: write the mesh again",
        )


def drop_flat_coordinate(
    points: np.ndarray, cells: np.ndarray, name: str
) -> tuple[np.ndarray, list[str]]:
    """Return the coordinates, (num_nodes, dim), without a constant z of triangles, and notes.

    Raises
    ------
    InputError
        If triangles are not in a plane of constant z.
    """
    if cells.shape[1] == 4 or points.shape[1] == 2:
        return points, []
    z = points[:, 2]
    extent = np.ptp(points, axis=0)
    if extent[2] <= 1e-12 * max(extent.max(), float(np.abs(z).max())):
        is_zero = np.abs(z).max() <= 1e-12 * extent.max()
        return points[:, :2], [] if is_zero else [f"z = {z[0]:.6g} of all nodes left out"]
    raise InputError(
        name,
        "a triangle mesh in a plane of constant z",
        f"z from {z.min():.6g} to {z.max():.6g}",
        "rotate a tilted mesh into the plane z = 0; for a body, save its tetrahedra; "
        "curved surfaces are not supported",
    )


def signed_volumes(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return (num_cells,) signed areas or volumes of the simplices."""
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    with np.errstate(all="ignore"):  # warnings of flat cells, which another check refuses
        return np.linalg.det(edges) / math.factorial(points.shape[1])


def check_degenerate(points: np.ndarray, cells: np.ndarray, name: str) -> None:
    """Check that no element repeats a node or has zero volume.

    "Zero volume" is relative to the element's longest edge, with an allowance for the rounding of
    coordinates far from the origin.  Thin boundary layers pass.
    """
    ordered = np.sort(cells, axis=1)
    bad = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(bad):
        _raise_element(points, cells, bad, name, "distinct nodes", "a repeated node")
    dim = points.shape[1]
    # The longest edge from node 0 is within a factor 2 of the longest edge, which is enough here.
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    longest = np.sqrt((edges**2).sum(axis=2).max(axis=1))
    rounding = 8.0 * np.finfo(float).eps * np.abs(points).max()
    limit = longest ** (dim - 1) * (1e-12 * longest + rounding)
    bad = np.flatnonzero(np.abs(signed_volumes(points, cells)) <= limit)
    if len(bad):
        measure = "area" if dim == 2 else "volume"
        _raise_element(points, cells, bad, name, f"a positive {measure}", f"zero {measure}")


def _raise_element(points, cells, bad, name, expected, found):
    first = bad[0]
    others = f"; degenerate elements: {listing(bad)}" if len(bad) > 1 else ""
    raise InputError(
        f"{name}, element {first} (counting from 0, nodes {cells[first].tolist()}, near "
        f"{place(points[cells[first]].mean(axis=0))})",
        f"a {_NAME_OF[cells.shape[1]]} with {expected}",
        f"{found}{others}",
        "remove degenerate elements or remesh",
    )


def row_ids(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the rows of an array such that equal rows have the same number.

    Parameters
    ----------
    rows : ndarray of int, shape (k, m)

    Returns
    -------
    ids : ndarray, shape (k,)
        Rank of each row among the distinct rows in lexicographic order.
    first : ndarray, shape (num_distinct,)
        First position of each distinct row.
    """
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    ids = np.empty(len(rows), dtype=np.int64)
    ids[order] = np.cumsum(is_new) - 1
    return ids, order[is_new]  # lexsort is stable: the first of equal rows is the earliest


def find_rows(rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Find rows, (k, m), in a table, (n, m); return the first index of each, (k,), or -1."""
    ids, first = row_ids(np.concatenate([table, rows]))
    numbers = first[ids[len(table) :]]
    return np.where(numbers < len(table), numbers, -1)


def check_duplicates(points: np.ndarray, cells: np.ndarray, name: str) -> None:
    """Check that no two elements have the same nodes."""
    ids, first = row_ids(np.sort(cells, axis=1))
    if len(first) == len(cells):
        return
    repeats = np.setdiff1d(np.arange(len(cells)), first)
    pairs = [f"{number} repeats {first[ids[number]]}" for number in repeats[:3]]
    raise InputError(
        f"{name}, element {repeats[0]} (counting from 0)",
        "each element once",
        f"{len(repeats)} duplicate elements: {listing(pairs, 3)}",
        "remove the copies (gmsh's format 2.2 repeats an element that is in two physical "
        "groups: save as version 4.1)",
    )


def orient(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return the cells with positive orientation; the given order of nodes has no meaning.

    In a folded mesh, two cells then lie on the same side of a shared facet, which
    :func:`check_overlaps` detects.
    """
    is_negative = signed_volumes(points, cells)[:, None] < 0.0
    turned = np.concatenate([cells[:, :-2], cells[:, :-3:-1]], axis=1)
    return np.where(is_negative, turned, cells)


def facets_of_cells(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all facets of all cells, and the side of the facet on which the cell lies.

    Parameters
    ----------
    cells : ndarray, shape (num_cells, dim + 1)

    Returns
    -------
    facets : ndarray, shape (num_cells * (dim + 1), dim)
        Node indices, ascending in each row.  Row c (dim + 1) + i is the facet of cell c opposite to
        its local node i.
    side : ndarray, shape (num_cells * (dim + 1),)
        +1 or -1.  If two positively oriented cells share a facet and do not overlap, one has +1 and
        the other -1.
    """
    size = cells.shape[1]
    local = np.array([[j for j in range(size) if j != i] for i in range(size)])
    facets = cells[:, local]  # (num_cells, dim + 1, dim)
    side = np.tile((-1) ** np.arange(size), (len(cells), 1))
    for j in range(size - 1):
        for k in range(j):
            side = side * np.where(facets[..., j] > facets[..., k], 1, -1)
    return np.sort(facets, axis=2).reshape(-1, size - 1), side.reshape(-1)


def check_overlaps(points: np.ndarray, cells: np.ndarray, name: str) -> None:
    """Check that at most two cells share a facet, and that they lie on opposite sides of it."""
    facets, side = facets_of_cells(cells)
    facet_ids, first = row_ids(facets)
    on_side = np.bincount(2 * facet_ids + (side > 0), minlength=2 * len(first)).reshape(-1, 2)
    bad = np.flatnonzero(on_side.max(axis=1) > 1)
    if len(bad) == 0:
        return
    rows = np.flatnonzero(facet_ids == bad[0])
    facet_cells = rows // cells.shape[1]
    centre = points[cells[facet_cells[0]]].mean(axis=0)
    raise InputError(
        f"{name}, elements {listing(facet_cells)} (counting from 0, near {place(centre)})",
        "neighbouring elements on opposite sides of the facet they share",
        f"overlapping elements at {len(bad)} facets",
        "remesh: the mesh is folded or two meshes lie on top of each other",
    )
