"""The sparse factorisation against dense linear algebra."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from skfem import MeshTet, MeshTri
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.linalg import multifrontal as linalg
from invlift.fem.linalg.ordering import nested_dissection
from invlift.fem.linalg.symbolic import analyse

factorise = jax.jit(linalg.factorise)
solve = jax.jit(linalg.solve)
half_solve = jax.jit(linalg.half_solve)
half_solve_transpose = jax.jit(linalg.half_solve_transpose)
log_determinant = jax.jit(linalg.log_determinant)


def dense(rows, cols, values, num_unknowns):
    """Sum the contributions into a dense symmetric matrix."""
    matrix = np.zeros((num_unknowns, num_unknowns))
    np.add.at(matrix, (rows, cols), values)
    is_off_diagonal = rows != cols
    np.add.at(matrix, (cols[is_off_diagonal], rows[is_off_diagonal]), values[is_off_diagonal])
    return matrix


def finite_elements(mesh, rng, conductivity=1.0):
    """Contributions of a P1 stiffness matrix with rough coefficients, zero on the boundary."""
    points, cells = mesh.p.T, mesh.t.T
    corners = points[cells]
    edges = corners[:, 1:] - corners[:, :1]
    gradients = np.linalg.inv(edges).swapaxes(1, 2)
    gradients = np.concatenate([-gradients.sum(axis=1, keepdims=True), gradients], axis=1)
    weights = conductivity * np.exp(rng.standard_normal(len(cells)))
    weights = weights * np.abs(np.linalg.det(edges))
    blocks = np.einsum("e,eid,ejd->eij", weights, gradients, gradients)
    number = np.full(len(points), -1)
    number[mesh.interior_nodes()] = np.arange(mesh.interior_nodes().size)
    i, j = np.tril_indices(cells.shape[1])
    rows, cols = number[cells[:, i]], number[cells[:, j]]
    is_free = (rows >= 0) & (cols >= 0)
    coordinates = points[mesh.interior_nodes()]
    return rows[is_free], cols[is_free], blocks[:, i, j][is_free], len(coordinates), coordinates


def graph_matrix(pairs, num_unknowns, rng):
    """Contributions of a diagonally dominant matrix; triangles mixed, diagonal in two parts."""
    pairs = np.asarray(pairs, dtype=int).reshape(-1, 2)
    swap = rng.random(len(pairs)) < 0.5
    pairs = np.where(swap[:, None], pairs[:, ::-1], pairs)
    weights = rng.standard_normal(len(pairs))
    diagonal = np.zeros(num_unknowns)
    np.add.at(diagonal, pairs.ravel(), np.repeat(np.abs(weights), 2))
    index = np.arange(num_unknowns)
    rows = np.concatenate([pairs[:, 0], index, index])
    cols = np.concatenate([pairs[:, 1], index, index])
    values = np.concatenate([weights, diagonal, rng.uniform(0.1, 1.0, num_unknowns)])
    return rows, cols, values, num_unknowns, None


SLOW = pytest.param("large square", marks=pytest.mark.slow)


def path(n):
    return np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)


def complete(n):
    return np.stack(np.triu_indices(n, 1), axis=1)


def sparse_random(n, rng):
    pairs = rng.integers(0, n, (3 * n, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]]


def problem(name):
    rng = np.random.default_rng(11)
    if name == "large square":
        return finite_elements(MeshTri().refined(5), rng)
    if name == "square":
        return finite_elements(MeshTri().refined(3), rng)
    if name == "cube":
        return finite_elements(MeshTet().refined(3), rng)
    if name == "square, no coordinates":
        return (*finite_elements(MeshTri().refined(3), rng)[:4], None)
    pairs, n = {
        "one": ([], 1),
        "two": ([[1, 0]], 2),
        "five": ([[0, 3], [3, 4], [1, 4]], 5),
        "diagonal": ([], 50),
        "path": (path(300), 300),
        "star": ([[0, k] for k in range(1, 200)], 200),
        "complete": (complete(60), 60),
        "random": (sparse_random(80, rng), 80),
        "disconnected": (
            np.concatenate([path(70), 70 + complete(20), 90 + sparse_random(40, rng)]),
            135,
        ),
    }[name]
    return graph_matrix(pairs, n, rng)


NAMES = [
    "large square",
    "square",
    "cube",
    "square, no coordinates",
    "one",
    "two",
    "five",
    "diagonal",
    "path",
]
NAMES += ["star", "complete", "random", "disconnected"]


@pytest.mark.parametrize("name", NAMES[:4])
def test_agrees_with_dense_linear_algebra(name):
    """Of meshes, with coordinates or without; graphs of other shapes are those of test_linalg."""
    rows, cols, values, n, coordinates = problem(name)
    structure = analyse(rows, cols, n, coordinates)
    matrix = dense(rows, cols, values, n)
    rhs = np.random.default_rng(1).standard_normal((n, 3))
    expected = np.linalg.solve(matrix, rhs)
    tolerance = 1e-12 * np.abs(expected).max()

    factor = factorise(structure, values)
    np.testing.assert_allclose(solve(factor, rhs), expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(solve(factor, rhs[:, 0]), expected[:, 0], rtol=0, atol=tolerance)
    halves = half_solve_transpose(factor, half_solve(factor, rhs))
    np.testing.assert_allclose(halves, expected, rtol=0, atol=tolerance)
    assert log_determinant(factor) == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_separators_separate(name):
    rows, cols, _, n, coordinates = problem(name)
    edges = np.unique(np.sort(np.stack([rows, cols], axis=1)[rows != cols], axis=1), axis=0)
    node = nested_dissection(n, edges, coordinates, leaf_size=4)
    assert node.shape == (n,)
    assert node.min() >= 1
    for first, second in node[edges]:
        deep, shallow = max(first, second), min(first, second)
        assert deep >> (int(deep).bit_length() - int(shallow).bit_length()) == shallow


def test_fill_of_a_square_grows_like_n_log_n():
    entries = {}
    for level in (4, 6):
        rows, cols, _, n, coordinates = finite_elements(
            MeshTri().refined(level), np.random.default_rng(0)
        )
        entries[n] = analyse(rows, cols, n, coordinates).panel_size
    small, large = sorted(entries)
    # An ordering without separators has a factor of n^1.5 entries at best.
    assert entries[large] / entries[small] < 1.2 * large * np.log(large) / (small * np.log(small))


def differentiable_solve(structure, rows, cols, values, rhs):
    """Solve with derivatives in values and rhs, as a forward model does."""
    factor = factorise(structure, jax.lax.stop_gradient(values))
    weight = jnp.where(rows != cols, values, 0.0)

    def matvec(x):
        product = jnp.zeros_like(x).at[rows].add(values * x[cols])
        return product.at[cols].add(weight * x[rows])

    return jax.lax.custom_linear_solve(matvec, rhs, lambda _, b: solve(factor, b), symmetric=True)


def test_derivatives_through_custom_linear_solve():
    rows, cols, values, n, coordinates = problem("square, no coordinates")
    structure = analyse(rows, cols, n, coordinates)
    rng = np.random.default_rng(3)
    rhs, weight = rng.standard_normal((2, n))
    direction = rng.standard_normal(values.size) * np.abs(values)

    def sparse(values):
        return weight @ differentiable_solve(structure, rows, cols, values, rhs)

    def reference(values):
        matrix = jnp.zeros((n, n)).at[rows, cols].add(values)
        matrix = matrix.at[cols, rows].add(jnp.where(rows != cols, values, 0.0))
        return weight @ jnp.linalg.solve(matrix, rhs)

    def slope(function):
        return lambda values: jax.jvp(function, (values,), (direction,))[1]

    for derivative in (jax.grad, slope, lambda f: jax.grad(slope(f))):
        found, expected = (jax.jit(derivative(f))(values) for f in (sparse, reference))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(
    "name",
    ["square", "cube", "one", "star", "disconnected", SLOW],
)
def test_diagonal_of_the_inverse_and_its_derivatives(name):
    rows, cols, values, n, coordinates = problem(name)
    structure = analyse(rows, cols, n, coordinates)
    inverse = np.linalg.inv(dense(rows, cols, values, n))
    # d A^-1 = -A^-1 dA A^-1, and d^2 A^-1 = 2 A^-1 dA A^-1 dA A^-1.
    along = np.random.default_rng(2).uniform(0.5, 1.5, values.size) * np.abs(values)
    change = dense(rows, cols, along, n)
    once = inverse @ change @ inverse

    def first(values):
        return jax.jvp(lambda v: linalg.inverse_diagonal(structure, v), (values,), (along,))

    (diagonal, slope), (_, curvature) = jax.jit(lambda values: jax.jvp(first, (values,), (along,)))(
        values
    )
    np.testing.assert_allclose(diagonal, np.diag(inverse), rtol=1e-11)
    scale = np.abs(np.diag(once)).max()
    np.testing.assert_allclose(slope, -np.diag(once), rtol=0, atol=1e-10 * scale)
    twice = 2.0 * np.diag(once @ change @ inverse)
    np.testing.assert_allclose(curvature, twice, rtol=0, atol=1e-9 * np.abs(twice).max())


@pytest.mark.parametrize("differentiate", [jax.grad, jax.jacfwd])
def test_no_derivatives_through_the_factor(differentiate):
    """An error, as it would be 0; values that are kept apart have none."""
    rows, cols, values, n, _ = problem("five")
    structure = analyse(rows, cols, n)

    def total(values):
        return jnp.sum(solve(factorise(structure, values), jnp.ones(n)))

    with pytest.raises(InputError, match="factorise: expected values without"):
        differentiate(total)(values)
    apart = differentiate(lambda v: total(jax.lax.stop_gradient(v)))(values)
    np.testing.assert_array_equal(apart, 0.0)


@jax.jit
def all_of(structure, values, rhs):
    factor = linalg.factorise(structure, values)
    halves = linalg.half_solve(factor, rhs), linalg.half_solve_transpose(factor, rhs)
    diagonal = linalg.inverse_diagonal(structure, values)
    return linalg.log_determinant(factor), linalg.solve(factor, rhs), *halves, diagonal


@pytest.mark.parametrize("name", ["square", "disconnected"])
def test_bad_matrices_give_nan(name):
    rows, cols, values, n, coordinates = problem(name)
    structure = analyse(rows, cols, n, coordinates)
    entry = np.flatnonzero(rows == cols)[0]
    for bad in (-1e3, np.nan, np.inf):
        values[entry] = bad
        for found in all_of(structure, values, np.ones(n)):
            assert np.isnan(found).all()


def test_a_misplaced_contribution_changes_the_answer():
    rows, cols, values, n, coordinates = problem("random")
    values = np.where(rows == cols, values + 5.0, values)  # the wrong matrix is definite too
    entry = np.argmax(np.where(rows != cols, np.abs(values), 0.0))
    wrong = rows.copy()
    wrong[entry] = np.setdiff1d(np.arange(n), [rows[entry], cols[entry]])[0]
    right, moved = (
        solve(factorise(analyse(index, cols, n, coordinates), values), np.ones(n))
        for index in (rows, wrong)
    )
    expected = np.linalg.solve(dense(rows, cols, values, n), np.ones(n))
    np.testing.assert_allclose(right, expected, rtol=1e-10)
    assert np.isfinite(moved).all()
    assert np.abs(moved - expected).max() > 1e-4 * np.abs(expected).max()


def test_backward_error_at_a_contrast_of_1e18():
    mesh = MeshTri().refined(4)
    jump = np.where(mesh.p[0, mesh.t].mean(axis=0) < 0.5, 1e-9, 1e9)
    rows, cols, values, n, coordinates = finite_elements(mesh, np.random.default_rng(0), jump)
    rhs = np.random.default_rng(1).standard_normal(n)
    found = np.asarray(solve(factorise(analyse(rows, cols, n, coordinates), values), rhs))
    matrix = dense(rows, cols, values, n)
    scale = np.abs(matrix) @ np.abs(found) + np.abs(rhs)
    assert np.max(np.abs(matrix @ found - rhs) / scale) < 1e-12


def test_structure_survives_pickling():
    rows, cols, values, n, coordinates = problem("cube")
    structure = analyse(rows, cols, n, coordinates)
    copy = pickle.loads(pickle.dumps(structure))
    assert jax.tree.structure(copy) == jax.tree.structure(structure)
    first, second = (solve(factorise(s, values), np.ones(n)) for s in (structure, copy))
    np.testing.assert_array_equal(first, second)


def test_structure_is_static_under_jit():
    rows, cols, values, n, coordinates = problem("five")
    structure = analyse(rows, cols, n, coordinates)
    num_traces = 0

    @jax.jit
    def run(structure, values):
        nonlocal num_traces
        num_traces += 1
        return solve(factorise(structure, values), jnp.ones(n))

    first = run(structure, values)
    second = run(analyse(rows, cols, n, coordinates), 2.0 * values)
    np.testing.assert_allclose(first, 2.0 * second, rtol=1e-14)
    assert num_traces == 1


@pytest.mark.parametrize("shape", [(3, 61), (4, 100), (1, 321), (2, 390)])
def test_fronts_of_many_columns_by_blocks(shape):
    """Few by LAPACK and many by columns; only lower triangles are read."""
    num, size = shape
    values = np.random.default_rng(3).standard_normal((num, size, size))
    matrices = values @ values.swapaxes(1, 2) + size * np.eye(size)
    lower = jnp.where(jnp.tri(size, dtype=bool), matrices, jnp.nan)
    found = jax.jit(linalg._inverse_cholesky)(lower)
    expected = np.linalg.inv(np.linalg.cholesky(matrices))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    indefinite = lower.at[-1, -1, -1].set(-1.0)
    assert np.isnan(jax.jit(linalg._inverse_cholesky)(indefinite)[-1]).any()


def test_programs_of_large_meshes_hold_few_batches():
    """That of a body of 8,000 nodes has fewer than 2.5 times the lines of one of 1,000 nodes."""
    lines = []
    for num in 9, 19:
        mesh = box_mesh(3, num)
        edges = np.concatenate([mesh.cells[:, [i, j]] for i in range(4) for j in range(i)])
        rows = np.concatenate([edges[:, 0], np.arange(mesh.num_nodes)])
        cols = np.concatenate([edges[:, 1], np.arange(mesh.num_nodes)])
        structure = analyse(rows, cols, mesh.num_nodes, mesh.points)
        lowered = factorise.lower(structure, jnp.ones(rows.size))
        lines.append(len(lowered.as_text().splitlines()))
    assert lines[1] < 2.5 * lines[0]
