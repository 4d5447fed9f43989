"""Write ``kit4.msh``: the tank of the KIT4 data, 16 electrodes (needs SciPy and scikit-fem).

Hauptmann et al. (2017, arXiv:1704.01178): radius 14 cm, electrodes of 2.5 cm, numbered clockwise.
Nodes of the rim are closer together at the ends of the electrodes, and cells there are halved again
and again: the current density is largest there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rings import ring, triangulated, write_tank

MESH = Path(__file__).with_name("kit4.msh")
RADIUS, NUM_ELECTRODES = 0.14, 16  # m
#: Share of the rim that is electrodes, and the angle of the middle of the first one.
SHARE, FIRST = 0.4547, 0.5 * np.pi - 0.0892857
#: Edges of the rim on an electrode and between two, and how often cells at its ends are halved.
EDGES, TIMES = (10, 6), 4
#: Radii of the rings inside, as shares of the tank's, and their nodes; of 0 as many as the rim has.
RINGS = {0.985: 0, 0.965: 0, 0.935: 128, 0.89: 128, 0.83: 80, 0.75: 64, 0.65: 56, 0.54: 48,
         0.43: 40, 0.32: 28, 0.21: 18, 0.10: 8, 0.0: 1}  # fmt: skip


def rim_angles():
    """Angles of the nodes of the rim, clockwise from the beginning of the first electrode."""
    pitch = 2.0 * np.pi / NUM_ELECTRODES
    parts, begin = [], FIRST + 0.5 * SHARE * pitch
    for size, num in zip((SHARE * pitch, (1.0 - SHARE) * pitch), EDGES, strict=True):
        parts.append(begin - size * (0.5 - 0.5 * np.cos(np.pi * np.arange(num) / num)))
        begin -= size
    turns = pitch * np.arange(NUM_ELECTRODES)
    return np.concatenate([np.concatenate(parts) - turn for turn in turns])


def main(path=MESH):
    """Write the mesh file."""
    angle = rim_angles()
    even = angle[0] - 2.0 * np.pi * np.arange(angle.size) / angle.size
    rings = [ring(RADIUS, angle)]
    for number, (radius, size) in enumerate(RINGS.items()):
        if size:
            own = angle[0] - 2.0 * np.pi * (np.arange(size) + 0.5 * (number % 2)) / size
        else:  # the nodes become even by and by
            share = 1.0 - 0.4 * (number + 1)
            own = share * angle + (1.0 - share) * even
        rings.append(ring(RADIUS * radius, own))
    write_tank(path, *triangulated(rings), NUM_ELECTRODES, EDGES, TIMES)


if __name__ == "__main__":
    main()
