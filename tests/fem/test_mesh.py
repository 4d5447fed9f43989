"""Meshes: what is read from files, what is refused and how, and the geometry derived from them."""

import itertools
import math
from dataclasses import replace

import h5py
import meshio
import numpy as np
import pytest
from gmsh_texts import GMSH_22, GMSH_41
from refusals import refused
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.mesh.construction import mesh_from_arrays, read_mesh, with_groups
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.quality import mesh_quality

# The unit square cut into four triangles by its centre.
POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
CELLS = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])


def box(n):
    """Cut the unit cube into 6 n^3 tetrahedra, all positively oriented."""
    steps = np.arange(n + 1)
    grid = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    stride = np.array([(n + 1) ** 2, n + 1, 1])
    corner = grid[(grid < n).all(axis=1)] @ stride
    cells = []
    for order in itertools.permutations(range(3)):
        path = np.concatenate([[0], np.cumsum(stride[list(order)])])
        if np.linalg.det(np.eye(3)[list(order)]) < 0:
            path[[2, 3]] = path[[3, 2]]
        cells.append(corner[:, None] + path)
    return grid / n, np.concatenate(cells)


def write(path, text):
    path.write_text(text)
    return path


# --- files ---


def test_an_empty_group_cannot_be_used():
    empty = np.zeros((0, 2), dtype=int)
    mesh = mesh_from_arrays(POINTS, CELLS, boundaries={"none": empty})
    with pytest.raises(InputError, match="boundary group 'none'") as caught:
        mesh.facets("none", "problem.toml, [pde] neumann")
    assert str(caught.value).startswith("problem.toml, [pde] neumann: expected facets")


@pytest.mark.parametrize("text", [GMSH_22, GMSH_41], ids=["2.2", "4.1"])
def test_gmsh_groups_keep_their_names(tmp_path, text):
    mesh = read_mesh(write(tmp_path / "square.msh", text))
    np.testing.assert_array_equal(mesh.points, POINTS)
    np.testing.assert_array_equal(mesh.cells, CELLS)
    assert {group: facets.tolist() for group, facets in mesh.boundaries.items()} == {
        "left side": [[0, 3]],
        "body": [[0, 1]],
        "fault": [[0, 4]],
        "10": [[1, 2]],
    }
    assert {group: cells.tolist() for group, cells in mesh.subdomains.items()} == {
        "body": [0, 1],
        "2": [2, 3],
    }
    assert mesh.name == str(tmp_path / "square.msh")


@pytest.mark.parametrize("suffix", [".vtk", ".inp"])
def test_other_formats_without_names(tmp_path, suffix):
    points = np.column_stack([POINTS, np.zeros(5)])
    fields = {} if suffix in (".mesh", ".inp") else {"head": np.arange(5.0)}
    meshio.Mesh(points, [("triangle", CELLS)], point_data=fields).write(tmp_path / f"a{suffix}")
    mesh = read_mesh(tmp_path / f"a{suffix}")
    np.testing.assert_array_equal(mesh.points, POINTS)
    np.testing.assert_array_equal(mesh.cells, CELLS)
    assert mesh.boundaries == {}
    assert len(mesh.facets("boundary")) == 4


