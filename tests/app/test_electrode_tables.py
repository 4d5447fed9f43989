"""Problem files with electrodes: both formats, every command, and mistakes by their keys."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import call
from problem_files import REMOVED, assert_named, build, readings, write_problem
from run_folders import run_from_prior
from structured import box_mesh

import invlift
from invlift.app.checks import electrodes
from invlift.app.problem.problem_file import read_problem
from invlift.errors import InputError

SENSORS = (
    "a,b,m,n,value,sigma,name,group\n"
    "left,right,bottom,top,0.1,0.01,p,one\n"
    "right,top,left,bottom,-0.4,0.01,q,two\n"
    "1,2,3,4,0.1,0.01,r,two\n"
    "1,3,1,3,2.1,0.01,s,one\n"
    "right,left,top,left,0.9,0.01,t,two\n"
)
UNIFIED = (
    "4# electrodes\n#x y\n0 0.5\n1 0.5\n0.5 0\n0.5 1\n3# readings\n#a b m n r err\n"
    "1 2 3 4 0.1 0.05\n2 4 1 3 -0.4 0.05\n1 3 1 3 2.1 0.05\n"
)
LINE = (
    "4# electrodes\n#x z\n0 1\n0.3 1\n0.7 1\n1 1\n5# readings\n#a b m n rhoa err/%\n"
    "1 2 3 4 2.1 1\n1 3 2 4 2.2 2\n2 0 3 0 1.9 1\n1 0 3 4 2.0 1\n3 0 2 0 1.9 1\n"
)
GROUPS = ["left", "right", "bottom", "top"]
UNKNOWN = {"distribution": "gamma", "concentration": 4.0, "rate": 20.0}
CHANGES = {
    "electrodes": {"groups": GROUPS, "impedance": UNKNOWN},
    "noise": {"sigma": {"distribution": "half-normal", "scale": 0.05}},
}


def write(folder, changes=None, sensors=SENSORS, mesh=None):
    own = {"pde": REMOVED} | copy.deepcopy(CHANGES) | (changes or {})
    return write_problem(folder, own, sensors=sensors, mesh=mesh)


def test_readings_stand_by_their_injections(tmp_path):
    field = build(write(tmp_path))
    model = field.model
    assert field.sensors.labels.tolist() == ["p", "r", "t", "s", "q"]
    assert field.sensors.electrode_groups == tuple(GROUPS)
    assert model.num_loads == 3
    phi, impedance = np.linspace(-1.0, 1.0, 16), np.array([0.1, 0.2, 0.3, 0.4])
    found = np.asarray(readings(model, np.append(phi, impedance)))
    unit = np.eye(4)
    rows = {"p": (0, 1, 2, 3), "t": (1, 0, 3, 0), "s": (0, 2, 0, 2), "q": (1, 3, 0, 2)}
    for label, (a, b, m, n) in rows.items():
        alone = invlift.electrode_model(
            field.mesh, GROUPS, [unit[a] - unit[b]], [unit[m] - unit[n]], impedance=impedance
        )
        at = field.sensors.labels.tolist().index(label)
        np.testing.assert_allclose(found[at], readings(alone, phi)[0], rtol=1e-11)


def test_positions_give_the_groups(tmp_path):
    electrodes = {"width": 0.8, "impedance": 0.1}
    path = write(tmp_path, {"electrodes": electrodes, "noise": {}}, UNIFIED)
    by_place = build(path)
    groups = {"electrodes": {"groups": GROUPS, "impedance": 0.1}, "noise": {}}
    by_name = build(write(tmp_path / "b", groups, UNIFIED))
    assert by_place.sensors.electrode_groups[0] == "electrode_1"
    phi = np.linspace(-1.0, 1.0, 16)
    found = readings(by_place.model, phi)
    np.testing.assert_allclose(found, readings(by_name.model, phi), rtol=1e-12)
    np.testing.assert_allclose(by_place.noise.scale.known, 0.05 * np.abs([0.1, 2.1, 0.4]))
    assert by_place.num_unknowns == 16


def test_several_files_of_one_measurement(tmp_path):
    """Each in its own format; the same readings as in one file."""
    header, *rows = SENSORS.splitlines(keepends=True)
    whole = build(write(tmp_path))
    (tmp_path / "one.csv").write_text(header + "".join(rows[:2]), encoding="utf-8")
    text = (header + "".join(rows[2:])).replace(",", ";").replace(".", ",")
    (tmp_path / "two.csv").write_text(text, encoding="utf-16")
    for given in (["one.csv", "two.csv"], "[ot]*.csv"):
        found = build(write(tmp_path, {"observations.file": given}))
        assert found.sensors.labels.tolist() == whole.sensors.labels.tolist()
        assert found.sensors.experiments is None
        assert found.sensors.rows[-1] == "3 of one.csv"
        phi = np.append(np.linspace(-1.0, 1.0, 16), [0.1, 0.2, 0.3, 0.4])
        np.testing.assert_array_equal(readings(found.model, phi), readings(whole.model, phi))
    for text, part in (
        (UNIFIED, "two.csv: expected a column 'name', as in one.csv, found none"),
        (header + rows[3].replace("0.01", "-1"), "row 2 of two.csv|two.csv, row 2, column sigma"),
        (header.replace("a,b", "current 1,current 2") + "1,-1,1,2,0.1,0.1,p,q\n", "one of several"),
    ):
        (tmp_path / "two.csv").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=part):
            build(write(tmp_path, {"observations.file": ["one.csv", "two.csv"]}))
    (tmp_path / "one.csv").write_text(UNIFIED.replace("0 0.5", "0 0.4"), encoding="utf-8")
    (tmp_path / "two.csv").write_text(UNIFIED, encoding="utf-8")
    with pytest.raises(InputError, match=r"two.csv: expected the same positions of electrodes"):
        build(write(tmp_path, {"observations.file": "[ot]*.csv"}))


def test_known_impedances_that_differ(tmp_path):
    known = [0.1, 0.2, 0.3, 0.4]
    path = write(tmp_path, {"electrodes.impedance": known})
    spec, field = read_problem(path), build(path)
    unknown = build(write(tmp_path / "unknown"))
    phi = np.linspace(-1.0, 1.0, 16)
    found = readings(field.model, phi)
    expected = readings(unknown.model, np.append(phi, known))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    path.write_text(spec.to_toml())
    assert read_problem(path).electrodes.impedance == known


def on_line(folder, table=LINE):
    changes = {"electrodes": {"surface": "top"}, "noise": {"sigma": "column"}}
    return write(folder, changes, table)


def test_points_on_a_line(tmp_path):
    """Of apparent resistivities, some with electrodes far away; two are reciprocal."""
    field = build(on_line(tmp_path))
    sensors, model = field.sensors, field.model
    unit = np.vstack([np.zeros(4), np.eye(4)])
    phi = np.linspace(-1.0, 1.0, 16)
    found = np.asarray(readings(model, phi))
    for (a, b, m, n), value in zip(sensors.electrodes.astype(int), found, strict=True):
        alone = invlift.point_electrode_model(
            field.mesh, sensors.positions, unit[a] - unit[b], unit[m] - unit[n], surface="top"
        )
        np.testing.assert_allclose(value, readings(alone, phi)[0], rtol=1e-9)
    first = sensors.electrodes.tolist().index(["1", "2", "3", "4"])
    factor = 2.0 * np.pi / (1 / 0.7 - 1 / 0.4 - 1.0 + 1 / 0.7)
    np.testing.assert_allclose(sensors.values[first], 2.1 / factor, rtol=1e-12)
    np.testing.assert_allclose(sensors.sigma[first], 0.021 / abs(factor), rtol=1e-12)
    np.testing.assert_allclose(sensors.points[first], [0.5, 0.8])
    poles = [k for k, row in enumerate(sensors.electrodes.tolist()) if row.count("0") == 2]
    np.testing.assert_allclose(found[poles[0]], found[poles[1]], rtol=1e-12)


def test_many_readings_of_points(tmp_path):
    """More than pairs of electrodes: the same readings as one by one."""
    few = build(on_line(tmp_path / "few"))
    rows = LINE.splitlines()[7:]
    many = LINE.replace("5# readings", "20# readings") + "\n".join(rows * 3) + "\n"
    whole = build(on_line(tmp_path / "many", many))
    assert type(whole.model).__name__ == "Combinations"
    assert np.linalg.matrix_rank(whole.model.matrix) == 4
    phi = np.linspace(-1.0, 1.0, 16)
    found = dict(zip(map(str, few.sensors.electrodes), readings(few.model, phi), strict=True))
    again = readings(whole.model, phi)
    for row, value in zip(map(str, whole.sensors.electrodes), again, strict=True):
        np.testing.assert_allclose(value, found[row], rtol=1e-9)


def test_ground_that_ends_too_near_is_a_doubt(tmp_path, monkeypatch):
    """It is a square with the line on its top; no doubt from where its error is allowed."""
    problem = build(on_line(tmp_path))
    ((found, advice),) = electrodes.electrode_doubts(problem)
    assert advice == electrodes.REMEDY
    worst = float(found.split(" up to ")[1].split(" % wrong")[0])
    assert worst > 10.0
    monkeypatch.setattr(electrodes, "TOO_FAR_OFF", 1.02 * worst / 100.0)
    assert not electrodes.electrode_doubts(problem)


@pytest.mark.slow
def test_commands_take_a_line(tmp_path, capsys):
    path = on_line(tmp_path)
    command("simulate", path, "--seed", "1", "--out", tmp_path / "made.ohm")
    path.write_text(path.read_text().replace("sensors.csv", "made.ohm"))
    command("check", path, "--plot", tmp_path / "prior.png")
    printed = capsys.readouterr().out
    expected = (
        "electrodes: 4 point electrodes, the closest two 0.3 apart; readings of uniform ground"
    )
    assert expected in printed
    assert "5 pairs of them drive" in printed
    command("run", path, "--draws", "20", "--method", "pcn", "--anyway", "--out", tmp_path / "run")
    command("report", tmp_path / "run", "--out", tmp_path / "page.html")
    fit = pd.read_csv(tmp_path / "run" / "sensor_fit.csv", index_col=0)
    assert fit["b"].tolist().count(0) == 3
    assert (tmp_path / "run" / "sensors.vtu").exists()


def command(*arguments):
    assert call(*arguments) in (0, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs on simulated readings."""
    folder = tmp_path_factory.mktemp("run")
    path = write(folder, {"prior.std": 0.3})
    command("simulate", path, "--seed", "1", "--out", folder / "made.csv")
    path.write_text(path.read_text().replace("sensors.csv", "made.csv"))
    for name, seed in (("pcn", "5"), ("again", "6")):
        options = "--draws", "20", "--warmup", "20", "--method", "pcn", "--seed", seed, "--anyway"
        command("run", path, *options, "--out", folder / name)
    return folder


