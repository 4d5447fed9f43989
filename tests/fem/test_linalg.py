"""The sparse factorisation against dense linear algebra, on meshes and on awkward graphs."""

import pickle
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import skfem
from skfem.models.poisson import laplace, mass
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem import linalg
from invlift.fem.linalg import multifrontal
from invlift.fem.linalg.ordering import nested_dissection


class System(NamedTuple):
    """Contributions to half of a symmetric matrix, and the whole of it."""

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    coordinates: np.ndarray

    @property
    def num(self):
        return len(self.coordinates)

    @property
    def structure(self):
        return linalg.analyse(self.rows, self.cols, self.num, self.coordinates)

    @property
    def dense(self):
        matrix = np.zeros((self.num, self.num))
        np.add.at(matrix, (self.rows, self.cols), self.values)
        is_off = self.rows != self.cols
        np.add.at(matrix, (self.cols[is_off], self.rows[is_off]), self.values[is_off])
        return matrix


def graph_system(num, edges, seed=0, margin=0.05):
    """A positive definite matrix with the pattern of a graph, weights of both signs."""
    rng = np.random.default_rng(seed)
    edges = np.array(sorted(edges), dtype=int).reshape(-1, 2)
    weights = rng.uniform(0.2, 2.0, len(edges)) * rng.choice([-1.0, 1.0], len(edges))
    diagonal = rng.uniform(margin, 2 * margin, num)
    np.add.at(diagonal, edges.ravel(), np.repeat(np.abs(weights), 2))
    # either half may hold an entry
    flipped = np.where(rng.random((len(edges), 1)) < 0.5, edges, edges[:, ::-1])
    rows = np.concatenate([np.arange(num), flipped[:, 0]])
    cols = np.concatenate([np.arange(num), flipped[:, 1]])
    places = rng.standard_normal((num, 2))
    return System(rows, cols, np.concatenate([diagonal, weights]), places)


def mesh_system(dim, num, decades=4.0):
    """Stiffness matrix with conductivity varying over decades, and a little of the mass."""
    mesh = box_mesh(dim, num)
    element = skfem.ElementTriP1() if dim == 2 else skfem.ElementTetP1()
    kind = skfem.MeshTri if dim == 2 else skfem.MeshTet
    basis = skfem.Basis(kind(mesh.points.T.copy(), mesh.cells.T.copy()), element)
    constant = basis.with_element(skfem.ElementTriP0() if dim == 2 else skfem.ElementTetP0())
    scale = 10.0 ** (decades * np.random.default_rng(1).uniform(-0.5, 0.5, mesh.num_cells))

    @skfem.BilinearForm
    def form(u, v, w):
        return w.scale * laplace.form(u, v, w) + 1e-2 * mass.form(u, v, w)

    matrix = skfem.asm(form, basis, scale=constant.interpolate(scale)).tocoo()
    keep = matrix.row >= matrix.col
    return System(matrix.row[keep], matrix.col[keep], matrix.data[keep], mesh.points)


def random_edges(num, share, seed):
    rng = np.random.default_rng(seed)
    return {pair for pair in combinations(range(num), 2) if rng.random() < share}


SYSTEMS = {
    "triangles": lambda: mesh_system(2, 9),
    "tetrahedra": lambda: mesh_system(3, 4),
    "one": lambda: graph_system(1, set()),
    "star": lambda: graph_system(40, {(7, k) for k in range(40) if k != 7}),
    "three parts": lambda: graph_system(
        30,
        {(k, k + 3) for k in range(0, 27, 3)}
        | {(1 + 3 * i, 1 + 3 * j) for i, j in combinations(range(6), 2)},
    ),
    "sparse random": lambda: graph_system(80, random_edges(80, 0.03, 2), seed=2),
}


class Results(NamedTuple):
    """Everything the interface computes; one program, as compilation takes most of the time."""

    solution: np.ndarray
    solution_of_one: np.ndarray
    half_of_one: np.ndarray
    half: np.ndarray
    half_transpose: np.ndarray
    log_determinant: np.ndarray


