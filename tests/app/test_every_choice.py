"""What the documentation shows, and what a problem file can say, is checked and runs."""

import copy
import re
import tomllib
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr
from choices import covering, options_of
from crafted import run_from_prior
from problem_files import REMOVED, build, trace_a_step, write_problem
from structured import box_mesh

from invlift.app.checks.field import check_tables
from invlift.app.problem.problem_file import read_problem
from invlift.errors import InputError
from invlift.programs.compilation import _name_of

ROOT = Path(__file__).parents[2]
SENSORS = (
    "x,y,value,sigma,group\n0.3,0.4,2.1,0.1,loggers\n0.6,0.7,2.9,0.2,own\n0.8,0.2,3.1,0.1,loggers\n"
)
VOLTAGES = "a,b,m,n,value,sigma,group\n1,2,3,1,0.4,0.1,old\n2,3,1,2,0.7,0.1,new\n"
#: In the unified data format: electrodes on the upper side, and readings.
LINE = "4\n# x z\n0.2 1\n0.4 1\n0.6 1\n0.8 1\n2\n# a b m n r err/%\n1 2 3 4 0.4 5\n2 3 4 1 0.7 5\n"


def with_column(sensors, column, names):
    """A table whose rows are of one experiment, or survey, after the other."""
    header, *rows = sensors.splitlines()
    rows = [f"{row},{name}" for row, name in zip(rows, cycle(names), strict=False)]
    return "\n".join([f"{header},{column}", *rows])


# Documentation ------------------------------------------------------------------------------------

#: What the groups of the small body are called in the documentation.
NAMES = {"left": "boundary", "right": "inlet", "top": "surface", "low": "clay", "high": "granite"}
#: Keys of the snippets that are another problem's files, and amounts of a run.
OWN = {"mesh": {"file", "unit"}, "observations": {"file", "columns", "places"}, "output": {"dir"}}
OWN["sampler"] = {"chains", "warmup", "draws", "seed"}


#: More than any key of a snippet has.
MOST_ALTERNATIVES = 4


