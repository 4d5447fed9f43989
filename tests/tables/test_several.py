"""A file of each well or logger, each in its own dialect, as one table."""

from datetime import datetime

import pandas as pd
import pytest

from invlift.errors import InputError
from invlift.tables.sensors import read_sensors
from invlift.tables.times import Clock

SOLINST = (
    "Serial_number:\n2088021\nLocation:\nMW-1\nLEVEL\nUNIT: m\nDate,Time,ms,LEVEL\n"
    "2025/06/28,17:30:00,0,12.5\n2025/06/28,17:45:00,0,12.4\n"
)
GERMAN = "Datum;Time;Level [m]\n28.06.2025;17:30:00;14,5\n28.06.2025;18:00:00;14,25\n"
HOBO = (
    '"Plot Title: {n}"\n"#","Date Time, GMT+01:00","Temp, °C (LGR S/N: {n}, SEN S/N: {n})"\n'
    "1,06/28/25 06:30:00 PM,12.5\n2,06/28/25 06:45:00 PM,{n}\n"
)
PLACES = "name,x,y\nMW-1,0.5,1\nMW-2,1.5,2\nMW-3,4,4\n"
OPTIONS = {
    "columns": {"value": "level", "time": "Dat* + Time"},
    "clock": Clock("h", datetime.fromisoformat("2025-06-28T17:00:00")),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "MW-1.csv").write_text(SOLINST, encoding="cp1252")
    (tmp_path / "MW-2.csv").write_text(GERMAN, encoding="utf-16")
    (tmp_path / "places.txt").write_text(PLACES, encoding="utf-8")
    return tmp_path


def test_files_of_two_loggers_are_one_table(folder):
    """By a pattern, in the order of names, or by a list."""
    places = folder / "places.txt"
    found = read_sensors(folder / "*.csv", 2, places=places, **OPTIONS)
    listed = [folder / "MW-2.csv", folder / "MW-1.csv"]
    again = read_sensors(listed, 2, places=places, **OPTIONS)
    assert found.labels.tolist() == ["MW-1", "MW-1", "MW-2", "MW-2"]
    assert found.values.tolist() == [12.5, 12.4, 14.5, 14.25]
    assert found.times.tolist() == [0.5, 0.75, 0.5, 1.0]
    assert found.points.tolist() == [[0.5, 1.0]] * 2 + [[1.5, 2.0]] * 2
    assert found.rows.tolist() == [f"{row} of MW-1.csv" for row in (8, 9)] + [
        f"{row} of MW-2.csv" for row in (2, 3)
    ]
    assert again.values.tolist() == [14.5, 14.25, 12.5, 12.4]
    notes = "\n".join(found.notes)
    for part in (
        "MW-2.csv: read with text in UTF-16, semicolons between columns",
        "\nno column name: the sensor is called as its table\n",
        "no readings of MW-3 in ",
    ):
        assert part in notes


def test_loggers_whose_columns_have_serial_numbers(folder):
    """The name is the file's, not what a star stands for."""
    for number in (7, 8):
        text = HOBO.format(n=number)
        (folder / f"hobo{number}.txt").write_text(text, encoding="utf-8")
    (folder / "places.txt").write_text("name,x,y\nhobo7,0,1\nhobo8,2,3\n", encoding="utf-8")
    options = OPTIONS | {"columns": {"value": "Temp*", "time": "Date Time*"}}
    clock = Clock("h", datetime.fromisoformat("2025-06-28T17:00:00+00:00"))
    found = read_sensors(
        folder / "hobo?.txt", 2, places=folder / "places.txt", **options | {"clock": clock}
    )
    assert found.labels.tolist() == ["hobo7", "hobo7", "hobo8", "hobo8"]
    assert found.values.tolist() == [12.5, 7.0, 12.5, 8.0]
    assert found.times.tolist() == [0.5, 0.75] * 2


FRAME = pd.DataFrame({"x": [0.5, 1.5], "y": 1.0, "value": [3.0, 4.0]})


def test_frames_by_name_or_with_names():
    by_name = read_sensors({"a": FRAME, "b": FRAME.assign(sigma=0.1)[:0:-1].assign(x=3.0)} | {
        "a": FRAME.assign(sigma=0.2)}, 2)  # fmt: skip
    assert by_name.labels.tolist() == ["a", "a", "b"]
    assert by_name.sigma.tolist() == [0.2, 0.2, 0.1]
    listed = read_sensors(
        [FRAME.assign(name=["p", "q"]), FRAME.assign(name="r", note=["", "n"])], 2
    )
    assert listed.labels.tolist() == ["p", "q", "r", "r"]
    assert listed.further["note"].tolist() == ["", "", "", "n"]


def test_units_of_the_files_are_converted_or_refused():
    frames = {"a": FRAME.rename(columns={"value": "value [V]"}),
              "b": FRAME.rename(columns={"value": "value [mV]"})}  # fmt: skip
    found = read_sensors(frames, 2, units={"solution": "V"})
    assert found.values.tolist() == [3.0, 4.0, 3e-3, 4e-3]
    with pytest.raises(
        InputError, match="table b, row 1, column value: expected the unit 'V', as in s"
    ):
        read_sensors(frames, 2)
    with pytest.raises(InputError, match=r"table b, row 1, column value: .* 'V', .* found none"):
        read_sensors(frames | {"b": FRAME}, 2)
    mixed = read_sensors(frames | {"b": FRAME}, 2, units={"solution": "V"})
    assert mixed.values.tolist() == [3.0, 4.0, 3.0, 4.0]


