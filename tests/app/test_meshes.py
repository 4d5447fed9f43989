"""The committed meshes are what their table says, and the examples' sensors lie on them."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from invlift.app.problem.problem_file import read_problem
from invlift.fem.mesh.construction import mesh_from_arrays, read_mesh
from invlift.fem.mesh.quality import mesh_quality
from invlift.fem.readings.locate import locate
from invlift.tables.sensors import read_sensors

ROOT = Path(__file__).parents[2]
MESHES = ROOT / "meshes"
EXAMPLES = ROOT / "examples"

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
        2, 469, 864, {f"electrode_{k}" for k in range(1, 13)} | {"wall"}, {"tank"}, set(), 0.85,
    ),
    "kit4": (
        2, 1367, 2476, {f"electrode_{k}" for k in range(1, 17)} | {"wall"}, {"tank"}, set(), 0.4,
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
SIZES = {  # area (m^2, km^2 for wolfcamp) or volume (m^3), and its relative tolerance
    "disc": (np.pi, 2e-3),
    "plate": (2.0 - np.pi * (0.16**2 + 0.22**2), 2e-3),
    "body": (8.0 * 8.0 * 6.0 - np.pi * 0.5**2 * 2.0, 2e-3),
}


@pytest.fixture(scope="module")
def meshes():
    """All committed meshes by name."""
    return {name: read_mesh(MESHES / f"{name}.msh") for name in EXPECTED}


@pytest.fixture
def tools(monkeypatch):
    """Functions of the scripts that need no gmsh."""
    monkeypatch.syspath_prepend(str(MESHES))
    return runpy.run_path(str(MESHES / "msh.py")) | runpy.run_path(str(MESHES / "make_disc.py"))


def find_poor_cells(mesh, least):
    """Indices of the cells whose radius ratio is below ``least``."""
    return np.flatnonzero(mesh_quality(mesh) < least)


def test_every_mesh_file_is_in_the_table():
    assert {path.stem for path in MESHES.glob("*.msh")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_counts_groups_and_quality(meshes, name):
    mesh = meshes[name]
    dim, num_nodes, num_cells, boundaries, subdomains, fields, least_quality = EXPECTED[name]
    assert (mesh.dim, mesh.num_nodes, mesh.num_cells) == (dim, num_nodes, num_cells)
    assert set(mesh.boundaries) == boundaries
    assert set(mesh.subdomains) == subdomains
    assert set(mesh.point_fields) == fields
    assert len(np.unique(mesh.cells)) == mesh.num_nodes
    assert np.all(mesh.volumes > 0)
    assert len(find_poor_cells(mesh, least_quality)) == 0


@pytest.mark.parametrize("name", EXPECTED)
def test_groups_share_out_the_boundary_and_the_cells(meshes, name):
    mesh = meshes[name]
    facets = np.sort(np.concatenate(list(mesh.boundaries.values())), axis=1)
    exterior = np.sort(mesh.boundary_facets, axis=1)
    np.testing.assert_array_equal(np.unique(facets, axis=0), np.unique(exterior, axis=0))
    assert len(facets) == len(exterior)
    members = np.concatenate(list(mesh.subdomains.values()))
    np.testing.assert_array_equal(np.sort(members), np.arange(mesh.num_cells))


@pytest.mark.parametrize("name", SIZES)
def test_size_of_the_body(meshes, name):
    size, tolerance = SIZES[name]
    assert meshes[name].volumes.sum() == pytest.approx(size, rel=tolerance)


def test_boundary_groups_lie_where_their_names_say(meshes):
    plate, body = meshes["plate"], meshes["body"]
    for group, axis, level in (("left", 0, 0), ("right", 0, 2), ("bottom", 1, 0), ("top", 1, 1)):
        np.testing.assert_allclose(plate.points[plate.facets(group), axis], level, atol=1e-8)
    for group, axis, level in (("surface", 2, 0.0), ("base", 2, -6.0)):
        np.testing.assert_allclose(body.points[body.facets(group), axis], level, atol=1e-6)
    borehole = body.points[np.unique(body.facets("borehole"))]
    assert np.hypot(*borehole[:, :2].T).max() == pytest.approx(0.5, abs=1e-5)
    assert borehole[:, 2].min() == pytest.approx(-2.0)


def test_a_squashed_cell_would_be_found(meshes):
    mesh = meshes["disc"]
    points = mesh.points.copy()
    corners = points[mesh.cells[400]]
    points[mesh.cells[400, 0]] = 0.02 * corners[0] + 0.49 * (corners[1] + corners[2])
    squashed = mesh_from_arrays(points, mesh.cells)
    assert 400 in find_poor_cells(squashed, EXPECTED["disc"][-1])


def test_script_reproduces_the_disc(meshes, tools, tmp_path):
    tools["main"](tmp_path / "disc.msh")
    made = read_mesh(tmp_path / "disc.msh")
    np.testing.assert_allclose(made.points, meshes["disc"].points, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(made.cells, meshes["disc"].cells)
    np.testing.assert_array_equal(made.facets("rim"), meshes["disc"].facets("rim"))


def test_writer_turns_cells_round_and_keeps_groups_and_fields(tools, tmp_path):
    points, cells, rim = tools["disc"](2)
    half = np.arange(len(cells)) < 7
    groups = {"a": np.flatnonzero(half), "b": np.flatnonzero(~half)}
    field = np.sqrt(np.arange(len(points)))
    path = tmp_path / "mesh.msh"
    tools["write_msh"](path, points, cells[:, ::-1], {"rim": rim}, groups, {"f": field})
    mesh = read_mesh(path)
    np.testing.assert_array_equal(mesh.points, points)
    np.testing.assert_array_equal(mesh.point_fields["f"], field)
    np.testing.assert_array_equal(np.sort(mesh.cells), np.sort(cells))
    assert {name: len(rows) for name, rows in mesh.subdomains.items()} == {"a": 7, "b": 17}
    assert np.all(mesh.volumes > 0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [("subdomain", "share out"), ("orphan", "belong to no cell"), ("flat", "no volume")],
)
def test_writer_refuses(tools, tmp_path, fault, message):
    points, cells, rim = tools["disc"](2)
    subdomains = {"all": np.arange(len(cells) - (fault == "subdomain"))}
    if fault == "orphan":
        points = np.concatenate([points, [[3.0, 3.0]]])
    if fault == "flat":
        cells[3, 0] = cells[3, 1]
    with pytest.raises(ValueError, match=message):
        tools["write_msh"](tmp_path / "mesh.msh", points, cells, {"rim": rim}, subdomains)
    assert not (tmp_path / "mesh.msh").exists()


def test_sensors_of_the_disc_are_nodes(meshes):
    mesh = meshes["disc"]
    sensors = read_sensors(EXAMPLES / "disc" / "sensors.csv", 2)
    gaps = np.linalg.norm(mesh.points - sensors.points[:, None, :], axis=2).min(axis=1)
    assert len(gaps) == 10
    np.testing.assert_allclose(gaps, 0.0, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "num_sensors"), [("disc", 10), ("plate", 20), ("body3d", 30), ("wolfcamp", 85)]
)
def test_examples_name_what_their_meshes_have(name, num_sensors):
    spec = read_problem(EXAMPLES / name / "problem.toml")
    mesh = read_mesh(spec.mesh.file)
    for group in [*spec.pde.dirichlet, *spec.pde.neumann, *spec.pde.robin]:
        assert len(mesh.facets(group)) > 0
    sensors = read_sensors(spec.observations.file, mesh.dim)
    assert len(locate(mesh, sensors, outside="error").kept) == num_sensors
    assert spec.output.dir == EXAMPLES / name / "results" / name


def test_boundary_head_is_the_plane_fitted_to_the_heads(meshes):
    mesh = meshes["wolfcamp"]
    wells = read_sensors(EXAMPLES / "wolfcamp" / "sensors.csv", 2)
    terms = np.column_stack([np.ones(85), wells.points])
    plane = np.linalg.lstsq(terms, wells.values)[0]
    head = np.column_stack([np.ones(mesh.num_nodes), mesh.points]) @ plane
    np.testing.assert_allclose(mesh.point_fields["boundary_head"], head, atol=2e-3)
    rim = mesh.points[np.unique(mesh.facets("rim"))]
    gaps = np.linalg.norm(rim[:, None, :] - wells.points, axis=2).min(axis=1)
    assert gaps.min() > 29.0
