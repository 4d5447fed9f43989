"""Tables in the dialects of spreadsheets and loggers: the same numbers, or a refusal."""

import csv
import itertools

import numpy as np
import pandas as pd
import pytest

from invlift.errors import InputError
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.tables.sensors import read_sensors
from invlift.tables.table import read_table

WANTED = {
    "x": [0.125, 3.5, -12.25, 1012.5],
    "y": [412345.67, 412345.5, 412300.25, 412001.0],
    "value": [1.234, 1012.5, 998.125, -0.5],
}
LABELS = ["Nord-Süd", "well 2", "1,5 m", "b;c"]
HEADERS = {
    "plain": ["name", "x", "y", "value"],
    "capitals": ["Name", "X", "Y", "Value"],
    "units": ["name", "x [m]", "y [m]", "value [°C]"],
    "below": ["name", "x", "y", "value"],
    "none": None,
}
QUOTING = csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC
DIALECTS = [
    (*each, QUOTING[number % 3])
    for number, each in enumerate(
        itertools.product(
            ",;\t|", ".,", ("utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"), HEADERS
        )
    )
]


def written(path, frame, delimiter, decimal, encoding, header, quoting):
    """A table as pandas writes it."""
    names = HEADERS[header]
    text = frame.to_csv(
        None, sep=delimiter, decimal=decimal, index=False, quoting=quoting,
        header=False if names is None else names, lineterminator="\r\n",
    )  # fmt: skip
    if header == "below":
        first, rest = text.split("\r\n", 1)
        text = "\r\n".join([first, delimiter.join(["", "m", "m", "°C"]), rest])
    path.write_bytes(text.encode(encoding))
    return path


def verdict(path, wanted):
    """Read, refused or wrong."""
    try:
        sensors = read_sensors(path, 2)
    except InputError:
        return "refused"
    found = {"x": sensors.points[:, 0], "y": sensors.points[:, 1], "value": sensors.values}
    is_same = all(found[key].tolist() == wanted[key] for key in wanted)
    return "read" if is_same and sensors.labels.tolist() == LABELS else "wrong"


def test_each_dialect_is_read_or_refused(tmp_path):
    """Numbers that only one of the marks fits; without a header nothing can be known."""
    frame = pd.DataFrame({"name": LABELS, **WANTED})
    found = {}
    for number, dialect in enumerate(DIALECTS):
        path = written(tmp_path / f"{number}.csv", frame, *dialect)
        found[dialect] = verdict(path, WANTED)
    assert len(found) == 200
    expected = {each: "refused" if each[3] == "none" else "read" for each in found}
    assert {key: value for key, value in found.items() if value != expected[key]} == {}


def test_numbers_that_may_be_either_are_never_wrong(tmp_path):
    """Three digits behind every mark, whole numbers, few rows: refused where nothing tells."""
    rng = np.random.default_rng(0)
    wrong, num = [], {"read": 0, "refused": 0}
    for number in range(200):
        size = int(rng.integers(1, 4))
        scale = 10.0 ** rng.integers(0, 4)
        digits = int(rng.integers(0, 4))
        wanted = {key: np.round(rng.uniform(1, 10, size) * scale, digits).tolist()
                  for key in WANTED}  # fmt: skip
        delimiter, decimal = rng.choice([*",;\t"]), rng.choice([*".,"])
        frame = pd.DataFrame({"name": LABELS[:size], **wanted})
        text = frame.to_csv(
            sep=delimiter, decimal=decimal, index=False, float_format=f"%.{digits}f"
        )
        path = tmp_path / f"{number}.csv"
        path.write_text(text, encoding="utf-8")
        try:
            sensors = read_sensors(path, 2)
        except InputError as error:
            num["refused" if "which may be either" in str(error) else str(error)] += 1
            continue
        num["read"] += 1
        if [*sensors.points.T.tolist(), sensors.values.tolist()] != list(wanted.values()):
            wrong.append(text)
    assert wrong == []
    assert num["read"] > 100
    assert num["refused"] > 5


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        (["1.012,5", "998,4"], [1012.5, 998.4]),
        (["1.012", "1.012,5"], [1012.0, 1012.5]),
        (["1.234.567", "1.012,5", "1.012"], [1234567.0, 1012.5, 1012.0]),
        (["1,234,567", "1,012.5", "1,012"], [1234567.0, 1012.5, 1012.0]),
        (["1 012,5", "998,4"], [1012.5, 998.4]),
        (["1'012.5", "998.4"], [1012.5, 998.4]),
        (["1,234"], None),
        (["1,234", "0,5"], [1.234, 0.5]),
        (["1,234", "0,5", "0.25"], None),
        (["1.234"], [1.234]),
        (["1.234", "1,234"], None),
        (["1.012", "0,5"], None),
        (["−3,5", "+2,5e-1"], [-3.5, 0.25]),
        (["12,5 degC", "13,0 degC"], [12.5, 13.0]),
        (["12.5°C", "13°C"], [12.5, 13.0]),
        (["12.5 m", "13"], None),
        (["12.5 m", "13 ft"], None),
        (["1O.5", "13"], None),
        (["1,23,4", "3"], None),
        (["<0,05", "3"], [0.05, 3.0]),
    ],
)
def test_marks_and_units_in_numbers(tmp_path, entries, values):
    """Each list of entries as a column, quoted where it must be."""
    path = tmp_path / "t.csv"
    rows = [f'{k},{k},"{entry}"' for k, entry in enumerate(entries)]
    path.write_text("\n".join(["x,y,value", *rows]), encoding="utf-8")
    if values is None:
        with pytest.raises(InputError, match="row"):
            read_sensors(path, 2)
    else:
        assert read_sensors(path, 2).values.tolist() == values