def test_fields_follow_their_nodes_and_cells(tmp_path):
    file_mesh = meshio.Mesh(
        np.column_stack([POINTS, np.zeros(5)]),
        [("line", [[0, 1]]), ("triangle", CELLS[:3]), ("triangle", CELLS[3:])],
        point_data={"head": np.arange(5), "velocity": np.zeros((5, 3))},
        cell_data={"source": [np.array([-1.0]), np.array([1.0, 2.0, 3.0]), np.array([4.0])]},
    )
    file_mesh.write(tmp_path / "a.vtu")
    mesh = read_mesh(tmp_path / "a.vtu")
    assert set(mesh.point_fields) == {"head"}
    np.testing.assert_array_equal(mesh.point_field("head"), np.arange(5.0))
    assert mesh.point_fields["head"].dtype == np.float64
    np.testing.assert_array_equal(mesh.field("source"), [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(mesh.cells, CELLS)


def test_tetrahedra_with_named_triangles(tmp_path):
    points, cells = box(1)
    triangles = np.array([[0, 2, 6], [0, 4, 6]])
    file_mesh = meshio.Mesh(
        points,
        [("triangle", triangles), ("tetra", cells)],
        cell_data={"gmsh:physical": [np.array([3, 3]), np.full(6, 1)]},
        field_data={"bottom": np.array([3, 2]), "rock": np.array([1, 3])},
    )
    file_mesh.cell_data["gmsh:geometrical"] = file_mesh.cell_data["gmsh:physical"]
    file_mesh.write(tmp_path / "cube.msh", file_format="gmsh22", binary=False)
    mesh = read_mesh(tmp_path / "cube.msh")
    assert mesh.dim == 3
    np.testing.assert_array_equal(mesh.facets("bottom"), triangles)
    np.testing.assert_array_equal(mesh.cells_of("rock"), np.arange(6))


@pytest.mark.parametrize(
    ("file_name", "content", "parts"),
    [
        ("empty.msh", b"", ["an empty file"]),
        ("garbage.msh", b"\x00\x01garbage" * 50, ["does not parse"]),
        ("garbage.vtu", b"<VTKFile><Unclosed", ["does not parse"]),
        ("version.msh", GMSH_22.replace("2.2 0 8", "9.9 0 8").encode(), ["2.2 or 4.1", "9.9"]),
        ("text.msh", GMSH_22.replace("4 0 1 0", "4 O 1 0").encode(), ["$Nodes", "damaged"]),
        ("mesh.dwg", b"anything", ["extension '.dwg'", ".vtu"]),
    ],
)
def test_unreadable_content_is_one_line(tmp_path, capfd, file_name, content, parts):
    path = tmp_path / file_name
    path.write_bytes(content)
    with refused(*parts, start=str(path)):
        read_mesh(path)
    assert capfd.readouterr() == ("", "")  # meshio's own printing is kept off the terminal


@pytest.mark.parametrize("text", [GMSH_22, GMSH_41], ids=["2.2", "4.1"])
def test_a_gmsh_file_cut_anywhere_is_refused(tmp_path, text):
    for length in range(1, len(text) - len("$EndElements\n"), 31):
        path = write(tmp_path / "cut.msh", text[:length])
        with pytest.raises(InputError):
            read_mesh(path)


@pytest.mark.parametrize(
    ("blocks", "parts"),
    [
        ([("triangle", CELLS[:2]), ("quad", [[0, 1, 2, 3]])], ["1 quad", "triangles or tetra"]),
        ([("triangle6", [[0, 1, 2, 3, 4, 0]])], ["1 triangle6", "first-order"]),
        ([("line", [[0, 1]])], ["1 line", "mesh the body itself"]),
    ],
)
def test_unsupported_elements_are_counted(tmp_path, blocks, parts):
    meshio.Mesh(np.column_stack([POINTS, np.zeros(5)]), blocks).write(tmp_path / "a.vtu")
    with refused(*parts):
        read_mesh(tmp_path / "a.vtu")


def test_an_entity_is_in_all_of_its_groups(tmp_path):
    """Also in one without a name, or that reverses it: curve 2 is in 10 and -7."""
    old = "2 1 0 0 1 1 0 1 10 0\n4 0 0 0 0 1 0 1 -7 0\n"
    assert old in GMSH_41
    text = GMSH_41.replace(old, "2 1 0 0 1 1 0 2 10 -7 0\n4 0 0 0 0 1 0 3 9 -7 10 0\n")
    (tmp_path / "square.msh").write_text(text)
    mesh = read_mesh(tmp_path / "square.msh")
    for name in ("left side", "10"):
        assert mesh.facets(name).tolist() == [[0, 3], [1, 2]], name
    assert mesh.facets("body").tolist() == [[0, 1], [0, 3]]


def test_elements_without_a_group_are_left_out(tmp_path):
    """As gmsh saves them with Mesh.SaveAll = 1; where none of the body's is in one, all stay."""
    text = GMSH_41.replace("2 0 0 0 1 1 0 1 2 0\n$End", "2 0 0 0 1 1 0 0 0\n$End")
    text = text.replace("4 0 0 0 0 1 0 1 -7 0\n", "4 0 0 0 0 1 0 0 0\n")
    mesh, whole = (read_mesh(write(tmp_path / "a.msh", each)) for each in (text, GMSH_41))
    assert whole.notes == ()
    assert mesh.notes == ("2 triangles without a group left out",
                          "1 node of no element left out, the first at (0, 1)")  # fmt: skip
    assert (mesh.num_cells, mesh.num_nodes) == (2, 4)
    np.testing.assert_array_equal(mesh.points[mesh.cells], whole.points[whole.cells[:2]])
    none = text.replace("1 0 0 0 1 1 0 1 1 0\n2", "1 0 0 0 1 1 0 0 0\n2")
    assert none != text
    mesh = read_mesh(write(tmp_path / "c.msh", none))
    assert (mesh.num_cells, mesh.notes) == (4, ())
    assert "left side" in whole.boundaries


def test_facets_of_a_second_file(tmp_path):
    """Tags of facets as FEniCS has them, in an order of their own; 0 is no group."""
    meshio.Mesh(POINTS, [("triangle", CELLS)]).write(tmp_path / "mesh.xdmf", data_format="XML")
    order = [3, 0, 1, 2]
    facets = np.argsort(order)[[[0, 1], [1, 2], [2, 3], [3, 0]]]
    tagged = meshio.Mesh(
        POINTS[order], [("line", facets)], cell_data={"tags": [np.array([7, 7, 8, 0])]}
    )
    tagged.write(tmp_path / "facets.xdmf", data_format="XML")
    mesh = read_mesh(tmp_path / "mesh.xdmf", facets=tmp_path / "facets.xdmf")
    assert mesh.boundaries["7"].tolist() == [[0, 1], [1, 2]]
    assert mesh.boundaries["8"].tolist() == [[2, 3]]
    assert set(mesh.boundaries) == {"7", "8"}
    with pytest.raises(InputError, match="if a second file has the tags of facets, name it"):
        read_mesh(tmp_path / "mesh.xdmf").facets("7")
    tagged.points = 2.0 * tagged.points
    tagged.write(tmp_path / "far.xdmf", data_format="XML")
    with pytest.raises(InputError, match=r"far.xdmf, node \d: expected nodes of the mesh"):
        read_mesh(tmp_path / "mesh.xdmf", facets=tmp_path / "far.xdmf")
    with pytest.raises(InputError, match="lines or triangles with one array of tags"):
        read_mesh(tmp_path / "mesh.xdmf", facets=tmp_path / "mesh.xdmf")


def test_coordinates_in_millimetre(tmp_path):
    path = write(tmp_path / "a.msh", GMSH_41)
    mesh = read_mesh(path, unit="mm")
    np.testing.assert_allclose(mesh.points, 1e-3 * read_mesh(path).points)
    assert mesh.notes == ("converted from mm to m",)
    for unit in ("s", "furlong"):
        with pytest.raises(InputError, match=f"unit: expected a unit of length, found '{unit}'"):
            read_mesh(path, unit=unit)


def test_nodes_with_coordinates_on_curves_are_explained(tmp_path):
    text = GMSH_41.replace("2 1 0 5\n", "2 1 1 5\n")
    for line in ("0 0 0", "1 0 0", "1 1 0", "0 1 0", "0.5 0.5 0"):
        text = text.replace(f"\n{line}\n", f"\n{line} 0.1 0.2\n")
    with pytest.raises(InputError, match=r"\$Nodes: .* Mesh\.SaveParametric = 0$"):
        read_mesh(write(tmp_path / "a.msh", text))


def test_a_med_file_without_groups_is_explained(tmp_path):
    path = tmp_path / "a.med"
    meshio.Mesh(POINTS, [("triangle", CELLS)]).write(path)
    assert read_mesh(path).num_cells == 4
    with h5py.File(path, "r+") as file:
        del file["FAS"]
        family = file.create_group("FAS/mesh/ELEME/F_2D_1")
        family.attrs["NUM"] = -1  # as gmsh writes it, without GRO
    for _ in range(2):
        with pytest.raises(InputError, match="expected groups in a MED file, found no groups"):
            read_mesh(path)
        with h5py.File(path, "r+") as file:
            file.pop("FAS", None)


@pytest.mark.parametrize(
    ("suffix", "key", "names"),
    [("med", "cell_tags", ("left", "body")), ("mesh", "medit:ref", ("3", "5"))],
)
def test_groups_of_other_formats(tmp_path, suffix, key, names):
    """SALOME's MED has names of the groups' numbers, Medit and FreeFEM the numbers alone."""
    path = tmp_path / f"a.{suffix}"
    sides = np.array([[3, 0], [0, 1]])
    tags = [np.array([3, 0]), np.array([5, 5, 0, 0])]
    cells = [("line", sides), ("triangle", CELLS)]
    mesh = meshio.Mesh(POINTS, cells, cell_data={key: tags})
    mesh.cell_tags, mesh.point_tags = {3: ["left"], 5: ["body"]}, {}
    mesh.write(path)
    found = read_mesh(path)
    assert found.boundaries[names[0]].tolist() == [[0, 3]]
    assert found.subdomains[names[1]].tolist() == [0, 1]
    assert set(found.boundaries) | set(found.subdomains) == set(names)


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("$Nodes", "$ParametricNodes", "Mesh.SaveParametric = 0"),
        ("$Nodes", "$PartitionedEntities\n1\n$EndPartitionedEntities\n$Nodes", "in one part"),
    ],
)
def test_other_gmsh_files_are_named(tmp_path, old, new, part):
    text = GMSH_22.replace(old, new)
    with pytest.raises(InputError, match=part):
        read_mesh(write(tmp_path / "a.msh", text))


