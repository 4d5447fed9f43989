"""Write ``tank.msh``: the unit disc with twelve electrodes on its rim (needs NumPy only).

The nodes and triangles are those of ``disc.msh``.  Of the six edges of the rim in each twelfth the
first three are an electrode, which are numbered from the right anticlockwise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_disc import disc
from msh import write_msh

MESH = Path(__file__).with_name("tank.msh")
NUM_ELECTRODES = 12


def main(path=MESH):
    """Write the mesh file."""
    points, cells, rim = disc()
    points[np.abs(points) < 1e-15] = 0.0
    parts = rim.reshape(NUM_ELECTRODES, 2, 3, 2)  # electrode and gap, of three edges each
    groups = {f"electrode_{k}": edges for k, edges in enumerate(parts[:, 0], start=1)}
    groups["wall"] = parts[:, 1].reshape(-1, 2)
    write_msh(path, points, cells, groups, {"tank": np.arange(len(cells))})


if __name__ == "__main__":
    main()
