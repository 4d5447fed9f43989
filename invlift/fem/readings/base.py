"""Kinds of readings: linear functionals of the solution, field, fluxes and further unknowns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh.checks import listing, place
from invlift.fem.mesh.geometry import barycentric, find_closest_facet
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.readings.sensors import Sensors

#: Quantities of which readings are weighted sums: the solution at the nodes, the log-conductivity
#: at corners of cells (corner j of cell i is i (dim + 1) + j), fluxes into the body through
#: boundary groups, by name, and further unknowns, by name.
SOLUTION, FIELD, FLUXES, UNKNOWNS = "solution", "log_conductivity", "fluxes", "unknowns"


class Weights(NamedTuple):
    """Weighted sums, one for each reading.

    Attributes
    ----------
    places : (k, c) array of int or str
        Indices or names of the terms of each sum.
    weights : (k, c) array
        Weights of the terms; zero for padding.
    """

    places: np.ndarray
    weights: np.ndarray


class Located(NamedTuple):
    """Weights and positions of k rows of one kind.

    Attributes
    ----------
    parts : mapping of str to Weights
        Weights by quantity, :data:`SOLUTION` and so on; a reading is the sum over all quantities.
    points : (k, dim) array
        Positions at which the readings are shown.
    distances : (k,) array
        Distances outside the mesh, in its unit of length; 0 inside.
    is_kept : (k,) array of bool
    """

    parts: Mapping[str, Weights]
    points: np.ndarray
    distances: np.ndarray
    is_kept: np.ndarray


class Kind(NamedTuple):
    """A kind of reading.

    Attributes
    ----------
    locate : callable
        ``locate(mesh, sensors, outside)`` returns :class:`Located`, for :class:`Sensors` of this
        kind and ``outside`` of "error", "project" or "drop".  Its InputErrors name row and column.
    columns : tuple of str
        Columns that a row of this kind may fill, among "x2", "over" and "radius".
    halved : callable or None
        ``halved(refinement, sensors)`` returns the ``parts`` of :class:`Located` on a mesh whose
        edges were halved, for readings that interpolate between nodes: see :func:`at_halved`.  None
        if ``locate`` on that mesh already divides the error by about four.
    """

    locate: Callable[[Mesh, Sensors, str], Located]
    columns: tuple[str, ...] = ()
    halved: Callable[[Refinement, Sensors], Mapping[str, Weights]] | None = None


class Places(NamedTuple):
    """Positions of points on a mesh: see :func:`find_places`.

    Attributes
    ----------
    cells : (k,) array of int
    shapes : (k, dim + 1) array
        Values of the basis functions of the cell's corners at the points.
    distances : (k,) array
    is_kept : (k,) array of bool
    """

    cells: np.ndarray
    shapes: np.ndarray
    distances: np.ndarray
    is_kept: np.ndarray


def find_places(
    mesh: Mesh, sensors: Sensors, points: np.ndarray, outside: str, suffix: str = ""
) -> Places:
    """Find the cells of points, (k, dim), one point for each row of a table.

    The points are from the columns x, y and z, with a suffix to their names.

    Raises
    ------
    InputError
        If a row has no position, or if a position is outside the mesh and ``outside`` is "error".
    """
    missing = np.argwhere(np.isnan(points))
    if missing.size:
        row, axis = missing[0]
        where = at_row(sensors, row, "xyz"[axis] + suffix)
        raise InputError(where, "a number", "an empty entry", "give the place of the reading")
    cells, shapes = mesh.find_cells(points)
    distances = np.zeros(len(cells))
    is_outside = cells < 0
    if is_outside.any():
        away = np.flatnonzero(is_outside)
        facet, on_facet, distances[away] = find_closest_facet(
            mesh.points[mesh.boundary_facets], points[away]
        )
        if outside == "error":
            closest = (on_facet[0, :, None] * mesh.points[mesh.boundary_facets[facet[0]]]).sum(0)
            _raise_outside(mesh, sensors, points, away, distances, closest)
        # A point on a facet has the weights of the facet's nodes, and 0 at the cell's other node.
        cells[away] = mesh.boundary_cells[facet]
        nodes = mesh.cells[cells[away]]
        is_same = nodes[:, :, None] == mesh.boundary_facets[facet][:, None, :]
        shapes[away] = (is_same * on_facet[:, None, :]).sum(axis=2)
    is_kept = ~is_outside if outside == "drop" else np.ones(len(cells), dtype=bool)
    return Places(cells, shapes, distances, is_kept)


def at_halved(refinement: Refinement, places: Places) -> Weights:
    """Return weights at nodes of a refined mesh, for points in the mesh that was halved last.

    The error of linear interpolation at a point changes irregularly if edges are halved, as the
    point is elsewhere in its new cell.  These weights have exactly a fourth of the error of linear
    interpolation in the halved mesh, for quadratic functions.  So an extrapolation from both meshes
    removes it.  With Q and L the quadratic and the linear interpolation in the cell that was
    halved, the weights are those of (3 Q + L) / 4.

    Parameters
    ----------
    refinement : Refinement
        A refinement with ``halved``; its mesh may be cut.
    places : Places
        Positions of k points on the mesh ``halved``.

    Returns
    -------
    Weights
        Of (k, (dim + 1)(dim + 2) / 2): corners of the cell and midpoints of its edges.
    """
    halved, fine = refinement.halved, refinement.mesh
    corners = halved.points[halved.cells[places.cells]]
    # The parts of a cell have its corners and midpoints as nodes, on the cell's side of a cut.
    nodes = fine.cells.reshape(halved.num_cells, -1)[places.cells]
    repeated = np.repeat(corners, nodes.shape[1], axis=0)
    shares, _ = barycentric(repeated, fine.points[nodes.ravel()])
    shares = shares.reshape(*nodes.shape, -1)
    i, j = np.triu_indices(shares.shape[2])
    which = (shares[:, :, i] * shares[:, :, j]).argmax(axis=1)
    first, second = places.shapes[:, i], places.shapes[:, j]
    weights = np.where(i == j, first * (3.0 * first - 1.0) / 2.0, 3.0 * first * second)
    return Weights(np.take_along_axis(nodes, which, axis=1), weights)


def scattered(parts: Sequence[tuple[np.ndarray, Weights]], size: int) -> Weights:
    """Merge weights of subsets of rows into the weights of all ``size`` rows."""
    width = max(part.places.shape[1] for _, part in parts)
    places = np.zeros((size, width), dtype=np.result_type(*(part.places for _, part in parts)))
    weights = np.zeros((size, width))
    for rows, part in parts:
        block = np.ix_(rows, np.arange(part.places.shape[1]))
        places[block], weights[block] = part
    return Weights(places, weights)


def shown_at(sensors: Sensors, points: np.ndarray) -> np.ndarray:
    """Return the positions of the table's rows, (k, dim), with ``points`` for missing ones."""
    return np.where(np.isnan(sensors.points), points, sensors.points)


def at_row(sensors: Sensors, row: int, column: str) -> str:
    """Return the place of a table's entry, for error messages."""
    return f"{sensors.name}, row {sensors.rows[row]}, column {column}"


def _raise_outside(mesh, sensors, points, away, distances, closest):
    first, rows = away[0], sensors.rows[away]
    others = f"; rows outside: {listing(rows, 8)}" if len(away) > 1 else ""
    if sensors.kinds is None and len(away) == len(sensors.values):  # else they are not all rows
        remedy = f"all rows are outside: check the units, the mesh spans {mesh.extent}; [mesh] "
        remedy += "unit and [units] length convert lengths"
    else:
        remedy = 'correct it, or choose outside = "project" or "drop"'
    raise InputError(
        f"{sensors.name}, row {rows[0]}",
        f"a sensor inside the mesh {mesh.name!r}",
        f"{place(points[first])}, which is {distances[first]:.6g} outside "
        f"(closest point {place(closest)}){others}",
        remedy,
    )
