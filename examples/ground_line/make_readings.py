"""Simulate the apparent resistivities of the line, ``line.ohm``, on a finer mesh."""

from pathlib import Path

import numpy as np
import skfem

import invlift

HERE = Path(__file__).parent
MESH = HERE / "../../meshes/ground.msh"
ELECTRODES = np.column_stack([2.0 * np.arange(21), np.zeros(21)])  # m


def resistivity(x, z):
    """A moist top layer, a cavity in it, and wet clay on the right, ohm m."""
    ground = np.where(z > -2.0 - 0.03 * x, 90.0, 250.0)
    ground = np.where(np.hypot((x - 13.0) / 1.4, z + 4.5) < 2.0, 2000.0, ground)
    return np.where((x > 27.0) & (z < -1.5) & (z > -6.0), 40.0, ground)


def table():
    """Dipole-dipole readings a, b, m, n, numbers from 1: dipoles of 2 m, 2 to 16 m apart."""
    return np.array([(a, a + 1, a + gap + 1, a + gap + 2)
                     for gap in range(1, 9) for a in range(1, 20 - gap)])  # fmt: skip


def refined(mesh, times=2):
    """The mesh with four triangles in the place of each, so many times."""
    fine = skfem.MeshTri(np.ascontiguousarray(mesh.points.T), mesh.cells.T.copy()).refined(times)
    points, cells, facets = fine.p.T, fine.t.T, fine.facets.T[fine.boundary_facets()]
    is_inverted = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]]) < 0.0
    cells[is_inverted] = cells[is_inverted][:, ::-1]
    on_top = np.abs(points[facets, 1]).max(axis=1) < 1e-9
    return invlift.mesh_from_arrays(points, cells, boundaries={"surface": facets[on_top]})


def make_line(seed=5):
    """Write the table, with errors of 1 to 3 % that grow with the distance."""
    fine, rng = refined(invlift.read_mesh(MESH)), np.random.default_rng(seed)
    rows, unit = table(), np.eye(21)
    model = invlift.point_electrode_model(
        fine, ELECTRODES, unit, unit, surface="surface", location="cells"
    )
    x, z = fine.points[fine.cells].mean(axis=1).T
    potentials = np.reshape(model(-np.log(resistivity(x, z))), (21, 21))
    a, b, m, n = rows.T - 1
    values = potentials[m, a] - potentials[n, a] - potentials[m, b] + potentials[n, b]
    values *= invlift.geometric_factors(ELECTRODES, rows - 1)
    error = 0.01 + 0.002 * (m - b - 1)
    values *= 1.0 + error * rng.standard_normal(len(rows))
    lines = ["21# Number of electrodes", "#x z", *(f"{x:g} {z:g}" for x, z in ELECTRODES)]
    lines += [f"{len(rows)}# Number of data", "#a b m n rhoa err/%"]
    lines += [f"{' '.join(map(str, row))} {value:.2f} {100 * each:.1f}"
              for row, value, each in zip(rows, values, error, strict=True)]  # fmt: skip
    (HERE / "line.ohm").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    invlift.enable_x64()
    make_line()
