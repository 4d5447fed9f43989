"""Matern prior on a mesh, by a sparse square root of its covariance.

The field solves (kappa^2 - Laplace)^(alpha/2) (tau phi) = white noise (Lindgren, Rue & Lindstrom
2011, eq. 2).  The solution is a Matern field with smoothness nu = alpha - dim/2.  On linear
elements phi = mean + S w with w standard normal, where S is a chain of sparse solves with one
factorised matrix.  No dense N x N matrix is formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import skfem

from invlift.errors import InputError
from invlift.fem import linalg
from invlift.fem.equations.discretisation import cell_basis, facet_basis, mass_form, stiffness_form
from invlift.fem.fields.base import Nominal
from invlift.fem.linalg import sparse
from invlift.fem.mesh.mesh import Mesh
from invlift.programs.compilation import Program, program
from invlift.programs.derivatives import second_directional
from invlift.programs.pytrees import Module, aside, static
from invlift.unknowns.priors.base import AffinePrior

#: Robin coefficient over kappa that best equalises the variance near the boundary
#: (Roininen, Huttunen & Lasanen 2014, section 4; Daon & Stadler 2018).
ROBIN_COEFFICIENT = 1.0 / 1.42
#: Largest number of nodes for which the realised standard deviation is computed by columns.
FEW = 3_000


class MaternPrior(AffinePrior):
    """Gaussian prior of nodal log-conductivity, phi = mean + S w, w ~ Normal(0, I).

    Build it with :func:`invlift.matern_prior`.  Let K = kappa^2 M + G = L L^T, with M the mass
    matrix, G the stiffness matrix, and D the lumped mass matrix.  Then

    S = (K^-1 M)^(alpha/2 - 1) K^-1 D^(1/2) / tau for even alpha and
    S = (K^-1 M)^((alpha - 1)/2) L^-T / tau for odd alpha.

    Attributes
    ----------
    mean : (N,)
        Prior mean of phi.
    factor : linalg.Factor
        Factor of K.
    structure : linalg.SymbolicAnalysis
        Symbolic factorisation of K.
    pattern : sparse.Pattern
        Common pattern of M and K.
    operator_values : (num_values,)
        Entries of K in its lower triangle, in the order of the structure.
    mass_values : (num_entries,)
        Entries of M.
    noise_scale : (N,)
        Diagonal of D^(1/2).
    tau : ()
        Scale that gives the field its standard deviation.
    alpha : int
        Order of the operator.
    location : str
        ``"nodes"``.
    mesh : Mesh or None
        Mesh of the field, for results of the posterior.
    nominal : tuple of Nominal
        Requested properties of the field.
    """

    mean: jax.Array
    factor: linalg.Factor
    structure: linalg.SymbolicAnalysis
    pattern: sparse.Pattern
    operator_values: jax.Array
    mass_values: jax.Array
    noise_scale: jax.Array
    tau: jax.Array
    alpha: int = static()
    location: str = static(default="nodes")
    mesh: Mesh | None = aside()
    nominal: tuple[Nominal, ...] | None = aside()

    def sqrt(self, white: jax.Array) -> jax.Array:
        """Return S w for w of shape (N,) or (N, k)."""
        columns = self._root.times(white.reshape(self.num_white, -1))
        return columns.reshape(white.shape) * (1.0 / self.tau)

    def sqrt_transpose(self, field_values: jax.Array) -> jax.Array:
        """Return S^T v for v of shape (N,) or (N, k)."""
        columns = self._root.transposed(field_values.reshape(self.num_white, -1))
        return columns.reshape(field_values.shape) * (1.0 / self.tau)

    @property
    def _root(self) -> Root:
        solves = linalg.solve, linalg.half_solve, linalg.half_solve_transpose
        solves = (partial(each, self.factor) for each in solves)
        return Root(self.alpha, self.noise_scale, self.mass, *solves)

    def pointwise_std(self, corners: np.ndarray | None = None) -> np.ndarray:
        """Return the realised prior standard deviation at each node, (N,): sqrt(diag(S S^T)).

        It differs from the nominal value near boundaries and on coarse meshes.  If nodes (k, c) are
        given, return it for the means over these nodes, (k,).

        Notes
        -----
        diag(K^-1) takes a few factorisations.  For alpha <= 3 the variance is this diagonal or one
        of its derivatives.  With d(K^-1) = -K^-1 dK K^-1, it is minus the derivative along D for
        alpha = 2, and half the second derivative along M for alpha = 3.  For higher orders, for
        means, and on up to 3,000 nodes, where compilation and run take less time, S^T is applied to
        the columns of the means or to N unit vectors.
        """
        if corners is None and self.alpha <= 3 and self.num_white > FEW:
            variance = _variance(self)
        else:
            single = np.arange(self.num_white)[:, None]
            variance = _variance_by_columns(self, single if corners is None else corners)
        return np.sqrt(variance) / float(self.tau)

    def mass(self, columns: jax.Array) -> jax.Array:
        """Return M times columns, (N, k)."""
        return self.pattern.product(self.mass_values, columns)


class Root(NamedTuple):
    """tau S, in products with columns (..., N, k), a shape that all functions preserve.

    Attributes
    ----------
    alpha : int
    noise_scale : (N,)
        Diagonal of D^(1/2).
    mass, solve, half_solve, half_solve_transpose : callable
        Products with M, K^-1, L^-1 and L^-T.
    """

    alpha: int
    noise_scale: jax.Array
    mass: Callable
    solve: Callable
    half_solve: Callable
    half_solve_transpose: Callable

    def times(self, columns):
        """Return tau S times columns."""
        if self.alpha % 2 == 0:
            columns = self.solve(self.noise_scale[:, None] * columns)
        else:
            columns = self.half_solve_transpose(columns)
        for _ in range((self.alpha - 1) // 2):
            columns = self.solve(self.mass(columns))
        return columns

    def transposed(self, columns):
        """Return tau S^T times columns."""
        for _ in range((self.alpha - 1) // 2):
            columns = self.mass(self.solve(columns))
        if self.alpha % 2:
            return self.half_solve(columns)
        return self.noise_scale[:, None] * self.solve(columns)


def _variance(prior: MaternPrior) -> np.ndarray:
    """Return tau^2 diag(S S^T), (N,), for alpha = 1, 2, 3."""
    row, col = np.asarray(prior.pattern.rows), np.asarray(prior.pattern.cols)
    noise = np.where(row == col, np.asarray(prior.noise_scale)[row] ** 2, 0.0)
    along = noise if prior.alpha == 2 else np.asarray(prior.mass_values)
    along = along[row >= col]
    return np.asarray(_program(prior.alpha)(prior.structure, prior.operator_values, along))


@cache
def _program(alpha: int) -> Program:
    return Program(partial(_inverse_derivative, alpha=alpha), "none")


def _inverse_derivative(structure, values, along, *, alpha: int):
    """Return diag(K^-1), minus its derivative, or half its second derivative, (N,), by alpha."""

    def diagonal(values):
        return linalg.inverse_diagonal(structure, values)

    if alpha == 1:
        return diagonal(values)
    if alpha == 2:
        return -jax.jvp(diagonal, (values,), (along,))[1]
    return 0.5 * second_directional(diagonal, (values,), (along,))


def _variance_by_columns(prior: MaternPrior, corners: np.ndarray, *, batch: int = 128):
    """Return tau^2 times the variance of means over nodes (k, c), (k,), ``batch`` at a time."""
    squares = _squares["none" if prior.num_white <= FEW else "some"]
    rest = -len(corners) % batch
    padded = np.pad(corners.astype(np.int32), ((0, rest), (0, 0)), constant_values=prior.num_white)
    parts = [np.asarray(squares(prior, each)) for each in np.split(padded, len(padded) // batch)]
    return np.concatenate(parts)[: len(corners)]


def _squared(prior: MaternPrior, corners):
    """Return tau^2 |S^T m|^2 of each mean m over nodes (batch, c), (batch,)."""
    size, num = corners.shape
    means = jnp.zeros((prior.num_white, size))
    means = means.at[corners, jnp.arange(size)[:, None]].set(1.0 / num, mode="drop")
    return jnp.sum((prior.tau * prior.sqrt_transpose(means)) ** 2, axis=0)


_squares = {effort: Program(_squared, effort) for effort in ("none", "some")}


@program
def factorise(structure, values):
    """Factorise K, given its entries in the order of the structure, (num_values,); compiled."""
    return linalg.factorise(structure, values)


def log_variance_without_tau(smoothness: float, alpha: int, dim: int, log_kappa: float) -> float:
    """Return the logarithm of tau^2 times the marginal variance far from boundaries."""
    log_variance = math.lgamma(smoothness) - math.lgamma(alpha)
    return log_variance - (dim / 2 * math.log(4 * math.pi) + 2 * smoothness * log_kappa)


class Matrices(Module):
    """Terms of K = kappa^2 M + G + c kappa E, in one pattern; E is the Robin boundary matrix.

    Attributes
    ----------
    structure : linalg.SymbolicAnalysis
        Symbolic factorisation of K.
    pattern : sparse.Pattern
    lower : (num_values,) int32
        Indices of the entries in the lower triangle, in the order of the structure.
    mass, stiffness, edge : (num_entries,)
        Entries of M, G and E; E is zero for natural boundaries.
    noise_scale : (N,)
        Diagonal of D^(1/2).
    """

    structure: linalg.SymbolicAnalysis
    pattern: sparse.Pattern
    lower: jax.Array
    mass: jax.Array
    stiffness: jax.Array
    edge: jax.Array
    noise_scale: jax.Array

    def operator(self, kappa):
        """Return the entries of K, (num_entries,)."""
        return kappa**2 * self.mass + self.stiffness + kappa * ROBIN_COEFFICIENT * self.edge

    def operator_derivative(self, kappa, order: int):
        """Return the entries of d^order K / d log(kappa)^order, (num_entries,), for order >= 1."""
        return 2**order * kappa**2 * self.mass + kappa * ROBIN_COEFFICIENT * self.edge


def assemble(mesh: Mesh, boundary: str) -> Matrices:
    """Assemble the matrices on the host; ``boundary`` as for :func:`invlift.matern_prior`."""
    if boundary not in ("neumann", "robin"):
        raise InputError(
            ("prior", "boundary"), '"neumann" or "robin"', f"{boundary!r}", "choose one"
        )
    basis = cell_basis(mesh)
    mass = skfem.asm(mass_form, basis).tocsr()
    stiffness = skfem.asm(stiffness_form, basis).tocsr()
    rows, cols = mass.nonzero()
    pattern, _ = sparse.pattern(rows, cols, *mass.shape)
    row, col = np.asarray(pattern.rows), np.asarray(pattern.cols)
    edge = np.zeros(row.size)
    if boundary == "robin":
        matrix = skfem.asm(mass_form, facet_basis(basis, mesh, "boundary")).tocsr()
        edge = np.asarray(matrix[row, col]).ravel()
    lower = np.flatnonzero(row >= col)
    return Matrices(
        structure=linalg.analyse(row[lower], col[lower], mesh.num_nodes, mesh.points),
        pattern=pattern,
        lower=lower.astype(np.int32),
        mass=np.asarray(mass[row, col]).ravel(),
        stiffness=np.asarray(stiffness[row, col]).ravel(),
        edge=edge,
        noise_scale=np.sqrt(np.asarray(mass.tocoo().sum(axis=1)).ravel()),
    )