def test_groups_that_gmsh_left_out_are_named(tmp_path):
    """Version 2.2 with Mesh.SaveAll = 1 has the names of the groups, and all elements in none."""
    lines = GMSH_22.split("\n")
    start = lines.index("$Elements") + 2
    for number in range(start, start + 9):
        entries = lines[number].split()
        lines[number] = " ".join([*entries[:3], "0", *entries[4:]])
    with pytest.raises(InputError, match=r"groups 'left side', 'body', .* none in any; .* 4\.1"):
        read_mesh(write(tmp_path / "a.msh", "\n".join(lines)))


def test_element_with_a_node_that_does_not_exist(tmp_path):
    text = GMSH_22.replace("9 2 2 2 2 4 1 5", "9 2 2 2 2 4 1 6")
    with pytest.raises(InputError, match="does not"):
        read_mesh(write(tmp_path / "a.msh", text))
    text = GMSH_41.replace("\n5\n0 0 0", "\n6\n0 0 0")  # renumbers the node the cells call 5
    with pytest.raises(InputError, match="node that does not exist"):
        read_mesh(write(tmp_path / "a.msh", text))


# --- checks ---


def test_nodes_of_no_element_are_left_out():
    """Here the second and the last; groups and fields keep their places."""
    points = np.insert(POINTS, 1, [4.0, 5.0], axis=0)
    points = np.concatenate([points, [[2.0, 3.0]]])
    cells = CELLS + (CELLS > 0)
    fields = {"x": points[:, 0]}
    mesh = mesh_from_arrays(points, cells, boundaries={"low": [[0, 2]]}, point_fields=fields)
    np.testing.assert_array_equal(mesh.points, POINTS)
    np.testing.assert_array_equal(mesh.cells, CELLS)
    np.testing.assert_array_equal(mesh.boundaries["low"], [[0, 1]])
    np.testing.assert_array_equal(mesh.point_fields["x"], POINTS[:, 0])
    assert mesh.notes == ("2 nodes of no element left out, the first at (4, 5)",)
    with refused("facets of the mesh's elements"):
        mesh_from_arrays(points, cells, boundaries={"low": [[0, 1]]})


