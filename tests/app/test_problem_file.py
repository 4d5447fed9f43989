"""The problem file: defaults, paths, round trip, overrides, and one clear line for each mistake."""

import pickle
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
from problem_files import REMOVED, changed
from refusals import refused

from invlift.app.problem import table_errors
from invlift.app.problem.problem_file import parse_problem, read_problem
from invlift.errors import InputError
from invlift.files.tables import integer, number
from invlift.samplers.kernels import KERNELS
from invlift.tables.distributions import DISTRIBUTIONS, DistributionTable
from invlift.tables.noise import NOISES, NoiseTable
from invlift.tables.priors import PRIORS, PriorTable

FULL = """
[mesh]
file = "../meshes/disc.msh"
[pde]
source = 100.0
dirichlet = { outer = 0.0, inner = "measured" }
neumann = { inflow = 1.5 }
robin = { surface = { coefficient = 10.0, ambient = 20.0 } }
[prior]
kind = "matern"
range = 1
std = 1.0
smoothness = 2.0
mean = 0.5
boundary = "robin"
[observations]
file = "sensors.csv"
outside = "project"
[noise]
sigma = { distribution = "lognormal", location = 0.0, scale = 3.0 }
[sampler]
method = "chmc-nuts"
chains = 2
warmup = 1
draws = 10
seed = 7
[output]
dir = "results/disc"
"""
SMALL = {
    "mesh": {"file": "a.msh"},
    "pde": {"dirichlet": {"boundary": 0.0}},
    "prior": {"kind": "matern", "range": 1.0, "std": 1.0, "smoothness": 2.0},
    "observations": {"file": "s.csv"},
}
INDEPENDENT = {"kind": "independent", "std": 1.0}


def message_of(data):
    with pytest.raises(InputError) as caught:
        parse_problem(data, "problem.toml")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_full_file_is_read_with_paths_from_its_directory(tmp_path):
    file = tmp_path / "examples" / "disc.toml"
    file.parent.mkdir()
    file.write_text(FULL)
    spec = read_problem(file)
    assert spec.mesh.file == tmp_path / "meshes" / "disc.msh"
    assert spec.observations.file == file.parent / "sensors.csv"
    assert spec.output.dir == file.parent / "results" / "disc"
    assert spec.pde.dirichlet == {"outer": 0.0, "inner": "measured"}
    assert spec.pde.robin["surface"].ambient == 20.0
    assert isinstance(spec.prior.range, float)
    assert spec.noise.sigma.distribution == "lognormal"
    assert spec.noise.sigma.scale == 3.0
    assert (spec.sampler.warmup, spec.sampler.seed) == (1, 7)


def test_defaults():
    spec = parse_problem(SMALL, "/somewhere/disc.toml")
    assert spec.noise.sigma == "column"
    assert spec.observations.outside == "error"
    assert spec.pde.source == 0.0
    assert spec.prior.mean == 0.0
    assert spec.prior.boundary == "neumann"
    assert spec.sampler.model_dump() == {
        "method": "chmc",
        "chains": 4,
        "warmup": 200,
        "draws": 1000,
        "seed": 20260101,
        "starts": "prior",
        "budget": None,
        "options": {},
    }
    assert spec.output.dir == Path("/somewhere/results/disc").resolve()


LAYER = {"range": 1.0, "std": 1.0, "smoothness": 1.0, "median": 3.0}


