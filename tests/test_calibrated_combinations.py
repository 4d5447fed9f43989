"""Posteriors of combinations: ranks of simulated truths are uniform, whatever is put together.

Each part of the registries is in one of a few problems at least: of priors, noises, readings,
electrodes, unknown conditions and distributions, in the plane and in space.
"""

from dataclasses import replace

import jax
import numpy as np
import pytest
import tomli_w
from structured import box_mesh, write_gmsh

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.app.problem.sections import ConditionsTable, ElectrodesTable
from invlift.app.studies import calibrate as calibration
from invlift.app.studies.calibrate import calibrate
from invlift.fem.readings.kinds import KINDS
from invlift.tables.distributions import REAL_DISTRIBUTIONS
from invlift.tables.noise import NOISES
from invlift.tables.priors import PRIORS


def of(name, **numbers):
    return {"distribution": name, **numbers}


def lognormal(median, factor):
    return of("lognormal", median=median, factor=factor)


def normal(mean, sd, **others):
    return of("normal", mean=mean, sd=sd, **others)


FIELD = {"range": 0.8, "std": 0.5, "smoothness": 1.0}
ROUGH = FIELD | {"smoothness": 0.5}
#: Dimension, sections of the problem file, and the table of readings.
COMBINATIONS = {
    "a field of unknown range, exchange and a source": (
        2,
        {
            "pde": {
                "source": of("uniform", low=3.0, high=6.0),
                "dirichlet": {"left": 0.0},
                "robin": {"right": {
                    "coefficient": lognormal(2.0, 1.5),
                    "ambient": of("student-t", degrees_of_freedom=5.0, location=1.0, scale=0.3),
                }},
            },
            "prior": {"kind": "matern", "smoothness": 1.0, "boundary": "robin",
                      "range": lognormal(0.8, 1.4),
                      "std": of("gamma", concentration=6.0, rate=12.0)},
            "noise": {"sigma": lognormal(0.1, 1.5)},
        },
        "kind,x,y,over,value\npoint,0.3,0.4,,0\npoint,0.7,0.8,,0\npoint,0.9,0.1,,0\n"
        "average,,,top,0\n",
    ),
    "layers in space, and boundary values in doubt": (
        3,
        {
            "pde": {"source": 3.0, "dirichlet": {"left": normal(0.5, 0.4, range=1.5)}},
            "prior": {"kind": "layers", "layer": {
                "low": ROUGH, "high": ROUGH | {"std": lognormal(0.5, 1.3), "mean": 0.5}}},
            "noise": {"kind": "laplace", "per": "group", "sigma": of("exponential", mean=0.1)},
        },
        "kind,x,y,z,over,group,value\npoint,0.3,0.4,0.6,,a,0\npoint,0.7,0.8,0.3,,b,0\n"
        "flux,,,,left,b,0\naverage,,,,high,a,0\n",
    ),
    "inclusions, two experiments and loggers": (
        2,
        {
            "pde": {"dirichlet": {"left": 0.0}, "neumann": {
                "right": of("truncated-normal", low=0.5, high=3.0, location=1.0, scale=1.0),
            }},
            "experiment": {
                "rest": {"source": 1.0},
                "well": {"point_source": [
                    {"place": [0.6, 0.6], "strength": of("beta", alpha=2.0, beta=3.0)},
                ]},
            },
            "prior": {"kind": "inclusions", "background": lognormal(1.0, 1.3), "inclusion": 5.0,
                      "range": 0.8, "smoothness": 1.0},
            "observations": {"offset": {"loggers": of("half-cauchy", scale=0.05)}},
            "noise": {"kind": "student-t", "sigma": of("half-normal", scale=0.1),
                      "degrees_of_freedom": lognormal(5.0, 1.5)},
        },
        "kind,x,y,x2,y2,experiment,group,value\npoint,0.3,0.4,,,rest,loggers,0\n"
        "difference,0.8,0.8,0.2,0.3,rest,own,0\npoint,0.7,0.5,,,well,loggers,0\n"
        "point,0.4,0.9,,,well,own,0\nlog_conductivity,0.2,0.7,,,,own,0\n",
    ),
    "cells between contacts, of which part is known": (
        2,
        {
            "electrodes": {"groups": ["left", "top", "right"],
                           "impedance": of("inverse-gamma", concentration=4.0, scale=0.6)},
            "conductivity": {"known": {"high": 2.0}},
            "prior": {"kind": "independent", "std": 0.7},
            "noise": {"relative": True, "per": "sensor", "sigma": lognormal(0.05, 1.4)},
        },
        "a,b,m,n,value\n1,2,1,2,1\n2,3,2,3,1\n1,3,1,3,1\n",
    ),
    "a well in time with an unknown storage, and a survey after a change": (
        2,
        {
            "pde": {"dirichlet": {"left": 0.0}, "storage": lognormal(0.5, 2.0),
                    "point_source": [{"place": [0.6, 0.6],
                                      "strength": {"steps": [[0.0, 1.0], [0.5, 0.3]]}}]},
            "survey": {"after": {"change": {"kind": "matern"} | FIELD}},
            "prior": {"kind": "matern"} | FIELD,
            "noise": {"sigma": lognormal(0.05, 1.5)},
        },
        "x,y,time,survey,value\n"
        + "".join(
            f"{x},{y},{time},{survey},0\n"
            for x, y in ((0.3, 0.4), (0.8, 0.8))
            for time in (0.1, 0.3, 0.8)
            for survey in ("before", "after")
        ),
    ),
    "points of the ground in space": (
        3,
        {
            "electrodes": {"surface": "top"},
            "prior": {"kind": "independent", "per": "subdomain", "std": 0.5},
            "noise": {"sigma": "column"},
        },
        "4\n# x y z\n0.1 1 0.2\n0.35 1 0.6\n0.65 1 0.3\n0.9 1 0.7\n3\n# a b m n r err\n"
        "1 2 3 4 0.4 0.1\n2 3 4 1 0.7 0.1\n1 3 2 4 0.5 0.1\n",
    ),
}  # fmt: skip


