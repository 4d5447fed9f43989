"""Offsets and noise scales of pairs of electrodes, of injections and of electrodes."""

import copy

import numpy as np
import pytest
from problem_files import REMOVED, assert_named, build, readings, write_problem

GROUPS = ["left", "right", "bottom", "top"]
ROWS = (
    "a,b,m,n,value,group\n"
    "left,right,bottom,top,0.1,x\n"
    "right,left,4,3,0.2,y\n"
    "1,2,3,4,0.1,x\n"
    "1,3,left,right,0.3,y\n"
    "1,3,2,1,0.4,y\n"
)
#: More readings than the six pairs of four electrodes, so that they are combinations.
MANY = ROWS + "1,4,2,3,0.1,x\n2,3,1,4,0.3,y\n2,4,1,3,0.2,y\n"
LINE = (
    "4# electrodes\n#x z\n0 1\n0.3 1\n0.7 1\n1 1\n3# readings\n#a b m n r\n"
    "1 2 3 4 2.1\n1 2 4 3 2.2\n2 0 3 0 1.9\n"
)
NORMAL = {"distribution": "normal", "mean": 0.1, "sd": 0.3}
SCALE = {"distribution": "lognormal", "median": 0.1, "factor": 2.0}
GAMMA = {"distribution": "gamma", "concentration": 4.0, "rate": 20.0}
CHANGES = {"electrodes": {"groups": GROUPS, "impedance": GAMMA}}
#: Of each reading of ROWS, in its order, the offsets and the part of each.
PARTS = {
    "pair": (["3-4", "1-2"], [{0: 1}, {0: -1}, {0: 1}, {1: 1}, {1: -1}]),
    "injection": (["1-2", "2-1", "1-3"], [{0: 1}, {1: 1}, {0: 1}, {2: 1}, {2: 1}]),
    "electrode": (
        GROUPS,
        [{2: 1, 3: -1}, {3: 1, 2: -1}, {2: 1, 3: -1}, {0: 1, 1: -1}, {1: 1, 0: -1}],
    ),
    "y": (None, [{}, {0: 1}, {}, {0: 1}, {0: 1}]),
}


def write(folder, changes=None, sensors=ROWS):
    own = {"pde": REMOVED} | copy.deepcopy(CHANGES) | (changes or {})
    return write_problem(folder, own, sensors=sensors)


def with_offset(folder, of, changes=None, sensors=ROWS):
    return write(folder, {"observations.offset": {of: NORMAL}} | (changes or {}), sensors)


@pytest.mark.parametrize(("of", "sensors"), [("pair", ROWS), *((of, MANY) for of in PARTS)])
def test_readings_are_off_by_what_they_share(tmp_path, of, sensors):
    problem, plain = build(with_offset(tmp_path, of, {}, sensors)), build(write(tmp_path / "b"))
    names, parts = PARTS[of]
    unknown = problem.model.on_mesh.further[f"offset_{of}"]
    size = problem.mesh.num_nodes
    at = np.concatenate([np.linspace(-1.0, 1.0, size), [0.1, 0.2, 0.3, 0.4]])
    own = np.arange(1.0, 1.0 + max(1, *unknown.shape, 0))
    if names is not None:
        own_names = list(unknown.axes[of])
        assert own_names[: len(names)] == names
    found, exact = (
        dict(zip(each.sensors.rows.tolist(), readings(each.model, x), strict=True))
        for each, x in ((problem, np.append(at, own)), (plain, at))
    )
    for row, part in enumerate(parts, start=2):
        expected = sum(sign * own[k] for k, sign in part.items())
        np.testing.assert_allclose(found[row] - exact[row], expected, rtol=1e-9, atol=1e-12)


