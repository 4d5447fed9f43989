"""Voltages as programs and instruments of geoelectrics write them: read, or named."""

import numpy as np
import pytest

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import geometric_factors
from invlift.tables.voltages import read_voltages

#: A line of four electrodes 2 m apart, on ground of 50 ohm m, read as Wenner and as dipole-dipole.
POSITIONS = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0], [6.0, 0.0]])
NUMBERS = np.array([[0, 3, 1, 2], [1, 0, 2, 3]])
FACTORS = geometric_factors(POSITIONS, NUMBERS)
RESISTANCES = 50.0 / FACTORS
RES2DINV = (
    "A line\n2.0\n11\n0\nType of measurement (0=app. resistivity,1=resistance)\n{kind}\n2\n1\n0\n"
    "4 0.0 0.0 6.0 0.0 2.0 0.0 4.0 0.0 {first}\n"
    "4, 2.0,0.0, 0.0,0.0, 4.0,0.0, 6.0,0.0, {second}\n"
    "0\n0\n0\n0\n"
)
SYSCAL = (
    "El-array,Spa.1,Spa.2,Spa.3,Spa.4,Rho,Dev.,M,Sp,Vp,In\n"
    "Wenner,0.00,6.00,2.00,4.00,50.0,0.1,0.0,-3.1,{first},20.0\n"
    "DipDip,2.00,0.00,4.00,6.00,50.0,0.2,0.0,-3.1,{second},20.0\n"
)


@pytest.fixture
def read(tmp_path):
    def read(text, **options):
        path = tmp_path / "line.dat"
        path.write_text(text, encoding="utf-8")
        return read_voltages(path, 2, in_space=True, **options)

    return read


def assert_same(found):
    np.testing.assert_allclose(found.values, RESISTANCES, rtol=1e-6)
    assert found.electrodes.tolist() == [["1", "4", "2", "3"], ["2", "1", "3", "4"]]


def test_the_general_array_of_res2dinv(read):
    """Apparent resistivities, and resistances."""
    for kind, values in (("0", (50.0, 50.0)), ("1", RESISTANCES)):
        found = read(RES2DINV.format(kind=kind, first=values[0], second=values[1]))
        assert_same(found)
        np.testing.assert_array_equal(found.positions, POSITIONS)
        assert found.rows.tolist() == [10, 11]


def test_an_export_of_syscal(read):
    first, second = 20.0 * RESISTANCES
    text = SYSCAL.format(first=first, second=second)
    for each in (text, text.replace(",", ";").replace(".00", ",00")):
        found = read(each)
        assert_same(found)
        np.testing.assert_array_equal(found.positions, POSITIONS)


def test_a_protocol_of_r2(read):
    rows = [f"{k} {a} {b} {m} {n} {r}" for k, (a, b, m, n), r in
            zip((1, 2), (NUMBERS + 1).tolist(), RESISTANCES, strict=True)]  # fmt: skip
    assert_same(read("\n".join(["2", *rows])))
    bare = [row.rsplit(" ", 1)[0] for row in rows]
    assert read("\n".join(["2", *bare]), needs_values=False).values.tolist() == [0.0, 0.0]
    refused = [
        ("\n".join(["3", *rows]), "expected 3 readings, found 2"),
        ("1\n1 1 1 1 2 1 3 1 4 5.0\n", "electrodes by line and number"),
    ]
    for text, part in refused:
        with pytest.raises(InputError, match=part):
            read(text)


UNIFIED = "4\n0 0\n2 0\n4 0\n6 0\n2\n#a b m n rhoa\n1 4 2 3 50\n2 1 3 4 50\n"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (RES2DINV.replace("\n11\n", "\n3\n"), "the array dipole-dipole of Res2DInv"),
        (RES2DINV.format(kind=0, first=1, second=2).replace("\n0\n2\n1", "\n0\n3\n1"), "row 12"),
        (RES2DINV.format(kind=0, first=1, second="x"), "row 11, column rhoa"),
        (UNIFIED.removeprefix("4\n"), "row 1: expected the number of electrodes in a line"),
        (UNIFIED.replace("2 1 3 4 50", "2 1 4 3 -50"), "row 9, column rhoa: .* swap m and n"),
        (UNIFIED.replace("1 4 2 3", "0 3 1 2").replace("2 1 3 4", "1 0 2 3"), "count from 0"),
    ],
)
def test_others_are_named_for_what_they_are(read, text, part):
    with pytest.raises(InputError, match=part):
        read(text)


def test_the_unified_format_stays(read):
    assert_same(read(UNIFIED))
