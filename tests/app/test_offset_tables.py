"""Offsets and noise scales of pairs of electrodes, of injections and of electrodes."""

import copy

import numpy as np
from problem_files import REMOVED, are_same, assert_named, build, readings, write_problem

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


def moved(problem, number_of):
    """By how much each row moves when the unknowns of a name are 1, 2, ..., not 0."""
    shapes = {name: max(1, int(np.prod(shape))) for name, shape in problem.prior.shapes}
    own = {name: 0.3 + np.zeros(size) for name, size in shapes.items()}
    own |= {name: np.zeros(shapes[name]) for name in own if name.startswith("offset")}
    for_offset = own | {number_of: np.arange(1.0, 1.0 + shapes[number_of])}
    found, exact = (
        readings(problem.model, np.concatenate([*e.values()])) for e in (for_offset, own)
    )
    return dict(zip(problem.sensors.rows.tolist(), np.asarray(found - exact), strict=True))


def assert_moved(problem, of):
    names, parts = PARTS[of]
    if names is not None:
        assert list(problem.model.on_mesh.further[f"offset_{of}"].axes[of])[: len(names)] == names
    found = moved(problem, f"offset_{of}")
    for row, part in enumerate(parts, start=2):
        expected = sum(sign * (1.0 + k) for k, sign in part.items())
        np.testing.assert_allclose(found[row], expected, rtol=1e-9, atol=1e-12)


def assert_scales(problem, per):
    """The readings of ROWS have the scales of the noise that they share."""
    labels, parts = PARTS[per]
    scale, rows = problem.noise.scale, problem.sensors.rows.tolist()
    found = {row: scale.names[k] for row, k in zip(rows, np.asarray(scale.groups), strict=True)}
    for row, part in enumerate(parts, start=2):
        assert found[row] == labels[next(iter(part))]


def test_readings_are_off_by_what_they_share(tmp_path):
    """As combinations; one after another of all offsets at once."""
    noise = {"noise": {"sigma": SCALE, "per": "injection"}}
    offsets = {"observations.offset": dict.fromkeys(PARTS, NORMAL)}
    problem = build(write(tmp_path, noise | offsets, MANY))
    for of in PARTS:
        assert_moved(problem, of)
    assert_scales(problem, "injection")


def test_several_offsets_at_once_and_a_refined_mesh(tmp_path):
    both = {"observations.offset": {"pair": NORMAL, "electrode": NORMAL}}
    noise = {"noise": {"sigma": SCALE, "per": "pair"}}
    problem = build(write(tmp_path, both | noise))
    names = [name for name, _ in problem.prior.shapes]
    assert names == ["log_conductivity", "impedance", "offset_pair", "offset_electrode"]
    assert_moved(problem, "pair")
    assert_scales(problem, "pair")
    finer = build(write(tmp_path / "b", both | {"mesh.refine_solution": 1})).model
    assert are_same(problem.model.on_mesh.refined(), finer)


def test_points_on_the_ground_have_offsets(tmp_path):
    changes = {"electrodes": {"surface": "top"}, "observations.offset": {"electrode": NORMAL}}
    problem = build(write(tmp_path, changes, LINE))
    labels = ["-".join(row) for row in problem.sensors.electrodes[:, 2:]]
    expected = {"3-4": -1.0, "4-3": 1.0, "3-0": 3.0}
    found = list(moved(problem, "offset_electrode").values())
    np.testing.assert_allclose(found, [expected[each] for each in labels], rtol=1e-9)


def test_surveys_share_their_offsets(tmp_path):
    """The pairs are those of all surveys, also where one of them lacks some."""
    header, *rows = ROWS.splitlines()
    surveys = ["after", "after", "after", "before", "after"]
    lines = [f"{row},{survey}" for row, survey in zip(rows, surveys, strict=True)]
    table = "\n".join([f"{header},survey", *lines]) + "\n"
    change = {"kind": "matern", "range": 0.5, "std": 0.3, "smoothness": 1.0}
    changes = {"survey.after.change": change, "observations.offset": {"pair": NORMAL}}
    problem = build(write(tmp_path, changes, table))
    assert dict(problem.prior.shapes)["offset_pair"] == (2,)
    assert_moved(problem, "pair")


def test_mistakes_are_named(tmp_path):
    per_pair = {"noise": {"sigma": SCALE, "per": "pair"}}
    for changes, parts in (
        ({"observations.offset": {"pairs": NORMAL}}, ["[observations] offset.pairs", "found x, y"]),
        ({"observations.offset": {"pair": NORMAL | {"sd": -1.0}}},
         ["[observations] offset.pair.sd", "-1"]),
        ({"noise": {"sigma": 0.1, "per": "pair"}}, ["[noise] per", '"all"']),
    ):  # fmt: skip
        assert_named(write(tmp_path, changes), parts)
    assert_named(write_problem(tmp_path, per_pair), ["[noise] per", "readings between electrodes"])