def test_degenerate_elements_far_from_the_origin():
    """The coordinates' rounding there is far above the relative limit of an element's own size."""
    points = POINTS + np.array([512345.7, 5412345.3])
    assert mesh_from_arrays(points, CELLS).num_cells == 4
    points[4] = points[0] + (points[1] - points[0]) / 3 + [0.0, 1e-9]
    with refused("element 0"):
        mesh_from_arrays(points, CELLS)


def test_thin_layers_are_not_degenerate():
    mesh = mesh_from_arrays(POINTS * np.array([1.0, 1e-7]), CELLS)
    assert mesh.volumes.sum() == pytest.approx(1e-7)


@pytest.mark.parametrize("turned", [[2], [0, 1, 2, 3]])
def test_elements_may_have_their_nodes_in_any_order(turned):
    cells = CELLS.copy()
    cells[turned] = cells[turned][:, [1, 0, 2]]
    np.testing.assert_allclose(mesh_from_arrays(POINTS, cells).volumes, 0.25)
    points, cells = box(2)
    cells[turned] = cells[turned][:, [1, 0, 2, 3]]
    np.testing.assert_allclose(mesh_from_arrays(points, cells).volumes, 1 / 48)


def moved(node, place, points=POINTS):
    points = points.copy()
    points[node] = place
    return points


