"""Write ``disc.msh``: the unit disc as a centre and twelve rings of nodes (needs NumPy only).

Ring ``i`` has ``6 i`` nodes at radius ``i / 12``, so the triangulation is a hexagonal lattice bent
into a disc: 1 + 6 (1 + ... + 12) = 469 nodes, 6 * 12**2 = 864 triangles.  It is the mesh of the
Poisson experiment in Au, Graham and Thiery (2023), JRSS-B 85(3), section 6.5, whose ten sensors lie
on nodes of rings 0, 4 and 8.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msh import write_msh

MESH = Path(__file__).with_name("disc.msh")
NUM_RINGS = 12


def disc(num_rings=NUM_RINGS):
    """Points (num_nodes, 2), triangles (num_cells, 3) and rim edges (6 num_rings, 2)."""
    rings = [np.zeros((1, 2))]
    for ring in range(1, num_rings + 1):
        angle = 2 * np.pi * np.arange(6 * ring) / (6 * ring)
        rings.append(ring / num_rings * np.column_stack([np.cos(angle), np.sin(angle)]))
    cells = []
    for ring in range(num_rings):
        for sector in range(6):
            inner = [_node(ring, sector * ring + k) for k in range(ring + 1)]
            outer = [_node(ring + 1, sector * (ring + 1) + k) for k in range(ring + 2)]
            cells += [(inner[k], outer[k], outer[k + 1]) for k in range(ring + 1)]
            cells += [(inner[k], outer[k + 1], inner[k + 1]) for k in range(ring)]
    rim = [(_node(num_rings, k), _node(num_rings, k + 1)) for k in range(6 * num_rings)]
    return np.concatenate(rings), np.array(cells), np.array(rim)


def _node(ring, k):
    """Index of node ``k`` (counted round, modulo the ring's length) of ring ``ring``."""
    return 0 if ring == 0 else 1 + 3 * ring * (ring - 1) + k % (6 * ring)


def main(path=MESH):
    """Write the mesh file."""
    points, cells, rim = disc()
    # Cosine of 90 degrees and its like are round-off, not coordinates.
    points[np.abs(points) < 1e-15] = 0.0
    write_msh(path, points, cells, {"rim": rim}, {"disc": np.arange(len(cells))})


if __name__ == "__main__":
    main()
