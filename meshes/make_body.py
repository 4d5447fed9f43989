"""Write ``body.msh``: a block of ground with a borehole and a heater in it (needs gmsh).

Two layers of rock; a borehole from the surface; below it, cut into both layers, a cylinder that
holds the heater, as in the heating tests of underground laboratories.
"""

from __future__ import annotations

from pathlib import Path

import gmsh
import numpy as np
from msh import arrays_of, write_msh

MESH = Path(__file__).with_name("body.msh")
WIDTH, DEPTH, INTERFACE = 8.0, 6.0, -2.8  # m; the surface is z = 0
RADIUS, HEATER_TOP, HEATER_BASE = 0.5, -2.0, -4.0  # m
SIZE_AT_HEATER, SIZE_FAR, GROWTH = 0.21, 0.72, 0.21  # element sizes (m), growth per metre


def main(path=MESH):
    """Write the mesh file."""
    gmsh.initialize(["make_body", "-v", "2"], readConfigFiles=False)
    geometry = gmsh.model.occ
    half = WIDTH / 2
    clay = geometry.addBox(-half, -half, INTERFACE, WIDTH, WIDTH, -INTERFACE)
    geometry.addBox(-half, -half, -DEPTH, WIDTH, WIDTH, DEPTH + INTERFACE)
    bore = geometry.addCylinder(0, 0, HEATER_TOP, 0, 0, -HEATER_TOP, RADIUS)
    heater = geometry.addCylinder(0, 0, HEATER_BASE, 0, 0, HEATER_TOP - HEATER_BASE, RADIUS)
    geometry.cut([(3, clay)], [(3, bore)])
    geometry.cut(
        [(3, v) for _, v in geometry.getEntities(3) if v != heater], [(3, heater)], removeTool=False
    )
    geometry.fragment(geometry.getEntities(3), [])
    geometry.synchronize()

    volumes = {"clay": [], "granite": [], "heater": []}
    for _, tag in gmsh.model.getEntities(3):
        low, high = np.reshape(gmsh.model.getBoundingBox(3, tag), (2, 3))
        is_wide = high[0] - low[0] > 3 * RADIUS
        above = 0.5 * (low[2] + high[2]) > INTERFACE
        volumes["heater" if not is_wide else "clay" if above else "granite"].append(tag)
    for name, tags in volumes.items():
        gmsh.model.addPhysicalGroup(3, tags, name=name)

    faces = {"surface": [], "sides": [], "base": [], "borehole": []}
    for _, tag in gmsh.model.getBoundary(gmsh.model.getEntities(3), oriented=False):
        low, high = np.reshape(gmsh.model.getBoundingBox(2, tag), (2, 3))
        is_wide = max(high[:2] - low[:2]) > 3 * RADIUS
        is_flat = high[2] - low[2] < 1e-3
        flat = "surface" if high[2] > -1e-3 else "base"
        faces["borehole" if not is_wide else flat if is_flat else "sides"].append(tag)
    for name, tags in faces.items():
        gmsh.model.addPhysicalGroup(2, tags, name=name)

    gmsh.model.mesh.setSizeCallback(lambda dim, tag, x, y, z, size: element_size(x, y, z))
    gmsh.option.setNumber("Mesh.MeshSizeExtendFromBoundary", 0)
    gmsh.model.mesh.generate(3)
    gmsh.model.mesh.optimize("Netgen")
    write_msh(path, *arrays_of(gmsh.model, dim=3, decimals=6), digits=".9g")
    gmsh.finalize()


def element_size(x, y, z):
    """Edge length (m) wanted at a point: small at borehole and heater, growing with distance."""
    outside = max(np.hypot(x, y) - RADIUS, 0.0)
    below = max(HEATER_BASE - z, 0.0)
    return min(SIZE_FAR, SIZE_AT_HEATER + GROWTH * np.hypot(outside, below))


if __name__ == "__main__":
    main()
