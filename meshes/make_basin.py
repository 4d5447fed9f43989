"""Write ``basin.msh``: a bent groundwater basin with a lake, about 10,000 nodes (needs gmsh).

A mesh to measure speed on: larger than the others, not convex, with a hole.
"""

from __future__ import annotations

from pathlib import Path

import gmsh
from msh import arrays_of, write_msh

MESH = Path(__file__).with_name("basin.msh")
# Corners of the outline (m), anticlockwise; each list is one smooth curve of the boundary and ends
# where the next one begins.
OUTLINE = {
    "coast": [(0, 0), (3500, -900), (7500, -500), (11500, -1500), (15000, -400)],
    "river": [(15000, -400), (16500, 3000), (15800, 6500), (17500, 9500)],
    "divide": [
        (17500, 9500), (14500, 11800), (11300, 11000), (10200, 7800), (8200, 5600),
        (5600, 6300), (4300, 9300), (1200, 9800), (-900, 6500), (-700, 3000), (0, 0),
    ],
}  # fmt: skip
LAKE = (12900, 6700, 900, 600)  # centre and half axes (m)
SIZE, SIZE_AT_LAKE = 151.0, 93.0  # element sizes (m)


def main(path=MESH):
    """Write the mesh file."""
    gmsh.initialize(["make_basin", "-v", "2"], readConfigFiles=False)
    geometry = gmsh.model.occ
    corners = {xy: geometry.addPoint(*xy, 0, SIZE) for curve in OUTLINE.values() for xy in curve}
    curves = {
        name: geometry.addSpline([corners[xy] for xy in curve]) for name, curve in OUTLINE.items()
    }
    curves["lake"] = geometry.addEllipse(*LAKE[:2], 0, *LAKE[2:])
    outline = geometry.addCurveLoop([curves[name] for name in OUTLINE])
    surface = geometry.addPlaneSurface([outline, geometry.addCurveLoop([curves["lake"]])])
    geometry.synchronize()
    for name, curve in curves.items():
        gmsh.model.addPhysicalGroup(1, [curve], name=name)
    gmsh.model.addPhysicalGroup(2, [surface], name="aquifer")
    shore = gmsh.model.getBoundary([(1, curves["lake"])], combined=False)
    gmsh.model.mesh.setSize(shore, SIZE_AT_LAKE)
    gmsh.option.setNumber("Mesh.Algorithm", 6)
    gmsh.model.mesh.generate(2)
    write_msh(path, *arrays_of(gmsh.model, dim=2, decimals=2), digits=".9g")
    gmsh.finalize()


if __name__ == "__main__":
    main()
