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


#: Rows of one reading of each array, and what is between its first and last electrode.
ARRAYS = {
    1: ("4.0 2.0", "1 4 2 3"),
    2: ("4.0 2.0", "1 0 2 0"),
    3: ("4.0 2.0 3", "1 2 3 4"),
    4: ("4.0 2.0", "1 2 3 4"),
    5: ("4.0 2.0", "1 3 2 4"),
    6: ("4.0 2.0 -3", "3 0 2 1"),
    7: ("4.0 2.0 3", "1 4 2 3"),
}
#: Places of these electrodes.
PLACES = {3: [4, 6, 12, 14], 6: [4, 6, 12], 7: [4, 10, 12, 18], 2: [4, 6]}


@pytest.mark.parametrize("number", ARRAYS)
def test_arrays_of_res2dinv_are_those_of_a_half_space(read, number):
    """The apparent resistivity of uniform ground is its resistivity: R = rho / k, exactly."""
    row, electrodes = ARRAYS[number]
    text = f"A line\n2.0\n{number}\n1\n0\n0\n{row} 50.0\n0\n0\n0\n0\n"
    found = read(text)
    places = np.array(PLACES.get(number, [4, 6, 8, 10]), dtype=float)
    np.testing.assert_array_equal(found.positions[:, 0], places)
    assert " ".join(found.electrodes[0]) == electrodes
    a, b, m, n = (places[int(each) - 1] if each != "0" else np.inf for each in electrodes.split())
    inverse = 1 / abs(m - a) - 1 / abs(m - b) - (1 / abs(n - a) - 1 / abs(n - b) if n < 1e9 else 0)
    assert found.values[0] == pytest.approx(50.0 * inverse / (2 * np.pi), rel=1e-12)
    if number not in (2, 6):
        middle = text.replace("\n1\n0\n0\n4.0", f"\n1\n1\n0\n{places.mean()}")
        np.testing.assert_array_equal(read(middle).positions, found.positions)


TOPOGRAPHY = "Topography in separate list\n{kind}\n3\n# x z\n0.0 0.0\n3.0, 1.5\n6.0 0.0\n1\n0\n"


def test_an_electrode_of_several_rows_is_one(read):
    """Of a line 0.1 m apart: 0 + 3 * 0.1 is not 0.3 in floating point."""
    rows = "0.0 0.1 50\n0.3 0.1 50\n0.6 0.1 50\n"
    found = read(f"A line\n0.1\n1\n3\n0\n0\n{rows}0\n0\n0\n0\n")
    np.testing.assert_allclose(found.positions[:, 0], np.arange(10) / 10, rtol=1e-12)
    assert found.electrodes[:2].tolist() == [["1", "4", "2", "3"], ["4", "7", "5", "6"]]


def test_topography_of_res2dinv(read):
    """Along the ground distances are those of the tape: 3 m that rise by 1.5 m."""
    text = RES2DINV.format(kind="1", first=RESISTANCES[0], second=RESISTANCES[1])
    text = text.removesuffix("0\n0\n0\n0\n")
    found = read(text + TOPOGRAPHY.format(kind=1))
    np.testing.assert_allclose(found.positions, [[0, 0], [2, 1], [4, 1], [6, 0]])
    np.testing.assert_allclose(found.values, RESISTANCES)
    along = read(text + TOPOGRAPHY.format(kind=2)).positions
    np.testing.assert_allclose(along[:, 1], [0, 1, 1, 0])
    np.testing.assert_allclose(along[:2, 0], [0.0, np.sqrt(2.0**2 - 1.0**2)])
    flat = text.replace("\n1\n2\n1\n0\n", "\n0\n2\n1\n0\n")
    with pytest.raises(InputError, match="rhoa"):  # its factor is not that of flat ground
        read(flat + TOPOGRAPHY.format(kind=1))
    for old, new, part in (
        ("3.0, 1.5", "7.0, 1.5", "left to right"),
        ("6.0 0.0\n1", "5.0 0.0\n1", "topography from 0 to 6"),
        ("2\n3\n#", "2\n4\n#", "row 19: expected x and z of a point"),
    ):
        with pytest.raises(InputError, match=part):
            read(text + TOPOGRAPHY.format(kind=2).replace(old, new))


