"""Jacobians with dense columns, for a few shared variables, beside a structured part.

J = [U | C] with J J^T = U U^T + C C^T.  With fewer columns than constraints, the Woodbury identity
and the matrix determinant lemma are used, with a matrix of the number of columns (Au, Graham &
Thiery 2020 preprint, section 4.4; Graham, Thiery & Beskos 2022, section 5.1).  Otherwise the dense
sum is factorised.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.jacobians.base import ConstraintJacobian, GramFactor, JacobianStructure, sweeps
from invlift.lift.jacobians.dense import Dense, factorise

#: Largest number of entries of a matrix whose rows are multiplied one after the other.
FEW_ENTRIES = 4096


class LowRankFactor(GramFactor):
    """core + left right^T, by the Woodbury identity with I + right^T core^-1 left.

    Attributes
    ----------
    core : GramFactor
    right, scaled : (d, k)
        ``scaled`` is core^-1 left.
    capacitance : GramFactor
        (k, k).
    """

    core: GramFactor
    right: jax.Array
    scaled: jax.Array
    capacitance: GramFactor

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        alone = self.core.solve(rhs)
        # right^T x for the solution x.  It is accurate even where the columns are large beside the
        # core (1e6 and more in a model in time with narrow peaks).  There x loses its digits along
        # the columns, and the correction below restores them.
        along = self.capacitance.solve(self.right.T @ alone)
        solution = alone - self.scaled @ along
        return solution + self.scaled @ self.capacitance.solve(along - self.right.T @ solution)

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return self.core.log_determinant() + self.capacitance.log_determinant()

    def inverse_diagonal(self) -> jax.Array:
        """Diagonal of A^-1, (d,), for a symmetric A."""
        inner = self.solve_columns()
        return self.core.inverse_diagonal() - jnp.sum(inner * self.scaled, axis=1)

    def solve_columns(self) -> jax.Array:
        """A^-1 left, (d, k), for a symmetric A, by one product where :meth:`solve` takes four."""
        return self.capacitance.solve(self.scaled.T).T


class BorderedJacobian(ConstraintJacobian):
    """J = [U | C], with dense columns U beside a structured C.

    Attributes
    ----------
    transposed : tuple of (k, d)
        Blocks of columns of U, transposed.
    core : ConstraintJacobian
        C.
    """

    transposed: tuple[jax.Array, ...]
    core: ConstraintJacobian

    @property
    def num_columns(self) -> int:
        """Number of columns of U."""
        return sum(part.shape[0] for part in self.transposed)

    @property
    def is_wide(self) -> bool:
        """True if U has at least as many columns as rows; products are then dense."""
        return self.transposed[0].shape[1] <= self.num_columns

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (d,)."""
        *parts, inner = self.split(vector)
        moved = sum(part @ each for part, each in zip(parts, self.transposed, strict=True))
        return moved + self.core.apply(inner)

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (n,)."""
        parts = (each @ multiplier for each in self.transposed)
        return jnp.concatenate([*parts, self.core.apply_transpose(multiplier)])

    def split(self, vector: jax.Array) -> list[jax.Array]:
        """Split a vector, (n,), into the parts of the blocks of columns and of C."""
        return jnp.split(vector, np.cumsum([each.shape[0] for each in self.transposed]))

    def inner(
        self, other: BorderedJacobian | None = None, product: jax.Array | None = None
    ) -> GramFactor:
        """J K^T.

        Parameters
        ----------
        other : BorderedJacobian or None
            K = [V | D], or J itself.
        product : (d, d), optional
            U V^T, if it is known.  If K is wide, it is used in place of U and V.
        """
        is_symmetric = other is None
        with_ = self if is_symmetric else other
        if with_.is_wide:
            if product is None:
                pairs = zip(self.transposed, with_.transposed, strict=True)
                product = sum(left.T @ right for left, right in pairs)
            product = product + self.core.product(with_.core, product.shape[0])
            return factorise(product, is_symmetric=is_symmetric)
        core = self.core.inner(None if is_symmetric else with_.core)
        left, right = (jnp.concatenate(each.transposed).T for each in (self, with_))
        scaled = core.solve(left)
        capacitance = jnp.eye(self.num_columns) + _row_products(right.T, scaled.T)
        return LowRankFactor(core, right, scaled, factorise(capacitance, is_symmetric=is_symmetric))


def _row_products(left, right):
    """Return L R^T for L (k, d) and R (m, d)."""
    return _by_rows(left, right) if left.size <= FEW_ENTRIES else left @ right.T


# XLA compiles a loop as one kernel.  In it a product of small matrices takes several times as long
# as products of a matrix with one vector after the other.
@jax.custom_jvp
def _by_rows(left, right):
    return jax.lax.map(lambda row: right @ row, left)


@_by_rows.defjvp
def _by_rows_moved(at, moves):
    (left, right), (left_move, right_move) = at, moves
    return _by_rows(left, right), left_move @ right.T + left @ right_move.T


def differentiate(
    fn: Callable[[jax.Array], jax.Array], at: jax.Array, structure: JacobianStructure | None
) -> tuple[jax.Array, ConstraintJacobian]:
    """Value, (d,), and Jacobian of a constraint, (n,) to (d,).

    Parameters
    ----------
    fn : callable
    at : (n,)
    structure : JacobianStructure or None
        Structure of the derivatives by the last variables, as many as the structure has for d
        constraints.  The other variables may enter all constraints.  None if all variables may.
    """
    if structure is None:
        return Dense(at.size).differentiate(fn, at)
    num_constraints = jax.eval_shape(fn, at).shape[0]
    shared, inner = jnp.split(at, [at.size - structure.num_variables(num_constraints)])
    value, core = structure.differentiate(lambda inner: fn(jnp.concatenate([shared, inner])), inner)
    if shared.size == 0:
        return value, core
    units = jnp.eye(shared.size)
    _, columns = sweeps(lambda shared: fn(jnp.concatenate([shared, inner])), shared, units)
    return value, BorderedJacobian((columns.T,), core)