@jax.jit
def compute(structure, values, rhs):
    factor = linalg.factorise(structure, values)
    identity = jnp.eye(rhs.shape[0])
    return Results(
        linalg.solve(factor, rhs),
        linalg.solve(factor, rhs[:, 1]),
        linalg.half_solve(factor, rhs[:, 1]),
        linalg.half_solve(factor, identity),
        linalg.half_solve_transpose(factor, identity),
        factor.log_determinant,
    )


@jax.jit
def solve_and_log_determinant(structure, values, rhs):
    factor = linalg.factorise(structure, values)
    return linalg.solve(factor, rhs), factor.log_determinant


def columns_of(num, count, seed=4):
    return jnp.asarray(np.random.default_rng(seed).standard_normal((num, count)))


def assert_inverts(matrix, solution, rhs, tolerance=1e-12):
    """Residual small relative to matrix and solution: what a backward stable solver reaches."""
    scale = np.abs(matrix).sum(axis=1).max() * np.abs(solution).max() + np.abs(rhs).max()
    assert np.abs(matrix @ np.asarray(solution) - np.asarray(rhs)).max() < tolerance * scale


@pytest.fixture(scope="module", params=SYSTEMS)
def case(request):
    """A system, right-hand sides and all that is computed with them under jit."""
    system = SYSTEMS[request.param]()
    structure = system.structure
    rhs = columns_of(system.num, 3)
    results = compute(structure, jnp.asarray(system.values), rhs)
    return system, rhs, jax.tree.map(np.asarray, results)


def test_solve(case):
    system, rhs, results = case
    assert results.solution.shape == rhs.shape
    assert_inverts(system.dense, results.solution, rhs)
    # negative control: the test sees a change of one entry in a million
    wrong = system.dense
    wrong[0, 0] *= 1 + 1e-6
    with pytest.raises(AssertionError):
        assert_inverts(wrong, results.solution, rhs)


def test_one_column_is_as_one_of_many(case):
    system, rhs, results = case
    assert results.solution_of_one.shape == results.half_of_one.shape == (system.num,)
    for one, many in (
        (results.solution_of_one, results.solution[:, 1]),
        (results.half_of_one, results.half @ rhs[:, 1]),
    ):
        np.testing.assert_allclose(many, one, rtol=0, atol=1e-12 * np.abs(many).max())


def test_halves_make_the_inverse(case):
    """half_solve_transpose is a square root of the inverse, and half_solve its transpose."""
    system, rhs, results = case
    half, root = results.half, results.half_transpose
    np.testing.assert_allclose(root, half.T, rtol=0, atol=1e-13 * np.abs(half).max())
    assert_inverts(system.dense, root @ root.T, np.eye(system.num))
    product = root @ (half @ rhs)
    np.testing.assert_allclose(
        product, results.solution, rtol=0, atol=1e-12 * np.abs(root @ root.T).sum(axis=1).max()
    )


