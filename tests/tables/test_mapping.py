"""Wide tables, columns by patterns of their names, and places from a second table."""

from datetime import datetime

import numpy as np
import pytest
from refusals import refused
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.readings.locate import locate
from invlift.tables.mapping import with_columns
from invlift.tables.sensors import read_sensors
from invlift.tables.table import table_of_text
from invlift.tables.times import Clock, read_steps
from invlift.tables.voltages import read_voltages

WIDE = (
    '"Plot Title: pools"\n'
    '"#","Date Time, GMT+11:00","Temp, north","Temp, south","Battery"\n'
    "1,07/04/19 02:00:00 PM,24.5,25.5,3.1\n"
    "2,07/04/19 03:00:00 PM,24.7,,3.1\n"
)
PLACES = "Name;X;Y\nsouth;1,5;2\nnorth;0,5;1\nwest;3;4\n"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_columns_of_several_sensors_are_rows(write):
    """One time, as the problem is steady; the order is that of the columns."""
    text = WIDE.replace("03:00:00", "02:00:00")
    sensors = read_sensors(
        write("w.csv", text),
        2,
        columns={"value": "temp*", "time": "Date Time*"},
        places=write("p.csv", PLACES),
    )
    assert sensors.labels.tolist() == ["north", "north", "south"]
    assert sensors.values.tolist() == [24.5, 24.7, 25.5]
    assert sensors.points.tolist() == [[0.5, 1.0], [0.5, 1.0], [1.5, 2.0]]
    assert sensors.rows.tolist() == [3, 4, 3]
    assert sensors.further["time [GMT+11:00]"].tolist()[0] == "07/04/19 02:00:00 PM"
    notes = " ".join(sensors.notes)
    for part in ("2 columns of values as rows", "1 empty value left out", "no readings of west"):
        assert part in notes
    with pytest.raises(InputError, match="expected one time: the problem is steady"):
        read_sensors(write("t.csv", WIDE), 2, columns={"value": "Temp*", "time": "Date*"},
                     places=write("p.csv", PLACES))  # fmt: skip


LABELLED = "Temp, °C (LGR S/N: 7, SEN S/N: {number}, LBL: {name})"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ('"Temp north, °C","Temp south, °C"', "Temp*"),
        ('"Temp north [°C]","Temp south [°C]"', "Temp*"),
        (
            f'"{LABELLED.format(number=1, name="north")}",'
            f'"{LABELLED.format(number=2, name="south")}"',
            "Temp*LBL: *)",
        ),
    ],
)
def test_a_loggers_names_dates_and_zone(write, header, value):
    """Names behind the last star, a unit behind a comma, months first, and the header's zone."""
    text = f'"Plot Title: pools"\n"#","Date Time, GMT+11:00",{header},"Stopped (LGR S/N: 7)"\n'
    text += "1,07/04/19 11:00:00 PM,24.5,25.5,\n2,07/25/19 02:00:00 AM,24.7,,Logged\n"
    clock = Clock("h", datetime.fromisoformat("2019-07-04T12:00:00+00:00"))
    sensors = read_sensors(
        write("w.csv", text), 2, columns={"value": value, "time": "Date Time*"},
        places=write("p.csv", PLACES), clock=clock,
    )  # fmt: skip
    assert sensors.labels.tolist() == ["north", "north", "south"]
    assert sensors.times.tolist() == [0.0, 20 * 24 + 3.0, 0.0]
    assert sensors.further["Stopped (LGR S_N: 7)"].tolist() == ["", "Logged", ""]
    for part in (
        "dates as times in h since 2019-07-04T12:00:00+00:00",
        "dates in the order month, day, year",
        "dates in GMT+11:00, as the header says",
    ):
        assert part in sensors.notes[0]
    with refused("column value", "'degC'", "'°F'"):
        read_sensors(
            write("w.csv", text.replace("°C", "°F")), 2, units={"solution": "degC"}, clock=clock,
            columns={"value": value, "time": "Date Time*"}, places=write("p.csv", PLACES),
        )  # fmt: skip
    # Negative control: without the zone in the header they are in that of the start.
    bare = read_sensors(
        write("w.csv", text.replace(", GMT+11:00", "")), 2,
        columns={"value": value, "time": "Date Time*"}, places=write("p.csv", PLACES), clock=clock,
    )  # fmt: skip
    assert bare.times.tolist() == [11.0, 20 * 24 + 14.0, 11.0]


def test_times_stay_reachable(write):
    text = "hours,T a,T b\n0,1,2\n1,3,4\n"
    sensors = read_sensors(
        write("w.csv", text), 2, columns={"value": "T *", "time": "hours"},
        places=write("p.csv", "name,x,y\na,0,0\nb,1,1\n"), clock=Clock(),
    )  # fmt: skip
    assert sensors.times.tolist() == [0.0, 1.0, 0.0, 1.0]
    assert sensors.values.tolist() == [1.0, 3.0, 2.0, 4.0]


