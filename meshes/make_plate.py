"""Write ``plate.msh``: a plate of 2 m by 1 m with two round holes, in two sheets (needs gmsh)."""

from __future__ import annotations

from pathlib import Path

import gmsh
from msh import arrays_of, write_msh

MESH = Path(__file__).with_name("plate.msh")
LENGTH, HEIGHT, SEAM = 2.0, 1.0, 1.1  # m
HOLES = {"hole_1": (0.55, 0.55, 0.16), "hole_2": (1.5, 0.42, 0.22)}  # name: x, y, radius (m)
SIZE, SIZE_AT_HOLES = 0.055, 0.032  # element sizes (m)


def main(path=MESH):
    """Write the mesh file."""
    gmsh.initialize(["make_plate", "-v", "2"], readConfigFiles=False)
    geometry = gmsh.model.occ
    sheets = [
        (2, geometry.addRectangle(0, 0, 0, SEAM, HEIGHT)),
        (2, geometry.addRectangle(SEAM, 0, 0, LENGTH - SEAM, HEIGHT)),
    ]
    discs = [(2, geometry.addDisk(x, y, 0, r, r)) for x, y, r in HOLES.values()]
    geometry.cut(sheets, discs)
    geometry.fragment(geometry.getEntities(2), [])
    geometry.synchronize()

    for name, on_sheet in (("sheet_a", lambda x: x < SEAM), ("sheet_b", lambda x: x > SEAM)):
        tags = [
            t for _, t in gmsh.model.getEntities(2) if on_sheet(geometry.getCenterOfMass(2, t)[0])
        ]
        gmsh.model.addPhysicalGroup(2, tags, name=name)
    for name, box in {
        "left": (0, 0, 0, HEIGHT),
        "right": (LENGTH, 0, LENGTH, HEIGHT),
        "bottom": (0, 0, LENGTH, 0),
        "top": (0, HEIGHT, LENGTH, HEIGHT),
        **{name: (x - r, y - r, x + r, y + r) for name, (x, y, r) in HOLES.items()},
    }.items():
        gmsh.model.addPhysicalGroup(1, _curves_in(box), name=name)
    gmsh.model.mesh.setSize(gmsh.model.getEntities(0), SIZE)
    for name in HOLES:
        rim = gmsh.model.getEntitiesForPhysicalName(name)
        gmsh.model.mesh.setSize(gmsh.model.getBoundary(rim, combined=False), SIZE_AT_HOLES)
    gmsh.model.mesh.generate(2)
    gmsh.model.mesh.optimize("Laplace2D")
    write_msh(path, *arrays_of(gmsh.model, dim=2, decimals=8), digits=".10g")
    gmsh.finalize()


def _curves_in(box, slack=1e-4):
    """Tags of the curves inside the box (x0, y0, x1, y1) widened by ``slack``."""
    low, high = (box[0] - slack, box[1] - slack, -slack), (box[2] + slack, box[3] + slack, slack)
    return [tag for _, tag in gmsh.model.getEntitiesInBoundingBox(*low, *high, dim=1)]


if __name__ == "__main__":
    main()
