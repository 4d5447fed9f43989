"""What the documentation shows, and what a problem file can say, is checked and runs."""

import copy
import re
import tomllib
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from choices import brief, covering, options_of
from problem_files import REMOVED, write_problem
from structured import box_mesh

from invlift.app.cli import main
from invlift.app.problem_file import read_problem

ROOT = Path(__file__).parents[2]
SENSORS = (
    "x,y,value,sigma,group\n0.3,0.4,2.1,0.1,loggers\n0.6,0.7,2.9,0.2,own\n0.8,0.2,3.1,0.1,loggers\n"
)
VOLTAGES = "a,b,m,n,value,sigma,group\n1,2,3,1,0.4,0.1,old\n2,3,1,2,0.7,0.1,new\n"
#: In the unified data format: electrodes on the upper side, and readings.
LINE = "4\n# x z\n0.2 1\n0.4 1\n0.6 1\n0.8 1\n2\n# a b m n r err/%\n1 2 3 4 0.4 5\n2 3 4 1 0.7 5\n"
FEW = ["--chains", "2", "--warmup", "10", "--draws", "20"]


@pytest.fixture
def run(tmp_path):
    """Check and run a problem: up to 15 s, as both compile all that a problem needs."""

    def check_and_run(changes, mesh, is_checked=True, experiments=(), sensors=SENSORS):
        if experiments:  # one row after the other
            header, *rows = sensors.splitlines()
            rows = [f"{row},{name}" for row, name in zip(rows, cycle(experiments), strict=False)]
            sensors = "\n".join([f"{header},experiment", *rows])
        path = write_problem(tmp_path, changes, sensors=sensors, mesh=mesh)
        out = tmp_path / "results"
        checked = [["check", str(path)]] if is_checked else []
        for arguments in (*checked, ["run", str(path), *FEW, "--out", str(out)]):
            with pytest.raises(SystemExit) as stop:
                main(arguments)
            assert stop.value.code in (0, 3), arguments[0]
        read_problem(out / "problem.toml")
        with xr.open_dataset(out / "posterior.nc", group="posterior") as draws:
            assert draws.sizes["chain"] == 2
            assert draws.sizes["draw"] == 20
            assert all(np.isfinite(values).all() for values in draws.values())

    return check_and_run


# Documentation ------------------------------------------------------------------------------------

#: What the groups of the small body are called in the documentation.
NAMES = {"left": "boundary", "right": "inlet", "top": "surface", "low": "clay", "high": "granite"}
#: Keys of the snippets that are another problem's files, and amounts of a run.
OWN = {"mesh": {"file"}, "observations": {"file"}, "output": {"dir"}}
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


def _slow_unless_first(name):
    """Five to thirty seconds each: all but the first of the tutorial are for the slow tests."""
    first = next(each for each in SHOWN if each.startswith("tutorial"))
    return name if name == first else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", list(map(_slow_unless_first, SHOWN)))
def test_what_the_documentation_shows_runs(name, run):
    """Each snippet compiles a program: 5 to 12 s."""
    mesh = box_mesh(2, 2)
    mesh = replace(
        mesh,
        boundaries={NAMES.get(each, each): nodes for each, nodes in mesh.boundaries.items()},
        subdomains={NAMES[each]: cells for each, cells in mesh.subdomains.items()},
    )
    changes, sensors = {"pde.dirichlet": {"boundary": 0.0}}, SENSORS
    if "surface" in SHOWN[name].get("electrodes", {}):
        changes, sensors = {"pde": REMOVED}, LINE
    elif "electrodes" in SHOWN[name]:
        changes, sensors = {"pde": REMOVED}, VOLTAGES
        named = zip(range(1, 4), mesh.boundaries.values(), strict=False)
        mesh = replace(mesh, boundaries={f"electrode_{k}": nodes for k, nodes in named})
    for section, content in SHOWN[name].items():
        kept = {key: value for key, value in content.items() if key not in OWN.get(section, ())}
        if section in ("prior", "noise"):
            changes[section] = kept
        else:
            changes |= {f"{section}.{key}": value for key, value in kept.items()}
    is_first = name.endswith(", 0")  # of the alternatives, which a check tells little of
    experiments = SHOWN[name].get("experiment", ())
    run(changes, mesh, is_checked=is_first, experiments=experiments, sensors=sensors)


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


def by_name(contents):
    return {"; ".join(map(brief, content.values())): content for content in contents}


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


ROWS = list(side_by_side())
with_options(ROWS)
PAIRS = by_name(ROWS)
#: All of them take some five minutes of one core.
IN_TURN = [
    pytest.param(name, marks=() if place < 1 else pytest.mark.slow, id=f"{place}: {name}")
    for place, name in enumerate(PAIRS)
]


@pytest.mark.parametrize("name", IN_TURN)
def test_choices_that_go_together_run(name, run):
    """With a check of each prior: the sampler means nothing to it, and a noise not much."""
    content = PAIRS[name]
    first = next(each for each in PAIRS.values() if each["prior"] == content["prior"])
    sampler = {f"sampler.{key}": value for key, value in content["sampler"].items()}
    changes = {"prior": content["prior"], "noise": content["noise"], **sampler}
    run(changes, box_mesh(2, 3), is_checked=content is first)
