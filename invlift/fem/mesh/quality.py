"""Quality of the elements of a mesh."""

from __future__ import annotations

import numpy as np

from invlift.fem.mesh.mesh import Mesh


def mesh_quality(mesh: Mesh) -> np.ndarray:
    """Return the radius-ratio quality of each cell, shape (num_cells,), in (0, 1].

    It is dim times the inscribed radius over the circumscribed radius: 1 for an equilateral
    simplex, near 0 for a sliver (Liu & Joe 1994, "Relationship between tetrahedron shape measures",
    eq. for rho).
    """
    corners = mesh.points[mesh.cells]
    edges = corners[:, 1:] - corners[:, :1]
    # The circumcentre c, relative to the first corner, solves 2 e_i . c = |e_i|^2.
    centre = np.linalg.solve(2.0 * edges, (edges**2).sum(axis=2)[..., None])[..., 0]
    circumradius = np.linalg.norm(centre, axis=1)
    # |grad of barycentric coordinate i| = facet size / (dim volume) = 1 / height over facet i, and
    # the inscribed radius is 1 over the sum of the inverse heights.
    gradients = np.linalg.inv(edges)
    inverse_heights = np.linalg.norm(gradients, axis=1).sum(axis=1) + np.linalg.norm(
        gradients.sum(axis=2), axis=1
    )
    return np.minimum(mesh.dim / (inverse_heights * circumradius), 1.0)
