"""Write ``lauswiesen.msh``: the ground round five wells, a node at each (needs SciPy).

A lattice round the wells, finer near each of them, amid rings that grow to a rim far away.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msh import write_msh
from scipy.spatial import Delaunay

MESH = Path(__file__).with_name("lauswiesen.msh")
#: Of B1 to B5, m.
WELLS = np.array(
    [[67.715, 18.863], [63.877, 22.201], [71.009, 28.88], [48.742, 20.038], [48.908, 35.283]]
)
CENTRE = np.array([60.0, 26.0])
#: Spacing of the lattice and its radius, m; radii of rings round a well, m, and nodes of each.
SPACING, INNER = 1.85, 27.0
NEAR = [(0.35, 8), (0.95, 12)]
#: Growth and number of the rings outside, and nodes of each: the rim is at 800 m.
GROWTH, NUM_RINGS, NUM_SECTORS = 1.155, 23, 48


def lauswiesen():
    """Points (num_nodes, 2), triangles (num_cells, 3) and rim edges (NUM_SECTORS, 2)."""
    k = np.arange(-40, 41)
    i, j = np.meshgrid(k, k)
    lattice = SPACING * np.stack([i + 0.5 * (j % 2), np.sqrt(0.75) * j], axis=-1).reshape(-1, 2)
    lattice = lattice[np.linalg.norm(lattice, axis=1) < INNER] + CENTRE
    away = np.linalg.norm(lattice[:, None] - WELLS, axis=2).min(axis=1)
    points = [WELLS, lattice[away > NEAR[-1][0] + 0.45 * SPACING]]
    for well in WELLS:
        points += [well + _ring(radius, num, 0.5 * n) for n, (radius, num) in enumerate(NEAR)]
    first = INNER + 0.8 * SPACING
    radii = first * GROWTH ** np.arange(NUM_RINGS + 1)
    points += [CENTRE + _ring(each, NUM_SECTORS, 0.5 * n) for n, each in enumerate(radii)]
    points = np.concatenate(points)
    cells = Delaunay(points).simplices
    last = len(points) - NUM_SECTORS + np.arange(NUM_SECTORS)
    return points, cells, np.stack([last, np.roll(last, -1)], axis=1)


def _ring(radius, num, turn):
    angle = 2 * np.pi * (np.arange(num) + turn) / num
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def main(path=MESH):
    """Write the mesh file."""
    points, cells, rim = lauswiesen()
    write_msh(path, points, cells, {"rim": rim}, {"ground": np.arange(len(cells))}, digits=".9g")


if __name__ == "__main__":
    main()