def more(*cell):
    return np.concatenate([CELLS, [cell]])


MISTAKES = {
    "a node that is not finite": (moved(3, [0.0, np.nan]), CELLS, ["node 3"]),
    "a missing node": (POINTS, more(5, 0, 1), ["element 4"]),
    "a node twice": (POINTS, more(0, 1, 1), ["element 4", "repeated node"]),
    "a flat triangle": (POINTS, more(0, 4, 2), ["element 4", "zero area"]),
    "a flat tetrahedron": (
        box(1)[0], np.concatenate([box(1)[1], [[0, 1, 2, 3]]]), ["element 6", "zero volume"],
    ),
    "an element twice": (POINTS, more(2, 4, 1), ["element 4", "4 repeats 1"]),
    "a node outside its elements": (moved(4, [0.5, -0.2]), CELLS, ["overlapping"]),
    "in space": (moved(13, [0.5, 0.5, 1.2], box(2)[0]), box(2)[1], ["overlapping"]),
    "two elements on one side of an edge": (
        np.concatenate([POINTS, [[0.5, 0.4]]]), more(0, 1, 5), ["overlapping"],
    ),
    "three elements at an edge": (
        [[0.0, 0.0], [1.0, 0.0], [0.5, 1.0], [0.5, -1.0], [0.5, 2.0]],
        [[0, 1, 2], [1, 0, 3], [0, 1, 4]], ["overlapping"],
    ),
    "one coordinate": (POINTS[:, :1], CELLS, []),
    "numbers of nodes that are not whole": (POINTS, CELLS.astype(float), []),
    }  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_meshes_that_are_none_are_refused(name):
    points, cells, parts = MISTAKES[name]
    with refused(*parts):
        mesh_from_arrays(points, cells)


