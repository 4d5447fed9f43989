"""A Matern field for each layer: covariances, jumps, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.fields.layered import layered_prior
from invlift.fem.fields.matern_prior import matern_prior
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.unknowns.distributions import lognormal

LOW = {"range": 0.6, "std": 0.5, "smoothness": 1.0, "mean": 2.0}
HIGH = {"range": 0.3, "std": 1.5, "smoothness": 2.0, "boundary": "robin"}


@pytest.fixture(scope="module")
def mesh():
    return box_mesh(2, 4)


@pytest.fixture(scope="module")
def prior(mesh):
    return layered_prior(mesh, {"low": LOW, "high": HIGH})


@jax.jit
def root_of(prior):
    _, tangent = prior.linearise(jnp.zeros(prior.num_white))
    return tangent.push(jnp.eye(prior.num_white))


def covariance_of(prior):
    root = np.asarray(root_of(prior))
    return root @ root.T


def test_each_layer_has_the_field_of_a_body_of_its_own(mesh, prior):
    assert (prior.location, prior.is_affine) == ("cells", True)
    found, expected = covariance_of(prior), np.zeros((mesh.num_cells,) * 2)
    for name, settings in (("low", LOW), ("high", HIGH)):
        own = mesh.cells_of(name)
        nodes, cells = np.unique(mesh.cells[own], return_inverse=True)
        cells = cells.reshape(-1, 3)
        alone = matern_prior(mesh_from_arrays(mesh.points[nodes], cells), **settings)
        means = np.zeros((len(own), len(nodes)))
        np.put_along_axis(means, cells, 1 / 3, axis=1)
        expected[np.ix_(own, own)] = means @ covariance_of(alone) @ means.T
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(prior.pointwise_std(), np.sqrt(np.diag(expected)), rtol=1e-10)
    # negative control: one field on the whole body does not jump
    low, high = (mesh.cells_of(name) for name in ("low", "high"))
    assert not found[np.ix_(low, high)].any()
    whole = covariance_of(matern_prior(mesh, **LOW))
    assert whole[np.ix_(np.unique(mesh.cells[low]), np.unique(mesh.cells[high]))].max() > 0.1


def test_what_is_unknown_has_the_name_of_its_layer(mesh, prior):
    spread = lognormal(median=0.5, factor=1.5)
    unknown = layered_prior(mesh, {"low": LOW | {"std": spread}, "high": HIGH})
    assert not unknown.is_affine
    assert unknown.num_white == prior.num_white + 1
    assert unknown.distributions == {"low_prior_std": spread}
    white = jnp.zeros(unknown.num_white).at[0].set(1.0)
    assert unknown.parameters(white) == {"low_prior_std": pytest.approx(0.75)}
    # over the unknown std: its root mean square in place of 0.5
    ratio = unknown.pointwise_std() / prior.pointwise_std()
    is_low = np.isin(np.arange(mesh.num_cells), mesh.cells_of("low"))
    np.testing.assert_allclose(ratio, np.where(is_low, np.exp(np.log(1.5) ** 2), 1.0), rtol=1e-6)


@pytest.mark.parametrize(
    ("match", "layers"),
    [
        (r"prior layer, hihg: expected a subdomain .*did you mean 'high'", {"hihg": HIGH}),
        (r"box, cell \d+: expected every cell in exactly one layer \(low\), found 0 "
         r"\(subdomains of the cell: high\); give each", {"low": LOW}),
        (r"prior layer, low: expected the arguments .* found 'rnage'",
         {"low": {"rnage": 1.0, "std": 1.0, "smoothness": 1.0}, "high": HIGH}),
        (r"prior layer, low, smoothness: ", {"low": LOW | {"smoothness": 0.5}, "high": HIGH}),
    ],
)  # fmt: skip
def test_bad_input_is_named(mesh, match, layers):
    with pytest.raises(InputError, match=match):
        layered_prior(mesh, layers)


def test_layers_must_not_overlap(mesh):
    groups = {name: mesh.cells_of(name) for name in ("low", "high")}
    groups["high"] = np.append(groups["high"], groups["low"][3])
    twice = mesh_from_arrays(mesh.points, mesh.cells, subdomains=groups)
    with pytest.raises(InputError, match=rf"cell {groups['low'][3]}: .*found 2"):
        layered_prior(twice, {"low": LOW, "high": HIGH})
