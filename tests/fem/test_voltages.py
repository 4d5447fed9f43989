"""Tables of voltages: both formats, what they mean to the equation, and mistakes by row."""

import itertools
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from refusals import refused
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.electrodes.complete import electrode_model
from invlift.fem.electrodes.quadrupoles import (
    electrode_numbers,
    geometric_factors,
    injections_of,
    patterns_of_pairs,
    pseudo_places,
)
from invlift.tables.voltages import read_voltages, write_voltages

solve = jax.jit(lambda model, phi: model(phi))

TABLE = (
    "n,m,b,a,value,sigma,group,name,depth\n"
    "3,top,2,1,0.5,0.1,old,first,4\n"
    "4,3,2,bottom,-0.2,0.1,new,second,5\n"
)
UNIFIED = """\
# a tree
4# Number of electrodes
#x y
0 0
1 0   # loose
0 1
1 1
5 # Number of readings
#A b M n u/mV I/ma Err/% valid
1 2 3 4 500 5 2 1
2 1 3 4 200 5 1 1
1 3 2 4 100 5 1 0   # bad
1 3 4 2 -100 5 1 1

4 3 2 1 10 2 1 1
2# Number of points of the surface
0 0
1 0
"""


@pytest.fixture
def read(tmp_path):
    def read(text, dim=2, **options):
        path = tmp_path / "v.ohm"
        path.write_text(text, encoding="utf-8")
        return read_voltages(path, dim, **options)

    return read


FLAT = "4# electrodes\n#x y z\n0 0 2\n2 0 2\n4 0 2\n6 0 2\n2# readings\n#a b m n rhoa\n"


def test_apparent_resistivities_of_flat_ground(read):
    """Wenner's array and dipoles; of ground that is not flat they need a factor."""
    text = FLAT + "1 4 2 3 50\n1 2 3 4 50\n"
    factors = 2.0 * np.pi * 2.0 * np.array([1.0, -3.0])
    found = read(text, in_space=True)
    np.testing.assert_allclose(found.values, 50.0 / factors, rtol=1e-14)
    assert found.notes == (
        "resistances by the factors k of electrodes on the surface of flat ground",
    )
    for wrong, options in ((text, {}), (text.replace("0 0 2", "0 0 1"), {"in_space": True})):
        with pytest.raises(InputError, match="flat ground"):
            read(wrong, **options)


def test_geometric_factors_with_electrodes_far_away():
    at, far = np.array([[0.0, 0.0], [3.0, 0.0], [5.0, 0.0]]), -1
    rows = np.array([[0, far, 1, far], [0, far, 1, 2], [0, 2, 1, far], [0, far, far, 1]])
    inverse = [1 / 3, 1 / 3 - 1 / 5, 1 / 3 - 1 / 2, -1 / 3]
    found = geometric_factors(at, rows)
    np.testing.assert_allclose(found, 2.0 * np.pi / np.array(inverse), rtol=1e-14)
    middles = [[1.5, -0.6], [8 / 3, -1.0], [8 / 3, -1.0], [1.5, -0.6]]
    np.testing.assert_allclose(pseudo_places(at, rows), middles, rtol=1e-14)
    assert geometric_factors(np.array([[0.0], [2.0], [1.0]]), np.array([[0, 1, 2, far]])) == np.inf


def test_comma_separated(read):
    found = read(TABLE)
    assert found.electrodes.tolist() == [["1", "2", "top", "3"], ["bottom", "2", "3", "4"]]
    assert found.values.tolist() == [0.5, -0.2]
    assert found.sigma.tolist() == [0.1, 0.1]
    assert found.labels.tolist() == ["first", "second"]
    assert found.groups.tolist() == ["old", "new"]
    assert {name: each.tolist() for name, each in found.further.items()} == {"depth": ["4", "5"]}
    assert found.positions is None
    assert np.isnan(found.points).all()
    numbers = electrode_numbers(found, ["bottom", "right", "top", "left"])
    assert numbers.tolist() == [[0, 1, 2, 2], [0, 1, 2, 3]]


