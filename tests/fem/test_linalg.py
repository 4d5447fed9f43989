"""The sparse Cholesky interface against dense linear algebra, on meshes and on awkward graphs."""

from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import skfem
from skfem.models.poisson import laplace, mass
from structured import box_mesh

from invlift.fem import linalg


class System(NamedTuple):
    """Contributions to half of a symmetric matrix, and the whole of it."""

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    num: int

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
    return System(rows, cols, np.concatenate([diagonal, weights]), num)


def mesh_system(dim, num):
    """Stiffness matrix with conductivity varying over four decades, and a little of the mass."""
    mesh = box_mesh(dim, num)
    element = skfem.ElementTriP1() if dim == 2 else skfem.ElementTetP1()
    kind = skfem.MeshTri if dim == 2 else skfem.MeshTet
    basis = skfem.Basis(kind(mesh.points.T.copy(), mesh.cells.T.copy()), element)
    constant = basis.with_element(skfem.ElementTriP0() if dim == 2 else skfem.ElementTetP0())
    scale = 10.0 ** np.random.default_rng(1).uniform(-2, 2, mesh.num_cells)

    @skfem.BilinearForm
    def form(u, v, w):
        return w.scale * laplace.form(u, v, w) + 1e-2 * mass.form(u, v, w)

    matrix = skfem.asm(form, basis, scale=constant.interpolate(scale)).tocoo()
    keep = matrix.row >= matrix.col
    return System(matrix.row[keep], matrix.col[keep], matrix.data[keep], mesh.num_nodes)


def random_edges(num, share, seed):
    rng = np.random.default_rng(seed)
    return {pair for pair in combinations(range(num), 2) if rng.random() < share}


SYSTEMS = {
    "triangles": lambda: mesh_system(2, 9),
    "tetrahedra": lambda: mesh_system(3, 4),
    "one": lambda: graph_system(1, set()),
    "two": lambda: graph_system(2, {(0, 1)}),
    "path": lambda: graph_system(60, {(k, k + 1) for k in range(59)}),
    "star": lambda: graph_system(40, {(7, k) for k in range(40) if k != 7}),
    "no edges": lambda: graph_system(12, set()),
    "three parts": lambda: graph_system(
        30,
        {(k, k + 3) for k in range(0, 27, 3)}
        | {(1 + 3 * i, 1 + 3 * j) for i, j in combinations(range(6), 2)},
    ),
    "sparse random": lambda: graph_system(80, random_edges(80, 0.03, 2), seed=2),
    "dense random": lambda: graph_system(50, random_edges(50, 0.3, 3), seed=3),
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
        linalg.log_determinant(factor),
    )


@jax.jit
def solve_and_log_determinant(structure, values, rhs):
    factor = linalg.factorise(structure, values)
    return linalg.solve(factor, rhs), linalg.log_determinant(factor)


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
    structure = linalg.analyse(system.rows, system.cols, system.num)
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


@pytest.mark.parametrize("name", ["triangles", "three parts"])
def test_order_and_half_of_the_pairs_do_not_matter(name):
    system = SYSTEMS[name]()
    shuffle = np.random.default_rng(5).permutation(len(system.rows))
    structure = linalg.analyse(system.cols[shuffle], system.rows[shuffle], system.num)
    rhs = columns_of(system.num, 3)
    solution, _ = solve_and_log_determinant(structure, jnp.asarray(system.values[shuffle]), rhs)
    assert_inverts(system.dense, solution, rhs)


@pytest.mark.parametrize("name", ["tetrahedra", "one", "sparse random"])
def test_repeated_pairs_are_summed(name):
    """Each entry in three parts of either sign and in either half."""
    system = SYSTEMS[name]()
    first, second = 3 * np.random.default_rng(6).standard_normal((2, len(system.values)))
    rows = np.concatenate([system.rows, system.cols, system.rows])
    cols = np.concatenate([system.cols, system.rows, system.cols])
    values = np.concatenate([first, second, system.values - first - second])
    structure = linalg.analyse(rows, cols, system.num)
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


@pytest.mark.parametrize("name", ["triangles", "sparse random"])
def test_vmap_over_values_and_over_right_hand_sides(name):
    system = SYSTEMS[name]()
    structure = linalg.analyse(system.rows, system.cols, system.num)
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


@pytest.mark.parametrize("name", ["triangles", "tetrahedra", "path", "star", "one"])
def test_indefinite_matrices_give_nan(name):
    """One diagonal entry below zero is enough, wherever it is eliminated; no exception."""
    system = SYSTEMS[name]()
    structure = linalg.analyse(system.rows, system.cols, system.num)
    rhs = columns_of(system.num, 3)
    diagonal = np.flatnonzero(system.rows == system.cols)
    for place in diagonal[[0, len(diagonal) // 2, -1]]:
        values = system.values.copy()
        values[place] = -1.0
        assert np.linalg.eigvalsh(system._replace(values=values).dense)[0] < 0
        solution, determinant = solve_and_log_determinant(structure, jnp.asarray(values), rhs)
        assert np.isnan(determinant)
        assert np.isnan(solution).all()
    # negative control: the matrix as it was is accepted
    solution, determinant = solve_and_log_determinant(structure, jnp.asarray(system.values), rhs)
    assert np.isfinite(determinant)
    assert np.isfinite(solution).all()


def test_nan_in_one_member_of_a_batch_stays_there():
    system = SYSTEMS["triangles"]()
    structure = linalg.analyse(system.rows, system.cols, system.num)
    values = jnp.asarray(system.values) * jnp.asarray([[1.0], [-1.0], [2.0]])
    rhs = columns_of(system.num, 3).T
    solutions, _ = jax.vmap(solve_and_log_determinant, in_axes=(None, 0, 0))(structure, values, rhs)
    assert np.isnan(solutions).any(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "arguments",
    [
        ([0, 3], [0, 1], 3),
        ([0, -1], [0, 1], 3),
        ([0, 1], [0], 3),
        ([0], [0], 0),
        ([0, 1], [0, 1], 2, np.zeros((3, 2))),
    ],
    ids=["beyond", "negative", "unequal", "empty", "coordinates"],
)
def test_indices_that_do_not_fit_are_refused(arguments):
    with pytest.raises(ValueError, match="expected"):
        linalg.analyse(*arguments)


def test_derivatives_of_half_solves():
    """With A^-1 = H^T H, those of A^-1 by Leibniz's rule, and a remainder of third order."""
    system = SYSTEMS["sparse random"]()
    structure = linalg.analyse(system.rows, system.cols, system.num)
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