def test_groups_must_fit_the_mesh():
    kept = mesh_from_arrays(POINTS, CELLS, boundaries={"a": [[1, 0], [0, 1], [4, 0]]})
    np.testing.assert_array_equal(kept.facets("a"), [[0, 1], [0, 4]])
    for key, group, *parts in (
        ("boundaries", [[0, 1], [0, 2]], "boundary group 'a'", "[0, 2]"),
        ("boundaries", [[0, 7]], "boundary group 'a'"),
        ("boundaries", [0, 1], "boundary group 'a'"),
        ("subdomains", [4], "subdomain 'a'"),
        ("subdomains", [True, False], "subdomain 'a'"),
        ("point_fields", [1.0], "field 'a'"),
        ("cell_fields", ["x"] * 4, "field 'a'"),
    ):
        with refused(*parts):
            mesh_from_arrays(POINTS, CELLS, **{key: {"a": group}})


def test_flat_meshes_lose_a_zero_coordinate_only():
    def with_z(z):
        return np.column_stack([POINTS, z])

    assert mesh_from_arrays(with_z(np.zeros(5)), CELLS).points.shape == (5, 2)
    assert mesh_from_arrays(with_z(np.full(5, 1e-17)), CELLS).dim == 2
    high = mesh_from_arrays(with_z(np.full(5, 125.4)), CELLS)
    assert (high.dim, high.notes) == (2, ("z = 125.4 of all nodes left out",))
    for points in (with_z(POINTS[:, 0]), np.insert(POINTS, 1, 0.0, axis=1)):
        with refused("z from 0 to 1"):
            mesh_from_arrays(points, CELLS)


def test_callers_arrays_stay_theirs():
    points, cells = POINTS.copy(), CELLS.copy()
    mesh = mesh_from_arrays(points, cells)
    points[0] = 7.0
    cells[0] = 0
    np.testing.assert_array_equal(mesh.points, POINTS)
    with pytest.raises(ValueError, match="read-only"):
        mesh.points[0] = 1.0


# --- names ---


@pytest.fixture
def square() -> Mesh:
    return mesh_from_arrays(
        POINTS,
        CELLS,
        boundaries={"inflow": [[0, 3]], "outflow": [[1, 2]]},
        subdomains={"clay": [0, 1]},
        point_fields={"head": np.array([0.0, 1.0, np.nan, 0.0, 0.0])},
        name="square.msh",
    )


def test_unknown_names_list_what_there_is(square):
    with pytest.raises(InputError, match=r"'boundary', 'inflow', 'outflow'.*'inflw'.*did you mean"):
        square.facets("inflw", "problem.toml, [pde] dirichlet")
    with pytest.raises(InputError, match=r"^problem\.toml, \[pde\] dirichlet: "):
        square.facets("inflw", "problem.toml, [pde] dirichlet")
    with pytest.raises(InputError, match=r"^square\.msh: .*'clay' is a subdomain"):
        square.facets("clay")
    with pytest.raises(InputError, match="did you mean 'inflow'"):
        square.facets("INFLOW")
    with pytest.raises(InputError, match=r"'clay'.*'sand'"):
        square.cells_of("sand")
    with pytest.raises(InputError, match=r"'head'.*'heat'"):
        square.point_field("heat")
    with pytest.raises(
        InputError, match=r"a number, an expression in x, y, or .*; write a number without its unit"
    ):
        square.field("6e-4 m/d")
    with pytest.raises(InputError, match="use one of these names"):
        square.field("sand")
    with pytest.raises(InputError, match="none at all"):
        mesh_from_arrays(POINTS, CELLS).cells_of("clay")


def test_a_field_with_nan_is_refused_where_it_is_used(square):
    with pytest.raises(InputError, match="position 2"):
        square.field("head")
    with pytest.raises(InputError, match="position 2"):
        square.point_field("head", group="outflow")
    assert np.isnan(square.point_field("head", group="inflow")[2])  # where that group is not


