"""The disc of the manifold lifting paper's figures."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples" / "manifold_lifting"))

import solution_field


def test_mesh_of_the_preprint_has_207_nodes():
    points, cells, edges = solution_field.disc()
    assert points.shape == (207, 2)
    assert len(edges) == solution_field.NUM_RIM
    # Euler: as many triangles as a disc of so many nodes and rim edges has.
    assert len(cells) == 2 * 207 - 2 - solution_field.NUM_RIM