def test_log_determinant(case):
    system, _, results = case
    sign, expected = np.linalg.slogdet(system.dense)
    assert sign == 1
    assert results.log_determinant.shape == ()
    np.testing.assert_allclose(results.log_determinant, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("name", ["three parts"])
def test_order_and_half_of_the_pairs_do_not_matter(name):
    system = SYSTEMS[name]()
    shuffle = np.random.default_rng(5).permutation(len(system.rows))
    structure = system._replace(rows=system.cols[shuffle], cols=system.rows[shuffle]).structure
    rhs = columns_of(system.num, 3)
    solution, _ = solve_and_log_determinant(structure, jnp.asarray(system.values[shuffle]), rhs)
    assert_inverts(system.dense, solution, rhs)


@pytest.mark.parametrize("name", ["sparse random"])
def test_repeated_pairs_are_summed(name):
    """Each entry in three parts of either sign and in either half."""
    system = SYSTEMS[name]()
    first, second = 3 * np.random.default_rng(6).standard_normal((2, len(system.values)))
    rows = np.concatenate([system.rows, system.cols, system.rows])
    cols = np.concatenate([system.cols, system.rows, system.cols])
    values = np.concatenate([first, second, system.values - first - second])
    structure = system._replace(rows=rows, cols=cols).structure
    rhs = columns_of(system.num, 3)
    solution, _ = solve_and_log_determinant(structure, jnp.asarray(values), rhs)
    # the parts, of size 10, round off as a change of the matrix by some 1e-15
    assert_inverts(system.dense, solution, rhs, tolerance=1e-11)
    # negative control: each part counts
    for part in range(3):
        changed = jnp.asarray(values).at[part * len(first)].add(0.1)
        other, _ = solve_and_log_determinant(structure, changed, rhs)
        with pytest.raises(AssertionError):
            assert_inverts(system.dense, other, rhs, tolerance=1e-11)


@pytest.mark.parametrize("name", ["sparse random"])
def test_vmap_over_values_and_over_right_hand_sides(name):
    system = SYSTEMS[name]()
    structure = system.structure
    scales = np.array([0.5, 1.0, 3.0])
    rhs = columns_of(system.num, 3).T
    mapped = jax.vmap(solve_and_log_determinant, in_axes=(None, 0, 0))
    solutions, determinants = mapped(structure, scales[:, None] * system.values, rhs)
    for k, scale in enumerate(scales):
        assert_inverts(scale * system.dense, solutions[k], rhs[k])
        expected = np.linalg.slogdet(scale * system.dense)[1]
        np.testing.assert_allclose(determinants[k], expected, rtol=1e-12, atol=1e-11)
    # the same matrix for all right-hand sides
    solutions, _ = jax.vmap(solve_and_log_determinant, in_axes=(None, None, 0))(
        structure, jnp.asarray(system.values), rhs
    )
    assert_inverts(system.dense, solutions.T, rhs.T)


@jax.jit
def all_of(structure, values, rhs):
    factor = linalg.factorise(structure, values)
    halves = linalg.half_solve(factor, rhs), linalg.half_solve_transpose(factor, rhs)
    diagonal = linalg.inverse_diagonal(structure, values)
    return factor.log_determinant, linalg.solve(factor, rhs), *halves, diagonal


@pytest.mark.parametrize("name", ["tetrahedra", "star"])
def test_bad_matrices_give_nan(name):
    """One diagonal entry below zero is enough, wherever it is eliminated; no exception."""
    system = SYSTEMS[name]()
    structure, rhs = system.structure, columns_of(system.num, 3)
    diagonal = np.flatnonzero(system.rows == system.cols)
    for place in diagonal[[0, len(diagonal) // 2, -1]]:
        for bad in (-1.0, np.nan, np.inf):
            values = system.values.copy()
            values[place] = bad
            for found in all_of(structure, jnp.asarray(values), rhs):
                assert np.isnan(found).all()
    # negative control: the matrix as it was is accepted
    for found in all_of(structure, jnp.asarray(system.values), rhs):
        assert np.isfinite(found).all()


def test_nan_in_one_member_of_a_batch_stays_there():
    system = SYSTEMS["triangles"]()
    structure = system.structure
    values = jnp.asarray(system.values) * jnp.asarray([[1.0], [-1.0], [2.0]])
    rhs = columns_of(system.num, 3).T
    solutions, _ = jax.vmap(solve_and_log_determinant, in_axes=(None, 0, 0))(structure, values, rhs)
    assert np.isnan(solutions).any(axis=1).tolist() == [False, True, False]


def test_derivatives_of_half_solves():
    """With A^-1 = H^T H, those of A^-1 by Leibniz's rule, and a remainder of third order."""
    system = SYSTEMS["sparse random"]()
    structure = system.structure
    changes = system.values * np.random.default_rng(5).uniform(0.5, 1.5, (2, system.values.size))
    path = (jnp.asarray(system.values), *jnp.asarray(changes))
    identity = jnp.eye(system.num)
    columns = jnp.stack([identity, 0 * identity, 0 * identity])

    @jax.jit
    def compute(path, columns, along):
        jet = linalg.factorise_jet(structure, path)
        transposed = linalg.half_solve_transpose_jet(jet, columns, along)
        return linalg.half_solve_jet(jet, columns, along), transposed

    half, transpose = map(np.asarray, compute(path, columns, 1.0))
    np.testing.assert_allclose(transpose, half.swapaxes(1, 2), rtol=0, atol=1e-11)
    matrix, first, second = (system._replace(values=np.asarray(part)).dense for part in path)
    inverse = np.linalg.inv(matrix)
    slope = -inverse @ first @ inverse
    curvature = -inverse @ second @ inverse - 2 * inverse @ first @ slope
    scale = np.abs(curvature).max()
    pairs = [half[k].T @ half[2 - k] for k in range(3)]
    np.testing.assert_allclose(half[1].T @ half[0] + half[0].T @ half[1], slope, atol=1e-11 * scale)
    np.testing.assert_allclose(pairs[0] + 2 * pairs[1] + pairs[2], curvature, atol=1e-11 * scale)
    # negative control
    assert np.abs(pairs[0] + pairs[1] + pairs[2] - curvature).max() > 1e-3 * scale
    # H itself, and not a rotation of it
    factor = jax.jit(
        lambda values: linalg.half_solve(linalg.factorise(structure, values), identity)
    )
    errors = []
    for step in (1e-2, 5e-3):
        there = factor(path[0] + step * path[1] + 0.5 * step**2 * path[2])
        errors.append(np.abs(there - half[0] - step * half[1] - 0.5 * step**2 * half[2]).max())
    assert 7.0 < errors[0] / errors[1] < 9.0
    # twice as fast along the curve, and columns that move as well
    faster = np.asarray(compute(path, columns.at[1].set(identity), 2.0)[0])
    np.testing.assert_allclose(faster[2], 4 * half[2] + 4 * half[1], rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("name", SYSTEMS)
def test_separators_separate(name):
    system = SYSTEMS[name]()
    pairs = np.sort(np.stack([system.rows, system.cols], axis=1), axis=1)
    edges = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    node = nested_dissection(system.num, edges, system.coordinates, leaf_size=4)
    assert node.shape == (system.num,)
    assert node.min() >= 1
    for first, second in node[edges]:
        deep, shallow = max(first, second), min(first, second)
        assert deep >> (int(deep).bit_length() - int(shallow).bit_length()) == shallow


def test_fill_of_a_square_grows_like_n_log_n():
    small, large = (mesh_system(2, num) for num in (16, 64))
    entries = [system.structure.panel_size for system in (small, large)]
    # An ordering without separators has a factor of n^1.5 entries at best.
    expected = large.num * np.log(large.num) / (small.num * np.log(small.num))
    assert entries[1] / entries[0] < 1.2 * expected


def test_derivatives_through_custom_linear_solve():
    """As a forward model takes them."""
    system = SYSTEMS["sparse random"]()
    rows, cols, values, num = system.rows, system.cols, system.values, system.num
    structure, rng = system.structure, np.random.default_rng(3)
    rhs, weight = rng.standard_normal((2, num))
    direction = rng.standard_normal(values.size) * np.abs(values)

    def sparse(values):
        factor = linalg.factorise(structure, jax.lax.stop_gradient(values))

        def multiply(x):
            product = jnp.zeros_like(x).at[rows].add(values * x[cols])
            return product.at[cols].add(jnp.where(rows != cols, values, 0.0) * x[rows])

        def inverse(_, right):
            return linalg.solve(factor, right)

        return weight @ jax.lax.custom_linear_solve(multiply, rhs, inverse, symmetric=True)

    def reference(values):
        matrix = jnp.zeros((num, num)).at[rows, cols].add(values)
        matrix = matrix.at[cols, rows].add(jnp.where(rows != cols, values, 0.0))
        return weight @ jnp.linalg.solve(matrix, rhs)

    def slope(function):
        return lambda values: jax.jvp(function, (values,), (direction,))[1]

    for derivative in (jax.grad, slope, lambda f: jax.grad(slope(f))):
        found, expected = (jax.jit(derivative(f))(values) for f in (sparse, reference))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["tetrahedra", "star"])
def test_diagonal_of_the_inverse_and_its_derivatives(name):
    system = mesh_system(3, 4, decades=0.8) if name == "tetrahedra" else SYSTEMS[name]()
    structure, values = system.structure, system.values
    inverse = np.linalg.inv(system.dense)
    # d A^-1 = -A^-1 dA A^-1, and d^2 A^-1 = 2 A^-1 dA A^-1 dA A^-1.
    along = np.random.default_rng(2).uniform(0.5, 1.5, values.size) * np.abs(values)
    change = system._replace(values=along).dense
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
    system = graph_system(2, {(0, 1)})
    structure = system.structure

    def total(values):
        return jnp.sum(linalg.solve(linalg.factorise(structure, values), jnp.ones(2)))

    with pytest.raises(InputError, match="factorise: expected values without"):
        differentiate(total)(system.values)
    apart = differentiate(lambda v: total(jax.lax.stop_gradient(v)))(system.values)
    np.testing.assert_array_equal(apart, 0.0)


def test_backward_error_at_a_contrast_of_1e18():
    system = mesh_system(2, 17, decades=18.0)
    rhs = np.random.default_rng(1).standard_normal(system.num)
    factor = jax.jit(linalg.factorise)(system.structure, system.values)
    found, matrix = np.asarray(linalg.solve(factor, rhs)), system.dense
    scale = np.abs(matrix) @ np.abs(found) + np.abs(rhs)
    assert np.max(np.abs(matrix @ found - rhs) / scale) < 1e-12


def test_structure_survives_pickling_and_is_static_under_jit():
    system, num_traces = SYSTEMS["tetrahedra"](), 0

    @jax.jit
    def run(structure, values):
        nonlocal num_traces
        num_traces += 1
        return linalg.solve(linalg.factorise(structure, values), jnp.ones(system.num))

    copy = pickle.loads(pickle.dumps(system.structure))
    assert jax.tree.structure(copy) == jax.tree.structure(system.structure)
    first, second = run(system.structure, system.values), run(copy, system.values)
    np.testing.assert_array_equal(first, second)
    assert num_traces == 1


@pytest.mark.parametrize("shape", [(3, 61), (2, 390)])
def test_fronts_of_many_columns_by_blocks(shape):
    """Few by LAPACK and many by columns; only lower triangles are read."""
    num, size = shape
    values = np.random.default_rng(3).standard_normal((num, size, size))
    matrices = values @ values.swapaxes(1, 2) + size * np.eye(size)
    lower = jnp.where(jnp.tri(size, dtype=bool), matrices, jnp.nan)
    found = jax.jit(multifrontal._inverse_cholesky)(lower)
    expected = np.linalg.inv(np.linalg.cholesky(matrices))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    indefinite = lower.at[-1, -1, -1].set(-1.0)
    assert np.isnan(jax.jit(multifrontal._inverse_cholesky)(indefinite)[-1]).any()


def test_programs_of_large_meshes_hold_few_batches():
    """That of a body of 8,000 nodes has fewer than 2.5 times the lines of one of 1,000 nodes."""
    lines = []
    for num in 9, 19:
        mesh = box_mesh(3, num)
        edges = np.concatenate([mesh.cells[:, [i, j]] for i in range(4) for j in range(i)])
        rows = np.concatenate([edges[:, 0], np.arange(mesh.num_nodes)])
        cols = np.concatenate([edges[:, 1], np.arange(mesh.num_nodes)])
        structure = linalg.analyse(rows, cols, mesh.num_nodes, mesh.points)
        lowered = jax.jit(linalg.factorise).lower(structure, jnp.ones(rows.size))
        lines.append(len(lowered.as_text().splitlines()))
    assert lines[1] < 2.5 * lines[0]
