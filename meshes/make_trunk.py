"""Write ``trunk.msh``: the section of a trunk with 24 electrodes round it (needs NumPy only).

Rings of nodes as of ``disc.msh``, bent to the outline of the trunk and drawn together near the
electrodes, each of which is a node of the outline: ``electrodes()`` are their positions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_disc import disc
from msh import write_msh

MESH = Path(__file__).with_name("trunk.msh")
NUM_RINGS, NUM_ELECTRODES = 16, 24
#: How much closer than elsewhere the nodes at an electrode are, from 0 to 1.
CLOSENESS = 0.7


def outline(angle):
    """Distance of the bark from the middle, in m."""
    return 0.25 + 0.012 * np.cos(2.0 * angle + 0.6) + 0.006 * np.sin(3.0 * angle)


def electrodes():
    """Positions, (24, 2), in m, on the bark at even angles from the right anticlockwise."""
    angle = 2.0 * np.pi * np.arange(NUM_ELECTRODES) / NUM_ELECTRODES
    return outline(angle)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def main(path=MESH):
    """Write the mesh file."""
    points, cells, rim = disc(NUM_RINGS)
    x, y = points.T
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    shift = CLOSENESS / NUM_ELECTRODES * np.sin(NUM_ELECTRODES * angle)
    angle = angle - radius**6 * shift
    points = (radius * outline(angle))[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    points[np.abs(points) < 1e-15] = 0.0
    write_msh(path, points, cells, {"bark": rim}, {"wood": np.arange(len(cells))})


if __name__ == "__main__":
    main()
