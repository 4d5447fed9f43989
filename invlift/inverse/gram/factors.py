"""The Gram matrix G = U U^T + diag(sigma^2) of the lifted constraint, factorised.

U (d x m) holds the derivatives by the m unknowns, sigma the d noise scales.  With fewer
observations than unknowns G is factorised as it stands; with more, through the m x m matrix
I + U^T diag(sigma^-2) U by the Woodbury identity and the matrix determinant lemma (Au, Graham &
Thiery 2020 preprint, section 4.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, lu_factor, lu_solve, solve_triangular


class DenseGram(NamedTuple):
    """Cholesky factor of the d x d Gram matrix.

    Attributes
    ----------
    lower : (d, d)
    """

    lower: jax.Array

    def solve(self, rhs: jax.Array) -> jax.Array:
        """G^-1 rhs for rhs of shape (d,) or (d, k)."""
        return cho_solve((self.lower, True), rhs)

    def solve_right(self, columns: jax.Array) -> jax.Array:
        """columns G^-1, (N, d): through the inverse, as N is the larger number."""
        return columns @ self.solve(jnp.eye(self.lower.shape[0]))

    def log_determinant(self) -> jax.Array:
        """log det G, a scalar."""
        return 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.lower)))

    def inverse_diagonal(self) -> jax.Array:
        """Diagonal of G^-1, (d,)."""
        half = solve_triangular(self.lower, jnp.eye(self.lower.shape[0]), lower=True)
        return jnp.sum(half**2, axis=0)


class WoodburyGram(NamedTuple):
    """Factor of the m x m capacitance matrix I + U^T diag(sigma^-2) U.

    Attributes
    ----------
    scaled : (d, m)
        diag(1 / sigma) U.
    sigma : (d,)
        Derivatives by the noise variables; of any sign but not 0.
    lower : (m, m)
        Cholesky factor of the capacitance matrix.
    """

    scaled: jax.Array
    sigma: jax.Array
    lower: jax.Array

    def solve(self, rhs: jax.Array) -> jax.Array:
        """G^-1 rhs for rhs of shape (d,) or (d, k)."""
        right = (rhs.T / self.sigma).T
        inner = cho_solve((self.lower, True), self.scaled.T @ right)
        return ((right - self.scaled @ inner).T / self.sigma).T

    def solve_right(self, columns: jax.Array) -> jax.Array:
        """columns G^-1, (N, d)."""
        return self.solve(columns.T).T

    def log_determinant(self) -> jax.Array:
        """log det G, a scalar."""
        capacitance = 2.0 * jnp.sum(jnp.log(jnp.diagonal(self.lower)))
        return capacitance + 2.0 * jnp.sum(jnp.log(jnp.abs(self.sigma)))

    def inverse_diagonal(self) -> jax.Array:
        """Diagonal of G^-1, (d,)."""
        half = solve_triangular(self.lower, self.scaled.T, lower=True)
        return (1.0 - jnp.sum(half**2, axis=0)) / self.sigma**2


def dense_gram(product: jax.Array, sigma: jax.Array) -> DenseGram:
    """Factorise G from U U^T, (d, d), and sigma, (d,).

    Computes NaN where G is not numerically positive definite.
    """
    return DenseGram(jnp.linalg.cholesky(product + jnp.diag(sigma**2)))


def woodbury_gram(unknowns: jax.Array, sigma: jax.Array) -> WoodburyGram:
    """Factorise G from U, (d, m), and sigma, (d,)."""
    scaled = unknowns / sigma[:, None]
    capacitance = jnp.eye(unknowns.shape[1]) + scaled.T @ scaled
    return WoodburyGram(scaled, sigma, jnp.linalg.cholesky(capacitance))


def diagonal_plus_product_solver(
    diagonal: jax.Array, left: jax.Array, right: jax.Array
) -> Callable[[jax.Array], jax.Array]:
    """Solves with diag(diagonal) + left right^T through an m x m system (Woodbury identity).

    Parameters
    ----------
    diagonal : (d,)
    left, right : (d, m)

    Returns
    -------
    callable
        (d,) to (d,).
    """
    scaled = left / diagonal[:, None]
    capacitance = lu_factor(jnp.eye(left.shape[1]) + right.T @ scaled)

    def solve(rhs):
        return rhs / diagonal - scaled @ lu_solve(capacitance, right.T @ (rhs / diagonal))

    return solve
