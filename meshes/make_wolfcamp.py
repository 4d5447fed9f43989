"""Write ``wolfcamp.msh``: the Wolfcamp aquifer round its 85 wells, in km (needs gmsh).

The outline is the convex hull of the wells widened by ``MARGIN``.  The point field
``boundary_head`` (m) is the plane fitted to the measured heads by least squares, evaluated on every
node; the example uses its values on the boundary.
"""

from __future__ import annotations

from pathlib import Path

import gmsh
import numpy as np
from msh import arrays_of, write_msh
from scipy.spatial import ConvexHull

MESH = Path(__file__).with_name("wolfcamp.msh")
WELLS = Path(__file__).parents[1] / "examples" / "wolfcamp" / "sensors.csv"
MARGIN = 30.0  # km between the outermost wells and the boundary
SIZE_AT_WELLS, SIZE_FAR, GROWTH = 5.0, 14.0, 0.25  # element sizes (km), growth per km


def main(path=MESH):
    """Write the mesh file."""
    wells = np.loadtxt(WELLS, delimiter=",", skiprows=1)
    positions, heads = wells[:, :2], wells[:, 2]
    coefficients = np.linalg.lstsq(trend_terms(positions), heads)[0]

    gmsh.initialize(["make_wolfcamp", "-v", "2"], readConfigFiles=False)
    geometry = gmsh.model.geo
    corners = [geometry.addPoint(*xy, 0) for xy in widened_hull(positions, MARGIN)]
    lines = [
        geometry.addLine(a, b) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)
    ]
    surface = geometry.addPlaneSurface([geometry.addCurveLoop(lines)])
    geometry.synchronize()
    gmsh.model.addPhysicalGroup(1, lines, name="rim")
    gmsh.model.addPhysicalGroup(2, [surface], name="aquifer")

    def element_size(dim, tag, x, y, z, size):
        distance = np.hypot(*(positions - (x, y)).T).min()
        return min(SIZE_FAR, SIZE_AT_WELLS + GROWTH * distance)

    gmsh.model.mesh.setSizeCallback(element_size)
    gmsh.option.setNumber("Mesh.MeshSizeExtendFromBoundary", 0)
    gmsh.option.setNumber("Mesh.Algorithm", 6)
    gmsh.model.mesh.generate(2)
    points, cells, boundaries, subdomains = arrays_of(gmsh.model, dim=2, decimals=3)
    gmsh.finalize()
    fields = {"boundary_head": (trend_terms(points) @ coefficients).round(3)}
    write_msh(path, points, cells, boundaries, subdomains, fields, digits=".9g")


def trend_terms(positions):
    """Terms 1, x, y of a plane at positions (k, 2) in km: array of shape (k, 3)."""
    return np.column_stack([np.ones(len(positions)), positions])


def widened_hull(positions, margin, step=11.0):
    """Corners (num_corners, 2), anticlockwise, of the convex hull of positions, widened.

    The outline lies ``margin`` outside the hull and is rounded at its corners; ``step`` is about
    the distance between corners of the result along the rounded parts (length units of positions).
    """
    hull = positions[ConvexHull(positions).vertices]
    num_angles = int(np.ceil(2 * np.pi * margin / step))
    angles = 2 * np.pi * np.arange(num_angles) / num_angles
    circle = margin * np.column_stack([np.cos(angles), np.sin(angles)])
    around = (hull[:, None, :] + circle).reshape(-1, 2)
    return around[ConvexHull(around).vertices]


if __name__ == "__main__":
    main()
