"""Independent priors on piecewise constants: what each white-noise entry moves, and by how much."""

import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.fields.independent import independent_prior
from invlift.fem.mesh.construction import mesh_from_arrays


@pytest.fixture(scope="module")
def mesh():
    return box_mesh(2, 4)


def dense(prior):
    """S and S^T as matrices."""
    num_cells = prior.mean.shape[0]
    return (
        np.asarray(prior.sqrt(jnp.eye(prior.num_white))),
        np.asarray(prior.sqrt_transpose(jnp.eye(num_cells))),
    )


PRIORS = {
    "per cell, by subdomain": {
        "per": "cell",
        "mean": {"low": 1.0, "high": -1.0},
        "std": {"low": 0.5, "high": 3.0},
    },
    "per subdomain": {"per": "subdomain", "std": {"low": 0.5, "high": 3.0}, "mean": 0.1},
}


def expected_covariance(mesh, per, std):
    """From the words: cells of one group share their value, all else is independent."""
    of_cell = np.zeros(mesh.num_cells)
    label = np.arange(mesh.num_cells)
    for number, (name, cells) in enumerate(mesh.subdomains.items()):
        of_cell[cells] = std[name] if isinstance(std, dict) else std
        if per == "subdomain":
            label[cells] = -1 - number
    return (label[:, None] == label) * np.outer(of_cell, of_cell)


@pytest.mark.parametrize("name", PRIORS)
def test_covariance_and_mean_are_what_was_asked_for(mesh, name):
    settings = PRIORS[name]
    prior = independent_prior(mesh, **settings)
    assert prior.location == "cells"
    assert prior.num_white == (mesh.num_cells if settings["per"] == "cell" else 2)
    matrix, transpose = dense(prior)
    covariance = expected_covariance(mesh, settings["per"], settings["std"])
    np.testing.assert_allclose(matrix @ matrix.T, covariance, rtol=1e-14)
    np.testing.assert_allclose(transpose, matrix.T, rtol=1e-14)
    np.testing.assert_allclose(prior.pointwise_std(), np.sqrt(np.diag(covariance)), rtol=1e-14)
    # negative control: the other grouping has another covariance
    other = "subdomain" if settings["per"] == "cell" else "cell"
    assert np.abs(covariance - expected_covariance(mesh, other, settings["std"])).max() > 0.1
    mean = settings.get("mean", 0.0)
    expected = np.zeros(mesh.num_cells)
    for group, cells in mesh.subdomains.items():
        expected[cells] = mean[group] if isinstance(mean, dict) else mean
    np.testing.assert_array_equal(prior.transform(jnp.zeros(prior.num_white)), expected)
    white = jnp.asarray(np.random.default_rng(1).standard_normal(prior.num_white))
    np.testing.assert_allclose(prior.transform(white), expected + matrix @ white, rtol=1e-13)


def test_a_mesh_without_subdomains_has_a_prior_per_cell(mesh):
    plain = mesh_from_arrays(mesh.points, mesh.cells)
    prior = independent_prior(plain, std=0.7)
    np.testing.assert_array_equal(prior.pointwise_std(), np.full(mesh.num_cells, 0.7))
    with pytest.raises(InputError, match=r"cell 0: .*one named subdomain \(there is none\)"):
        independent_prior(plain, per="subdomain")


def with_subdomains(mesh, **subdomains):
    return mesh_from_arrays(mesh.points, mesh.cells, subdomains=subdomains, name="plate")


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        (r"prior per: .*found 'node'", {"per": "node"}),
        (r"prior std: .*positive numbers, found 0", {"std": 0.0}),
        (r"prior mean: .*finite", {"mean": np.inf}),
        (r"prior std: .*high, low, found low", {"std": {"low": 1.0}}),
        (
            r"prior mean: .*found high, low, middle",
            {"mean": dict.fromkeys(("low", "high", "middle"), 0.0)},
        ),
    ],
)
def test_bad_input_is_named(mesh, match, changes):
    with pytest.raises(InputError, match=match):
        independent_prior(mesh, **changes)


def test_subdomains_must_share_out_the_cells(mesh):
    low, high = mesh.subdomains["low"], mesh.subdomains["high"]
    twice = with_subdomains(mesh, low=low, high=np.append(high, low[3]))
    with pytest.raises(InputError, match=rf"plate, cell {low[3]}: .*exactly one.*found 2"):
        independent_prior(twice, per="subdomain")
    gap = with_subdomains(mesh, low=low, high=high[:-1])
    with pytest.raises(InputError, match=rf"plate, cell {high[-1]}: .*found 0"):
        independent_prior(gap, per="subdomain")
    assert independent_prior(gap, per="cell").num_white == mesh.num_cells