def test_places_in_one_table_and_readings_in_another(write):
    readings = write("r.csv", "well,head [m],sigma [cm]\nnorth,3.5,5\nsouth,4.5,5\n")
    sensors = read_sensors(
        readings, 2, columns={"name": "well", "value": "head*"}, places=write("p.csv", PLACES)
    )
    assert sensors.points.tolist() == [[0.5, 1.0], [1.5, 2.0]]
    assert sensors.values.tolist() == [3.5, 4.5]
    assert sensors.sigma.tolist() == [0.05, 0.05]
    assert sensors.notes[-1].startswith("no readings of west in ")


@pytest.mark.parametrize(
    ("readings", "places", "part"),
    [
        ("name,value\na,3\nb,4\n", PLACES, r"found 'a', 'b'; add them"),
        ("name,value\nnorth,3\n", PLACES + "north;1;1\n", r"row 5, column name: .*'north' again"),
        ("name,value,x\nnorth,3,1\n", PLACES.lower(), "'x' in .* too"),
        ("label,value\nnorth,3\n", PLACES, "one column 'name', found label, value"),
    ],
)
def test_what_has_no_partner_is_named(write, readings, places, part):
    with pytest.raises(InputError, match=part):
        read_sensors(write("r.csv", readings), 2, places=write("p.csv", places))


@pytest.mark.parametrize(
    ("columns", "part"),
    [
        ({"value": "Pressure*"}, r"columns, value: expected a column of t: .*found Pres"),
        ({"time": "Temp*"}, "columns, time: expected one column of t, found 'Temp, north'"),
        ({"value": "*"}, "columns, value: expected columns in one unit"),
        ({"value": "Battry"}, r"did you mean 'Battery \(V\)'"),
    ],
)
def test_patterns_that_fit_nothing_are_refused(columns, part):
    with pytest.raises(InputError, match=part):
        with_columns(table_of_text(WIDE.replace("Battery", "Battery (V)"), "t"), columns)


def test_voltages_of_another_program(write):
    path = write("v.csv", "C1,C2,P1,P2,R (ohm),Dev\n1,2,3,4,5.5,0\n")
    names = {"a": "C1", "b": "C2", "m": "P1", "n": "P2", "value": "R*"}
    found = read_voltages(path, 2, columns=names)
    assert found.values.tolist() == [5.5]
    assert found.electrodes.tolist() == [["1", "2", "3", "4"]]


SOLINST = (
    "Serial_number:\n2088021\nProject ID:\n\nLocation:\nMW-3\nLEVEL\nUNIT: m\n"
    "Offset: 0.000000 m\nTEMPERATURE\nUNIT: °C\nDate,Time,ms,LEVEL,TEMPERATURE\n"
    "2025/06/28,17:30:00,0,12.5,21.9\n2025/06/28,17:45:00,0,12.4,21.9\n"
)


def test_a_level_logger_with_dates_and_times_in_two_columns(write, tmp_path):
    """The file of one logger names no place: that is the only one of the second table."""
    path = tmp_path / "level.csv"
    path.write_text(SOLINST, encoding="cp1252")
    clock = Clock("h", datetime.fromisoformat("2025-06-28T17:00:00"))

    def read(columns, places="name,x,y\nMW-3,0.5,1\n"):
        return read_sensors(path, 2, columns=columns, places=write("p.csv", places), clock=clock)

    sensors = read({"value": "LEVEL", "time": "date + time"})
    assert sensors.times.tolist() == [0.5, 0.75]
    assert sensors.values.tolist() == [12.5, 12.4]
    assert sensors.labels.tolist() == ["MW-3", "MW-3"]
    assert sensors.points.tolist() == [[0.5, 1.0]] * 2
    assert sensors.further["TEMPERATURE [°C]"].tolist() == ["21.9", "21.9"]
    in_feet = SOLINST.replace("UNIT: m", "UNIT: ft")
    path.write_text(in_feet, encoding="cp1252")
    columns, places = {"value": "LEVEL", "time": "date + time"}, write("p.csv", "x,y,name\n1,1,a\n")
    feet = read_sensors(path, 2, columns=columns, places=places, clock=clock,
                        units={"length": "m", "solution": "m"})  # fmt: skip
    assert feet.values == pytest.approx([12.5 * 0.3048, 12.4 * 0.3048])
    assert "units above the header, " in feet.notes[0]
    path.write_text(SOLINST, encoding="cp1252")
    with pytest.raises(InputError, match=r'a date and a time, found .17:30:00.*"Date \+ Time"'):
        read({"value": "LEVEL", "time": "Time"})
    with pytest.raises(InputError, match=r'or join both: "Date \+ time"'):
        read({"value": "LEVEL", "time": "Date"})
    with pytest.raises(InputError, match="one column 'name'"):
        read({"value": "LEVEL", "time": "Date + Time"}, "name,x,y\nMW-3,0.5,1\nMW-4,1,1\n")
    with pytest.raises(InputError, match=r"found no column 'x'.*places = ") as error:
        read_sensors(path, 2, columns={"value": "LEVEL", "time": "Date + Time"}, clock=clock)
    assert 'columns = { x = "NAME" }, where NAME is one of ' in str(error.value)


