"""Every structure of a Jacobian against the dense one, alone and with dense columns beside."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract_checks import assert_close

from invlift.lift import jacobians
from invlift.lift.jacobians import (
    BlockBidiagonal,
    BlockDiagonal,
    Dense,
    Diagonal,
    Grouped,
    JacobianStructure,
    Triangular,
    differentiate,
)
from invlift.lift.jacobians.block_bidiagonal import BlockBidiagonalJacobian
from invlift.lift.jacobians.block_diagonal import BlockDiagonalJacobian
from invlift.lift.jacobians.bordered import BorderedJacobian, LowRankFactor
from invlift.lift.jacobians.dense import DenseJacobian, factorise
from invlift.lift.jacobians.diagonal import DiagonalJacobian
from invlift.lift.jacobians.grouped import GroupedJacobian
from invlift.programs.compilation import Program
from invlift.programs.pytrees import Module


def of_own(own):
    return jnp.sin(own) + own**3


def of_those_before(own):
    return jnp.cumsum(jnp.sin(own)) * own + own


def of_groups(own, height):
    """Seven groups, whose constraints depend on the group's own variables."""
    parts = own.reshape(7, -1)
    weights = jnp.cos(jnp.arange(height * parts.shape[1]) ** 2.0).reshape(height, -1)
    return (jnp.sin(parts) @ weights.T + (parts**2) @ jnp.sin(weights.T)).ravel()


def of_neighbours(own, height):
    """The same, and on those of the group before."""
    parts = own.reshape(7, -1)
    last = jnp.roll(parts, 1, axis=0).at[0].set(0.3)
    return of_groups((parts + 0.4 * parts * last).ravel(), height)


#: The group of each of eleven constraints; group 2 has none.
GROUPS = (0, 3, 1, 1, 0, 4, 4, 4, 0, 1, 3)


def of_unequal_groups(own, width):
    """Each constraint depends on the variables of its group and on one of its own."""
    parts, last = own[: 5 * width].reshape(5, width), own[5 * width :]
    weights = jnp.cos(jnp.arange(11.0 * width)).reshape(11, width)
    return jnp.sum(weights * jnp.sin(parts[jnp.asarray(GROUPS)]), axis=1) + of_own(last)


#: Structures, constraints as functions of the variables they are for, and how many these are.
CASES = {
    "diagonal": (Diagonal(), of_own, 9),
    "triangular": (Triangular(), of_those_before, 9),
    "dense, wide": (Dense(11), lambda own: of_own(own)[:5] + jnp.prod(own[5:]), 11),
    "dense, large": (Dense(40), lambda own: of_own(own)[:35] + jnp.prod(own[35:]), 40),
    "block diagonal, wide": (BlockDiagonal(7, 3), partial(of_groups, height=2), 21),
    "block bidiagonal, wide": (BlockBidiagonal(7, 3), partial(of_neighbours, height=2), 21),
    "block diagonal, large": (BlockDiagonal(7, 8), partial(of_groups, height=8), 56),
    "block bidiagonal, large": (BlockBidiagonal(7, 8), partial(of_neighbours, height=8), 56),
    "grouped": (Grouped(GROUPS, 5, 2), partial(of_unequal_groups, width=2), 21),
    "grouped, large": (Grouped(GROUPS, 5, 7), partial(of_unequal_groups, width=7), 46),
}


def with_columns(fn, num_columns, position):
    shared, own = position[:num_columns], position[num_columns:]
    value = fn(own)
    if not num_columns:
        return value
    mixing = jnp.cos(jnp.arange(value.size * num_columns, dtype=float)).reshape(value.size, -1)
    return value + mixing @ jnp.sin(shared) + jnp.mean(shared) * jnp.cos(value)


