"""Currents at several electrodes at once: tables, MAT-files, and what is wrong with them."""

import numpy as np
import pytest
import scipy.io
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.electrodes.complete import electrode_model
from invlift.fem.electrodes.quadrupoles import injections_of, patterns_of
from invlift.programs.compilation import program
from invlift.tables.voltages import read_voltages, write_voltages

NAMES = ["left", "right", "bottom", "top"]
CURRENTS = np.array([[2.0, -1.0, -1.0, 0.0], [0.0, 1.0, 1.0, -2.0], [1.0, 0.0, -1.0, 0.0]])
PAIRS = np.array([[1.0, 0.0, -1.0, 0.0], [0.0, -1.0, 0.0, 1.0]])
VALUES = np.array([[0.1, 0.2], [np.nan, 0.4], [0.5, 0.6]])
TABLE = (
    "current 1 [mA],current 2 [mA],current 3 [mA],current 4 [mA],m,n,voltage [mV],name\n"
    + "".join(
        ",".join(map(str, [*(1e3 * CURRENTS[i]), *pair, 1e3 * VALUES[i, j], f"r{i}{j}"])) + "\n"
        for i in range(3)
        for j, pair in enumerate([("left", "bottom"), ("4", "2")])
        if not np.isnan(VALUES[i, j])
    )
)
KIT4 = {"CurrentPattern": 1e3 * CURRENTS.T, "MeasPattern": PAIRS.T, "Uel": VALUES.T}
KTC = {"Inj": 1e3 * CURRENTS.T, "Mpat": PAIRS.T, "Uel": VALUES.reshape(-1, 1)}


@program
def solve(model, coefficients):
    return model(coefficients)


def write(folder, content):
    path = folder / ("tank.csv" if isinstance(content, str) else "tank.mat")
    if isinstance(content, str):
        path.write_text(content)
    else:
        scipy.io.savemat(path, content)
    return path


