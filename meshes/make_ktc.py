"""Write ``ktc.msh``: the tank of the Kuopio tomography challenge 2023 (needs SciPy and scikit-fem).

Räsänen et al. (2024, Zenodo 10.5281/zenodo.10418802): radius 11.5 cm, 32 electrodes that are half
of the rim, numbered counter-clockwise; the middle of the first one is at the top.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rings import ring, triangulated, write_tank

MESH = Path(__file__).with_name("ktc.msh")
RADIUS, NUM_ELECTRODES = 0.115, 32  # m
#: Edges of the rim on an electrode and between two; both parts are of one size.
EDGES = 3, 2
#: Radii of the rings inside, as shares of the tank's, and their nodes.
RINGS = {0.965: 128, 0.905: 84, 0.83: 64, 0.74: 56, 0.64: 48, 0.54: 41, 0.44: 34, 0.34: 26,
         0.23: 18, 0.11: 9, 0.0: 1}  # fmt: skip


def rim_angles():
    """Angles of the nodes of the rim, from the beginning of the first electrode on."""
    size = np.pi / NUM_ELECTRODES
    parts = [np.arange(num) / num for num in EDGES]
    own = size * np.concatenate([k + part for k, part in enumerate(parts)])
    turns = 2.0 * size * np.arange(NUM_ELECTRODES)[:, None]
    return (0.5 * np.pi - 0.5 * size + turns + own).ravel()


def main(path=MESH):
    """Write the mesh file."""
    angle = rim_angles()
    rings = [ring(RADIUS, angle)]
    for number, (radius, size) in enumerate(RINGS.items()):
        rings.append(
            ring(RADIUS * radius, 2.0 * np.pi * (np.arange(size) + 0.5 * (number % 2)) / size)
        )
    write_tank(path, *triangulated(rings), NUM_ELECTRODES, EDGES)


if __name__ == "__main__":
    main()