@partial(Program, effort="none")
def look(case, here, there, vector, multiplier, rhs):
    """All that a Jacobian offers, and JAX's own derivatives at both places."""
    structure, fn = case.structure, case.fn

    def log_determinant(position):
        value, jacobian = differentiate(fn, position, structure)
        gram = jacobian.inner()
        return gram.log_determinant(), (value, jacobian, gram)

    gradient, (value, jacobian, gram) = jax.grad(log_determinant, has_aux=True)(here)
    other = differentiate(fn, there, structure)[1]
    newton = other.inner(jacobian)
    found = {
        "value": value,
        "push": jacobian.apply(vector),
        "pull": jacobian.apply_transpose(multiplier),
        "solve": gram.solve(multiplier),
        "solve columns": gram.solve(rhs),
        "solve from the right": gram.solve_right(rhs.T),
        "log determinant": gram.log_determinant(),
        "its gradient": gradient,
        "solve of two": newton.solve(multiplier),
        "solve columns of two": newton.solve(rhs),
        "log determinant of two": newton.log_determinant(),
    }
    first = jax.jacfwd(fn)
    return found, (fn(here), first(here), first(there), jax.jacfwd(first)(here))


def by_dense_matrices(derivatives, vector, multiplier, rhs):
    """The same of JAX's derivatives."""
    value, left, right, second = map(np.asarray, derivatives)
    product, between = left @ left.T, right @ left.T
    columns = np.linalg.solve(product, rhs)
    return {
        "value": value,
        "push": left @ vector,
        "pull": multiplier @ left,
        "solve": np.linalg.solve(product, multiplier),
        "solve columns": columns,
        "solve from the right": columns.T,
        "log determinant": np.linalg.slogdet(product)[1],
        # Of log det(J J^T): twice the trace of (J J^T)^-1 J' J^T for each variable.
        "its gradient": 2.0 * np.einsum("ij,ijk->k", np.linalg.solve(product, left), second),
        "solve of two": np.linalg.solve(between, multiplier),
        "solve columns of two": np.linalg.solve(between, rhs),
        "log determinant of two": np.linalg.slogdet(between)[1],
    }


class Case(Module, settings=True):
    """A structure with the function that has it."""

    structure: JacobianStructure
    fn: object


def check_structure(structure, fn, num_own, num_columns=0):
    fn = Composed(fn, num_columns)
    rng = np.random.default_rng(num_own + num_columns)
    here = 0.6 * rng.standard_normal(num_own + num_columns)
    there = here + 0.05 * rng.standard_normal(here.size)
    num_constraints = jax.eval_shape(fn, here).shape[0]
    rhs = rng.standard_normal((num_constraints, 3))
    vector = rng.standard_normal(here.size)
    found, derivatives = look(Case(structure, fn), here, there, vector, rhs[:, 0], rhs)
    expected = by_dense_matrices(derivatives, vector, rhs[:, 0], rhs)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert_close(name, value, expected[name], 1e-9)


class Composed(Module, settings=True):
    """Function of a case with columns beside, equal to another of the same settings."""

    own: object
    num_columns: int

    def __call__(self, position):
        return with_columns(self.own, self.num_columns, position)


@pytest.mark.parametrize("name", CASES)
def test_structure(name):
    check_structure(*CASES[name])


@pytest.mark.parametrize(("name", "num"), [("block diagonal, wide", 2), ("diagonal", 25)])
def test_with_columns_beside(name, num):
    """What is beside only calls what each core offers alone: fewer than constraints, or more."""
    check_structure(*CASES[name], num)


def test_every_structure_is_tried():
    tried = {type(structure) for structure, _, _ in CASES.values()}
    own = {
        each
        for base in (JacobianStructure, BlockDiagonal)
        for each in base.__subclasses__()
        if each.__module__.startswith("invlift.")
    }
    assert own == tried


def test_a_structure_that_the_function_does_not_have_is_found():
    """Negative control: neighbours count."""
    with pytest.raises(AssertionError, match="off by"):
        check_structure(BlockDiagonal(7, 2), partial(of_neighbours, height=2), 14)