def test_voltage_and_current(read):
    found = read("a,b,m,n,voltage,current\n1,2,3,4,0.5,0.1\n1,2,4,3,0.5,-0.1\n")
    np.testing.assert_allclose(found.values, [5.0, -5.0], rtol=1e-15)
    assert found.further == {}
    units = "a,b,m,n,voltage [mV],current (mA),sigma [Ohm],depth [m]\n1,2,3,4,0.5,100,0.1,x\n"
    found = read(units)
    np.testing.assert_allclose(found.values, [0.005], rtol=1e-15)
    assert found.sigma.tolist() == [0.1]
    bare = units.replace(" [mV]", "").replace(" [Ohm]", "")
    np.testing.assert_allclose(read(bare).values, [5.0], rtol=1e-15)
    found = read("a,b,m,n,voltage [uV],current [A]\n1,2,3,4,7,2\n")
    np.testing.assert_allclose(found.values, [3.5e-6], rtol=1e-14)
    # What is wrong for the quotient is no matter for a value, which may have any unit.
    found = read("a,b,m,n,value [kV],sigma [kV]\n1,2,3,4,7,0.1\n")
    assert found.values.tolist() == [7.0]
    assert "values in kV are taken as they are" in found.notes[0]
    driven = read("current 1 [mA],current 2 [mA],m,n,value [mV],sigma\n2,-2,1,2,7,0.1\n")
    np.testing.assert_allclose([*driven.values, *driven.sigma], [7e-3, 1e-4], rtol=1e-14)
    # So is sigma of a voltage, in its unit or in one of its own.
    for header in ("voltage [mV],sigma", "voltage [mV],sigma [mV]", "voltage [mV],sigma [uV]"):
        own = read(f"current 1 [mA],current 2 [mA],m,n,{header}\n2,-2,1,2,7,0.1\n")
        sigma = 1e-7 if "u" in header else 1e-4
        np.testing.assert_allclose([*own.values, *own.sigma], [7e-3, sigma], rtol=1e-14)


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ("voltage [kV],current", ["names of the columns, voltage", "v, mv, uv", "'kv'"]),
        ("voltage,current [],sigma [mV]", ["names of the columns, sigma", "ohm", "'mv'"]),
        ("voltage [mV]", ["row 1", "no column 'current'"]),
        ("value,voltage,current", ["row 1", "in its place", "found value and voltage", "remove"]),
    ],
)
def test_mistakes_in_voltages_and_currents_are_named(read, columns, parts):
    values = ",1" * (columns.count(",") + 1)
    check_error(read, f"a,b,m,n,{columns}\n1,2,3,4{values}\n", parts)


def test_unified_data_format(read):
    found = read(UNIFIED)
    assert found.electrodes.astype(int).tolist() == [
        [1, 2, 3, 4], [2, 1, 3, 4], [1, 3, 4, 2], [4, 3, 2, 1],
    ]  # fmt: skip
    np.testing.assert_allclose(found.values, [100.0, 40.0, -20.0, 5.0], rtol=1e-15)
    np.testing.assert_allclose(found.sigma, [2.0, 0.4, 0.2, 0.05], rtol=1e-15)
    assert found.positions.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert found.rows.tolist() == [10, 11, 13, 15]
    assert found.further == {}


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [
        ("#a b m n r", "1 2 3 4 7\n2 1 3 4 -7", [7.0, -7.0]),
        ("# C1 C2 P1 P2 rho ip", "1 2 3 4 7 1\n2 1 3 4 -7 1", [7.0, -7.0]),
        ("#rhoa k n m b a", "14 2 4 3 2 1\n14 -2 4 3 1 2", [7.0, -7.0]),
    ],
)
def test_names_of_columns(read, columns, rows, expected):
    start = "4\n0 0\n1 0\n0 1\n1 1\n2\n"
    found = read(f"{start}{columns}\n{rows}\n")
    assert found.electrodes.astype(int).tolist() == [[1, 2, 3, 4], [2, 1, 3, 4]]
    assert found.values.tolist() == expected
    assert found.sigma is None


