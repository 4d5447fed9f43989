"""Ranks of tanks of 12 electrodes, less a reference, of three materials, with offsets: uniform."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
import scipy.io
import tomli_w
from structured import box_mesh, write_gmsh

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.app.studies import calibrate as calibration
from invlift.app.studies.calibrate import calibrate
from invlift.fem.mesh.construction import mesh_from_arrays

pytestmark = pytest.mark.long_chains

NUM = 12
LOGNORMAL = {"distribution": "lognormal", "median": 1.0, "factor": 1.3}
PRIOR = {"kind": "matern", "range": 0.8, "std": 0.5, "smoothness": 1.0}
MATERIALS = {"kind": "inclusions", "background": LOGNORMAL, "range": 0.8, "smoothness": 1.0,
             "inclusion": {"resistive": 0.2, "conductive": 5.0}, "share": 0.4}  # fmt: skip
REFERENCE = {"reference": {"file": "tank.mat", "conductivity": LOGNORMAL}}
OFFSET = {"offset": {"pair": {"distribution": "normal", "mean": 0.0, "sd": 0.3}}}
CASES = {"inclusions": (MATERIALS, REFERENCE), "offset": (PRIOR, OFFSET)}
OPTIONS = {"draws": 7, "warmup": 40, "seed": 11}
predicted = jax.jit(lambda problem, theta: problem.predict(theta))


def tank():
    """A square whose rim has 24 edges, of which every second is an electrode."""
    box = box_mesh(2, 6)
    edges = np.concatenate(list(box.boundaries.values()))
    middles = box.points[edges].mean(axis=1) - 0.5
    edges = edges[np.argsort(np.arctan2(*middles.T[::-1]))]
    groups = {f"electrode_{k + 1}": edges[2 * k : 2 * k + 1] for k in range(NUM)}
    whole = {"tank": np.arange(len(box.cells))}
    return mesh_from_arrays(box.points, box.cells, boundaries=groups, subdomains=whole, name="tank")


def build(folder, prior, of_readings):
    """Matrices of a body, and of an empty tank if there is one: six injections and four pairs."""
    unit = np.eye(NUM)
    driven = np.array([unit[k] - unit[(k + 5) % NUM] for k in range(0, NUM, 2)])
    pairs = np.array([unit[k] - unit[k + 1] for k in (1, 4, 7, 10)])
    content = {"Inj": driven.T, "Mpat": pairs.T, "Uel": np.zeros((24, 1))}
    scipy.io.savemat(folder / "tank.mat", content)
    write_gmsh(folder / "tank.msh", tank())
    sections = {
        "mesh": {"file": "tank.msh"},
        "electrodes": {"groups": "electrode_*", "impedance": 0.1},
        "observations": {"file": "tank.mat"} | of_readings,
        "prior": prior,
        "noise": {"sigma": LOGNORMAL | {"median": 0.05}},
    }
    path = folder / "problem.toml"
    path.write_text(tomli_w.dumps(sections))
    return build_problem(read_problem(path))


def with_offsets(problem, seed, spread, num):
    """Readings have further offsets, of each of so many pairs or injections."""
    rng = np.random.default_rng(seed)
    zeta = problem.noise.sample_parameters(rng)
    theta = np.concatenate([zeta, problem.prior.sample(rng)])
    exact = np.asarray(predicted(problem, theta))
    values = problem.noise.sample(rng, exact, zeta)
    values += spread(0.3 * rng.standard_normal(num), values.size // num)
    return replace(problem, observed=jax.device_put(values)), theta


@pytest.fixture
def few_draws(monkeypatch):
    """Chains are as short as ranks among seven draws allow."""
    monkeypatch.setattr(calibration, "FEWEST_DRAWS", 50)


#: Negative controls: readings have further offsets of each pair of one body alone, or of each
#: injection where pairs have some.
FURTHER = {"inclusions": (np.tile, 4), "offset": (np.repeat, 6)}


@pytest.mark.slow
@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("case", CASES)
def test_ranks_of_the_truth_are_uniform(case, tmp_path, monkeypatch):
    problem, (spread, num) = build(tmp_path, *CASES[case]), FURTHER[case]
    verdict = calibrate(problem, simulations=36, **OPTIONS).verdict()
    assert verdict.is_calibrated, str(verdict)
    simulate = partial(with_offsets, spread=spread, num=num)
    monkeypatch.setattr(calibration, "simulate_problem", simulate)
    found = calibrate(problem, simulations=20, **OPTIONS)
    assert min(found.p_values().values()) < 1e-4
