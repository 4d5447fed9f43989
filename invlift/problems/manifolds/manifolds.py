"""Named manifolds: constraints without redundant rows, their Jacobians, and random points.

On these manifolds the gradients of the constraints are orthogonal, so that no matrix is factorised.
Systems are solved by products with J; for nearby positions a few are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, checked_integer, is_integer
from invlift.lift.jacobians import ConstraintJacobian, GramFactor
from invlift.lift.jacobians.dense import factorise
from invlift.lift.jacobians.krylov import conjugate_residuals
from invlift.programs.pytrees import Module, static

#: Residual of the systems relative to their right-hand side, and maximum number of products.
SOLVED, MAX_PRODUCTS = 1e-12, 30


class Manifold(Module, settings=True):
    """Free arrays of a shape.  A subclass overrides ``constraint``, ``gram`` and ``point``.

    Attributes
    ----------
    shape : tuple of int
    """

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        """Return a description with the shape."""
        return f"any array of shape {self.shape}"

    def constraint(self, value: jax.Array) -> jax.Array:
        """c, (d,), which vanishes on the manifold, with a Jacobian of full rank there."""
        return jnp.zeros(0)

    @property
    def gram(self) -> np.ndarray:
        """Diagonal of J J^T, (d,), which is a diagonal matrix on the manifold."""
        return np.zeros(0)

    def point(self, rng_key: jax.Array) -> jax.Array:
        """Return a random point: here standard normal entries."""
        return jax.random.normal(rng_key, self.shape)


class Orthonormal(Manifold, settings=True):
    """Matrices (n, r) with orthonormal columns, or unit vectors (n,)."""

    def __str__(self) -> str:
        """Return a description with the shape."""
        kind = "unit vector" if len(self.shape) == 1 else "orthonormal columns, matrix"
        return f"{kind} of shape {self.shape}"

    def constraint(self, value: jax.Array) -> jax.Array:
        """The upper triangle of (U^T U - I) / 2, (r (r + 1) / 2,): the lower one repeats it."""
        columns = value.reshape(self.shape[0], -1)
        gram = columns.T @ columns
        rows = np.triu_indices(len(gram))
        return 0.5 * (gram - jnp.eye(len(gram)))[rows]

    @property
    def gram(self) -> np.ndarray:
        """Diagonal of J J^T: 1 for lengths of columns, 1/2 for angles between two columns."""
        rows, columns = np.triu_indices(math.prod(self.shape[1:]))
        return np.where(rows == columns, 1.0, 0.5)

    def point(self, rng_key: jax.Array) -> jax.Array:
        """Return a draw from the uniform distribution (Chikuse 2003, theorem 2.2.1)."""
        normal = jax.random.normal(rng_key, (self.shape[0], math.prod(self.shape[1:])))
        columns, upper = jnp.linalg.qr(normal)
        return (columns * jnp.sign(jnp.diagonal(upper))).reshape(self.shape)


class NearDiagonal(GramFactor):
    """J K^T for two nearby positions on manifolds, in products with J and K.

    Attributes
    ----------
    left, right : ProductJacobian
        J and K.
    """

    left: ProductJacobian
    right: ProductJacobian

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,)."""
        gram = self.left.gram

        def product(multiplier):
            return self.left.apply(self.right.apply_transpose(multiplier)) / gram

        return conjugate_residuals(product, rhs / gram, SOLVED, min(MAX_PRODUCTS, gram.size))

    def log_determinant(self) -> jax.Array:
        """log |det A|, (), of the matrix as it stands: no density here needs it."""
        matrix = self.left.product(self.right, self.left.gram.size)
        return factorise(matrix, is_symmetric=False).log_determinant()


class ProductJacobian(ConstraintJacobian):
    """J, (d, Q), of constraints that each depend on one unknown on a named manifold.

    Attributes
    ----------
    position : (Q,)
    parts : tuple of Manifold
        Manifolds of the unknowns, in the order of their entries in the position.
    """

    position: jax.Array
    parts: tuple[Manifold, ...] = static()

    @property
    def gram(self) -> np.ndarray:
        """Diagonal of J J^T on the manifold, (d,)."""
        return np.concatenate([part.gram for part in self.parts])

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (d,), for v of (Q,)."""
        return jax.jvp(self._constraint, (self.position,), (vector,))[1]

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (Q,), for lambda of (d,)."""
        return jax.vjp(self._constraint, self.position)[1](multiplier)[0]

    def _times(self, right: ProductJacobian, is_symmetric: bool) -> NearDiagonal:
        """J K^T."""
        return NearDiagonal(self, right)

    def _constraint(self, position):
        return constraints(self.parts, position)


def constraints(parts: Sequence[Manifold], position: jax.Array) -> jax.Array:
    """Return the constraints of all unknowns, (d,), at a position, (Q,)."""
    ends = np.cumsum([part.size for part in parts])
    values = [position[end - part.size : end] for part, end in zip(parts, ends, strict=True)]
    pairs = zip(parts, values, strict=True)
    return jnp.concatenate([part.constraint(value.reshape(part.shape)) for part, value in pairs])


def sphere(n: int) -> Manifold:
    """The unit vectors (n,): the unit sphere in n dimensions.

    Parameters
    ----------
    n : int
        Number of entries, at least 2.

    Returns
    -------
    Manifold
        For the unknowns of :func:`manifold_problem`.

    Raises
    ------
    InputError
        If n is less than 2.
    """
    return Orthonormal((checked_integer("sphere, n", n, 2),))


def stiefel(n: int, r: int) -> Manifold:
    """The matrices (n, r) with orthonormal columns: a Stiefel manifold.

    For r = n, the orthogonal group, it has two components, of determinants 1 and -1, between which
    no chain moves.

    Parameters
    ----------
    n, r : int
        Numbers of rows and columns.

    Returns
    -------
    Manifold
        For the unknowns of :func:`manifold_problem`.

    Raises
    ------
    InputError
        If r is less than 1 or more than n.
    """
    columns = checked_integer("stiefel, r", r, 1)
    return Orthonormal((checked_integer("stiefel, n", n, max(2, columns)), columns))


def as_manifold(where: str, given: Manifold | tuple[int, ...]) -> Manifold:
    """Return a manifold as given, or the free arrays of a given shape.

    Raises
    ------
    InputError
        If it is neither.
    """
    if isinstance(given, Manifold):
        return given
    if not (isinstance(given, tuple) and all(is_integer(size) and size >= 1 for size in given)):
        raise InputError(
            where, "a shape, such as (3, 2) or (), or a manifold", f"{given!r}"[:80],
            "give one, or invlift.sphere(n) or invlift.stiefel(n, r)",
        )  # fmt: skip
    return Manifold(tuple(map(int, given)))