@pytest.mark.parametrize(
    ("axes", "rows", "positions"),
    [
        ("#x/mm z/mm", "0 0\n500 250", [[0, 0], [0.5, 0.25]]),
        ("#Z X/m", "0 0\n2 1", [[0, 0], [1, 2]]),
        ("#x h z", "0 9 0\n1 9 2", [[0, 0], [1, 2]]),
        ("# of x there is", "0 0\n1 2", [[0, 0], [1, 2]]),
    ],
)
def test_positions_have_the_axes_and_units_of_their_names(read, axes, rows, positions):
    found = read(f"2# electrodes\n{axes}\n{rows}\n1\n#a b m n r\n1 2 2 1 7\n")
    np.testing.assert_allclose(found.positions, positions, rtol=1e-15)


def test_columns_of_zeros_are_of_what_is_not_known(read):
    """As BERT writes them; resistances of 0 are no readings beside apparent resistivities."""
    start = "4\n0 0\n1 0\n0 1\n1 1\n2\n#a b m n err i k r rhoa u\n"
    found = read(f"{start}1 2 3 4 0 0 10 0 50 0\n2 3 4 1 0 0 -10 0 40 0\n")
    assert found.values.tolist() == [5.0, -4.0]
    assert found.sigma is None
    assert "left out, as all is 0: value, voltage, current, err" in found.notes


def test_names_of_columns_are_refused_where_the_format_has_them(read):
    with refused("columns, sigma", "no such key", "'dev'"):
        read(UNIFIED, columns={"sigma": "dev"})


@pytest.mark.parametrize(
    ("column", "sigma"), [("err", 14.0), ("err/1", 14.0), ("err/%", 0.14), ("err/Ohm", 2.0)]
)
def test_errors_are_a_share_or_resistances(read, column, sigma):
    found = read(f"4\n0 0\n1 0\n0 1\n1 1\n1\n#a b m n r {column}\n1 2 3 4 7 2\n")
    np.testing.assert_allclose(found.sigma, [sigma], rtol=1e-15)
    assert found.is_sigma_absolute


def test_surveys_have_the_names_that_are_written(read):
    """A number is not rounded, and has no decimals that a program added."""
    start = "4\n0 0\n1 0\n0 1\n1 1\n3\n#a b m n r survey\n"
    found = read(f"{start}1 2 3 4 7 20230501\n1 2 4 3 -7 2.0\n2 1 4 3 7 after\n")
    assert found.surveys.tolist() == ["20230501", "2", "after"]


def test_patterns_without_values(read):
    start = "4\n0 0\n1 0\n0 1\n1 1\n1\n#a b m n\n1 2 3 4\n"
    assert read(start, needs_values=False).values.tolist() == [0.0]
    assert read("a,b,m,n\n1,2,3,4\n", needs_values=False).values.tolist() == [0.0]


