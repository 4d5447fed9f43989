"""Columns of tables that change what readings are: each is used, or refused with a remedy."""

import numpy as np
import pytest
from refusals import refused

from invlift.errors import InputError
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.tables.sensors import read_sensors
from invlift.tables.times import read_steps
from invlift.tables.voltages import read_voltages

ELECTRODES = "4# electrodes\n# x z\n0 0\n2 0\n4 0\n6 0\n"


@pytest.fixture
def table(tmp_path):
    """A table as `read_sensors` or `read_voltages` reads it."""

    def read(text, reader=read_sensors, name="t.csv", **options):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return reader(path, 2, **options)

    return read


def check_refused(read, text, *parts, **options):
    with refused(*parts):
        read(text, **options)


def test_several_times_of_one_place_are_refused(table):
    rows = "T1,0.2,0.3,0,1.0\nT1,0.2,0.3,60,3.0\n"
    for name in ("time", "Date", "Timestamp [s]"):
        check_refused(table, f"name,x,y,{name},value\n{rows}", "row 3 reads at 60", "steady")
    voltages = "a,b,m,n,value,time\n1,2,3,4,0.4,10:00\n1,2,3,4,0.5,11:00\n"
    check_refused(table, voltages, "row 3 reads at 11:00", reader=read_voltages)
    # One time, or each place at its own.
    one = table("x,y,time,value\n0.2,0.3,60,1.0\n0.5,0.3,60,3.0\n")
    assert not any("times" in note for note in one.notes)
    several = table("x,y,time,value\n0.2,0.3,60,1.0\n0.5,0.3,70,3.0\n")
    assert "readings of several times are taken as of one steady state" in several.notes
    # One place in two surveys, between which the field changes.
    table("x,y,survey,date,value\n0.2,0.3,before,60,1.0\n0.2,0.3,after,70,3.0\n")


def test_rows_that_are_not_valid_are_left_out(table):
    found = table("x,y,value,valid\n0.2,0.3,1.0,1\n0.5,0.3,,0\n0.6,0.3,3.0,true\n")
    assert found.values.tolist() == [1.0, 3.0]
    assert found.rows.tolist() == [2, 4]
    assert found.notes[0] == "1 rows are not valid by the column valid"
    check_refused(table, "x,y,value,valid\n0.2,0.3,1.0,nan\n", "row 2, column valid", "'nan'")
    check_refused(table, "x,y,value,valid\n0.2,0.3,1.0,0\n", "at least one valid reading")
    rows = "2# data\n# a b m n r valid\n1 4 2 3 5 1\n1 2 3 4 2 0\n"
    line = table(ELECTRODES + rows, read_voltages, "t.ohm")
    assert line.values.tolist() == [5.0]
    bad = ELECTRODES + rows.replace("2 0\n", "2 nan\n")
    check_refused(table, bad, "row 10, column valid", reader=read_voltages, name="t.ohm")


def test_columns_of_errors_and_weights_are_refused(table):
    for name in ("std", "Error", "weight", "standard_deviation [K]"):
        check_refused(table, f"x,y,value,{name}\n0.2,0.3,1.0,0.1\n", f"column {name}", "sigma")
    check_refused(table, "x,y,value,unit\n0.2,0.3,1,m\n0.5,0.3,3,ft\n", "one unit", "ft, m")
    check_refused(table, "x,y,value [m],unit\n0.2,0.3,1,ft\n", "column unit", "'m'", "'ft'")
    in_feet = table("x,y,value,unit\n0.2,0.3,1,ft\n", units={"solution": "m"})
    np.testing.assert_allclose(in_feet.values, [0.3048])
    assert in_feet.further == {}  # it would be wrong beside values in m
    assert table("x,y,value,unit\n0.2,0.3,1,7\n").further["unit"].tolist() == ["7"]


@pytest.mark.parametrize("columns", ["sigma [mK]", "sigma,unit"])
def test_sigma_of_values_to_be_simulated_is_in_the_unit_of_the_solution(table, columns):
    rows = f"0.2,0.3,50{',mK' * columns.count(',')}\n"
    given = {"units": {"solution": "K"}, "needs_values": False}
    np.testing.assert_allclose(table(f"x,y,{columns}\n{rows}", **given).sigma, [0.05])
    with_kind = f"x,y,kind,{columns}\n{rows.replace('0.3,', '0.3,log_conductivity,')}"
    with refused("log_conductivity"):
        table(with_kind, **given)


def test_conductivities_are_converted_to_the_unit_of_the_problem(table):
    head, rows = "x,y,kind,value [mS/m]\n", "0.2,0.3,conductivity,20\n"
    for units in ({"conductivity": "S/m"}, {"conductivity": "S/m", "solution": "V"}):
        found = table(head + rows, units=units)
        np.testing.assert_allclose(found.values, [np.log(0.02)])
        with refused("readings in one unit"):
            table(f"{head}{rows}0.5,0.3,point,1\n", units=units)
        assert not any("the unit of the conductivities" in note for note in found.notes)
    as_it_is = table(head + rows)
    np.testing.assert_allclose(as_it_is.values, [np.log(20.0)])
    assert any("the unit of the conductivities, mS/m, is" in note for note in as_it_is.notes)
    assert not table((head + rows).replace("mS", "S")).notes[1:]