def test_errors_and_induced_polarisation_of_res2dinv(read):
    text = RES2DINV.format(kind="0", first="50.0 3.1 0.5", second="50.0 2.9 1.0")
    more = "1\n1\nChargeability\nmV/V\n0.12,1.0\n"
    more += "Error estimate for data present\nType of error estimate (0=same unit as data)\n0\n"
    text = text.replace("\n2\n1\n0\n", f"\n2\n{more}")
    found = read(text)
    assert_same(found)
    np.testing.assert_allclose(found.sigma / np.abs(found.values), [0.01, 0.02])
    assert "errors of the readings as sigma" in found.notes[0]
    with pytest.raises(InputError, match="save errors in the unit of the readings"):
        read(text.replace("data)\n0\n", "data)\n1\n"))


def test_rows_of_fewer_electrodes_of_res2dinv(read):
    text = RES2DINV.format(kind="0", first=50.0, second=50.0)
    text = text.replace("4 0.0 0.0 6.0 0.0 2.0 0.0 4.0 0.0", "3 0.0 0.0 2.0 0.0 4.0 0.0")
    found = read(text.replace("4, 2.0,0.0, 0.0,0.0, 4.0,0.0, 6.0,0.0,", "2 0.0 0.0 6.0 0.0"))
    assert found.electrodes.tolist() == [["1", "0", "2", "3"], ["1", "0", "4", "0"]]
    inverse = np.array([1 / 2 - 1 / 4, 1 / 6])
    np.testing.assert_allclose(found.values, 50.0 * inverse / (2 * np.pi))


def test_an_export_of_syscal(read):
    first, second = 20.0 * RESISTANCES
    text = SYSCAL.format(first=first, second=second)
    for each in (text, text.replace(",", ";").replace(".00", ",00")):
        found = read(each)
        assert_same(found)
        np.testing.assert_array_equal(found.positions, POSITIONS)
        assert found.notes[-1].endswith(": El-array, Rho, Dev., M, Sp")
    # A column without name on the left, names with spaces behind them, and columns of Prosys III.
    rows = text.splitlines()
    left = "\n".join(f",{row}" for row in rows).replace("Rho,", "Rho ,").replace("Vp,", "Vp  ,")
    names = "El-array,xA(m),xB(m),xM(m),xN(m),Rho (Ohm.m),Dev.,M (mV/V),SP (mV),VMN (mV),IAB (mA)"
    spaced = "\n".join("  ".join(row.split(",")) for row in rows)
    prosys = [names, *rows[1:]]
    for each in (left, "\n".join(prosys), spaced):
        assert_same(read(each))
    heights = [",zA(m),zB(m),zM(m),zN(m)", ",0,0,1,1", ",1,0,1,0"]
    found = read("\n".join(f"{row}{z}" for row, z in zip(prosys, heights, strict=True)))
    assert found.positions.tolist() == [[0.0, 0.0], [2.0, 1.0], [4.0, 1.0], [6.0, 0.0]]


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
        (RES2DINV.replace("\n11\n", "\n8\n"), "found the array number 8 of Res2DInv"),
        (RES2DINV.format(kind=0, first=1, second=2).replace("\n0\n2\n1", "\n0\n3\n1"), "row 12"),
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