@pytest.mark.parametrize("text", [TABLE, UNIFIED], ids=["CSV", "unified"])
def test_what_is_written_reads_back(read, tmp_path, text):
    found = read(text).take(np.array([1, 0]))
    write_voltages(tmp_path / "again", found)
    again = read_voltages(tmp_path / "again", 2)
    for name in ("electrodes", "values", "groups", "labels", "positions"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    np.testing.assert_allclose(again.sigma, found.sigma, rtol=1e-15)


def test_what_the_page_shows_is_read(read):
    page = (Path(__file__).parents[2] / "docs" / "electrodes.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    table, unified, driven = (read(text) for language, text in blocks if not language)
    assert len(table.values) == len(unified.values) == len(driven.values) == 3
    np.testing.assert_allclose(driven.currents[2], [0.0, 1e-3, 1e-3, -2e-3], rtol=1e-12)
    assert len(unified.positions) == 5
    np.testing.assert_allclose(unified.values[0], -8.56, rtol=1e-12)
    assert electrode_numbers(unified, list("pqrst")).max() == 4


def test_readings_are_those_of_their_electrodes():
    """Of four electrodes, by the potentials of each for a current through any two."""
    mesh, names = box_mesh(2, 3), ["left", "right", "bottom", "top"]
    rng = np.random.default_rng(1)
    patterns = np.array([[3, 1, 0, 2], [1, 3, 0, 2], [0, 1, 0, 1], [2, 0, 3, 1]])
    found = injections_of(patterns_of_pairs(patterns, 4))
    model = electrode_model(mesh, names, found.currents, found.voltages, impedance=0.2)
    assert model.num_loads == 3
    phi = rng.standard_normal(mesh.num_nodes)
    unit, readings = np.eye(4), np.asarray(solve(model, phi))
    for reading, (a, b, m, n) in zip(readings, patterns[found.order], strict=True):
        alone = electrode_model(
            mesh, names, [unit[a] - unit[b]], [unit[m] - unit[n]], impedance=0.2
        )
        np.testing.assert_allclose(reading, solve(alone, phi)[0], rtol=1e-11)
    first, second = np.argsort(found.order)[:2]
    np.testing.assert_allclose(readings[first], -readings[second], rtol=1e-12)


def test_many_readings_are_combinations_of_resistances():
    mesh, names = box_mesh(2, 2), ["left", "right", "bottom", "top"]
    patterns = np.array(list(itertools.permutations(range(4)))[:7])
    patterns[:2] = [0, 1, 0, 1], [2, 1, 2, 3]
    many, few = (
        injections_of(patterns_of_pairs(patterns, 4)),
        injections_of(patterns_of_pairs(patterns[:6], 4)),
    )
    assert few.matrix is None
    assert many.matrix.shape == (7, 6)
    resistances, model = (
        electrode_model(mesh, names, each.currents, each.voltages, impedance=0.2)
        for each in (many, few)
    )
    phi = np.linspace(-1.0, 1.0, mesh.num_nodes)
    found = many.matrix @ np.asarray(solve(resistances, phi))
    np.testing.assert_allclose(found[few.order], solve(model, phi), rtol=1e-11)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("n,m,b,a", "n,m,b,c", ["row 1", "no column 'a'"]),
        (",0.5,", ",,", ["row 2, column value", "an empty entry"]),
        ("3,top", "top,top", ["row 2, column n", "against which is read", "'top' twice"]),
        ("2,bottom", "2,2", ["row 3, column b", "where current leaves", "'2' twice"]),
    ],
)
def test_mistakes_in_a_table_are_named(read, old, new, parts):
    assert old in TABLE
    check_error(read, TABLE.replace(old, new, 1), parts)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("4# Num", "5# Num", ["row 8", "2 entries", "found 1"]),
        ("5 # Num", "6 # Num", ["row 16", "8 entries", "found 1"]),
        ("0 1\n1 1", "0 1\n1 nan", ["row 7, column y of an electrode", "finite"]),
        ("0 0\n1 0   # loose\n0 1\n1 1", "0\n1\n0\n1", ["row 4", "two or three coordinates"]),
        ("#x y", "#x h", ["row 4", "two or three coordinates", "named x h"]),
        ("#x y", "#x y/kg", ["row 4", "a unit of length", "'kg'"]),
        ("u/mV", "u/kV", ["names of the columns, voltage", "a unit among", "'kv'"]),
        ("Err/%", "err/mV", ["names of the columns, err", "%, ohm", "'mv'"]),
        ("I/ma", "u", ["names of the columns, voltage", "twice"]),
        ("#A b", "#c1 bb", ["names of the columns", "no b"]),
        ("#A b M n u/mV I/ma Err/% valid\n", "", ["row 9", "5 entries"]),
        ("500 5", "500 0", ["row 10, column current", "other than 0"]),
        ("1 2 3 4 500 5", "1 2 3 500 5", ["row 10", "8 entries", "found 7"]),
        ("1 2 3 4 500 5", "1 2 3 3 500 5", ["row 10, column n", "'3' twice"]),
    ],
)
def test_mistakes_in_the_unified_format_are_named(read, old, new, parts):
    assert old in UNIFIED
    check_error(read, UNIFIED.replace(old, new, 1), parts)


def check_error(read, text, parts):
    with refused(*parts):
        read(text)


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ("0", ["found 0, an electrode infinitely far away", "count from 1", "remove the row"]),
        ("", ["an empty entry, an electrode infinitely far away", "between two of them"]),
        ("5", ["a number from 1 to 3, or one of north, south, east", "'5'", "correct it"]),
        ("nroth", ["'nroth'"]),
    ],
)
def test_an_electrode_that_is_none_is_named(read, entry, parts):
    found = read(f"a,b,m,n,value\n1,2,north,3,1\n1,{entry},2,3,1\n")
    with refused("row 3, column b", *parts):
        electrode_numbers(found, ["north", "south", "east"])