def test_columns_that_are_not_used_are_named(table):
    found = table("x,y,value,remark,serial\n0.2,0.3,1.0,dry,7\n")
    assert found.notes == ("not used, only kept beside results: remark, serial",)
    assert found.further["remark"].tolist() == ["dry"]
    rows = "1# data\n# a b m n r ip\n1 4 2 3 5 0.1\n"
    line = table(ELECTRODES + rows, read_voltages, "t.ohm")
    assert line.notes == ("not used, only kept beside results: ip",)


@pytest.mark.parametrize(
    ("value", "sigma", "factor"),
    [("mV", "V", 1e3), ("V", "mV", 1e-3), ("m", "cm", 1e-2), ("°C", "K", 1.0), ("m", "m", 1.0)],
)
def test_sigma_is_converted_to_the_unit_of_the_value(table, value, sigma, factor):
    found = table(f"x,y,value [{value}],sigma [{sigma}]\n0.2,0.3,8.0,0.5\n")
    np.testing.assert_allclose(found.sigma, [0.5 * factor])
    voltages = f"a,b,m,n,value [{value}],sigma ({sigma})\n1,2,3,4,8.0,0.5\n"
    np.testing.assert_allclose(table(voltages, read_voltages).sigma, [0.5 * factor])


@pytest.mark.parametrize(
    ("value", "sigma", "factors"),
    [(" [mOhm]", "", (1e-3, 1e-3)), ("", " [mOhm]", (1.0, 1e-3)), (" [V]", "", (1.0, 1.0))],
)
def test_resistances_are_in_ohm(table, value, sigma, factors):
    text = f"a,b,m,n,value{value},sigma{sigma}\n1,2,3,4,8.0,0.5\n"
    found = table(text, read_voltages)
    np.testing.assert_allclose([found.values[0], found.sigma[0]], np.multiply([8, 0.5], factors))


def test_units_that_do_not_fit_are_refused(table):
    rows = "0.2,0.3,8.0,0.5\n"
    check_refused(table, f"x,y,value,sigma [mK]\n{rows}", "the unit of the value", "none", "'mK'")
    check_refused(table, f"x,y,value [V],sigma [m]\n{rows}", "the unit of the value, 'V'", "'m'")
    check_refused(table, f"x,y,value [V],sigma [%]\n{rows}", "relative = true")
    check_refused(table, f"x [m],y [mm],value,sigma\n{rows}", "lengths in one unit", "m, mm")
    check_refused(table, f"x,y,radius [cm],value\n{rows}", "lengths in one unit", "cm, none")


def test_marks_between_thousands(table):
    """One number is clear by itself; of another the file's decide, or both readings are told."""
    clear = table("x;y;value\n0,2;0,3;1.012,5\n0,5;0,3;998,4\n")
    assert clear.values.tolist() == [1012.5, 998.4]
    check_refused(table, "x;y;value\n0,2;0,3;1.012\n", "row 2, column value", "1012 or 1.012")
    check_refused(table, "x;y;value\n0.2;0.3;1,234\n", "1234 or 1.234")
    assert table("x;y;value\n0.2;0.3;1.012\n").values.tolist() == [1.012]


def test_codes_for_missing_readings_are_refused(table):
    rows = "0.2,0.3,8.2\n0.5,0.3,12.4\n0.6,0.3,{}\n"
    for code in (-9999, "-999.25", 1e30):
        text = "x,y,value\n" + rows.format(code)
        check_refused(table, text, "row 4, column value", "8.2 to 12.4", "missing")
    points = [[0.2, 0.3], [0.5, 0.3], [0.6, 0.3]]
    with pytest.raises(InputError, match="missing"):
        sensors_from_arrays(points, [8.2, 12.4, -9999.0])
    with pytest.raises(InputError, match="missing"):
        sensors_from_arrays(points, [5200.0, 5900.0, -9999.0])
    in_mv = "x,y,value [mV]\n0.2,0.3,8.2\n0.5,0.3,12.4\n0.6,0.3,-9999\n"
    check_refused(table, in_mv, "row 4, column value", "missing", units={"solution": "V"})
    volts = "a,b,m,n,voltage [mV],current\n1,2,3,4,0.2,2\n1,2,3,5,-9999,2\n"
    check_refused(table, volts, "row 3, column voltage", "missing", reader=read_voltages)
    rates = "time,strength\n0,0.2\n5,-9999\n7,0.1\n"
    check_refused(table, rates, "row 3, column strength", "missing",
                  reader=lambda path, _: read_steps(path))  # fmt: skip
    # A reading like the others is one.
    values = [-9900.0, -9999.0, -10100.0]
    assert sensors_from_arrays(points, values).values.tolist() == values


def test_readings_behind_those_announced_are_refused(table):
    rows = "1# data\n# a b m n r\n1 4 2 3 5.3\n"
    more = ELECTRODES + rows + "1 2 3 4 2.6\n"
    check_refused(table, more, "row 10", "1 announced", reader=read_voltages, name="t.ohm")
    for topography in ("0\n", "2# points\n0 0\n9 0\n"):
        found = table(ELECTRODES + rows + topography, read_voltages, "t.ohm")
        assert found.values.tolist() == [5.3]
