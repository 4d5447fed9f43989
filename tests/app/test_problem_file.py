"""The problem file: defaults, paths, round trip, overrides, and one clear line for each mistake."""

import pickle
import tomllib
from functools import cache
from pathlib import Path

import pytest
from problem_files import REMOVED, changed
from refusals import refused

from invlift.app.problem import table_errors
from invlift.app.problem.problem_file import parse_problem, read_problem
from invlift.errors import InputError
from invlift.samplers.kernels import KERNELS

DISC = Path(__file__).parents[2] / "examples" / "disc" / "problem.toml"
SMALL = {
    "mesh": {"file": "a.msh"},
    "pde": {"dirichlet": {"boundary": 0.0}},
    "prior": {"kind": "matern", "range": 1.0, "std": 1.0, "smoothness": 2.0},
    "observations": {"file": "s.csv"},
}
INDEPENDENT = {"kind": "independent", "std": 1.0}


def test_an_example_is_read_with_paths_from_its_directory():
    spec = read_problem(DISC)
    assert spec.mesh.file == DISC.parents[2] / "meshes" / "disc.msh"
    assert spec.observations.file == DISC.parent / "sensors.csv"
    assert spec.output.dir == DISC.parent / "results" / "disc"
    assert spec.noise.sigma.scale == 3.0


def test_defaults():
    spec = parse_problem(changed({"prior.range": 1}, SMALL), "/somewhere/disc.toml")
    assert isinstance(spec.prior.range, float)
    assert (spec.noise.sigma, spec.observations.outside) == ("column", "error")
    assert (spec.pde.source, spec.prior.mean, spec.prior.boundary) == (0.0, 0.0, "neumann")
    assert spec.sampler.model_dump() == {
        "method": "chmc", "chains": 4, "warmup": 200, "draws": 1000, "seed": 20260101,
        "starts": "prior", "budget": None, "options": {},
    }  # fmt: skip
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
    assert (again := pickle.loads(pickle.dumps(spec))) == spec
    assert again.where("prior", "range") == "problem.toml, [prior] range"


#: Of the kinds of the library: to make it takes longer than all else that is done.
SCHEMA = cache(table_errors.json_schema)


def test_mistakes_are_named_in_one_line(monkeypatch):
    monkeypatch.setattr(table_errors, "json_schema", SCHEMA)
    low = {"distribution": "uniform", "low": 1.0, "high": 0.5}
    for key, value, parts in (
        # misspelt, misplaced and missing keys and tables
        ("priro", {}, ["[priro]", "did you mean [prior]?"]),
        ("mesh", REMOVED, ["[mesh]", "no such table"]),
        ("mesh.file", "~nobody-of-that-name/a.msh", ["[mesh] file", "~nobody"]),
        ("noise.sigma", {"distribution": "half-normal", "scale": 1.0, "mean": 2.0},
         ["unknown key 'mean'", "; remove it"]),
        ("prior.rnage", 1.0, ["'rnage'", "did you mean 'range'?"]),
        ("prior.draws", 1, ["'draws'", "belongs in [sampler]"]),
        ("sampler.retraction", "newton", ["it belongs in [sampler.options]"]),
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
        ("noise.sigma", {"distribution": "lognormal", "scale": 1.0},
         ["location and scale, or median and factor", "found scale"]),
        ("noise.sigma", low, ["high above low", "0.5"]),
        ("sampler.warmup", -1, ["[sampler] warmup", "at least 0", "at least 200"]),
        ("output", {"exceedance": [2.0, 2]}, ["[output] exceedance", "different", "2 twice"]),
        ("sampler", {"draws": 0, "chains": 0, "warmup": -1},
         ["(further mistakes: [sampler] warmup, [sampler] draws)"]),
        ("pde.neumann", {"boundary": 1.0}, ["one condition", "dirichlet and neumann"]),
    ):  # fmt: skip
        with refused(*parts, start="problem.toml, ["):
            parse_problem(changed({key: value}, SMALL), "problem.toml")
    electrodes = {"groups": "e*", "impedance": 0.1, "thickness": 2.0}
    with refused("[electrodes]", "thickness", "remove it: it is a key of [pde], in whose place"):
        parse_problem(changed({"pde": REMOVED, "electrodes": electrodes}), "problem.toml")
    # A Robin condition alone is enough.
    data = changed({"pde": {"robin": {"top": {"coefficient": 1.0}}}}, SMALL)
    assert parse_problem(data, "problem.toml").pde.dirichlet == {}