def test_written_file_reads_back_the_same_from_elsewhere(tmp_path):
    elsewhere = tmp_path / "results" / "problem.toml"
    elsewhere.parent.mkdir()
    for key, value in (
        ("pde.source", 3),
        ("pde.source", {"clay": 1.0, "table": -2.0}),
        ("pde.source", "heating"),
        ("pde.dirichlet", {"number": "name"}),
        ("pde.robin", {"top": {"coefficient": 1e-3}}),
        ("prior", {"kind": "independent", "std": {"clay": 0.5}, "mean": {"clay": -1.0}}),
        ("prior", {"kind": "independent", "per": "subdomain", "std": 2}),
        ("prior", {"kind": "independent", "between": [1e-3, 1.0]}),
        ("prior", {"kind": "matern", "range": 1.0, "std": 1, "smoothness": 1.0, "median": 3.0}),
        ("prior", {"kind": "layers", "layer": {"clay": LAYER}}),
        ("noise.sigma", 0.01),
        ("noise.sigma", "column"),
        ("noise.sigma", {"distribution": "half-normal", "scale": 1.0}),
    ):
        spec = parse_problem(changed({key: value}, SMALL), tmp_path / "problem.toml")
        elsewhere.write_text(spec.to_toml(), encoding="utf-8")
        again = read_problem(elsewhere)
        for table in type(spec).model_fields:
            assert getattr(again, table) == getattr(spec, table), (key, value)


def test_a_spec_survives_pickling():
    spec = parse_problem(SMALL, "problem.toml")
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert again.where("prior", "range") == "problem.toml, [prior] range"


#: Of the kinds of the library: to make it takes longer than all else that is done.
SCHEMA = cache(table_errors.json_schema)


@pytest.fixture
def _schema_made_once(monkeypatch):
    monkeypatch.setattr(table_errors, "json_schema", SCHEMA)


@pytest.mark.usefixtures("_schema_made_once")
@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        # misspelt, misplaced and missing keys and tables
        ("priro", {}, ["[priro]", "did you mean [prior]?"]),
        ("mesh", REMOVED, ["[mesh]", "no such table"]),
        ("mesh.file", "~nobody-of-that-name/a.msh", ["[mesh] file", "~nobody"]),
        (
            "noise.sigma",
            {"distribution": "half-normal", "scale": 1.0, "mean": 2.0},
            ["unknown key 'mean'", "; remove it"],
        ),
        ("prior.rnage", 1.0, ["'rnage'", "did you mean 'range'?"]),
        ("prior.draws", 1, ["'draws'", "belongs in [sampler]"]),
        ("prior.range", REMOVED, ["[prior] range", "a positive number", "no such key"]),
        ("prior.kind", "mattern", ["[prior] kind", 'did you mean "matern"?']),
        ("pde.robin", {"top": {"coeficient": 1.0}}, ["robin.top", "did you mean 'coefficient'?"]),
        ("prior", INDEPENDENT | {"range": 1.0}, ["'range'", "another kind"]),
        # wrong types
        ("prior.range", True, ["[prior] range", "a positive number", "found true"]),
        ("mesh.file", " ", ["[mesh] file", "path"]),
        ("pde.source", {}, ["[pde] source", "no keys"]),
        ("pde.source", 10**400, ["[pde] source", "beyond"]),
        ("pde.dirichlet", 0.0, ["[pde] dirichlet", "{name = value}", "boundary groups"]),
        # out of range
        ("prior.std", float("nan"), ["[prior] std", "found nan"]),
        ("noise.sigma", {"distribution": "normal"}, ["sigma.distribution", '"normal"']),
        (
            "noise.sigma",
            {"distribution": "lognormal", "scale": 1.0},
            ["location and scale, or median and factor", "found scale"],
        ),
        (
            "noise.sigma",
            {"distribution": "uniform", "low": 1.0, "high": 0.5},
            ["high above low", "0.5"],
        ),
        ("sampler.warmup", -1, ["[sampler] warmup", "at least 0", "at least 200"]),
        ("output", {"exceedance": [2.0, 2]}, ["[output] exceedance", "different", "2 twice"]),
        # boundary conditions
        ("pde.neumann", {"boundary": 1.0}, ["one condition", "dirichlet and neumann"]),
    ],
)
def test_mistakes_are_named_in_one_line(key, value, parts):
    with refused(*parts, start="problem.toml, ["):
        parse_problem(changed({key: value}, SMALL), "problem.toml")