@pytest.mark.slow  # half a minute
def test_a_run_tells_of_each_electrode_and_reading(folder):
    summary = pd.read_csv(folder / "pcn" / "summary.csv", index_col=0)
    assert {f"impedance[{name}]" for name in GROUPS} <= set(summary.index)
    fit = pd.read_csv(folder / "pcn" / "sensor_fit.csv", index_col=0)
    assert fit.index.tolist() == ["p", "r", "t", "s", "q"]
    assert fit[["a", "b", "m", "n"]].iloc[0].tolist() == ["left", "right", "bottom", "top"]
    assert np.isfinite(fit["predicted_mean"]).all()
    assert not (folder / "pcn" / "sensors.vtu").exists()
    posterior = invlift.load(folder / "pcn")
    assert "solution" not in posterior.described
    truth = pd.read_csv(folder / "made.csv")
    assert truth.columns.tolist() == ["a", "b", "m", "n", "value", "sigma", "group", "name"]


@pytest.mark.slow
def test_every_command_takes_it(folder, capsys):
    path = folder / "problem.toml"
    command("check", path)
    printed = capsys.readouterr().out
    assert "electrodes: 4 electrodes of 3 boundary facets, 1 wide; 3 pairs" in printed
    assert "sensors: 5 in use" in printed
    command("report", folder / "pcn", "--out", folder / "page.html")
    command("loo", folder / "pcn", folder / "again")
    command("simulate", path, "--seed", "2", "--draws", "2", "--out", folder / "draws.pvd")