def test_several_offsets_at_once_and_a_refined_mesh(tmp_path):
    both = {"observations.offset": {"pair": NORMAL, "electrode": NORMAL}}
    problem = build(write(tmp_path, both))
    names = [name for name, _ in problem.prior.shapes]
    assert names == ["log_conductivity", "impedance", "offset_pair", "offset_electrode"]
    finer = build(write(tmp_path / "b", both | {"mesh.refine_solution": 1})).model
    at = np.concatenate([np.linspace(-1.0, 1.0, 16), np.arange(0.1, 1.05, 0.1)])
    again = readings(problem.model.on_mesh.refined(), at)
    np.testing.assert_allclose(again, readings(finer, at), rtol=1e-11)
    assert np.abs(again - readings(problem.model, at)).max() > 1e-3


def test_points_on_the_ground_have_offsets(tmp_path):
    changes = {"electrodes": {"surface": "top"}}
    problem = build(with_offset(tmp_path, "electrode", changes, LINE))
    plain = build(write(tmp_path / "b", changes, LINE))
    at, own = np.linspace(-1.0, 1.0, 16), np.array([1.0, 2.0, 3.0, 4.0])
    found = readings(problem.model, np.append(at, own)) - readings(plain.model, at)
    expected = {"3-4": -1.0, "4-3": 1.0, "3-0": 3.0}
    labels = ["-".join(row) for row in problem.sensors.electrodes[:, 2:]]
    np.testing.assert_allclose(found, [expected[each] for each in labels], rtol=1e-9)


def test_surveys_share_their_offsets(tmp_path):
    """The pairs are those of all surveys, also where one of them lacks some."""
    header, *rows = ROWS.splitlines()
    surveys = ["after", "after", "after", "before", "after"]
    table = (
        "\n".join(
            [f"{header},survey"] + [f"{row},{s}" for row, s in zip(rows, surveys, strict=True)]
        )
        + "\n"
    )
    change = {"kind": "matern", "range": 0.5, "std": 0.3, "smoothness": 1.0}
    problem = build(with_offset(tmp_path, "pair", {"survey.after.change": change}, table))
    assert dict(problem.prior.shapes)["offset_pair"] == (2,)
    at, own = np.zeros(problem.model.num_coefficients), np.array([1.0, 2.0])
    names = [name for name, _ in problem.prior.shapes]
    begin = 16 + 4
    assert names[:3] == ["log_conductivity", "impedance", "offset_pair"]
    at[16:begin] = 0.2
    exact = np.asarray(readings(problem.model, at))  # before what it is of changes
    at[begin : begin + 2] = own
    off = dict(zip(problem.sensors.rows.tolist(), readings(problem.model, at) - exact, strict=True))
    expected = {2: 1.0, 3: -1.0, 4: 1.0, 5: 2.0, 6: -2.0}
    assert off.keys() == expected.keys()
    np.testing.assert_allclose([off[row] for row in expected], list(expected.values()), rtol=1e-9)


@pytest.mark.parametrize(
    ("per", "names"), [("pair", {"3-4", "1-2"}), ("injection", {"1-2", "2-1", "1-3"})]
)
def test_scales_of_the_noise(tmp_path, per, names):
    problem = build(write(tmp_path, {"noise": {"sigma": SCALE, "per": per}}))
    scale, rows = problem.noise.scale, problem.sensors.rows.tolist()
    assert set(scale.names) == names
    found = {row: scale.names[k] for row, k in zip(rows, np.asarray(scale.groups), strict=True)}
    labels, parts = PARTS[per]
    assert found == {row: labels[next(iter(part))] for row, part in enumerate(parts, start=2)}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"observations.offset": {"pairs": NORMAL}}, ["[observations] offset.pairs", "found x, y"]),
        ({"observations.offset": {"pair": NORMAL | {"sd": -1.0}}},
         ["[observations] offset.pair.sd", "-1"]),
        ({"noise": {"sigma": 0.1, "per": "pair"}}, ["[noise] per", '"all"']),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path, changes, parts):
    assert_named(write(tmp_path, changes), parts)


def test_readings_at_places_are_of_no_pair(tmp_path):
    noise = {"noise": {"sigma": SCALE, "per": "pair"}}
    assert_named(write_problem(tmp_path, noise), ["[noise] per", "readings between electrodes"])