def test_thresholds_are_kept_by_overrides_and_in_the_file_written():
    data = changed({"output": {"exceedance": [2, 5.5]}}, SMALL)
    spec = parse_problem(data, "problem.toml").with_overrides(out="elsewhere")
    assert spec.output.exceedance == [2.0, 5.5]
    again = parse_problem(tomllib.loads(spec.to_toml()), "other.toml")
    assert again.output == spec.output
    assert "exceedance" not in parse_problem(SMALL, "problem.toml").to_toml()


def test_a_robin_condition_alone_is_enough():
    data = changed({"pde": {"robin": {"top": {"coefficient": 1.0}}}}, SMALL)
    assert parse_problem(data, "problem.toml").pde.dirichlet == {}


def test_several_mistakes_are_listed():
    data = changed({"sampler": {"draws": 0, "chains": 0, "warmup": -1}}, SMALL)
    assert message_of(data).endswith("(further mistakes: [sampler] warmup, [sampler] draws)")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"[mesh\nfile = 3", ["line 1", "valid TOML"]),
        (b'[mesh]\nfile = "a.msh"\nfile = "b.msh"\n', ["line 3"]),
        (b"[mesh]\nfile = disc.msh\n", ["line 2", "in quotes"]),
        (b"\xff\xfe[\x00", ["UTF-8"]),
        (
            b"[pde]\nstrength = -600,0 # l/s\n",
            ["at line 2, column 16): strength = -600,0 # l/s; write numbers with a decimal point"],
        ),
        (
            rb'file = "C:\data\x.csv"',
            [r': file = "C:\data\x.csv"; write a path with /, or in single'],
        ),
        (b"", ["[mesh]"]),
        (b"a = " + b"[" * 5000, ["TOML"]),
    ],
)
def test_unreadable_toml(tmp_path, content, parts):
    file = tmp_path / "problem.toml"
    file.write_bytes(content)
    with refused(*parts, start=str(file)):
        read_problem(file)


def test_byte_order_mark_is_accepted(tmp_path):
    file = tmp_path / "problem.toml"
    file.write_bytes(b"\xef\xbb\xbf" + FULL.encode())
    assert read_problem(file).sampler.draws == 10


def test_overrides_replace_only_what_they_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = parse_problem(SMALL, "/somewhere/problem.toml")
    assert spec.with_overrides() == spec
    new = spec.with_overrides(out="here", method="chmc-nuts", draws="7", seed=3, warmup=1)
    assert new.output.dir == tmp_path / "here"
    assert new.sampler.model_dump() == {
        "method": "chmc-nuts",
        "chains": 4,
        "warmup": 1,
        "draws": 7,
        "seed": 3,
        "starts": "prior",
        "budget": None,
        "options": {},
    }
    assert spec.sampler.draws == 1000
    assert new.where("prior", "std") == "/somewhere/problem.toml, [prior] std"


def test_wrong_overrides_name_the_option():
    spec = parse_problem(SMALL, "problem.toml")
    for option, value in (
        ("draws", 0),
        ("draws", "many"),
        ("draws", "1.5"),
        ("chains", True),
        ("method", "nuts2"),
        ("out", ""),
    ):
        with pytest.raises(InputError, match=rf"^--{option}: expected .*, found ") as caught:
            spec.with_overrides(**{option: value})
        assert "problem.toml" not in str(caught.value)


class FlatTable(PriorTable):
    """A prior that some user adds."""

    level: number(0.0, 5.0)
    """The level."""
    shape: Literal["round", "square"] = "round"


class LoudTable(NoiseTable):
    """A noise that some user adds."""

    degrees_of_freedom: number(above=2.0)


class FixedTable(DistributionTable):
    """A prior of a noise scale that some user adds."""

    value: number(1e-3, 1e3)


@dataclass(frozen=True)
class Walk:
    """A kernel that some user adds."""

    step: number(1e-3, 2.0) = 0.5
    num_steps: integer(1) = 10
    metric: Literal["unit", "prior"] = "unit"
    target: object = field(default=None, init=False)