def with_diagonal(columns, entries):
    core = jacobians.diagonal.DiagonalJacobian(entries)
    return jacobians.BorderedJacobian((columns,), core)


@pytest.mark.parametrize("num_columns", [2, 8])
def test_diagonal_of_the_inverse(num_columns):
    """Of matrices with a diagonal core, and few columns or many."""
    rng = np.random.default_rng(3)
    entries, columns = np.exp(rng.standard_normal(6)), rng.standard_normal((num_columns, 6))
    factor = jax.jit(lambda *parts: with_diagonal(*parts).inner())(columns, entries)
    assert isinstance(factor, LowRankFactor) == (num_columns == 2)
    inverse = np.linalg.inv(columns.T @ columns + np.diag(entries**2))
    found = jax.jit(lambda factor: factor.inverse_diagonal())(factor)
    assert_close("diagonal", found, np.diag(inverse), 1e-10)


def test_columns_a_million_times_larger_than_the_core_keep_their_digits():
    rng = np.random.default_rng(5)
    columns = 1e6 * rng.standard_normal((200, 5)) * [1.0, 0.5, 0.1, 1e-2, 1e-5]
    entries = rng.uniform(0.5, 2.0, 200)
    vector = rng.standard_normal(205)

    @jax.jit
    def onto_normal_space(columns, entries, vector):
        jacobian = with_diagonal(columns, entries)
        factor, rhs = jacobian.inner(), jacobian.apply(vector)
        alone = factor.core.solve(rhs)
        plain = alone - factor.scaled @ factor.capacitance.solve(factor.right.T @ alone)
        solved = factor.solve(rhs), plain
        return [jacobian.apply_transpose(each) for each in solved]

    found, plain = onto_normal_space(columns.T, entries, vector)
    matrix = np.concatenate([columns, np.diag(entries)], axis=1)
    exact = np.linalg.lstsq(matrix, matrix @ vector, rcond=None)[0]
    np.testing.assert_allclose(found, exact, atol=1e-7)
    # Negative control: what a solution loses that is not made up for along the columns.
    assert np.abs(plain - exact).max() > 1e-6


@jax.jit
def log_determinants(jacobian):
    return jacobian.inner().log_determinant(), jacobian.inner(jacobian).log_determinant()


def test_a_jacobian_without_full_rank_has_no_finite_gram_term():
    jacobian = DenseJacobian(jnp.array([[1.0, 0.0], [2.0, 0.0]]))
    assert not np.isfinite(log_determinants(jacobian)[0])


ROW = np.random.default_rng(4).standard_normal((200, 2, 1))
PIVOTS = jax.vmap(lambda row: factorise(row @ row.T, is_symmetric=False).pivots[1])(ROW)
ROW = ROW[np.asarray(PIVOTS) < 0.0][:20]
#: Jacobians whose J J^T is singular but for rounding, which leaves it indefinite.
SINGULAR = {
    "dense": lambda: DenseJacobian(ROW[0]),
    "blocks": lambda: BlockDiagonalJacobian(ROW),
    "neighbours": lambda: BlockBidiagonalJacobian(ROW[:1], 0.0 * ROW[:1]),
    "groups": lambda: GroupedJacobian(
        1e12 * np.repeat(ROW.reshape(40, 1), 2, axis=1), np.ones(40), np.arange(40) // 2, 20
    ),
    "columns beside": lambda: BorderedJacobian(
        (1e12 * np.array([[1.1], [2.3]]) * ROW.reshape(1, 40),), DiagonalJacobian(np.ones(40))
    ),
}


@pytest.mark.parametrize("kind", SINGULAR)
def test_a_product_that_is_not_positive_is_no_number(kind):
    """And not the logarithm of a determinant's size, by which a draw might be accepted."""
    found, of_two = log_determinants(jax.tree.map(jnp.asarray, SINGULAR[kind]()))
    assert np.isnan(found)
    assert not np.isnan(of_two)  # negative control
