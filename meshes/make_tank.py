"""Write ``tank.msh``: the unit disc with twelve electrodes on its rim (needs SciPy, scikit-fem).

The nodes and triangles are those of a disc as ``disc.msh``, of sixteen rings.  Of the eight edges
of the rim in each twelfth the first four are an electrode, which are numbered from the right
anticlockwise.  Cells are smaller at the ends of the electrodes, where the current density has its
maximum.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_disc import disc
from rings import write_tank

MESH = Path(__file__).with_name("tank.msh")
NUM_RINGS, NUM_ELECTRODES = 16, 12
#: Edges of the rim on an electrode and between two, and how often cells at its ends are halved.
EDGES, TIMES = (4, 4), 4


def main(path=MESH):
    """Write the mesh file."""
    points, cells, rim = disc(NUM_RINGS)
    points[np.abs(points) < 1e-15] = 0.0
    write_tank(path, points, cells, rim, NUM_ELECTRODES, EDGES, TIMES)


if __name__ == "__main__":
    main()