def snippets():
    """Each block of TOML in the documentation, by file and line."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path.name}:{line}", match[1]


def alternatives(text):
    """The text, and with what its comments say may stand there: lines, and names in quotes."""
    found = [text]
    for place in range(MOST_ALTERNATIVES):
        lines = text.splitlines(keepends=True)
        for number, line in enumerate(lines):
            if match := re.match(r"# (\w+ = .*\n)", line):
                lines[number] = match[1]
            elif match := re.match(r'(\w+ = )"[\w-]+"(\s+#.*\n)', line):
                names = re.findall(r'"([\w-]+)"', match[2])
                if len(names) > place:
                    lines[number] = f'{match[1]}"{names[place]}"{match[2]}'
        if "".join(lines) not in found:
            found.append("".join(lines))
    return found


SHOWN = {
    f"{where}, {number}": tomllib.loads(text)
    for where, snippet in snippets()
    for number, text in enumerate(alternatives(snippet))
}


def test_snippets_are_found():
    assert len({name.split(",")[0] for name in SHOWN}) >= 6
    first = next(name for name in SHOWN if name.startswith("tutorial.md"))
    shown = [SHOWN[f"{first.split(',')[0]}, {number}"] for number in range(3)]
    assert [each["observations"]["outside"] for each in shown] == ["error", "project", "drop"]
    assert "robin" not in shown[0]["pde"]
    assert "robin" in shown[1]["pde"]


def with_electrodes(mesh):
    """Three of its sides are electrodes."""
    named = zip(range(1, 4), mesh.boundaries.values(), strict=False)
    return replace(mesh, boundaries={f"electrode_{k}": nodes for k, nodes in named})


def write_shown(folder, content):
    """A problem that says what a snippet says, on a small body."""
    mesh = box_mesh(2, 2)
    mesh = replace(
        mesh,
        boundaries={NAMES.get(each, each): nodes for each, nodes in mesh.boundaries.items()},
        subdomains={NAMES[each]: cells for each, cells in mesh.subdomains.items()},
    )
    changes, sensors = {"pde.dirichlet": {"boundary": 0.0}}, SENSORS
    if "surface" in content.get("electrodes", {}):
        changes, sensors = {"pde": REMOVED}, LINE
    elif "electrodes" in content:
        changes, sensors = {"pde": REMOVED}, VOLTAGES
        mesh = with_electrodes(mesh)
    if "storage" in content.get("pde", {}):
        header, *rows = sensors.splitlines()
        times = (f"{row},{0.1 * number}" for number, row in enumerate(rows, start=1))
        sensors = "\n".join([f"{header},time", *times, ""])
    for section, keys in content.items():
        kept = {key: value for key, value in keys.items() if key not in OWN.get(section, ())}
        if section in ("prior", "noise"):
            changes[section] = kept
        else:
            changes |= {f"{section}.{key}": value for key, value in kept.items()}
    if reference := content.get("observations", {}).get("reference"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reference.csv").write_text(VOLTAGES, encoding="utf-8")
        kept = {key: value for key, value in reference.items() if key != "columns"}
        changes["observations.reference"] = kept | {"file": "reference.csv"}
    inside = content.get("pde", {})
    if inside := {**inside.get("lines", {}), **inside.get("barriers", {})}:
        edges = mesh.distinct_facets[0]
        in_middle = edges[np.isclose(mesh.points[edges][..., 1], 0.5).all(axis=1)]
        mesh = replace(mesh, boundaries={**mesh.boundaries, **dict.fromkeys(inside, in_middle)})
    if "experiment" in content:
        sensors = with_column(sensors, "experiment", content["experiment"])
    if "survey" in content:
        sensors = with_column(sensors, "survey", ["before", *content["survey"]])
    return write_problem(folder, changes, sensors=sensors, mesh=mesh)


def refusals(folder, read):
    """What is said of the snippets that are no problem, by their places in the documentation."""
    refused = {}
    for place, (name, content) in enumerate(SHOWN.items()):
        try:
            read(write_shown(folder / f"{place}", content))
        except InputError as error:
            refused[name] = str(error)
    return refused


def test_what_the_documentation_shows_is_read(tmp_path):
    """And what a run keeps of it says the same."""

    def read_twice(path):
        spec, again = read_problem(path), path.with_name("again.toml")
        again.write_text(spec.to_toml(), encoding="utf-8")
        for table in type(spec).model_fields:
            assert getattr(read_problem(again), table) == getattr(spec, table), path.read_text()

    assert not refusals(tmp_path, read_twice)


@pytest.mark.slow
def test_what_the_documentation_shows_is_built(tmp_path):
    """And its programs can be kept for the next command: all that is in its structure is named."""

    def build_and_name(path):
        assert _name_of(jax.tree.structure(build(path)))

    assert not refusals(tmp_path, build_and_name)


#: What is unlike the others once it is built, by its first table and key.
FAMILIES = {
    "layers": ("prior", "layer"),
    "experiments": ("experiment", "east"),
    "unknown conditions": ("pde", "source"),
    "surveys": ("survey", "after"),
    "fractures": ("pde", "lines"),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_documentation_shows_has_results(family, tmp_path):
    table, key = FAMILIES[family]
    of_family = (each for each in SHOWN.values() if key in each.get(table, {}))
    content = next(each for each in of_family if family != "unknown conditions"
                   or isinstance(each["pde"]["source"], dict))  # fmt: skip
    path = write_shown(tmp_path, content)
    problem = build(path)
    assert all(each.level != "bad" for each in check_tables(problem, read_problem(path)))
    run = run_from_prior(problem)
    problem.posterior(run).write(tmp_path / "out")
    with xr.open_dataset(tmp_path / "out" / "posterior.nc", group="posterior") as draws:
        assert {*run.chains[0].draws} <= {*draws}
        assert all(np.isfinite(values).all() for values in draws.values())


# Choices ------------------------------------------------------------------------------------------


def with_options(contents):
    """Methods take the values of their options in turn."""
    counts = {}
    for content in contents:
        sampler = content["sampler"]
        sampler.pop("kind")
        method = sampler["method"]
        place = counts[method] = counts.get(method, -1) + 1
        options = {
            # A metric that takes minutes to compile for an equation has a test of its own.
            key: [value for value in values if value != "softabs"]
            for key, values in options_of(method).items()
        }.items()
        sampler["options"] = {key: values[place % len(values)] for key, values in options}


def side_by_side():
    """Every choice of priors, of noises and of samplers, one beside the other.

    Pairs of a prior and a noise are for the contract of targets, and any method with any prior or
    noise would take an hour: the contracts of targets and kernels stand for these.
    """
    parts = [covering(section, num=1) for section in ("prior", "noise", "sampler")]
    for number in range(max(map(len, parts))):
        # Each time through, a noise meets other priors.
        chosen = (each[(number + number // len(each)) % len(each)] for each in parts)
        yield copy.deepcopy({key: value for each in chosen for key, value in each.items()})


CHOICES = list(side_by_side())
with_options(CHOICES)


def write_choice(folder, content):
    sampler = {f"sampler.{key}": value for key, value in content["sampler"].items()}
    changes = {"prior": content["prior"], "noise": content["noise"], **sampler}
    sensors, mesh = SENSORS, box_mesh(2, 3)
    if content["noise"].get("per") in ("pair", "injection"):
        electrodes = {"groups": "electrode_*", "impedance": 0.1}
        changes |= {"pde": REMOVED, "electrodes": electrodes}
        sensors, mesh = VOLTAGES, with_electrodes(mesh)
    return write_problem(folder, changes, sensors=sensors, mesh=mesh)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(CHOICES)))
def test_choices_that_go_together_are_one_program(place, tmp_path):
    """What a chain would run is made, and not compiled; contracts are about what it computes."""
    path = write_choice(tmp_path, CHOICES[place])
    trace_a_step(build(path), read_problem(path).sampler.kernel())
