"""The Matern prior: against dense matrices, and against the formula of the field it stands for."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import kv
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.fields import matern
from invlift.fem.fields.matern_prior import matern_prior

RANGE, STD = 0.8, 1.7
root = jax.jit(lambda prior, columns: prior.sqrt(columns))
root_transpose = jax.jit(lambda prior, columns: prior.sqrt_transpose(columns))


def dense_matrices(mesh):
    """Mass and stiffness matrix from the formulas for linear simplices (num_nodes, num_nodes)."""
    dim = mesh.dim
    mass, stiffness = np.zeros((2, mesh.num_nodes, mesh.num_nodes))
    for nodes, volume in zip(mesh.cells, mesh.volumes, strict=True):
        corners = np.column_stack([np.ones(dim + 1), mesh.points[nodes]])
        gradients = np.linalg.inv(corners)[1:].T
        block = np.ix_(nodes, nodes)
        mass[block] += volume * (1 + np.eye(dim + 1)) / ((dim + 1) * (dim + 2))
        stiffness[block] += volume * gradients @ gradients.T
    return mass, stiffness


def dense_boundary_mass(mesh):
    """Mass matrix of the boundary's edges or triangles."""
    matrix = np.zeros((mesh.num_nodes, mesh.num_nodes))
    dim = mesh.dim
    for nodes in mesh.boundary_facets:
        edges = mesh.points[nodes[1:]] - mesh.points[nodes[0]]
        size = math.sqrt(np.linalg.det(edges @ edges.T)) / math.factorial(dim - 1)
        matrix[np.ix_(nodes, nodes)] += size * (1 + np.eye(dim)) / (dim * (dim + 1))
    return matrix