@pytest.fixture
def _registered(monkeypatch):
    monkeypatch.setitem(PRIORS, "flat", FlatTable)
    monkeypatch.setitem(NOISES, "loud", LoudTable)
    monkeypatch.setitem(DISTRIBUTIONS, "fixed", FixedTable)
    monkeypatch.setitem(KERNELS, "walk", Walk)


@pytest.mark.usefixtures("_registered")
def test_kinds_that_a_user_registers_have_their_own_types():
    prior = parse_problem(changed({"prior": {"kind": "flat", "level": 2}}, SMALL), "p").prior
    assert prior == FlatTable(kind="flat", level=2.0, shape="round")
    given = {"method": "walk", "options": {"step": 1, "metric": "prior"}}
    spec = parse_problem(changed({"sampler": given}, SMALL), "p")
    assert spec.sampler.kernel() == Walk(step=1.0, num_steps=10, metric="prior")
    assert isinstance(spec.sampler.kernel().step, float)
    assert parse_problem(SMALL, "p").sampler.kernel() == KERNELS["chmc"]()


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"prior.kind": "falt"}, ["[prior] kind", '"independent" or "flat"', 'mean "flat"?']),
        ({"prior": {"kind": "flat", "level": 9}}, ["level", "a number from 0 to 5", "found 9"]),
        ({"noise.degrees_of_freedom": 3.0}, ["belongs in [noise] of another kind"]),
        ({"noise.sigma": {"distribution": "fixd"}}, ['"uniform" or "fixed"', '"fixed"?']),
    ],
)
def test_mistakes_about_registered_kinds_list_them(changes, parts):
    with refused(*parts, start="problem.toml, ["):
        parse_problem(changed(changes, SMALL), "problem.toml")


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize(
    ("method", "options", "where", "parts"),
    [
        ("walk", 3, "[sampler.options]", ["a table [sampler.options]", "found 3"]),
        ("walk", {"stp": 1.0}, "[sampler.options] stp", ["step, num_steps, metric", "'step'?"]),
        (
            "walk",
            {"step": 3.0},
            "[sampler.options] step",
            ["from 0.001 to 2", "found 3.0", "default"],
        ),
        ("walk", {"metric": "prio"}, "[sampler.options] metric", ['did you mean "prior"?']),
        (
            "chmc",
            {"step": 1.0},
            "[sampler.options] step",
            ["retraction, splitting", "'step'", "remove it"],
        ),
    ],
)
def test_mistakes_about_options_name_them(method, options, where, parts):
    with refused(*parts, start=f"problem.toml, {where}: "):
        parse_problem(
            changed({"sampler": {"method": method, "options": options}}, SMALL), "problem.toml"
        )


def test_an_option_among_the_keys_of_the_sampler_is_told_where_it_belongs():
    message = message_of(changed({"sampler.retraction": "newton"}))
    assert "it belongs in [sampler.options]" in message
    assert "remove it" in message_of(changed({"sampler.num_steps": 3}))  # which chmc has not


@pytest.mark.usefixtures("_registered")
def test_a_method_on_the_command_line_does_not_take_the_options_of_another():
    given = {"method": "walk", "options": {"step": 1.0}}
    spec = parse_problem(changed({"sampler": given}, SMALL), "problem.toml")
    assert spec.with_overrides(draws=3).sampler.kernel() == Walk(step=1.0)
    with pytest.raises(InputError, match=r"^problem.toml, \[sampler.options\] step: .*remove it"):
        spec.with_overrides(method="chmc")


def test_a_key_of_the_equation_that_electrodes_replace_is_not_moved():
    electrodes = {"groups": "e*", "impedance": 0.1, "thickness": 2.0}
    with refused("[electrodes]", "thickness", "remove it: it is a key of [pde], in whose place"):
        parse_problem(changed({"pde": REMOVED, "electrodes": electrodes}), "problem.toml")