COLUMNS = {
    "csv": None,
    "mat": {"current": "CurrentPattern [mA]"},
    "column": {"current": "Inj [mA]"},
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_readings_are_those_of_the_currents_and_weights(tmp_path, kind):
    content = {"csv": TABLE, "mat": KIT4, "column": KTC}[kind]
    sensors = read_voltages(write(tmp_path, content), 2, columns=COLUMNS[kind])
    np.testing.assert_allclose(sensors.values, [0.1, 0.2, 0.4, 0.5, 0.6], rtol=1e-12)
    assert sensors.electrodes[1].tolist()[0] == sensors.electrodes[0].tolist()[0]
    found = injections_of(patterns_of(sensors, NAMES))
    assert len(found.currents) == 3
    mesh = box_mesh(2, 3)
    model = electrode_model(mesh, NAMES, found.currents, found.voltages, impedance=0.2)
    phi = np.linspace(-1.0, 1.0, mesh.num_nodes)
    readings = np.asarray(solve(model, phi))[np.argsort(found.order)]
    whole = electrode_model(mesh, NAMES, CURRENTS, PAIRS, impedance=0.2)
    expected = np.asarray(solve(whole, phi))[[0, 1, 3, 4, 5]]
    np.testing.assert_allclose(readings, expected, rtol=1e-10)
    # negative control: another sign of one current
    other = electrode_model(mesh, NAMES, CURRENTS * [[1], [-1], [1]], PAIRS, impedance=0.2)
    assert not np.allclose(np.asarray(solve(other, phi))[3], readings[2])


def test_many_patterns_are_combinations_of_resistances(tmp_path):
    rng = np.random.default_rng(3)
    currents = rng.standard_normal((5, 4))
    currents -= currents.mean(axis=1, keepdims=True)
    content = {"Inj": currents.T, "Mpat": PAIRS.T, "Uel": rng.standard_normal((2, 5))}
    found = injections_of(patterns_of(read_voltages(write(tmp_path, content), 2), NAMES))
    assert found.matrix.shape == (10, 6)
    mesh = box_mesh(2, 2)
    phi = np.linspace(-1.0, 1.0, mesh.num_nodes)
    few = electrode_model(mesh, NAMES, found.currents, found.voltages, impedance=0.2)
    whole = electrode_model(mesh, NAMES, currents, PAIRS, impedance=0.2)
    readings = found.matrix @ np.asarray(solve(few, phi))
    np.testing.assert_allclose(readings, solve(whole, phi), rtol=1e-9)


def test_units_of_currents_may_be_behind_the_numbers(tmp_path):
    text = "current 1,current 2 [A],m,n,voltage\n2 mA,-0.002,1,2,7\n-1 mA,0.001,1,2,3\n"
    sensors = read_voltages(write(tmp_path, text), 2)
    np.testing.assert_allclose(sensors.currents, [[2e-3, -2e-3], [-1e-3, 1e-3]], rtol=1e-12)


def test_what_is_written_reads_back(tmp_path):
    sensors = read_voltages(write(tmp_path, TABLE), 2)
    write_voltages(tmp_path / "again.csv", sensors)
    again = read_voltages(tmp_path / "again.csv", 2)
    np.testing.assert_allclose(again.currents, sensors.currents, rtol=1e-12)
    np.testing.assert_array_equal(again.electrodes, sensors.electrodes)
    np.testing.assert_array_equal(again.values, sensors.values)


def test_notes_say_what_was_taken_for_what(tmp_path):
    notes = read_voltages(write(tmp_path, KIT4), 2).notes
    assert "CurrentPattern (4, 3) as current" in notes[0]
    assert notes[1] == "left out where the voltage is NaN: 1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            KIT4 | {"Uel": VALUES},
            r"voltages of 2 pairs and 3 injections, \(2, 3\) or 6, found shape",
        ),
        (
            KIT4 | {"CurrentPattern": np.abs(CURRENTS.T)},
            "injection 1: expected currents that add up",
        ),
        (
            KIT4 | {"MeasPattern": PAIRS.T[:3]},
            "as many electrodes in currents as in pairs, found 4",
        ),
        (KIT4 | {"MeasPattern": np.abs(PAIRS.T)}, "pair 1: expected weights that add up to zero"),
        ({"x": np.zeros(3)}, r"a matrix CurrentPattern or Inj.*found x \(1, 3\)"),
        (TABLE.replace("current 3", "current 5"), "columns current 1 to current 4"),
        (TABLE.replace("left,bottom", "left,inside", 1), "column n: expected a number from 1 to 4"),
        (TABLE.replace(",m,n", ",m,o"), "no column 'n'"),
        (
            TABLE.replace("2000.0,-1000.0,-1000.0", "0,0,0", 1),
            "row 2: expected currents that are not",
        ),
        (TABLE.replace("2000.0,-1000.0,-1000.0", "1e60,-1e60,0", 1), "row 2: .* up to 1e"),
        (
            TABLE.replace(",name", ",a"),
            "currents of the electrodes without a further column for them, found column a",
        ),
    ],
)
def test_bad_input(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        patterns_of(read_voltages(write(tmp_path, content), 2), NAMES)


def test_files_that_are_none(tmp_path):
    path = tmp_path / "tank.mat"
    path.write_bytes(b"no such format")
    with pytest.raises(InputError, match="a MAT-file, found what cannot be read"):
        read_voltages(path, 2)
    scipy.io.savemat(path, KIT4)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InputError, match="a MAT-file"):
        read_voltages(path, 2)
    scipy.io.savemat(path, KIT4)
    sensors = read_voltages(path, 2)
    with pytest.raises(InputError, match="of 5 electrodes"):
        patterns_of(sensors, [*NAMES, "front"])


def test_rows_that_are_not_valid_are_left_out_with_their_currents(tmp_path):
    header, *rows = TABLE.splitlines()
    rows = [f"{row},{int(number != 1)}" for number, row in enumerate(rows)]
    sensors = read_voltages(write(tmp_path, "\n".join([f"{header},valid", *rows, ""])), 2)
    whole = read_voltages(write(tmp_path, TABLE), 2)
    kept = [0, 2, 3, 4]
    np.testing.assert_array_equal(sensors.values, whole.values[kept])
    np.testing.assert_array_equal(sensors.currents, whole.currents[kept])


def test_other_columns_of_a_mat_file_are_refused(tmp_path):
    path = write(tmp_path, KIT4)
    with pytest.raises(InputError, match=r"columns, value: expected one of current, pairs"):
        read_voltages(path, 2, columns={"value": "Uel"})