def dense_covariance(mesh, smoothness, alpha, boundary="neumann"):
    """Covariance of the field, from Lindgren, Rue & Lindstrom's recursion on dense matrices."""
    mass, stiffness = dense_matrices(mesh)
    kappa = math.sqrt(8 * smoothness) / RANGE
    operator = kappa**2 * mass + stiffness
    if boundary == "robin":
        operator = operator + kappa / 1.42 * dense_boundary_mass(mesh)
    inverse = np.linalg.inv(operator)
    # kappa^2 - Laplace once: alpha = 1; twice: alpha = 2, with the mass lumped
    odd, even = inverse, inverse @ np.diag(mass.sum(axis=1)) @ inverse
    covariance = odd if alpha % 2 else even
    for _ in range((alpha - 1) // 2):
        covariance = inverse @ mass @ covariance @ mass @ inverse
    nominal = smoothness + mesh.dim / 2  # the order that smoothness stands for
    tau_squared = math.gamma(smoothness) / (
        math.gamma(nominal) * (4 * math.pi) ** (mesh.dim / 2) * kappa ** (2 * smoothness) * STD**2
    )
    return covariance / tau_squared


def make(mesh, smoothness, **settings):
    return matern_prior(mesh, range=RANGE, std=STD, smoothness=smoothness, **settings)


CASES = [  # dim, smoothness, order, boundary
    (2, 2.0, 3, "robin"),
    (3, 0.5, 2, "robin"),
    (2, 3.0, 4, "neumann"),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: "-".join(map(str, c)))
def case(request):
    """A prior, S and S^T as dense matrices, and the covariance expected of it."""
    dim, smoothness, alpha, boundary = request.param
    mesh = box_mesh(dim, {2: 5, 3: 3}[dim])
    prior = make(mesh, smoothness, mean=0.3, boundary=boundary)
    assert prior.alpha == alpha
    identity = jnp.eye(mesh.num_nodes)
    matrix = np.asarray(root(prior, identity))
    transpose = np.asarray(root_transpose(prior, identity))
    return prior, matrix, transpose, dense_covariance(mesh, smoothness, alpha, boundary)


def test_covariance_is_the_dense_one(case):
    _, matrix, _, covariance = case
    tolerance = 1e-11 * covariance.max()
    np.testing.assert_allclose(matrix @ matrix.T, covariance, rtol=0, atol=tolerance)


def test_sqrt_transpose_is_the_transpose(case):
    prior, matrix, transpose, _ = case
    np.testing.assert_allclose(transpose, matrix.T, rtol=0, atol=1e-12 * np.abs(matrix).max())
    white, values = np.random.default_rng(1).standard_normal((2, prior.num_white))
    left, right = values @ (matrix @ white), (transpose @ values) @ white
    assert abs(left - right) < 1e-12 * np.sum(np.abs(values * (matrix @ white)))
    # negative control: S itself is no transpose of S
    assert np.abs(matrix - matrix.T).max() > 1e-4 * np.abs(matrix).max()


@pytest.mark.parametrize("few", [matern.FEW, 0], ids=["by columns", "by fronts"])
def test_pointwise_std_is_the_diagonal(case, few, monkeypatch):
    prior, _, _, covariance = case
    monkeypatch.setattr(matern, "FEW", few)
    np.testing.assert_allclose(prior.pointwise_std(), np.sqrt(np.diag(covariance)), rtol=1e-11)


def test_a_wrong_order_or_scale_is_seen(case):
    """Negative control: none of the above holds for a neighbouring order or another tau."""
    prior, _, _, covariance = case
    wrong = [dataclasses.replace(prior, tau=1.001 * prior.tau)]
    wrong += [dataclasses.replace(prior, alpha=prior.alpha + 1)]
    wrong += [dataclasses.replace(prior, noise_scale=1.001 * prior.noise_scale)]
    identity = jnp.eye(prior.num_white)
    for index, other in enumerate(wrong):
        matrix = np.asarray(root(other, identity))
        error = np.abs(matrix @ matrix.T - covariance).max() / covariance.max()
        is_unused = index == 2 and prior.alpha % 2 == 1  # odd orders do not lump the mass
        assert (error < 1e-11) if is_unused else (error > 1e-3)


def test_coefficients_add_the_mean_and_one_column_is_as_many():
    mesh = box_mesh(2, 4)
    mean = np.linspace(-1.0, 1.0, mesh.num_nodes)
    prior = make(mesh, 2.0, mean=mean)
    white = jnp.asarray(np.random.default_rng(2).standard_normal((mesh.num_nodes, 3)))
    many = root(prior, white)
    for operation in (root, root_transpose):
        columns = operation(prior, white)
        one = operation(prior, white[:, 2])
        np.testing.assert_allclose(one, columns[:, 2], rtol=1e-12, atol=1e-13)
    field = jax.jit(lambda prior, white: prior.transform(white))
    np.testing.assert_allclose(field(prior, white[:, 0]), mean + many[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(field(prior, jnp.zeros(mesh.num_nodes)), mean)
    mapped = jax.vmap(root, in_axes=(None, 1), out_axes=1)(prior, white)
    np.testing.assert_allclose(mapped, many, rtol=1e-12, atol=1e-13)
    assert (prior.location, prior.num_white) == ("nodes", mesh.num_nodes)


# --- against the formula ------------------------------------------------------------------------


def matern_correlation(distance, smoothness, correlation_range):
    scaled = math.sqrt(8 * smoothness) / correlation_range * np.maximum(distance, 1e-12)
    return (
        2 ** (1 - smoothness) / math.gamma(smoothness) * scaled**smoothness * kv(smoothness, scaled)
    )


def realised(dim, num, size, smoothness, *, tweak=lambda prior: prior):
    """Standard deviation at the centre of a box, and correlations with it along an axis.

    The range is 1.  Returns also the distances at which the correlations are taken.
    """
    mesh = box_mesh(dim, num, size)
    prior = tweak(matern_prior(mesh, range=1.0, std=1.0, smoothness=smoothness))
    middle = np.argmin(np.linalg.norm(mesh.points - size / 2, axis=1))
    offset = mesh.points - mesh.points[middle]
    on_axis = np.flatnonzero(
        (np.abs(offset[:, 1:]).max(axis=1) < 1e-9) & (offset[:, 0] >= 0) & (offset[:, 0] < 1.3)
    )
    units = np.zeros((mesh.num_nodes, len(on_axis)))
    units[on_axis, np.arange(len(on_axis))] = 1.0
    columns = np.asarray(root_transpose(prior, jnp.asarray(units)))
    covariance = columns.T @ columns
    distance = offset[on_axis, 0]
    centre = int(np.argmin(distance))
    deviation = np.sqrt(np.diag(covariance))
    correlation = covariance[centre] / (deviation[centre] * deviation)
    return deviation[centre], distance, correlation


# The error of the finite element field's covariance vanishes like (kappa h)^min(2 nu, 2) (times a
# logarithm for nu = 1), h the mesh width: the bounds are this order at the width used, and the
# error has to fall by the order's factor, or nearly, when the width is halved.
def test_variance_and_correlation_of_the_field():
    errors = []
    for num in (20, 40):
        deviation, distance, correlation = realised(2, num, 4.0, 1.0)
        expected = matern_correlation(distance, 1.0, 1.0)
        errors.append((abs(deviation - 1.0), np.abs(correlation - expected).max()))
    assert max(errors[-1]) < 0.03
    assert errors[0][0] > 2.5 * errors[-1][0]


def test_a_wrong_scale_order_or_range_is_detected():
    """Negative controls for the comparison with the formula, each beyond its bounds."""
    deviation, distance, correlation = realised(
        2, 40, 4.0, 1.0, tweak=lambda prior: dataclasses.replace(prior, tau=0.95 * prior.tau)
    )
    assert abs(deviation - 1.0) > 0.03
    for smoothness, correlation_range in ((2.0, 1.0), (1.0, 1.2)):
        other = matern_correlation(distance, smoothness, correlation_range)
        assert np.abs(correlation - other).max() > 0.03
    deviation, _, _ = realised(
        2, 40, 4.0, 1.0, tweak=lambda prior: dataclasses.replace(prior, alpha=3)
    )
    assert abs(deviation - 1.0) > 0.03


def test_robin_boundary_evens_out_the_variance():
    """Variance on the edge over that inside: 2 with the natural boundary, near 1 with Robin's."""
    mesh = box_mesh(2, 30, 4.0)
    middle = np.argmin(np.linalg.norm(mesh.points - 2.0, axis=1))
    edge = np.argmin(np.linalg.norm(mesh.points - [0.0, 2.0], axis=1))
    ratios = {}
    for boundary in ("neumann", "robin"):
        prior = matern_prior(mesh, range=1.0, std=1.0, smoothness=1.0, boundary=boundary)
        deviation = prior.pointwise_std()
        ratios[boundary] = (deviation[edge] / deviation[middle]) ** 2
    assert 1.9 < ratios["neumann"] < 2.1
    # 0.86 in theory, for a half plane
    assert 0.8 < ratios["robin"] < 1.2


# --- trouble ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("smoothness", "dim", "choices"),
    [(0.5, 2, "1, 2, 3"), (1.0, 3, "0.5, 1.5, 2.5"), (0.0, 2, "1, 2"), (-0.5, 3, "0.5, 1.5")],
)
def test_smoothness_that_has_no_integer_order_is_refused(smoothness, dim, choices):
    with pytest.raises(InputError, match=rf"prior smoothness: expected one of {choices}"):
        make(box_mesh(dim, 1), smoothness)


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        (r"prior range: .*positive number.*found 0", {"range": 0.0}),
        (r"prior std: .*found inf", {"std": math.inf}),
        (r"prior std: .*found array", {"std": np.ones(1)}),
        (r"prior smoothness: .*found None", {"smoothness": None}),
        (r"prior mean: expected one number or 9.*function", {"mean": lambda place: 1.0}),
        (r"prior boundary: .*found 'dirichlet'", {"boundary": "dirichlet"}),
    ],
)
def test_bad_input_is_named(match, changes):
    settings = {"range": 1.0, "std": 1.0, "smoothness": 1.0} | changes
    with pytest.raises(InputError, match=match):
        matern_prior(box_mesh(2, 2), **settings)


@pytest.mark.parametrize("as_given", [jnp.asarray, np.array, np.float32])
def test_numbers_may_be_arrays_without_axes(as_given):
    settings = {"range": 1.0, "std": 0.5, "smoothness": 1.0, "mean": 2.0}
    given = {name: as_given(value) for name, value in settings.items()}
    found, expected = (matern_prior(box_mesh(2, 2), **own) for own in (given, settings))
    assert found.nominal == expected.nominal
    np.testing.assert_array_equal(found.transform(jnp.ones(9)), expected.transform(jnp.ones(9)))
