"""Refined meshes are nested, and have the groups and fields of the given one."""

from dataclasses import replace

import numpy as np
import pytest
from structured import box_mesh

from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.fem.mesh.functionals import facet_sizes
from invlift.fem.mesh.refinement import refined


def slanted(dim):
    """A box with slanted cells of several shapes."""
    mesh = box_mesh(dim, 2)
    rng = np.random.default_rng(1)
    moved = mesh.points @ (np.eye(dim) + 0.2 * rng.random((dim, dim)))
    return replace(mesh, points=moved + 0.04 * rng.random(moved.shape))


def check(mesh, found, times):
    dim, fine = mesh.dim, found.mesh
    parts = 2 ** (dim * times)
    boundaries, subdomains = fine.boundaries, fine.subdomains
    again = mesh_from_arrays(
        fine.points, fine.cells, boundaries=boundaries, subdomains=subdomains
    )  # with every check that there is
    assert again.is_same(fine)
    for name, facets in boundaries.items():
        np.testing.assert_array_equal(again.boundaries[name], facets)
        sizes = [facet_sizes(each.points[each.facets(name)]).sum() for each in (mesh, fine)]
        assert sizes[0] == pytest.approx(sizes[1], rel=1e-12)
        assert len(facets) == 2 ** ((dim - 1) * times) * len(mesh.boundaries[name])
    whole = np.concatenate(list(boundaries.values()))
    np.testing.assert_array_equal(np.unique(whole, axis=0), fine.boundary_facets)
    np.testing.assert_allclose(fine.volumes, mesh.volumes[found.parents] / parts, rtol=1e-9)
    for name, cells in subdomains.items():
        assert {*found.parents[cells]} == {*mesh.subdomains[name]}
        assert len(cells) == parts * len(mesh.subdomains[name])
    np.testing.assert_allclose(fine.points, found.nodes @ mesh.points, atol=1e-14)
    np.testing.assert_array_equal(fine.points[: mesh.num_nodes], mesh.points)
    np.testing.assert_array_equal(fine.cells.ravel()[found.corners], mesh.cells)
    owners = found.parents[found.corners // (dim + 1)]
    assert (owners == np.arange(mesh.num_cells)[:, None]).all()
    inside, _ = mesh.find_cells(fine.points[fine.cells].mean(axis=1))
    np.testing.assert_array_equal(inside, found.parents)
    for name, values in mesh.point_fields.items():
        np.testing.assert_array_equal(fine.point_fields[name], found.nodes @ values)
    for name, values in mesh.cell_fields.items():
        np.testing.assert_array_equal(fine.cell_fields[name], values[found.parents])


@pytest.mark.parametrize("dim", [2, 3])
def test_groups_volumes_and_fields_stay(dim):
    mesh, times = slanted(dim), 2
    found = refined(mesh, times)
    check(mesh, found, times)
    shifted = replace(found, corners=np.roll(found.corners, 1))  # negative control
    with pytest.raises(AssertionError):
        check(mesh, shifted, times)


@pytest.mark.parametrize("dim", [2, 3])
def test_fields_are_the_same_everywhere(dim):
    """At random places, of a field at the nodes and of one in the cells."""
    mesh, rng = slanted(dim), np.random.default_rng(2)
    found = refined(mesh, 2)
    weights = rng.dirichlet(np.ones(dim + 1), mesh.num_cells)
    places = np.einsum("kc,kcd->kd", weights, mesh.points[mesh.cells])
    for location, place in (("nodes", "node"), ("cells", "cell")):
        values = rng.standard_normal(len(mesh.places_of(location)))
        fine = found.of_field(location) @ values
        there = found.mesh.values_at(places, place) @ fine
        np.testing.assert_allclose(there, mesh.values_at(places, place) @ values, atol=1e-11)


def test_cells_of_space_keep_their_shape():
    """Edges shrink by half, or nearly so, each time: the shortest diagonal is taken."""
    mesh = slanted(3)

    def worst(cells_of):
        corners = cells_of.points[cells_of.cells]
        longest = np.linalg.norm(corners[:, :, None] - corners[:, None], axis=3).max(axis=(1, 2))
        return (longest**3 / cells_of.volumes).max()

    assert worst(refined(mesh, 3).mesh) < 2.0 * worst(mesh)