@pytest.mark.parametrize(
    ("changes", "sensors", "parts"),
    [
        ({"pde": {"source": 1.0}}, SENSORS, ["[pde], or [electrodes]", "found both"]),
        ({"experiment": {"one": {}}}, SENSORS, ["[electrodes]", "[experiment.NAME]"]),
        ({"electrodes.impedance": [0.1, 0.2]}, SENSORS,
         ["[electrodes] impedance", "or 4", "found 2 numbers", "one for each electrode"]),
        ({"electrodes.width": 0.1}, SENSORS, ["[electrodes]", "found groups and width"]),
        ({"electrodes.groups": ["left", "right", "botom", "top"]}, SENSORS,
         ["[electrodes] groups", "did you mean 'bottom'?"]),
        ({"electrodes.groups": "e_*"}, SENSORS, ["[electrodes] groups", "found 0 like 'e_*'"]),
        ({"electrodes": {"width": 0.1, "impedance": 1.0}}, SENSORS,
         ["[electrodes] width", "positions", "unified data format"]),
        ({"electrodes": {"width": 0.1, "impedance": 1.0}}, UNIFIED.replace("0 0.5", "0 0.3"),
         ["sensors.csv, electrode 1", "within 0.05", "larger width"]),
        ({"electrodes.groups": GROUPS[:3]}, UNIFIED,
         ["[electrodes] groups", "as many boundary groups", "found 3"]),
        ({"electrodes.groups": ["left", "right", "top", "bottom"]}, UNIFIED,
         ["[electrodes] groups", "'top' for electrode 3 at (0.5, 0)", "'bottom' is nearest",
          "order the groups as the file's electrodes"]),
        ({"electrodes": {"surface": "top", "impedance": 1.0}}, LINE,
         ["[electrodes]", "none with surface"]),
        ({"electrodes": {"surface": "boundary"}}, LINE, ["[electrodes] surface", "outer boundary"]),
        ({"electrodes": {"surface": "top"}},
         LINE.replace("1 1\n5#", "1 1.2\n5#").replace("rhoa", "r"),
         ["sensors.csv, electrode 4", "0.2 outside"]),
        ({"electrodes": {"surface": "top"}}, LINE.replace("1 2 3 4", "1 2 2 4"),
         ["sensors.csv, row 9, column m", "drives no current"]),
        ({}, SENSORS.replace("right,top", "right,lid"), ["row 3, column b", "'lid'"]),
        ({}, SENSORS.replace("1,2,3,4", "1,0,3,4"), ["row 4, column b", "infinitely far away"]),
        ({}, "x,y,value\n0.3,0.4,2.1\n", ["row 1", "the columns a,b,m,n,value"]),
        ({"noise.sigma": "column"}, SENSORS.replace(",sigma", ",other"),
         ["[noise] sigma", "a column sigma"]),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path, changes, sensors, parts):
    assert_named(write(tmp_path, changes, sensors), parts)


def test_numbers_are_those_of_the_electrodes_also_where_groups_are_called_by_numbers(tmp_path):
    remark = r"row 2, column a: .*'1', the name of electrode 3"
    mesh, table = box_mesh(2, 2), "a,b,m,n,value,sigma\n1,2,3.0,4.0,0.1,0.01\n1,3,2,4.0,0.2,0.01\n"
    for order in ("1234", "3214"):
        boundaries = {new: mesh.boundaries[old] for new, old in zip(order, GROUPS, strict=True)}
        changes = {"electrodes.groups": list(order)}
        named = replace(mesh, boundaries=mesh.boundaries | boundaries)
        path = write(tmp_path / order, changes, table, named)
        if order == "3214":
            with pytest.raises(InputError, match=remark):
                build(path)
        else:
            by_number = build(path).model
    by_name = build(write(tmp_path / "names", {}, table, mesh)).model
    found, expected = (readings(model, np.full(13, 0.1)) for model in (by_number, by_name))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_an_equation_is_needed(tmp_path):
    path = write_problem(tmp_path, {"pde": REMOVED})
    with pytest.raises(InputError, match=r"problem.toml: expected a table \[pde\], or \[elec"):
        read_problem(path)


def test_a_run_has_no_places_to_suggest(tmp_path):
    paths = write(tmp_path / "electrodes"), write_problem(tmp_path / "field")
    posterior, other = (
        field.posterior(run_from_prior(field)) for field in (build(path) for path in paths)
    )
    with pytest.raises(InputError, match="potential inside is not kept") as caught:
        posterior.next_sensors(1)
    assert "max_field_megabytes" not in str(caught.value)
    # Negative control: a field that is read by sensors has some.
    assert other.next_sensors(1).best.shape[0] == 1


def test_three_dimensions_and_cells(tmp_path):
    """A column between two contacts, read more often than there is to know."""
    mesh = box_mesh(3, 1)
    changes = {
        "electrodes": {"groups": ["left", "right"], "impedance": 0.1},
        "prior": {"kind": "independent", "std": 1.0},
        "noise": {"sigma": 0.1},
    }
    table = "a,b,m,n,value\n1,2,1,2,1.1\n2,1,left,right,-1.3\n"
    field = build(write(tmp_path, changes, table, mesh))
    found = readings(field.model, np.full(mesh.num_cells, np.log(2.0)))
    np.testing.assert_allclose(found, [0.7, -0.7], rtol=1e-12)
    assert np.linalg.matrix_rank(field.model.matrix) == 1
