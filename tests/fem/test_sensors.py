"""Sensor tables and point location: every bad row is named, every good point is found."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy.optimize import nnls
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.fem.mesh.geometry import closest_on_segment, closest_on_triangle, find_closest_facet
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import concatenated, sensors_from_arrays
from invlift.tables.sensors import read_sensors, write_sensors


def holed_square(n=9, stretch=1.0):
    """Triangulate [0, 1]^2 without its middle block; cells shrink towards x = y = 0."""
    steps = np.linspace(0.0, 1.0, n + 1) ** stretch
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    third = n // 3
    cells = []
    for i, j in itertools.product(range(n), range(n)):
        if third <= i < 2 * third and third <= j < 2 * third:
            continue
        a = i * (n + 1) + j
        b, c, d = a + n + 1, a + n + 2, a + 1
        cells += [[a, b, c], [a, c, d]]
    used, cells = np.unique(np.array(cells), return_inverse=True)
    return mesh_from_arrays(grid[used], cells.reshape(-1, 3), name="holed.msh"), steps[third], steps


def sensors_at(points):
    points = np.asarray(points, dtype=float)
    return sensors_from_arrays(points, np.zeros(len(points)), name="s.csv")


def places(mesh, observation):
    """Points that the observation rows reproduce: linear basis functions reproduce x."""
    return (observation.weights[..., None] * mesh.points[observation.nodes]).sum(axis=1)


def check_rows(mesh, observation):
    assert (observation.weights >= 0.0).all()
    np.testing.assert_allclose(observation.weights.sum(axis=1), 1.0, rtol=1e-14)
    cells = {tuple(cell) for cell in mesh.cells.tolist()}
    assert all(tuple(nodes) in cells for nodes in observation.nodes.tolist())


# --- location ---


@pytest.mark.parametrize("stretch", [1.0, 6.0], ids=["even", "graded"])
def test_points_inside_a_domain_with_a_hole(stretch):
    mesh, _, _ = holed_square(stretch=stretch)
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(3), size=400)
    cells = rng.integers(mesh.num_cells, size=400)
    points = (weights[..., None] * mesh.points[mesh.cells[cells]]).sum(axis=1)
    observation = locate(mesh, sensors_at(points))
    check_rows(mesh, observation)
    np.testing.assert_allclose(places(mesh, observation), points, atol=1e-14)
    np.testing.assert_array_equal(observation.distances, 0.0)
    # The cell itself is right, also where cells are 1e-6 of the domain in size.
    np.testing.assert_array_equal(np.sort(observation.nodes), np.sort(mesh.cells[cells]))


@pytest.mark.parametrize(
    "build_mesh", [lambda: holed_square()[0], lambda: box_mesh(3, 3)], ids=["2-D", "3-D"]
)
def test_points_on_nodes_edges_facets_and_the_boundary(build_mesh):
    mesh = build_mesh()
    edges = {
        pair for cell in mesh.cells.tolist() for pair in itertools.combinations(sorted(cell), 2)
    }
    thirds = mesh.points[np.array(sorted(edges))] * np.array([1 / 3, 2 / 3])[:, None]
    facets = mesh.points[mesh.boundary_facets].mean(axis=1)
    points = np.concatenate([mesh.points, thirds.sum(axis=1), facets])
    points = points[np.sort(np.unique(points.round(9), axis=0, return_index=True)[1])]
    observation = locate(mesh, sensors_at(points))
    check_rows(mesh, observation)
    np.testing.assert_allclose(places(mesh, observation), points, atol=1e-14)
    np.testing.assert_array_equal(observation.distances, 0.0)
    at_nodes = observation.weights[: mesh.num_nodes].max(axis=1)
    np.testing.assert_allclose(at_nodes, 1.0, rtol=1e-14)


def test_distances_outside_and_in_the_hole_are_exact():
    mesh, low, _ = holed_square()
    rng = np.random.default_rng(2)
    points = rng.uniform(-0.3, 1.3, size=(500, 2))
    observation = locate(mesh, sensors_at(points), outside="project")
    beyond = np.linalg.norm(points - np.clip(points, 0.0, 1.0), axis=1)
    in_hole = np.minimum(points - low, (1.0 - low) - points).min(axis=1)
    expected = np.maximum(beyond, np.maximum(in_hole, 0.0))
    np.testing.assert_allclose(observation.distances, expected, atol=1e-14)
    assert (in_hole > 0).sum() > 5
    check_rows(mesh, observation)
    moved = np.linalg.norm(places(mesh, observation) - points, axis=1)
    np.testing.assert_allclose(moved, expected, atol=1e-14)


def test_projection_onto_a_box():
    mesh = box_mesh(3, 3)
    points = np.random.default_rng(3).uniform(-2.0, 3.0, size=(300, 3))
    observation = locate(mesh, sensors_at(points), outside="project")
    check_rows(mesh, observation)
    np.testing.assert_allclose(places(mesh, observation), np.clip(points, 0.0, 1.0), atol=1e-14)
    np.testing.assert_array_equal(observation.kept, np.arange(300))


def test_search_agrees_with_trying_all_facets():
    """Randomly sized facets in space: the search must miss none of them."""
    rng = np.random.default_rng(4)
    size = 10.0 ** rng.uniform(-4, 0, size=(80, 1, 1))
    corners = rng.normal(size=(80, 1, 3)) + size * rng.normal(size=(80, 3, 3))
    points = 2.0 * rng.normal(size=(60, 3))
    _, _, distance = find_closest_facet(corners, points)
    pairs = [np.repeat(corners, 60, axis=0), np.tile(points, (80, 1))]
    weights = closest_on_triangle(*pairs)
    closest = (weights[..., None] * pairs[0]).sum(axis=1)
    all_distances = np.linalg.norm(closest - pairs[1], axis=1).reshape(80, 60)
    np.testing.assert_allclose(distance, all_distances.min(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("closest_fn", "num_corners", "dim"),
    [(closest_on_segment, 2, 2), (closest_on_segment, 2, 3), (closest_on_triangle, 3, 3)],
)
def test_closest_point_agrees_with_least_squares(closest_fn, num_corners, dim):
    rng = np.random.default_rng(5)
    corners = rng.normal(size=(200, num_corners, dim))
    points = 1.5 * rng.normal(size=(200, dim))
    weights = closest_fn(corners, points)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)
    found = np.linalg.norm((weights[..., None] * corners).sum(axis=1) - points, axis=1)
    for corner, point, distance in zip(corners, points, found, strict=True):
        # A heavy last row keeps the sum of the non-negative weights at 1.
        system = np.concatenate([corner.T, np.full((1, num_corners), 1e6)])
        best, _ = nnls(system, np.append(point, 1e6))
        assert distance == pytest.approx(np.linalg.norm(best @ corner - point), rel=1e-5)


def test_rounding_outside_counts_as_inside():
    mesh = holed_square()[0]
    points = np.array([[0.5, -0.9e-9], [1.0 + 0.9e-9, 0.2]])
    observation = locate(mesh, sensors_at(points))
    check_rows(mesh, observation)
    np.testing.assert_array_equal(observation.distances, 0.0)
    with pytest.raises(InputError, match="outside"):
        locate(mesh, sensors_at(points * 1.0 + [[0.0, -2e-9], [0.0, 0.0]]))


def test_outside_names_row_distance_and_other_rows():
    mesh = holed_square()[0]
    sensors = sensors_at([[0.1, 0.1], [0.5, -0.25], [0.9, 0.9], [1.5, 0.5]])
    with pytest.raises(InputError) as caught:
        locate(mesh, sensors)
    message = str(caught.value)
    assert message.startswith("s.csv, row 3: ")
    for part in ("holed.msh", "0.25 outside", "(0.5, 0)", "rows outside: 3, 5", '"project"'):
        assert part in message


def test_all_outside_hints_at_units():
    mesh = holed_square()[0]
    sensors = sensors_at([[100.0, 100.0], [500.0, 250.0]])
    with pytest.raises(InputError, match=r"check the units, the mesh spans \(0, 0\) to \(1, 1\)"):
        locate(mesh, sensors)
    with pytest.raises(InputError, match="all 2 outside, the closest by 140"):
        locate(mesh, sensors, outside="drop")


def test_drop_keeps_the_others():
    mesh = holed_square()[0]
    sensors = sensors_from_arrays(
        [[0.5, 0.5], [0.1, 0.1], [2.0, 0.0], [0.9, 0.1]], [1.0, 2.0, 3.0, 4.0], [0.1] * 4
    )
    observation = locate(mesh, sensors, outside="drop")
    np.testing.assert_array_equal(observation.kept, [1, 3])
    np.testing.assert_allclose(observation.distances, [1 / 6, 0.0, 1.0, 0.0], atol=1e-14)
    kept = sensors.take(observation.kept)
    np.testing.assert_array_equal(kept.values, [2.0, 4.0])
    np.testing.assert_array_equal(kept.rows, [3, 5])
    np.testing.assert_allclose(places(mesh, observation), kept.points, atol=1e-14)


def test_tables_of_experiments_follow_one_another():
    """What one has not got is empty; each is of its experiment."""
    first = sensors_from_arrays([[0.1, 0.2], [0.3, 0.4]], [1.0, 2.0], labels=["a", "b"])
    other = sensors_from_arrays([[0.5, 0.6]], [3.0], [0.1])
    other = replace(other, is_sigma_absolute=True)
    whole = concatenated(
        {"one": first, "two": replace(other, further={"depth": np.array(["deep"])})}
    )
    np.testing.assert_array_equal(whole.points, [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    np.testing.assert_array_equal(whole.values, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(whole.sigma, [np.nan, np.nan, 0.1])
    assert whole.labels.tolist() == ["a", "b", ""]
    assert whole.experiments.tolist() == ["one", "one", "two"]
    assert whole.further["depth"].tolist() == ["", "", "deep"]
    assert whole.is_sigma_absolute
    assert concatenated({"": first}) is first


def test_repeated_readings_at_one_place_are_readings(tmp_path):
    mesh = holed_square()[0]
    text = "x,y,value,name,depth\n0.1,0.1,2,a,deep\n0.9,0.1,3,b,\n0.1,0.1,2.5,a,deep\n"
    sensors = read_sensors(write(tmp_path, text), 2)
    assert sensors.labels.tolist() == ["a", "b", "a"]
    assert sensors.further["depth"].tolist() == ["deep", "", "deep"]
    observation = locate(mesh, sensors)
    np.testing.assert_array_equal(observation.kept, [0, 1, 2])
    np.testing.assert_array_equal(observation.weights[0], observation.weights[2])
    assert sensors.take(np.array([1])).labels.tolist() == ["b"]
    write_sensors(tmp_path / "again.csv", sensors)
    again = read_sensors(tmp_path / "again.csv", 2)
    np.testing.assert_array_equal(again.labels, sensors.labels)
    np.testing.assert_array_equal(again.values, sensors.values)
    np.testing.assert_array_equal(again.further["depth"], sensors.further["depth"])


def test_wrong_dimension_or_policy():
    mesh = holed_square()[0]
    with pytest.raises(InputError, match="2-dimensional"):
        locate(mesh, sensors_at([[0.1, 0.1, 0.1]]))
    with pytest.raises(InputError, match="'snap'"):
        locate(mesh, sensors_at([[0.1, 0.1]]), outside="snap")


# --- tables ---


def write(tmp_path, text, name="s.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_in_any_order(tmp_path):
    sensors = read_sensors(write(tmp_path, "sigma,value,y,x\n0.1,5,2,1\n\n0.2, 6e1 ,4,3\n"), 2)
    np.testing.assert_array_equal(sensors.points, [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(sensors.values, [5.0, 60.0])
    np.testing.assert_array_equal(sensors.sigma, [0.1, 0.2])
    np.testing.assert_array_equal(sensors.rows, [2, 4])  # the blank line counts
    assert sensors.name == str(tmp_path / "s.csv")


def test_spreadsheet_export(tmp_path):
    text = b'\xef\xbb\xbf"x","y","z","value"\r\n1,2,3,4\r\n'
    sensors = read_sensors(write(tmp_path, text), 3)
    np.testing.assert_array_equal(sensors.points, [[1.0, 2.0, 3.0]])
    assert sensors.sigma is None


@pytest.mark.parametrize(
    "header",
    ["# x,y,value,name", "# heads of May\n#x,y,value,name", "# heads\nx [m],y [m],value (m),name"],
)
def test_headers_with_remarks_and_units(tmp_path, header):
    sensors = read_sensors(write(tmp_path, f"{header}\n1,2,5,a\n3,4,6,#b\n"), 2)
    np.testing.assert_array_equal(sensors.points, [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(sensors.values, [5.0, 6.0])
    assert sensors.labels.tolist() == ["a", "#b"]


@pytest.mark.parametrize(
    "text",
    [
        "x;y;value;name\n-1,5;2;3,25e1;1,5 m\n",
        "sep=;\r\nx;y;value;name\r\n-1,5;2;3,25e1;1,5 m\r\n",
        'sep=,\nx,y,value,name\n-1.5,2,32.5,"1,5 m"\n',
        "x\ty\tvalue\tname\n-1.5\t2\t32.5\t1,5 m\n",
        'x,y,value,name,,\n-1.5,2,32.5,"1,5 m",,\n',
        'x,y,value,name\n-1.5,2,32.5,"1,5 m",\n',
        ',x,y,value,name\n0,-1.5,2,32.5,"1,5 m"\n',
    ],
)
def test_tables_of_other_programs(tmp_path, text):
    sensors = read_sensors(write(tmp_path, text), 2)
    np.testing.assert_array_equal(sensors.points, [[-1.5, 2.0]])
    assert sensors.values.tolist() == [32.5]
    assert sensors.labels.tolist() == ["1,5 m"]
    assert sensors.rows.tolist() == [3 if text.startswith("sep=") else 2]


@pytest.mark.parametrize("has_sigma", [False, True])
def test_written_table_reads_back_exactly(tmp_path, has_sigma):
    rng = np.random.default_rng(6)
    sigma = rng.uniform(size=5) if has_sigma else None
    sensors = sensors_from_arrays(rng.normal(size=(5, 3)), rng.normal(size=5) * 1e-7, sigma)
    write_sensors(tmp_path / "s.csv", sensors)
    again = read_sensors(tmp_path / "s.csv", 3)
    for name in ("points", "values", "rows", "sigma"):
        np.testing.assert_array_equal(getattr(again, name), getattr(sensors, name))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        # the header
        ("", ["an empty file"]),
        ("x,y,value\n", ["only a header"]),
        ("x,y\n1,2\n", ["row 1", "no column 'value'"]),
        (
            "x,y,Head\n1,2,3\n",
            ["no column 'value'; add it, or say", 'columns = { value = "NAME" }', "one of 'Head'"],
        ),
        ("x,y,valeu\n1,2,3\n", ["row 1", "'valeu'", "did you mean 'value'?"]),
        ("X,x,y,value\n0,1,2,3\n", ["'x' twice"]),
        ("x,,value\n1,2,3\n", ["a column ''", "name it"]),
        ("x,y,value,\n1,2,3,4\n", ["row 2", "3 entries", "found 4"]),
        *(
            (f"x,y,value,{name}\n1,2,3,4\n", [f"a column {name!r}", "results have one of it"])
            for name in ("points", "limits", "observed", "mesh_error", "predicted_sd", "loo_pit")
        ),
        ("x,y,value,name\n1,2,3,\n", ["row 2, column name", "an empty entry"]),
        ("x,y,z,value\n1,2,3,4\n", ["'z'", "two-dimensional"]),
        # the rows
        ("x,y,value\n1,2,3\n\n0,1,0,2,5\n", ["row 4", "3 entries", "found 5", "decimal"]),
        ("x,y,value\n1,2,hot\n", ["row 2, column value", "'hot'"]),
        ("x,y,value\n1,2,3\n-inf,2,3\n", ["row 3, column x", "-inf"]),
        ("x,y,value,sigma\n1,2,3,0.1\n1,2,3,0\n", ["row 3, column sigma", "positive", "found 0"]),
        # not text
        (b"\x89PNG\r\n\x1a\n\x00\x00", ["not text"]),
    ],
)
def test_bad_tables_name_the_row(tmp_path, text, parts):
    with refused(*parts, start=str(tmp_path / "s.csv")):
        read_sensors(write(tmp_path, text), 2)


DIFFERENCES = "x,y,x2,y2,value,name\n0.2,0.3,0.7,0.4,1,a\n0.5,0.5,,,2,b\n0.1,0.9,0.8,0.8,3,c\n"


def test_differences_of_two_places(tmp_path):
    mesh = box_mesh(2, 3)
    sensors = read_sensors(write(tmp_path, DIFFERENCES), 2)
    found = locate(mesh, sensors)
    field = 1.0 + mesh.points @ [2.0, -1.0]  # which linear elements have exactly
    readings = np.sum(field[found.nodes] * found.weights, axis=1)
    np.testing.assert_allclose(readings, [2 * -0.5 + 0.1, 1.5, 2 * -0.7 - 0.1], rtol=1e-13)
    write_sensors(tmp_path / "again.csv", sensors)
    again = read_sensors(tmp_path / "again.csv", 2)
    np.testing.assert_array_equal(again.minus, sensors.minus)
    np.testing.assert_array_equal(again.points, sensors.points)


def test_a_second_place_outside(tmp_path):
    sensors = read_sensors(write(tmp_path, DIFFERENCES.replace("0.8,0.8", "0.8,1.2")), 2)
    mesh = box_mesh(2, 3)
    with pytest.raises(InputError, match=r"row 4.*outside"):
        locate(mesh, sensors)
    assert locate(mesh, sensors, "drop").kept.tolist() == [0, 1]
    moved = locate(mesh, sensors, "project")
    assert moved.kept.size == 3
    assert moved.distances[2] == pytest.approx(0.2)
    only = sensors.take(np.array([1, 2]))  # of which the one second place is outside
    assert locate(mesh, only, "drop").kept.tolist() == [0]
    assert locate(mesh, only.take(np.array([0])), "drop").kept.tolist() == [0]
    with pytest.raises(InputError, match="at least one sensor inside"):
        locate(mesh, only.take(np.array([1])), "drop")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("x2,y2", "x2,b"), ["no column 'y2'"]),
        (("0.5,0.5,,", "0.5,0.5,0.1,"), ["row 3, second place", "2 coordinates, or none"]),
        (("0.7,0.4", "0.7,inf"), ["row 2, column y2", "inf"]),
    ],
)
def test_bad_second_places(tmp_path, change, parts):
    with refused(*parts):
        read_sensors(write(tmp_path, DIFFERENCES.replace(*change)), 2)


def test_a_body_needs_z(tmp_path):
    with pytest.raises(InputError, match="no column 'z'; the mesh is three-dimensional"):
        read_sensors(write(tmp_path, "x,y,value\n1,2,3\n"), 3)


@pytest.mark.parametrize(
    ("points", "values", "sigma"),
    [
        ([[0.0, 1.0]], [1.0, 2.0], None),
        ([[0.0, 1.0]], [1.0], [0.1, 0.2]),
        ([[0.0, 1.0]], np.array([1.0 + 2.0j]), None),
        ([[0.0, 1.0]], [1.0], [0.0]),
    ],
)
def test_bad_arrays(points, values, sigma):
    with pytest.raises(InputError, match="sensors"):
        sensors_from_arrays(points, values, sigma)


def test_a_masked_entry_is_no_reading():
    masked = np.ma.masked_equal([1.0, 5e3, 2.0], 5e3)
    for name, column in (("value", {"values": masked}), ("sigma", {"sigma": masked})):
        with pytest.raises(InputError, match=f"row 3, column {name}: expected a finite number"):
            sensors_from_arrays(**{"points": np.eye(3), "values": np.ones(3)} | column)


def test_one_sigma_is_that_of_all():
    found = sensors_from_arrays(np.eye(3), np.ones(3), 0.1).sigma
    np.testing.assert_array_equal(found, [0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    "groups",
    [
        ["a", None, "b"],
        ["a", np.nan, "b"],
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        pd.Series(["a", None, "b"], dtype="category"),
        np.ma.masked_equal(np.array(["a", "x", "b"]), "x"),
    ],
)
def test_missing_text_is_none(groups):
    found = sensors_from_arrays(np.eye(3), np.ones(3), groups=groups)
    assert found.groups.tolist() == ["a", "", "b"]


def test_columns_that_do_not_fit_are_named():
    for groups in (["a"], [["a"], ["b", "c"], "d"]):
        with pytest.raises(InputError, match="sensors, groups"):
            sensors_from_arrays(np.eye(3), np.ones(3), groups=groups)


def test_a_data_frame_of_several_kinds(tmp_path):
    """The table of docs/readings.md, whose empty entries pandas reads as NaN."""
    text = (
        "x,y,kind,over,radius,value,sigma,group\n0.30,0.40,point,,,21.3,0.1,loggers\n"
        "0.70,0.20,average,,0.05,18.2,0.1,own\n,,flux,left,,-41.0,0.5,own\n"
        "0.55,0.60,log_conductivity,,,1.4,0.2,\n"
    )
    file = write(tmp_path, text)
    table = pd.read_csv(file)
    texts = {"kinds": table["kind"], "over": table["over"], "groups": table["group"]}
    given = sensors_from_arrays(
        table[["x", "y"]], table["value"], table["sigma"], radius=table["radius"], **texts
    )
    whole = box_mesh(2, 4)
    facets = whole.boundary_facets
    left = facets[(whole.points[facets][..., 0] == 0.0).all(axis=1)]
    mesh = replace(whole, boundaries={"left": left})
    found, expected = locate(mesh, given), locate(mesh, read_sensors(file, 2))
    np.testing.assert_array_equal(found.weights, expected.weights)
    assert found.sensors.groups.tolist() == ["loggers", "own", "own", ""]