STG = (
    "Advanced Geosciences, Inc. SuperSting R8-IP Resistivity meter. S/N: SS1 Type: 3D\n"
    "Firmware version: 01.33.74E Survey period: 20200302 Records: 2\nUnit: meter\n"
    "   1,USER   ,20200302,09:23:18,{0: .8E},  {error}, 81, 50.0,LINE    , {places[0]},Cmd=1,Ch=1\n"
    "   2,USER   ,20200302,09:23:18,{1: .8E},  12, 81, 50.0,LINE    , {places[1]},Cmd=1,Ch=2\n"
)
TX0 = (
    "* Data file >demo.tx0<  * 1.1.2024\n* Electrode positions ***\n"
    "* Electrode [  1] x y z (m) =       0,000       0,000       0,000\n"
    "* Electrode [  2] x y z (m) =       2,000       0,000       0,000\n"
    "* Electrode [  3] x y z (m) =       4,000       0,000       0,000\n"
    "* Electrode [  4] x y z (m) =       6,000       0,000       0,000\n"
    "* num    A    B    M    N        I         U      dU       U90    dU90   f   n nAB\n"
    "*                               mA        mV       %        mV       %  Hz   -   -\n"
    "    1    1    4    2    3   5,0000 {first}   1,500  -0,04082   2,000 8,33   7   1\n"
    "    2    2    1    3    4   5,0000 {second}   0,500  -0,04082   2,000 8,33   7   1\n"
    "    3    1    2    3    4        -        -       -         -       - 8,33   7   1\n"
    "* 188 : Sender open I=  1.000 mA\n"
)
TERRAMETER = (
    "Filename\tl.txt\nProject\tdemo\n\tNotes: none\n"
    "Time\tMeasID\tA(x)\tA(y)\tA(z)\tB(x)\tB(y)\tB(z)\tM(x)\tM(y)\tM(z)\tN(x)\tN(y)\tN(z)\t"
    "I(mA)\tUout(V)\tU(V)\tR(O)\tVar(%)\n"
    "2016-09-14 07:01:56\t1\t0\t1\t1\t6\t1\t1\t2\t1\t1\t4\t1\t1\t50.0\t100\t{first}\t0\t0.2\n"
    "2016-09-14 07:01:57\t2\t2\t1\t1\t0\t1\t1\t4\t1\t1\t6\t1\t1\t50.0\t100\t{second}\t0\t0.2\n"
    "-----\nSummary\n"
)


def stg(error="3"):
    places = [", ".join(f"{x:.5E}, 0.00000E+00, 0.00000E+00" for x in POSITIONS[row, 0])
              for row in NUMBERS]  # fmt: skip
    return STG.format(*RESISTANCES, places=places, error=error)


def test_a_file_of_a_supersting(read):
    """Errors are tenths of a per cent; one of 0 says nothing, and all are left out."""
    found = read(stg())
    assert_same(found)
    np.testing.assert_array_equal(found.positions, np.insert(POSITIONS, 1, 0.0, axis=1))
    np.testing.assert_allclose(found.sigma, np.abs(found.values) * [0.003, 0.012])
    assert "a SuperSting's file of AGI" in found.notes[0]
    without = read(stg("0"))
    assert without.sigma is None
    assert "errors left out, as 1 are 0" in without.notes[0]


def test_a_file_of_lippmann(read):
    """Decimal commas, and a reading that failed; "n" of the stack is not the electrode n."""
    first, second = (f"{5.0 * each:.6f}".replace(".", ",") for each in RESISTANCES)
    found = read(TX0.format(first=first, second=second))
    assert_same(found)
    np.testing.assert_array_equal(found.positions, np.insert(POSITIONS, 1, 0.0, axis=1))
    np.testing.assert_allclose(found.sigma, np.abs(found.values) * [0.015, 0.005])
    assert "1 failed readings left out" in found.notes[0]
    assert read(TX0.replace("1,500 ", "0,000 ").format(first=first, second=second)).sigma is None


def test_a_table_of_a_terrameter(read):
    """In the text are lines above and below it; heights that are all 1 are those of flat ground."""
    first, second = 0.05 * RESISTANCES
    found = read(TERRAMETER.format(first=first, second=second))
    assert_same(found)
    np.testing.assert_array_equal(found.positions, POSITIONS)
    assert found.rows.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (
            stg().replace("Unit: meter", "Unit: feet"),
            "row 3: expected Unit: meter, found Unit: feet",
        ),
        (stg().replace(", 0.00000E+00,Cmd=1,Ch=2", ""), "row 5: expected a record"),
        (TX0.replace("Electrode [", "Place ["), "expected the places of the electrodes"),
        (TERRAMETER.replace("U(V)", "Voltage(V)"), "an export of an ABEM Terrameter"),
    ],
)
def test_files_of_instruments_that_are_not_whole(read, text, part):
    with pytest.raises(InputError, match=part):
        read(text.format(first=1, second=1) if "{first}" in text else text)