def test_sigma_is_in_the_unit_of_the_value_or_of_all():
    """Each with and without a unit of its own; in volt."""
    for value, sigma, factor in (("", " [mV]", 1e-3), (" [mV]", "", 1e-3), (" [mV]", " [V]", 1.0)):
        frame = FRAME.assign(sigma=0.1).rename(
            columns={"value": f"value{value}", "sigma": f"sigma{sigma}"}
        )
        found = read_sensors(frame, 2, units={"solution": "V"})
        assert found.sigma == pytest.approx(0.1 * factor)
    files = {"a": FRAME.assign(sigma=0.1), "b": FRAME}
    with pytest.raises(InputError, match=r"table b: expected a column 'sigma', as in .*a, found"):
        read_sensors(files, 2)
    flux = FRAME.assign(sigma=0.1, kind="flux").rename(columns={"sigma": "sigma [mV]"})
    with pytest.raises(InputError, match=r"column sigma: expected no unit, .* kind flux"):
        read_sensors(flux, 2, units={"solution": "V"})


def test_times_of_each_file_have_their_own_unit_or_zone(folder):
    """Of numbers, with lengths beside them, and of dates in the zones of two seasons."""
    start = datetime.fromisoformat("2025-06-28T00:00:00+00:00")
    dates = "Date, GMT+0{n}:00"
    rows = {
        "a": [
            ("time [h]", "averaged_over [min]", "2,60"),
            (dates.format(n=1), "n", "2025-06-28 3:00,1"),
        ],
        "b": [
            ("time [min]", "averaged_over", "120,60"),
            (dates.format(n=2), "n", "2025-06-28 4:00,1"),
        ],
    }
    for k, columns in enumerate((None, {"time": "Date*"})):
        for name, own in rows.items():
            time, length, row = own[k]
            text = f'name,x,y,value,"{time}",{length}\n{name},1,2,3,{row}\n'
            (folder / f"{name}{k}.csv").write_text(text)
        clock = Clock("h", start)
        found = read_sensors(folder / f"?{k}.csv", 2, columns=columns, clock=clock)
        assert found.times.tolist() == [2.0, 2.0]
    assert read_sensors(folder / "?0.csv", 2, clock=clock).averaged_over.tolist() == [1.0, 1.0]


def test_patterns_in_a_list_and_a_file_twice(folder):
    places = folder / "places.txt"
    listed = [folder / "MW-[2].csv", folder / "MW-1.csv"]
    found = read_sensors(listed, 2, places=places, **OPTIONS)
    assert found.labels.tolist() == ["MW-2", "MW-2", "MW-1", "MW-1"]
    with pytest.raises(InputError, match=r"MW-2.csv: expected each file once, found it twice"):
        read_sensors([*listed, folder / "MW-*.csv"], 2, places=places, **OPTIONS)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda f: (f / "MW-2.csv").write_text(GERMAN.replace("14,25", "drei")),
         r"MW-2.csv, row 3, column value: .*'drei'"),
        (lambda f: (f / "MW-4.csv").write_text(GERMAN), r"MW-4.csv, row 2, column name: .*'MW-4'"),
        (lambda f: [(f / n).mkdir() or (f / n / "MW-1.csv").write_text(GERMAN) for n in "ab"],
         r"a name of its own for each sensor, found 3 named 'MW-1'; rename the files"),
        (lambda f: [(f / f"MW-{n}.csv").unlink() for n in (1, 2)],
         r"expected files of this pattern, found none"),
    ],
)  # fmt: skip
def test_mistakes_are_told_by_file_and_row(folder, change, part):
    change(folder)
    with pytest.raises(InputError, match=part):
        read_sensors(folder / "**" / "*.csv", 2, places=folder / "places.txt", **OPTIONS)


def test_rows_of_one_file_are_named_behind_the_reading(folder):
    """What is checked of all readings together."""
    frames = [FRAME.assign(name="a"), FRAME.assign(name="b", value=[-9999.0, 3.5])]
    with pytest.raises(InputError, match=r"row 2 of sensor table 2, column value: .*-9999"):
        read_sensors(frames, 2)
    for given in ([], {}, [FRAME]):
        with pytest.raises(InputError, match=r"expected (at least one|a name of its own)"):
            read_sensors(given, 2)


def test_exports_that_overlap_are_told(folder):
    text = "name,x,y,time,value\na,1,2,0,1\na,1,2,1,2\n"
    more = "name,x,y,time,value\na,1,2,1,2\na,1,2,2,3\n"
    for number, each in enumerate((text, more)):
        (folder / f"{number}.csv").write_text(each)
    found = read_sensors(folder / "[01].csv", 2, clock=Clock())
    assert found.notes[-1].startswith("1 reading is of the place and time of an earlier one")
    assert not read_sensors(folder / "[0].csv", 2, clock=Clock()).notes
