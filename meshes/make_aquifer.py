"""Write ``aquifer.msh`` and ``gridley.msh``: wide aquifers round a well (needs NumPy only).

Rings of nodes whose radii grow by a constant factor, so that the logarithm that the head near a
well is has the same error everywhere; every second ring is turned by half a sector.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msh import write_msh

FOLDER = Path(__file__).parent
#: Radius of a ring, m, by the mesh, with others a factor of 3^(1/5) apart: piezometers are on them,
#: those of the first at 30 and 90 m.
RADII = {"aquifer": 30.0, "gridley": 251.16}
#: How many rings lie within and outside, and the number of nodes of each.
NUM_WITHIN, NUM_OUTSIDE, NUM_SECTORS = 14, 24, 24


def aquifer(radius):
    """Points (num_nodes, 2), triangles (num_cells, 3) and rim edges (NUM_SECTORS, 2)."""
    sector, around = 2 * np.pi / NUM_SECTORS, np.arange(NUM_SECTORS)
    points = [np.zeros((1, 2))]
    radii = radius * 3.0 ** (0.2 * np.arange(-NUM_WITHIN, NUM_OUTSIDE + 1))
    for ring, of_ring in enumerate(radii):
        angle = sector * (around + 0.5 * (ring % 2))
        points.append(of_ring * np.column_stack([np.cos(angle), np.sin(angle)]))

    def node(ring, k):
        return 1 + ring * NUM_SECTORS + k % NUM_SECTORS

    cells = [(0, node(0, k), node(0, k + 1)) for k in around]
    for ring in range(len(radii) - 1):
        ahead = ring % 2  # where the outer ring lags behind the inner one
        for k in around:
            cells.append((node(ring, k), node(ring + 1, k + ahead), node(ring, k + 1)))
            cells.append((node(ring + 1, k), node(ring + 1, k + 1), node(ring, k + 1 - ahead)))
    rim = [(node(len(radii) - 1, k), node(len(radii) - 1, k + 1)) for k in around]
    return np.concatenate(points), np.array(cells), np.array(rim)


def main(folder=FOLDER):
    """Write the mesh files."""
    for name, radius in RADII.items():
        points, cells, rim = aquifer(radius)
        points[np.abs(points) < 1e-12] = 0.0
        groups = {"rim": rim}, {"aquifer": np.arange(len(cells))}
        write_msh(folder / f"{name}.msh", points, cells, *groups, digits=".9g")


if __name__ == "__main__":
    main()
