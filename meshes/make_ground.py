"""Write ``ground.msh``: the ground below a line of 21 electrodes, 2 m apart, in m (needs gmsh).

Electrodes are nodes of the surface, near which the mesh is fine; around the line it goes on for
twice its length.
"""

from __future__ import annotations

from pathlib import Path

import gmsh
import numpy as np
from msh import arrays_of, write_msh

MESH = Path(__file__).with_name("ground.msh")
ELECTRODES = 2.0 * np.arange(21)  # m along the line
MARGIN = 80.0  # m
SIZE_AT_ELECTRODES, GROWTH = 0.25, 0.3  # element size (m), growth per m


def main(path=MESH):
    """Write the mesh file."""
    gmsh.initialize(["make_ground", "-v", "2"], readConfigFiles=False)
    geometry = gmsh.model.geo
    left, right = ELECTRODES[0] - MARGIN, ELECTRODES[-1] + MARGIN
    corners = [(left, -MARGIN), (right, -MARGIN), (right, 0.0)]
    corners += [(x, 0.0) for x in ELECTRODES[::-1]] + [(left, 0.0)]
    points = [geometry.addPoint(*xz, 0) for xz in corners]
    lines = [geometry.addLine(a, b) for a, b in zip(points, points[1:] + points[:1], strict=True)]
    plane = geometry.addPlaneSurface([geometry.addCurveLoop(lines)])
    geometry.synchronize()
    gmsh.model.addPhysicalGroup(1, lines[2:-1], name="surface")
    gmsh.model.addPhysicalGroup(1, [*lines[:2], lines[-1]], name="rest")
    gmsh.model.addPhysicalGroup(2, [plane], name="ground")

    def element_size(dim, tag, x, y, z, size):
        return SIZE_AT_ELECTRODES + GROWTH * np.hypot(ELECTRODES - x, y).min()

    gmsh.model.mesh.setSizeCallback(element_size)
    gmsh.option.setNumber("Mesh.MeshSizeExtendFromBoundary", 0)
    gmsh.option.setNumber("Mesh.Algorithm", 6)
    gmsh.model.mesh.generate(2)
    points, cells, boundaries, subdomains = arrays_of(gmsh.model, dim=2, decimals=3)
    gmsh.finalize()
    write_msh(path, points, cells, boundaries, subdomains, digits=".9g")


if __name__ == "__main__":
    main()
