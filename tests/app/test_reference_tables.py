"""Voltages less those of a reference body: problem files, their mistakes, and what drops out."""

import numpy as np
import scipy.io
from problem_files import REMOVED, are_same, assert_named, build, readings, write_problem
from refusals import refused

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
    path = write_problem(folder, sections | (changes or {}))
    scipy.io.savemat(folder / "body.mat", body or matrices(BODY))
    names = ("Injref", "Mpat", "Uelref")
    scipy.io.savemat(folder / "tank.mat", tank or matrices(TANK, names))
    return path


def test_readings_are_those_of_the_body_less_those_of_the_reference(tmp_path):
    """Of a known reference and of an unknown one, whose logarithm is normal."""
    problem = build(write(tmp_path))
    np.testing.assert_allclose(problem.sensors.values, (BODY - TANK).ravel(), rtol=1e-12)
    model, size = problem.model, problem.mesh.num_nodes
    phi, behind = np.linspace(-1.0, 1.0, size), np.array([0.1, 0.2, 0.3, 0.4])
    assert np.abs(readings(model, phi)).max() > 0.1
    np.testing.assert_allclose(readings(model, np.full(size, np.log(2.0))), 0.0, atol=1e-13)
    changes = {"electrodes.impedance": UNKNOWN}
    known = build(write(tmp_path / "b", changes)).model
    changes |= {"observations.reference.conductivity": LOGNORMAL}
    unknown = build(write(tmp_path / "c", changes)).model
    for model, value, own in ((known, 2.0, []), (unknown, 3.0, [np.log(3.0)])):
        at = np.concatenate([phi, behind, own])
        np.testing.assert_allclose(model.model.body.at(at), np.append(phi, behind))
        expected = np.append(np.full(size, np.log(value)), behind)
        np.testing.assert_allclose(model.model.reference.at(at), expected)
    np.testing.assert_allclose(readings(unknown, np.append(expected, np.log(3.0))), 0.0, atol=1e-13)
    law = unknown.on_mesh.further["log_reference_conductivity"]
    np.testing.assert_allclose([law.mean, law.sd], np.log([2.0, 1.5]), rtol=1e-12)
    finer = build(write(tmp_path / "d", changes | {"mesh.refine_solution": 1})).model
    assert are_same(unknown.on_mesh.refined(), finer)
    for conductivity in (0.0, np.inf, np.nan):
        with refused("reference, conductivity: expected a positive number"):
            difference_to_reference(unknown, conductivity)


def test_offsets_of_pairs_drop_out(tmp_path):
    """What is written is the table that was read."""
    offsets = np.array([[0.3, -0.2, 5.0]])
    tank = matrices(TANK + offsets, ("Injref", "Mpat", "Uelref"))
    sensors = build(write(tmp_path, {}, matrices(BODY + offsets), tank)).sensors
    np.testing.assert_allclose(sensors.values, (BODY - TANK).ravel(), rtol=1e-12)
    assert sensors.reference is not None
    write_voltages(tmp_path / "out.csv", sensors)
    again = read_voltages(tmp_path / "out.csv", 2).values
    np.testing.assert_allclose(again, (BODY + offsets).ravel())


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


NAMES = ("Injref", "Mpat", "Uelref")


def test_mistakes_are_named(tmp_path):
    wide = np.pad(TANK, ((0, 0), (0, 1))), NAMES, np.pad(CURRENTS, ((0, 0), (0, 1)))
    conductivity = "observations.reference.conductivity"
    for changes, tank, parts in (
        ({}, matrices(TANK, NAMES, 1.01 * CURRENTS), ["body.mat, row 1", "in", "tank.mat"]),
        ({}, matrices(TANK[:2], NAMES, CURRENTS[:2]), ["body.mat, row 7", "found no further"]),
        ({}, matrices(TANK, NAMES, pairs=PAIRS[:, [1, 0, 2, 3]]),
         ["body.mat, row 1", "found none"]),
        ({}, matrices(*wide, np.eye(5)[:4] - np.eye(5)[1:]),
         ["tank.mat", "currents of 4 electrodes", "found 5"]),
        ({}, matrices(np.nan * TANK, NAMES), ["tank.mat", "NaN throughout"]),
        ({"observations.reference.columns": {"curent": "Injref"}}, None,
         ["[observations] reference.columns.curent", "one of current"]),
        ({conductivity: UNKNOWN}, None, [f"[observations] {conductivity[13:]}", "lognormal"]),
        ({conductivity: -1.0}, None, [f"[observations] {conductivity[13:]}", "a positive number"]),
        ({"electrodes": {"surface": "top"}}, None,
         ["[electrodes] with an area", "[observations.reference]"]),
    ):  # fmt: skip
        assert_named(write(tmp_path, changes, tank=tank), parts)
