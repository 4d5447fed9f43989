"""The disc's figure of the manifold lifting paper: what the saved data of the example say."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "examples" / "manifold_lifting"))

import poisson
import solution_field

SMALL = 0.1 * (1 + 1e-9)


@pytest.fixture(scope="module")
def rates():
    """Effective draws per second by method and scale, for small scales."""
    return {
        (row["method"], row["scale"]): row["ess_per_second"]
        for row in poisson.read()
        if row["scale"] <= SMALL
    }


def spread(rates, method):
    own = [rate for (name, _), rate in rates.items() if name == method]
    assert len(own) == 6
    return max(own) / min(own)


def test_efficiency_on_the_manifold_does_not_depend_on_the_noise(rates):
    assert spread(rates, "C-HMC, default") < 2.5
    # Negative control: where the noise is as large as what it hides, it does.
    largest = next(
        row["ess_per_second"]
        for row in poisson.read()
        if (row["method"], row["scale"]) == ("C-HMC, default", 1.0)
    )
    assert max(rates["C-HMC, default", scale] for _, scale in rates) / largest > 2.5


def test_it_is_ahead_of_all_samplers_on_the_density_by_far(rates):
    others = {key: rate for key, rate in rates.items() if not key[0].startswith("C-HMC")}
    assert len(others) == 13 * 6
    others = {key: rate for key, rate in others.items() if not key[0].startswith("RM-HMC")}
    assert len(others) == 12 * 6  # RM-HMC has made no draws in its time
    for (method, scale), rate in others.items():
        assert rates["C-HMC, default", scale] > 30 * rate, (method, scale)
    # Negative control: not of the paper's own setting.
    assert rates["C-HMC, default", 1e-2] < 30 * rates["C-HMC, Newton", 1e-2]


def test_only_methods_on_the_manifold_have_converged():
    converged = {row["method"] for row in poisson.read() if poisson.has_converged(row)}
    assert "C-HMC, default" in converged
    assert all(method.startswith("C-HMC") for method in converged)
    # Whatever the noise.
    default = [row["r_hat"] for row in poisson.read() if row["method"] == "C-HMC, default"]
    assert len(default) == len(poisson.SCALES)
    assert max(default) <= 1.01


def test_mesh_of_the_preprint_has_207_nodes():
    points, cells, edges = solution_field.disc()
    assert points.shape == (207, 2)
    assert len(edges) == solution_field.NUM_RIM
    # Euler: as many triangles as a disc of so many nodes and rim edges has.
    assert len(cells) == 2 * 207 - 2 - solution_field.NUM_RIM