def test_boundary_means_all_unless_it_is_a_group(square):
    np.testing.assert_array_equal(square.facets("boundary"), [[0, 1], [0, 3], [1, 2], [2, 3]])
    own = mesh_from_arrays(POINTS, CELLS, boundaries={"boundary": [[0, 1]]})
    np.testing.assert_array_equal(own.facets("boundary"), [[0, 1]])


# --- geometry ---


def test_volumes_and_boundary_of_a_cube():
    mesh = mesh_from_arrays(*box(3))
    assert mesh.volumes.sum() == pytest.approx(1.0, rel=1e-14)
    assert len(mesh.boundary_facets) == 6 * 9 * 2
    corners = mesh.points[mesh.boundary_facets]
    is_on_face = (corners == corners[:, :1]) & ((corners == 0.0) | (corners == 1.0))
    assert is_on_face.all(axis=1).any(axis=1).all()
    is_owned = (mesh.cells[mesh.boundary_cells][:, None] == mesh.boundary_facets[..., None]).any(2)
    assert is_owned.all()
    assert mesh.diameter == pytest.approx(math.sqrt(3.0))


def test_quality_is_one_for_regular_simplices_only():
    triangle = mesh_from_arrays([[0, 0], [1, 0], [0.5, math.sqrt(0.75)]], [[0, 1, 2]])
    assert mesh_quality(triangle)[0] == pytest.approx(1.0)
    tetrahedron = mesh_from_arrays(
        [[1, 1, 1], [1, -1, -1], [-1, -1, 1], [-1, 1, -1]], [[0, 1, 2, 3]]
    )
    assert mesh_quality(tetrahedron)[0] == pytest.approx(1.0)
    # Right isosceles triangle with legs 1: r = 1 - sqrt(1/2), R = sqrt(1/2).
    right = mesh_from_arrays([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]])
    expected = 2 * (1 - math.sqrt(0.5)) / math.sqrt(0.5)
    assert mesh_quality(right)[0] == pytest.approx(expected)
    # Corner tetrahedron with legs 1: r = 1 / (3 + sqrt(3)), R = sqrt(3) / 2.
    corner = mesh_from_arrays([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2, 3]])
    assert mesh_quality(corner)[0] == pytest.approx(3 / (3 + math.sqrt(3)) / (math.sqrt(3) / 2))
    sliver = mesh_from_arrays([[0, 0], [1, 0], [0.5, 1e-4]], [[0, 1, 2]])
    assert 0 < mesh_quality(sliver)[0] < 1e-3


def test_values_and_means_of_a_linear_field():
    dim = 3
    mesh = box_mesh(dim, 3)
    slope = np.arange(1.0, dim + 1.0)
    field = mesh.points @ slope + 0.5
    rng = np.random.default_rng(0)
    low, high = mesh.points.min(axis=0), mesh.points.max(axis=0)
    where = low + (high - low) * rng.uniform(size=(20, dim))
    np.testing.assert_allclose(mesh.values_at(where, "node") @ field, where @ slope + 0.5)
    middle = 0.5 * (low + high)
    np.testing.assert_allclose(mesh.mean_over(None, "node") @ field, middle @ slope + 0.5)
    np.testing.assert_allclose(mesh.mean_over("boundary", "node") @ field, middle @ slope + 0.5)
    side = np.where(np.arange(dim) == 0, low, middle)  # of the box's left side
    np.testing.assert_allclose(mesh.mean_over("left", "node") @ field, side @ slope + 0.5)
    # constant in each cell
    centres = mesh.points[mesh.cells].mean(axis=1)
    np.testing.assert_array_equal(
        (mesh.values_at(centres, "cell") @ np.eye(mesh.num_cells)), np.eye(mesh.num_cells)
    )
    np.testing.assert_allclose(mesh.mean_over(None, "cell") @ (centres @ slope), middle @ slope)
    half = replace(mesh, subdomains={"few": np.array([1, 4])})
    expected = np.average(centres[[1, 4]] @ slope, weights=mesh.volumes[[1, 4]])
    np.testing.assert_allclose(half.mean_over("few", "cell") @ (centres @ slope), expected)
    np.testing.assert_allclose(half.mean_over("few", "node") @ (mesh.points @ slope), expected)


