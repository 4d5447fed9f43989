"""Voltages less those of a reference body: problem files, their mistakes, and what drops out."""

import numpy as np
import pytest
import scipy.io
from problem_files import REMOVED, assert_named, build, readings, write_problem

from invlift.errors import InputError
from invlift.fem.electrodes.reference import difference_to_reference, less_reference
from invlift.tables.voltages import read_voltages, write_voltages

GROUPS = ["left", "right", "bottom", "top"]
CURRENTS = np.array([[2.0, -1.0, -1.0, 0.0], [0.0, 1.0, 1.0, -2.0], [0.0, 1.0, 1.0, -2.0]])
PAIRS = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
#: Voltages of three injections, of which the last is once more the second.
BODY = np.arange(9.0).reshape(3, 3)
TANK = np.array([[0.5, 0.1, 0.2], [0.3, 0.6, 0.4], [0.7, 0.9, 0.8]])
LOGNORMAL = {"distribution": "lognormal", "median": 2.0, "factor": 1.5}
UNKNOWN = {"distribution": "gamma", "concentration": 4.0, "rate": 20.0}


def matrices(voltages, names=("Inj", "Mpat", "Uel"), currents=CURRENTS, pairs=PAIRS):
    return dict(zip(names, (currents.T, pairs.T, voltages.reshape(-1, 1)), strict=True))


def write(folder, changes=None, body=None, tank=None):
    """A problem as of the Kuopio challenge: matrices of a body and of an empty tank."""
    sections = {
        "pde": REMOVED,
        "electrodes": {"groups": GROUPS, "impedance": 0.1},
        "observations": {"file": "body.mat"},
        "observations.reference": {"file": "tank.mat", "conductivity": 2.0},
    }
    given = sections | (changes or {})
    if given["observations.reference"] is REMOVED:
        del given["observations.reference"]
    path = write_problem(folder, given)
    scipy.io.savemat(folder / "body.mat", body or matrices(BODY))
    names = ("Injref", "Mpat", "Uelref")
    scipy.io.savemat(folder / "tank.mat", tank or matrices(TANK, names))
    return path


def without_reference(folder, changes=None):
    return build(write(folder, {"observations.reference": REMOVED} | (changes or {})))


@pytest.mark.parametrize(("conductivity", "impedance"), [(2.0, 0.1), (LOGNORMAL, UNKNOWN)])
def test_readings_are_those_of_the_body_less_those_of_the_reference(
    tmp_path, conductivity, impedance
):
    changes = {
        "electrodes.impedance": impedance,
        "observations.reference.conductivity": conductivity,
    }
    problem = build(write(tmp_path, changes))
    body = without_reference(tmp_path / "b", {"electrodes.impedance": impedance})
    np.testing.assert_allclose(problem.sensors.values, (BODY - TANK).ravel(), rtol=1e-12)
    size = problem.mesh.num_nodes
    phi, behind = np.linspace(-1.0, 1.0, size), np.zeros(0)
    if impedance is UNKNOWN:
        behind = np.array([0.1, 0.2, 0.3, 0.4])
    is_unknown = conductivity is LOGNORMAL
    log, own = (np.log(3.0), [np.log(3.0)]) if is_unknown else (np.log(2.0), [])
    found = readings(problem.model, np.concatenate([phi, behind, own]))
    of_body = readings(body.model, np.concatenate([phi, behind]))
    of_tank = readings(body.model, np.concatenate([np.full(size, log), behind]))
    assert np.abs(of_body - of_tank).max() > 0.1
    np.testing.assert_allclose(found, of_body - of_tank, rtol=1e-11, atol=1e-13)
    assert ("log_reference_conductivity" in problem.model.on_mesh.further) == is_unknown


def test_the_logarithm_of_an_unknown_reference_is_normal(tmp_path):
    problem = build(write(tmp_path, {"observations.reference.conductivity": LOGNORMAL}))
    law = problem.model.on_mesh.further["log_reference_conductivity"]
    np.testing.assert_allclose([law.mean, law.sd], np.log([2.0, 1.5]), rtol=1e-12)


def test_offsets_of_pairs_drop_out(tmp_path):
    offsets = np.array([[0.3, -0.2, 5.0]])
    plain = build(write(tmp_path))
    tank = matrices(TANK + offsets, ("Injref", "Mpat", "Uelref"))
    shifted = build(write(tmp_path / "b", {}, matrices(BODY + offsets), tank))
    np.testing.assert_allclose(shifted.sensors.values, plain.sensors.values, rtol=1e-12)
    alone = without_reference(tmp_path / "c")
    assert np.abs(alone.sensors.values - plain.sensors.values).max() > 0.1  # the control


