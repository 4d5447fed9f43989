"""Ranks of tanks of 12 electrodes, less a reference, of three materials, with offsets: uniform."""

from dataclasses import replace

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
MATERIALS = {"kind": "inclusions", "background": LOGNORMAL, "range": 0.8, "smoothness": 1.0,
             "inclusion": {"resistive": 0.2, "conductive": 5.0}, "share": 0.4}  # fmt: skip
REFERENCE = {"reference": {"file": "tank.mat", "conductivity": LOGNORMAL}}
OFFSET = {"offset": {"pair": {"distribution": "normal", "mean": 0.0, "sd": 0.3}}}
OPTIONS = {"draws": 7, "warmup": 40, "seed": 11}
predicted = jax.jit(lambda problem, theta: problem.predict(theta))


def tank():
    """A square whose rim has 36 edges, of which every third is an electrode."""
    box = box_mesh(2, 9)
    edges = np.concatenate(list(box.boundaries.values()))
    middles = box.points[edges].mean(axis=1) - 0.5
    edges = edges[np.argsort(np.arctan2(*middles.T[::-1]))]
    groups = {f"electrode_{k + 1}": edges[3 * k : 3 * k + 1] for k in range(NUM)}
    whole = {"tank": np.arange(len(box.cells))}
    return mesh_from_arrays(box.points, box.cells, boundaries=groups, subdomains=whole, name="tank")


def build(folder):
    """Matrices of a body, and of an empty tank: six injections and four pairs."""
    unit = np.eye(NUM)
    driven = np.array([unit[k] - unit[(k + 5) % NUM] for k in range(0, NUM, 2)])
    pairs = np.array([unit[k] - unit[k + 1] for k in (1, 4, 7, 10)])
    content = {"Inj": driven.T, "Mpat": pairs.T, "Uel": np.zeros((24, 1))}
    scipy.io.savemat(folder / "tank.mat", content)
    write_gmsh(folder / "tank.msh", tank())
    sections = {
        "mesh": {"file": "tank.msh"},
        "electrodes": {"groups": "electrode_*", "impedance": 0.1},
        "observations": {"file": "tank.mat"} | REFERENCE | OFFSET,
        "prior": MATERIALS,
        "noise": {"sigma": LOGNORMAL | {"median": 0.05}},
    }
    path = folder / "problem.toml"
    path.write_text(tomli_w.dumps(sections))
    return build_problem(read_problem(path))


def with_offsets(problem, seed):
    """Negative control: readings have further offsets, of each injection where pairs have some."""
    rng = np.random.default_rng(seed)
    zeta = problem.noise.sample_parameters(rng)
    theta = np.concatenate([zeta, problem.prior.sample(rng)])
    exact = np.asarray(predicted(problem, theta))
    values = problem.noise.sample(rng, exact, zeta)
    values += np.repeat(0.3 * rng.standard_normal(6), values.size // 6)
    return replace(problem, observed=jax.device_put(values)), theta


@pytest.fixture
def few_draws(monkeypatch):
    """Chains are as short as ranks among seven draws allow."""
    monkeypatch.setattr(calibration, "FEWEST_DRAWS", 50)


@pytest.mark.slow
@pytest.mark.usefixtures("few_draws")
def test_ranks_of_the_truth_are_uniform(tmp_path, monkeypatch):
    problem = build(tmp_path)
    verdict = calibrate(problem, simulations=24, **OPTIONS).verdict()
    assert verdict.is_calibrated, str(verdict)
    monkeypatch.setattr(calibration, "simulate_problem", with_offsets)
    found = calibrate(problem, simulations=16, **OPTIONS)
    assert min(found.p_values().values()) < 1e-4