def read(name, folder):
    """The problem file of a combination."""
    dim, sections, readings = COMBINATIONS[name]
    write_gmsh(folder / "body.msh", box_mesh(dim, {2: 3, 3: 2}[dim]))
    (folder / "readings.csv").write_text(readings, encoding="utf-8")
    files = {"mesh": {"file": "body.msh"}, "observations": {"file": "readings.csv"}}
    files["observations"] |= sections.get("observations", {})
    path = folder / "problem.toml"
    path.write_text(tomli_w.dumps(sections | files))
    return read_problem(path)


def build(name, folder):
    return build_problem(read(name, folder))


def unknown_of(table):
    """Keys of a section, or of its parts, that hold a distribution."""
    return {key for key, value in table.items() if "distribution" in f"{value}"}


def test_each_part_is_in_one_of_them(tmp_path):
    """Of the registries, of what they let be unknown, and of where a field can be."""
    specs = [read(name, tmp_path) for name in COMBINATIONS]
    every = [sections for _, sections, _ in COMBINATIONS.values()]
    conditions = [
        each
        for sections in every
        for each in [sections.get("pde", {}), *sections.get("experiment", {}).values()]
    ]
    rows = [row.split(",")[0] for _, _, text in COMBINATIONS.values() for row in text.splitlines()]
    electrodes = [each.electrodes for each in specs if each.electrodes]
    found = {
        "dimensions": {dim for dim, _, _ in COMBINATIONS.values()},
        "priors": {each.prior.kind for each in specs},
        "noises": {each.noise.kind for each in specs},
        "scales": {each.noise.per for each in specs},
        "links": {each.noise.relative for each in specs},
        "electrodes": {way for each in electrodes for way in each.model_fields_set},
        "readings": set(rows) & set(KINDS),
        "distributions": {n for n in REAL_DISTRIBUTIONS if f"'{n}'" in f"{every}"},
        "unknown conditions": set.union(*map(unknown_of, conditions)),
    }
    assert found == {
        "dimensions": {2, 3},
        "priors": set(PRIORS),
        "noises": set(NOISES),
        "scales": {"all", "group", "sensor"},
        "links": {False, True},
        # By a width groups are found, which are then as good as named.
        "electrodes": set(ElectrodesTable.model_fields) - {"width"},
        "readings": set(KINDS),
        "distributions": set(REAL_DISTRIBUTIONS),
        "unknown conditions": set(ConditionsTable.model_fields) | {"storage"},
    }  # fmt: skip


OPTIONS = {"draws": 7, "warmup": 40, "seed": 11}
#: Of which all but the field is known.
CONTROL = "points of the ground in space"


@pytest.fixture
def few_draws(monkeypatch):
    """Chains are as short as ranks among seven draws allow."""
    monkeypatch.setattr(calibration, "FEWEST_DRAWS", 50)


predicted = jax.jit(lambda problem, theta: problem.predict(theta))


def simulated_wrongly(width, noise):
    """Truths and noise that are so many times as wide as the problem says."""

    def simulate(problem, seed):
        rng = np.random.default_rng(seed)
        zeta = problem.noise.sample_parameters(rng)
        theta = np.concatenate([zeta, width * problem.prior.sample(rng)])
        exact = np.asarray(predicted(problem, theta))
        values = exact + noise * (problem.noise.sample(rng, exact, zeta) - exact)
        return replace(problem, observed=jax.device_put(values)), theta

    return simulate


@pytest.mark.slow  # half a minute each, to compile
@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("name", COMBINATIONS)
def test_ranks_of_the_truth_are_uniform(name, tmp_path, monkeypatch):
    """Negative controls, by the same programs: a wrong width of the prior or of the noise."""
    problem = build(name, tmp_path)
    verdict = calibrate(problem, simulations=80 if name == CONTROL else 40, **OPTIONS).verdict()
    assert verdict.is_calibrated, str(verdict)
    for width, noise in [(1.8, 1.0), (1.0, 2.0)] if name == CONTROL else []:
        monkeypatch.setattr(calibration, "simulate_problem", simulated_wrongly(width, noise))
        found = calibrate(problem, simulations=60, **OPTIONS)
        assert min(found.p_values().values()) < 1e-5