def test_exports_that_are_no_tables_are_named(write):
    xle = '<?xml version="1.0"?>\n<Body_xle><Data><Log id="1"/></Data></Body_xle>\n'
    with pytest.raises(InputError, match="an XML or HTML file; export it as CSV: of a Solinst"):
        read_sensors(write("w.xle", xle), 2)
    for text in (
        "No.\tTime\tA(x)\tA(y)\tA(z)\tI(mA)\tR(O)\n1\t10:11\t0\t0\t0\t50\t2.0\n",
        "Filename: l.s4k\nRows header/data/topography: 20 2 0\nA B M N\n",
    ):
        with pytest.raises(InputError, match="an export of an ABEM Terrameter; export it as Res2D"):
            read_voltages(write("abem.txt", text), 2)


def test_two_names_of_one_unit_are_no_conversion(write):
    """A note says what was converted; degrees by another name are not."""
    units = {"length": "m", "solution": "degC"}
    same = read_sensors(write("a.csv", "x,y,value [°C]\n1,2,20.5\n"), 2, units=units)
    other = read_sensors(write("b.csv", "x [mm],y,value [°C]\n1000,2,20.5\n"), 2, units=units)
    assert same.notes == ()
    assert same.values.tolist() == other.values.tolist() == [20.5]
    assert other.notes == ("read with x converted from mm to m",)


def test_a_text_in_brackets_that_is_no_known_unit_is_in_a_note(write):
    columns, units = {"value": "Pressure*"}, {"solution": "Pa"}
    text = 'x,y,"{}"\n1,2,20.5\n'
    for header in ("Pressure [mmHg]", "Pressure (mmHg)"):
        read = read_sensors(write("a.csv", text.format(header)), 2, columns=columns, units=units)
        assert read.notes == (
            f"'mmHg' in {header!r} is not a known unit: the numbers are not converted",
        )
    for header in ("Pressure [hPa]", "Pressure (1)", "Pressure, hPa (S/N: a)"):
        read = read_sensors(write("b.csv", text.format(header)), 2, columns=columns, units=units)
        assert "known unit" not in " ".join(read.notes)


def test_a_table_of_means_over_groups_needs_no_places(write):
    sensors = read_sensors(write("t.csv", "Kind,over,value\naverage,core,3.5\naverage,left,2\n"), 2)
    assert sensors.over.tolist() == ["core", "left"]
    assert np.isnan(sensors.points).all()
    mixed = read_sensors(write("m.csv", "kind,over,value\naverage,left,2\npoint,,3.5\n"), 2)
    with pytest.raises(
        InputError, match="row 3, column x: expected a number, found an empty entry"
    ):
        locate(box_mesh(2, 2), mixed)
    with pytest.raises(InputError, match="found no column 'x'"):
        read_sensors(write("n.csv", "over,value\nrim,2\n"), 2)


@pytest.mark.parametrize(
    ("unit", "behind", "is_good"), [("[-]", "", True), ("[s]", "", False), ("", " s", False)]
)
def test_the_order_of_a_moment_has_no_unit(write, unit, behind, is_good):
    rows = f"x,y,time,value,averaged_over,moment {unit}\n0.5,0.5,2,3.5,1,1{behind}\n"
    path, clock = write("m.csv", rows), Clock("s")
    if is_good:
        assert read_sensors(path, 2, clock=clock).moment.tolist() == [1.0]
        return
    with pytest.raises(InputError, match=r"column moment: expected no unit, .*, found 's'"):
        read_sensors(path, 2, clock=clock)


def test_units_of_times_may_be_behind_the_numbers(write):
    path = write("m.csv", "x,y,time,value,averaged_over\n0.5,0.5,2 min,3.5,1\n1,1,3 min,4,1\n")
    found = read_sensors(path, 2, clock=Clock("s"))
    assert found.times.tolist() == [120.0, 180.0]
    assert found.averaged_over.tolist() == [60.0, 60.0]
    rates = write("r.csv", "time,strength\n0 min,1 m3/s\n2 min,3 m3/s\n")
    found = read_steps(rates, clock=Clock("s"), unit="l/s")
    assert found.times.tolist() == [0.0, 120.0]
    assert found.values == pytest.approx([1000.0, 3000.0])