def test_unreadable_toml(tmp_path):
    file = tmp_path / "problem.toml"
    for content, parts in (
        (b"[mesh\nfile = 3", ["line 1", "valid TOML"]),
        (b'[mesh]\nfile = "a.msh"\nfile = "b.msh"\n', ["line 3"]),
        (b"[mesh]\nfile = disc.msh\n", ["line 2", "in quotes"]),
        (b"\xff\xfe[\x00", ["UTF-8"]),
        (b"[pde]\nstrength = -600,0 # l/s\n",
         ["at line 2, column 16): strength = -600,0 # l/s; write numbers with a decimal point"]),
        (rb'file = "C:\data\x.csv"',
         [r': file = "C:\data\x.csv"; write a path with /, or in single']),
        (b"", ["[mesh]"]),
        (b"a = " + b"[" * 5000, ["TOML"]),
    ):  # fmt: skip
        file.write_bytes(content)
        with refused(*parts, start=str(file)):
            read_problem(file)
    file.write_bytes(b"\xef\xbb\xbf" + DISC.read_bytes())  # a byte order mark is accepted
    assert read_problem(file).sampler.draws == 1000


def test_overrides_replace_only_what_they_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = parse_problem(changed({"output": {"exceedance": [2, 5.5]}}, SMALL), "/a/problem.toml")
    assert spec.with_overrides() == spec
    new = spec.with_overrides(out="here", method="chmc-nuts", draws="7", seed=3, warmup=1)
    assert new.output.dir == tmp_path / "here"
    assert new.output.exceedance == [2.0, 5.5]
    assert parse_problem(tomllib.loads(new.to_toml()), "other.toml").output == new.output
    given = {"method": "chmc-nuts", "draws": 7, "seed": 3, "warmup": 1}
    assert new.sampler.model_dump() == spec.sampler.model_dump() | given
    assert spec.sampler.draws == 1000
    assert new.where("prior", "std") == "/a/problem.toml, [prior] std"
    assert "exceedance" not in parse_problem(SMALL, "problem.toml").to_toml()


def test_wrong_overrides_name_the_option():
    spec = parse_problem(SMALL, "problem.toml")
    for option, value in (
        ("draws", 0), ("draws", "many"), ("chains", True), ("method", "nuts2"), ("out", ""),
    ):  # fmt: skip
        with pytest.raises(InputError, match=rf"^--{option}: expected .*, found ") as caught:
            spec.with_overrides(**{option: value})
        assert "problem.toml" not in str(caught.value)


def test_options_of_a_method_are_its_own():
    def with_options(method, options):
        data = changed({"sampler": {"method": method, "options": options}}, SMALL)
        return parse_problem(data, "problem.toml")

    spec = with_options("hmc", {"num_steps": 4})
    assert spec.with_overrides(draws=3).sampler.kernel() == KERNELS["hmc"](num_steps=4)
    assert parse_problem(SMALL, "p").sampler.kernel() == KERNELS["chmc"]()
    for method, options, where, parts in (
        ("hmc", 3, "", ["a table [sampler.options]", "found 3"]),
        ("hmc", {"num_stps": 4}, " num_stps", ["num_steps", "did you mean"]),
        ("hmc", {"num_steps": 0}, " num_steps", ["an integer", "found 0", "default"]),
        ("chmc", {"retraction": "newto"}, " retraction", ["did you mean"]),
        ("chmc", {"num_steps": 4}, " num_steps", ["retraction, splitting", "remove it"]),
    ):
        with refused(*parts, start=f"problem.toml, [sampler.options]{where}: "):
            with_options(method, options)
    # A method on the command line does not take the options of another.
    with refused("remove it", start="problem.toml, [sampler.options] num_steps: "):
        spec.with_overrides(method="chmc")
