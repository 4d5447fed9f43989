"""Problem files with electrodes: both formats, every command, and mistakes by their keys."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import call
from problem_files import REMOVED, assert_named, build, readings, with_sensors, write_problem

import invlift
from invlift.app.checks import electrodes
from invlift.app.problem.problem_file import read_problem
from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import electrode_numbers
from invlift.tables.voltages import read_voltages

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


def write(folder, changes=None, sensors=SENSORS):
    own = {"pde": REMOVED} | copy.deepcopy(CHANGES) | (changes or {})
    return write_problem(folder, own, sensors=sensors)


def test_readings_stand_by_their_injections(tmp_path):
    """Known impedances that differ are those of their electrodes."""
    field = build(write(tmp_path))
    assert field.sensors.labels.tolist() == ["p", "r", "t", "s", "q"]
    assert field.sensors.electrode_groups == tuple(GROUPS)
    assert field.model.num_loads == 3
    detail = electrodes.check_electrodes(field).detail
    assert detail.startswith("4 electrodes of 3 boundary facets, 1 wide; 3 pairs")
    phi, impedance = np.linspace(-1.0, 1.0, 16), [0.1, 0.2, 0.3, 0.4]
    found = np.asarray(readings(field.model, np.append(phi, impedance)))
    unit = np.eye(4)
    rows = {"p": (0, 1, 2, 3), "t": (1, 0, 3, 0), "s": (0, 2, 0, 2), "q": (1, 3, 0, 2)}
    alone = invlift.electrode_model(
        field.mesh, GROUPS, [unit[a] - unit[b] for a, b, *_ in rows.values()],
        [[unit[m] - unit[n]] for *_, m, n in rows.values()], impedance=np.array(impedance),
    )  # fmt: skip
    at = [field.sensors.labels.tolist().index(label) for label in rows]
    np.testing.assert_allclose(found[at], readings(alone, phi), rtol=1e-11)
    path = write(tmp_path / "known", {"electrodes.impedance": impedance})
    np.testing.assert_allclose(readings(build(path).model, phi), found, rtol=1e-12)
    path.write_text(read_problem(path).to_toml())
    assert read_problem(path).electrodes.impedance == impedance


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


def on_line(folder, table=LINE):
    changes = {"electrodes": {"surface": "top"}, "noise": {"sigma": "column"}}
    return write(folder, changes, table)


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    return build(on_line(tmp_path_factory.mktemp("line")))


def test_points_on_a_line(line):
    """Of apparent resistivities, some with electrodes far away; two are reciprocal."""
    sensors = line.sensors
    unit = np.vstack([np.zeros(4), np.eye(4)])
    phi = np.linspace(-1.0, 1.0, 16)
    found = np.asarray(readings(line.model, phi))
    rows = sensors.electrodes.astype(int)
    alone = invlift.point_electrode_model(
        line.mesh, sensors.positions, [unit[a] - unit[b] for a, b, *_ in rows],
        [[unit[m] - unit[n]] for *_, m, n in rows], surface="top",
    )  # fmt: skip
    np.testing.assert_allclose(found, readings(alone, phi), rtol=1e-9)
    first = sensors.electrodes.tolist().index(["1", "2", "3", "4"])
    factor = 2.0 * np.pi / (1 / 0.7 - 1 / 0.4 - 1.0 + 1 / 0.7)
    np.testing.assert_allclose(sensors.values[first], 2.1 / factor, rtol=1e-12)
    np.testing.assert_allclose(sensors.sigma[first], 0.021 / abs(factor), rtol=1e-12)
    np.testing.assert_allclose(sensors.points[first], [0.5, 0.8])
    poles = [k for k, row in enumerate(sensors.electrodes.tolist()) if row.count("0") == 2]
    np.testing.assert_allclose(found[poles[0]], found[poles[1]], rtol=1e-12)


def test_many_readings_of_points(tmp_path, line):
    """More than pairs of electrodes: the same readings as one by one."""
    rows = LINE.splitlines()[7:]
    many = LINE.replace("5# readings", "20# readings") + "\n".join(rows * 3) + "\n"
    whole = build(on_line(tmp_path, many))
    assert type(whole.model).__name__ == "Combinations"
    assert np.linalg.matrix_rank(whole.model.matrix) == 4
    phi = np.linspace(-1.0, 1.0, 16)
    found = dict(zip(map(str, line.sensors.electrodes), readings(line.model, phi), strict=True))
    again = [found[str(row)] for row in whole.sensors.electrodes]
    np.testing.assert_allclose(readings(whole.model, phi), again, rtol=1e-9)


def test_ground_that_ends_too_near_is_a_doubt(line, monkeypatch):
    """It is a square with the line on its top; no doubt from where its error is allowed."""
    detail = electrodes.check_electrodes(line).detail
    assert "4 point electrodes, the closest two 0.3 apart; readings of uniform ground" in detail
    assert "5 pairs of them drive" in detail
    ((found, advice),) = electrodes.electrode_doubts(line)
    assert advice == electrodes.REMEDY
    worst = float(found.split(" up to ")[1].split(" % wrong")[0])
    assert worst > 10.0
    places = line.sensors.positions - np.outer([0.0, 0.0, 0.0, 0.1], [0.0, 1.0])
    hilly = with_sensors(line, replace(line.sensors, positions=places))
    assert electrodes.electrode_doubts(hilly) == []  # its exact readings are not known
    assert electrodes.check_electrodes(hilly).level == "ok"
    monkeypatch.setattr(electrodes, "TOO_FAR_OFF", 1.02 * worst / 100.0)
    assert not electrodes.electrode_doubts(line)


def command(*arguments):
    assert call(*arguments) in (0, 3)


def run(folder, path, table):
    """A run on simulated readings, its page and its table of readings."""
    command("simulate", path, "--seed", "1", "--out", folder / table)
    path.write_text(path.read_text().replace("sensors.csv", table))
    command("run", path, "--draws", "20", "--method", "pcn", "--anyway", "--out", folder / "run")
    command("report", folder / "run", "--out", folder / "page.html")
    return pd.read_csv(folder / "run" / "sensor_fit.csv", index_col=0)


@pytest.mark.slow
def test_commands_take_a_line(tmp_path):
    fit = run(tmp_path, on_line(tmp_path), "made.ohm")
    assert fit["b"].tolist().count(0) == 3
    assert (tmp_path / "run" / "sensors.vtu").exists()


@pytest.mark.slow
def test_a_run_tells_of_each_electrode_and_reading(tmp_path):
    path = write(tmp_path, {"prior.std": 0.3})
    fit = run(tmp_path, path, "made.csv")
    assert fit.index.tolist() == ["p", "r", "t", "s", "q"]
    assert fit[["a", "b", "m", "n"]].iloc[0].tolist() == ["left", "right", "bottom", "top"]
    assert np.isfinite(fit["predicted_mean"]).all()
    summary = pd.read_csv(tmp_path / "run" / "summary.csv", index_col=0)
    assert {f"impedance[{name}]" for name in GROUPS} <= set(summary.index)
    assert not (tmp_path / "run" / "sensors.vtu").exists()
    posterior = invlift.load(tmp_path / "run")
    assert "solution" not in posterior.described
    with pytest.raises(InputError, match="potential inside is not kept") as caught:
        posterior.next_sensors(1)
    assert "max_field_megabytes" not in str(caught.value)
    made = pd.read_csv(tmp_path / "made.csv")
    assert made.columns.tolist() == ["a", "b", "m", "n", "value", "sigma", "group", "name"]
    command("simulate", path, "--seed", "2", "--draws", "2", "--out", tmp_path / "draws.pvd")


@pytest.mark.parametrize(
    ("changes", "sensors", "parts"),
    [
        ({"pde": {"source": 1.0}}, SENSORS, ["[pde], or [electrodes]", "found both"]),
        ({"experiment": {"one": {}}}, SENSORS, ["[electrodes]", "[experiment.NAME]"]),
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
        ({}, SENSORS.replace("right,top", "right,lid"), ["row 3, column b", "'lid'"]),
        ({}, "x,y,value\n0.3,0.4,2.1\n", ["row 1", "the columns a,b,m,n,value"]),
        ({"noise.sigma": "column"}, SENSORS.replace(",sigma", ",other"),
         ["[noise] sigma", "a column sigma"]),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path, changes, sensors, parts):
    assert_named(write(tmp_path, changes, sensors), parts)


def test_numbers_are_those_of_the_electrodes_also_where_groups_are_called_by_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,m,n,value\n1,2,3.0,4.0,0.1\n1,3,2,4.0,0.2\n")
    sensors = read_voltages(tmp_path / "a.csv", 2)
    for names in (GROUPS, list("1234")):
        assert electrode_numbers(sensors, names).tolist() == [[0, 1, 2, 3], [0, 2, 1, 3]]
    with pytest.raises(InputError, match=r"row 2, column a: .*'1', the name of electrode 3"):
        electrode_numbers(sensors, list("3214"))


def test_an_equation_is_needed(tmp_path):
    path = write_problem(tmp_path, {"pde": REMOVED})
    with pytest.raises(InputError, match=r"problem.toml: expected a table \[pde\], or \[elec"):
        read_problem(path)