def test_one_note_says_what_was_taken_for_what(tmp_path):
    text = "Name;X;Y;Value\n;m;m;°C\nSüd;0,5;0,25;1.012,5\n"
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("cp1252"))
    sensors = read_sensors(path, 2)
    assert sensors.notes == (
        "read with text in Windows-1252, semicolons between columns, units in row 2, "
        "decimal commas, points between thousands",
    )
    assert sensors.rows.tolist() == [3]
    assert sensors.labels.tolist() == ["Süd"]


LOGGER = (
    '"Plot Title: pool 1"\n'
    '"#","Date Time, GMT+11:00","x","y","value","Coupler Detached (LGR S/N: 1)"\n'
    "1,07/04/19 02:00:00 PM,0.1,0.2,24.5,\n"
    "# a remark\n"
    "2,07/04/19 02:00:00 PM,0.3,0.2,24.7,Logged\n"
)


def test_spaces_between_columns(tmp_path):
    """As numpy.savetxt writes a table; names with spaces in them are refused with a remedy."""
    path = tmp_path / "table.txt"
    rows = np.array([[0.3, 0.4, 2.1], [0.6, 0.7, -2.9]])
    np.savetxt(path, rows, header="x y value")
    sensors = read_sensors(path, 2)
    np.testing.assert_array_equal(np.column_stack([sensors.points, sensors.values]), rows)
    assert sensors.notes == ("read with spaces between columns",)
    path.write_text("name x y value\nwell 1 0.3 0.4 2.1\n")
    with pytest.raises(InputError, match="separate the columns by commas"):
        read_sensors(path, 2)


def test_a_logger_writes_lines_above_the_header(tmp_path):
    path = tmp_path / "logger.csv"
    path.write_text(LOGGER, encoding="utf-8")
    table = read_table(path)
    assert table.columns[0] == "Date Time, GMT+11:00"
    assert table.rows.tolist() == [3, 5]
    assert table.taken == ("1 line above the header left out", "1 line with # left out")


@pytest.mark.parametrize("text", ["name,x,y\nA,n/a,n/a\nB,1,2\n", "x,y\nm,m\n", "x,y\n1,2\n3,4\n"])
def test_a_first_row_that_is_not_of_units_is_a_row(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    assert read_table(path).rows.tolist() == list(range(2, text.count("\n") + 1))


def test_a_row_behind_a_mark_is_a_remark_or_a_name(tmp_path):
    """A reading that was taken out of a table with names in front; where all have it, it is one."""
    path = tmp_path / "t.csv"
    path.write_text("name,x,y,value\na,0,0,1\n#b,0,1,2\n")
    with pytest.raises(InputError, match=r"row 3: expected a row without #, found '#b'"):
        read_sensors(path, 2)
    path.write_text("name,x,y,value\n#1,0,0,1\n#2,0,1,2\n# end\n")
    assert read_sensors(path, 2).labels.tolist() == ["#1", "#2"]


def test_data_frames_and_data_sets_have_the_checks_of_files(tmp_path):
    frame = pd.DataFrame({"Name": ["a", "b"], "x [m]": [0, 1], "Y": [0.5, 0.25],
                          "value": [1.5, 2.5], "depth": [3, np.nan]})  # fmt: skip
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    from_file = read_sensors(path, 2)
    indexed = frame.set_index("Name")
    for given in (frame, indexed, indexed.to_xarray()):
        found = read_sensors(given, 2)
        np.testing.assert_array_equal(found.points, from_file.points)
        np.testing.assert_array_equal(found.values, from_file.values)
        assert found.labels.tolist() == ["a", "b"]
        assert found.further["depth"].tolist() == ["3", ""]
    as_text = frame.assign(value=["1,5", "2,5"])
    assert read_sensors(as_text, 2).values.tolist() == [1.5, 2.5]
    for change, part in (
        ({"value": [1.5, np.nan]}, "row 3, column value"),
        ({"value": [1.5, "hot"]}, "row 3, column value: expected a number, found 'hot'"),
        ({"std": [1.0, 1.0]}, "column std"),
        ({"Name": ["a", None]}, "row 3, column name: expected a name"),
    ):
        with pytest.raises(InputError, match=part):
            read_sensors(frame.assign(**change), 2)
    with pytest.raises(InputError, match="no column 'value'"):
        read_sensors(frame[["x [m]", "Y"]], 2)
    for given in (3.0, [[1.0, 2.0]], None):
        with pytest.raises(InputError, match="a file, or a data frame"):
            read_sensors(given, 2)
    assert sensors_from_arrays(frame[["x [m]", "Y"]], frame["value"]).values.tolist() == [1.5, 2.5]