def test_a_reference_may_have_more_readings_in_another_order(tmp_path):
    some = BODY.copy()
    some[1] = np.nan
    tank = matrices(TANK[[1, 0, 2]], ("Injref", "Mpat", "Uelref"), CURRENTS[[1, 0, 2]])
    problem = build(write(tmp_path, {}, matrices(some), tank))
    # The second injection is the third as well: its first reading in the tank is taken.
    expected = np.concatenate([BODY[0] - TANK[0], BODY[2] - TANK[1]])
    np.testing.assert_allclose(problem.sensors.values, expected, rtol=1e-12)


def test_repeated_readings_are_less_those_of_their_survey(tmp_path):
    """In another order; without surveys in the reference the order of the rows pairs them."""
    header, given = "a,b,m,n,value,survey\n1,2,3,4,", {}
    for name, column in (("surveys", "survey"), ("others", "note")):
        path = tmp_path / f"{name}.csv"
        path.write_text(f"{header}0.05,after\n1,2,3,4,0.01,before\n".replace("survey", column))
        given[name] = read_voltages(path, 2)
    path.write_text(f"{header}0.1,before\n1,2,3,4,0.2,after\n")
    body = read_voltages(path, 2)
    for name, expected in (("surveys", [0.09, 0.15]), ("others", [0.05, 0.19])):
        found = less_reference(body, given[name], GROUPS)
        np.testing.assert_allclose(found.values, expected, rtol=1e-12)


def test_voltages_are_written_and_read_back(tmp_path):
    problem = build(write(tmp_path))
    assert problem.sensors.reference is not None
    write_voltages(tmp_path / "out.csv", problem.sensors)
    np.testing.assert_allclose(read_voltages(tmp_path / "out.csv", 2).values, BODY.ravel())


def test_a_refined_difference_is_that_of_refined_bodies(tmp_path):
    changes = {"observations.reference.conductivity": LOGNORMAL}
    finer = build(write(tmp_path, changes | {"mesh.refine_solution": 1})).model
    model = build(write(tmp_path / "b", changes)).model
    again = model.on_mesh.refined()
    at = np.linspace(-1.0, 1.0, model.model.num_coefficients)
    assert np.abs(readings(again, at) - readings(model, at)).max() > 1e-3
    np.testing.assert_allclose(readings(again, at), readings(finer, at), rtol=1e-11)


NAMES = ("Injref", "Mpat", "Uelref")


@pytest.mark.parametrize(
    ("changes", "tank", "parts"),
    [
        ({}, matrices(TANK, NAMES, 1.01 * CURRENTS), ["body.mat, row 1", "in", "tank.mat"]),
        ({}, matrices(TANK[:2], NAMES, CURRENTS[:2]), ["body.mat, row 7", "found no further"]),
        ({}, matrices(TANK, NAMES, pairs=PAIRS[:, [1, 0, 2, 3]]),
         ["body.mat, row 1", "found none"]),
        ({}, matrices(np.pad(TANK, ((0, 0), (0, 1))), NAMES, np.pad(CURRENTS, ((0, 0), (0, 1))),
                      np.eye(5)[:4] - np.eye(5)[1:]),
         ["tank.mat", "currents of 4 electrodes", "found 5"]),
        ({}, matrices(np.nan * TANK, NAMES), ["tank.mat", "NaN throughout"]),
        ({"observations.reference.columns": {"curent": "Injref"}}, None,
         ["[observations] reference.columns.curent", "one of current"]),
        ({"observations.reference.conductivity": UNKNOWN}, None,
         ["[observations] reference.conductivity", "lognormal"]),
        ({"observations.reference.conductivity": -1.0}, None,
         ["[observations] reference.conductivity", "a positive number"]),
        ({"electrodes": {"surface": "top"}}, None,
         ["[electrodes] with an area", "[observations.reference]"]),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path, changes, tank, parts):
    assert_named(write(tmp_path, changes, tank=tank), parts)


@pytest.mark.parametrize("conductivity", [0.0, np.inf, np.nan])
def test_a_reference_conducts(tmp_path, conductivity):
    model = without_reference(tmp_path).model
    with pytest.raises(InputError, match="reference, conductivity: expected a positive number"):
        difference_to_reference(model, conductivity)
