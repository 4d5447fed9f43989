"""The committed meshes are what their table says, and the examples' sensors lie on them."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from invlift.fem.mesh.construction import read_mesh
from invlift.fem.mesh.quality import mesh_quality
from invlift.tables.sensors import read_sensors

ROOT = Path(__file__).parents[2]
MESHES = ROOT / "meshes"

# name: dim, nodes, cells, boundaries, subdomains, point fields, worst radius ratio allowed
EXPECTED = {
    "disc": (2, 469, 864, {"rim"}, {"disc"}, set(), 0.85),
    "plate": (
        2, 1193, 2200, {"left", "right", "top", "bottom", "hole_1", "hole_2"},
        {"sheet_a", "sheet_b"}, set(), 0.5,
    ),
    "body": (
        3, 2999, 14119, {"surface", "sides", "base", "borehole"},
        {"clay", "granite", "heater"}, set(), 0.3,
    ),
    "basin": (2, 10009, 19562, {"coast", "river", "divide", "lake"}, {"aquifer"}, set(), 0.6),
    "tank": (
        2, 1619, 2948, {f"electrode_{k}" for k in range(1, 13)} | {"wall"}, {"tank"}, set(), 0.4,
    ),
    "kit4": (
        2, 2460, 4390, {f"electrode_{k}" for k in range(1, 17)} | {"wall"}, {"tank"}, set(), 0.15,
    ),
    "ktc": (
        2, 669, 1176, {f"electrode_{k}" for k in range(1, 33)} | {"wall"}, {"tank"}, set(), 0.7,
    ),
    "ground": (2, 859, 1550, {"surface", "rest"}, {"ground"}, set(), 0.5),
    "trunk": (2, 817, 1536, {"bark"}, {"wood"}, set(), 0.6),
    "aquifer": (2, 937, 1848, {"rim"}, {"aquifer"}, set(), 0.4),
    "gridley": (2, 937, 1848, {"rim"}, {"aquifer"}, set(), 0.4),
    "lauswiesen": (2, 2008, 3966, {"rim"}, {"ground"}, set(), 0.25),
    "wolfcamp": (2, 1900, 3689, {"rim"}, {"aquifer"}, {"boundary_head"}, 0.6),
}  # fmt: skip
SIZES = {  # area in m^2, or volume in m^3
    "disc": np.pi,
    "plate": 2.0 - np.pi * (0.16**2 + 0.22**2),
    "body": 8.0 * 8.0 * 6.0 - np.pi * 0.5**2 * 2.0,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_counts_groups_and_quality(name):
    mesh = read_mesh(MESHES / f"{name}.msh")
    dim, num_nodes, num_cells, boundaries, subdomains, fields, least_quality = EXPECTED[name]
    assert (mesh.dim, mesh.num_nodes, mesh.num_cells) == (dim, num_nodes, num_cells)
    assert set(mesh.boundaries) == boundaries
    assert set(mesh.subdomains) == subdomains
    assert set(mesh.point_fields) == fields
    assert len(np.unique(mesh.cells)) == mesh.num_nodes
    assert np.all(mesh.volumes > 0)
    assert mesh_quality(mesh).min() >= least_quality
    facets = np.sort(np.concatenate(list(mesh.boundaries.values())), axis=1)
    exterior = np.sort(mesh.boundary_facets, axis=1)
    np.testing.assert_array_equal(np.unique(facets, axis=0), np.unique(exterior, axis=0))
    assert len(facets) == len(exterior)
    members = np.concatenate(list(mesh.subdomains.values()))
    np.testing.assert_array_equal(np.sort(members), np.arange(mesh.num_cells))
    if name in SIZES:
        assert mesh.volumes.sum() == pytest.approx(SIZES[name], rel=2e-3)


def test_every_mesh_file_is_in_the_table():
    assert {path.stem for path in MESHES.glob("*.msh")} == set(EXPECTED)


@pytest.fixture
def tools(monkeypatch):
    """Functions of the scripts that need no gmsh."""
    monkeypatch.syspath_prepend(str(MESHES))
    return runpy.run_path(str(MESHES / "msh.py")) | runpy.run_path(str(MESHES / "make_disc.py"))


def test_script_reproduces_the_disc(tools, tmp_path):
    tools["main"](tmp_path / "disc.msh")
    made, kept = (read_mesh(folder / "disc.msh") for folder in (tmp_path, MESHES))
    np.testing.assert_allclose(made.points, kept.points, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(made.cells, kept.cells)
    np.testing.assert_array_equal(made.facets("rim"), kept.facets("rim"))


def test_writer_refuses(tools, tmp_path):
    for fault, message in (
        ("subdomain", "share out"), ("orphan", "belong to no cell"), ("flat", "no volume"),
    ):  # fmt: skip
        points, cells, rim = tools["disc"](2)
        subdomains = {"all": np.arange(len(cells) - (fault == "subdomain"))}
        if fault == "orphan":
            points = np.concatenate([points, [[3.0, 3.0]]])
        if fault == "flat":
            cells[3, 0] = cells[3, 1]
        with pytest.raises(ValueError, match=message):
            tools["write_msh"](tmp_path / "mesh.msh", points, cells, {"rim": rim}, subdomains)
        assert not (tmp_path / "mesh.msh").exists()


def test_boundary_head_is_the_plane_fitted_to_the_heads():
    mesh = read_mesh(MESHES / "wolfcamp.msh")
    wells = read_sensors(ROOT / "examples" / "wolfcamp" / "sensors.csv", 2)
    terms = np.column_stack([np.ones(85), wells.points])
    plane = np.linalg.lstsq(terms, wells.values)[0]
    head = np.column_stack([np.ones(mesh.num_nodes), mesh.points]) @ plane
    np.testing.assert_allclose(mesh.point_fields["boundary_head"], head, atol=2e-3)