def test_places_that_are_not_in_the_mesh_are_refused():
    mesh = box_mesh(2, 3)
    with pytest.raises(InputError, match=r"points, row 1: .*outside: 1; the mesh spans"):
        mesh.values_at(np.array([[0.5, 0.5], [9.0, 0.5]]), "node")
    with pytest.raises(InputError, match=r"an array \(k, 2\) of .*, found shape \(3,\)"):
        mesh.values_at(np.zeros(3), "node")
    with pytest.raises(InputError, match=r"points, row 1: .*finite.*\[nan"):
        mesh.values_at([[0.5, 0.5], [np.nan, 0.5]], "node")
    with pytest.raises(InputError, match=r"points: .*numbers, found 'a'"):
        mesh.values_at("a", "node")
    with pytest.raises(InputError, match="'nowhere'"):
        mesh.mean_over("nowhere", "node")
    with pytest.raises(InputError, match="'left'"):
        mesh.mean_over("left", "cell")


def test_means_over_facets_of_many_sizes():
    dim = 3
    even = box_mesh(dim, 4)
    groups = {name: even.facets(name) for name in ("left", "top")}
    mesh = mesh_from_arrays(even.points**2, even.cells, boundaries=groups)
    for group, axis in (("left", 1), ("top", 0)):
        mean = mesh.mean_over(group, "node") @ mesh.points
        np.testing.assert_allclose(mean[..., axis], 0.5, rtol=1e-12)


def test_groups_by_conditions_are_those_of_the_file():
    mesh = box_mesh(3, 3)
    found = with_groups(
        mesh,
        boundaries={"west": "x < 1e-9", "sides": "x < 1e-9 or 1 <= x"},
        subdomains={"east": "x >= 0.5", "marked": "ramp_in_cells < 1.5"},
    )
    np.testing.assert_array_equal(found.facets("west"), mesh.facets("left"))
    both = np.concatenate([mesh.facets("left"), mesh.facets("right")])
    assert sorted(map(tuple, found.facets("sides"))) == sorted(map(tuple, both))
    np.testing.assert_array_equal(found.cells_of("east"), mesh.cells_of("high"))
    np.testing.assert_array_equal(found.cells_of("marked"), mesh.cells_of("low"))
    assert mesh.boundaries.keys() | {"west", "sides"} == found.boundaries.keys()
    assert "west" not in mesh.boundaries


def test_names_of_fields_in_conditions_have_letters_and_digits():
    mesh = box_mesh(2, 2)
    marked = replace(mesh, cell_fields={"Material Ids": np.arange(mesh.num_cells) % 2})
    found = with_groups(marked, subdomains={"ore": "Material_Ids == 1"})
    np.testing.assert_array_equal(found.cells_of("ore"), np.arange(1, mesh.num_cells, 2))


@pytest.mark.parametrize(
    ("groups", "parts"),
    [
        ({"boundaries": {"left": "x < 1"}}, ["boundaries, left", "a new name", "another name"]),
        ({"boundaries": {"west": "x < -1"}}, ["west", "facets of the", "(0, 0) to (1, 1)", "abs"]),
        ({"subdomains": {"clay": "z < 1"}}, ["subdomains, clay", "condition", "flat"]),
        ({"subdomains": {"clay": "mark < 1"}}, ["'mark'", "x, y, z, ramp_in_cells"]),
    ],
)
def test_groups_that_cannot_be_named_are_refused(groups, parts):
    with refused(*parts, start="box, "):
        with_groups(box_mesh(2, 2), **groups)
