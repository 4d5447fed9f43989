"""The lifted posterior: a diffuse density on a manifold that keeps its shape as the noise vanishes.

State q = (zeta, w, eta), standard normal a priori, on the manifold where
c(q) = F(mean + S w) + sigma(zeta) eta - y = 0.  With J = Dc and the Gram matrix G = J J^T, its
density with respect to the manifold's own measure is exp(-|q|^2/2) det(G)^(-1/2) (Au, Graham &
Thiery 2023, section 3, eq. 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.derivatives import second_directional
from invlift.inverse.gram.factors import (
    DenseGram,
    WoodburyGram,
    dense_gram,
    diagonal_plus_product_solver,
    woodbury_gram,
)
from invlift.inverse.gram.krylov import conjugate_residuals
from invlift.inverse.problem import InverseProblem
from invlift.pytrees import pytree

#: Observations up to which the projection factorises a dense matrix of them; measured on 1,801
#: nodes, see docs/design.md.
MAX_DENSE = 64
#: Residuals at which conjugate residuals stop, preconditioned and relative to the right-hand side.
#: After a last move of 5e-5, where the projection stops, the first leaves an error below 1e-12; the
#: second belongs to a correction that is itself a small part of the move.
NEWTON_TOLERANCE, CURVATURE_TOLERANCE = 1e-8, 1e-3
#: A step that is accepted takes 7 or 8 products; one that needs more than these is not worth it.
MAX_KRYLOV = 20


class Frame(NamedTuple):
    """Tangent and normal space of the manifold at one position.

    Attributes
    ----------
    by_zeta : (d, h)
        Derivatives of the constraint by zeta.
    gradients : (m, d)
        Gradients of the readings F by w, one column each: S^T (dF/dphi)^T.
    sigma : (d,)
        Derivatives by eta, a diagonal.
    spread : (N, d)
        S times the gradients: how a normal move changes the coefficients.
    gram : DenseGram or WoodburyGram
    """

    by_zeta: jax.Array
    gradients: jax.Array
    sigma: jax.Array
    spread: jax.Array
    gram: DenseGram | WoodburyGram


class Point(NamedTuple):
    """All that an integrator needs to know at one position on the manifold.

    Attributes
    ----------
    position : (h + m + d,)
        q = (zeta, w, eta).
    constraint : (d,)
        c(q), zero up to the solver's tolerance; units of the observations.
    predicted : (d,)
        F, the noise-free observations.
    coefficients : (N,)
        phi = mean + S w.
    byproducts : dict of arrays
        What the forward map computes on the way, such as the solution of the equation.
    frame : Frame
    logdensity : ()
        -(1/2) log det G: the density relative to the standard normal one.
    logdensity_grad : (h + m + d,)
    """

    position: jax.Array
    constraint: jax.Array
    predicted: jax.Array
    coefficients: jax.Array
    byproducts: dict[str, jax.Array]
    frame: Frame
    logdensity: jax.Array
    logdensity_grad: jax.Array


@pytree
@dataclass(frozen=True)
class LiftedPosterior:
    """The system that constrained samplers walk on; a pytree.

    Attributes
    ----------
    problem : InverseProblem
    """

    problem: InverseProblem

    @property
    def num_constraints(self) -> int:
        """Number d of constraints."""
        return self.problem.num_observations

    @property
    def dimension(self) -> int:
        """Dimension h + m + d of the ambient space."""
        return self.problem.num_unknowns + self.problem.num_observations

    @property
    def constraint_scale(self) -> jax.Array:
        """Size of the observations, max |y| (at least tiny): tolerances are relative to it."""
        return jnp.maximum(jnp.max(jnp.abs(self.problem.observed)), 1e-300)

    def split(self, position: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """zeta (h,), w (m,) and eta (d,) from q."""
        theta = position[: self.problem.num_unknowns]
        return *self.problem.split(theta), position[self.problem.num_unknowns :]

    def lift(self, theta: jax.Array) -> jax.Array:
        """The one q = (theta, eta) on the manifold above theta (h + m,)."""
        zeta, white = self.problem.split(theta)
        value = self.problem.forward(self.problem.prior.coefficients(white))
        eta = (self.problem.observed - value) / self.problem.sigma(zeta)
        return jnp.concatenate([theta, eta])

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,), in units of the observations."""
        zeta, white, eta = self.split(position)
        value = self.problem.forward(self.problem.prior.coefficients(white))
        return value + self.problem.sigma(zeta) * eta - self.problem.observed

    def point(self, position: jax.Array) -> Point:
        """Constraint, frame, density and its gradient at q, from one factorisation.

        With U the derivatives by w, G is U U^T plus the part of the noise.  U U^T = (dF/dphi) S U^T
        are derivatives of the readings along the columns of the spread S U^T; at a constant spread
        the gradient of <G^-1, (dF/dphi) S U^T> is the field's part of that of (1/2) log det G, as
        d log det G = 2 <G^-1, dJ J^T>.
        """
        prior = self.problem.prior
        zeta, white, eta = self.split(position)
        coefficients = prior.coefficients(white)
        (value, by_coefficients), expansion = self.problem.forward.linearise(coefficients)
        (sigma, by_zeta), pullback_noise = jax.vjp(self._noise_part, zeta, eta)
        gradients = prior.sqrt_transpose(by_coefficients.T)
        spread = prior.sqrt(gradients)
        product, pushed = self.problem.forward.push_forward(expansion, spread)
        if self._is_underdetermined:
            gram = dense_gram(product + by_zeta @ by_zeta.T, sigma)
        else:
            gram = woodbury_gram(jnp.concatenate([by_zeta, gradients.T], axis=1), sigma)
        by_field = self.problem.forward.pull_back(expansion, pushed, gram.solve_right)
        grad_zeta, grad_eta = pullback_noise((gram.inverse_diagonal() * sigma, gram.solve(by_zeta)))
        grad_white = prior.sqrt_transpose(by_field)
        return Point(
            position=position,
            constraint=value + sigma * eta - self.problem.observed,
            predicted=value,
            coefficients=coefficients,
            byproducts=expansion.byproducts,
            frame=Frame(by_zeta, gradients, sigma, spread, gram),
            logdensity=-0.5 * gram.log_determinant(),
            logdensity_grad=-jnp.concatenate([grad_zeta, grad_white, grad_eta]),
        )

    def apply_jacobian(self, point: Point, vector: jax.Array) -> jax.Array:
        """J v, (d,), for v of shape (h + m + d,)."""
        zeta, white, eta = self.split(vector)
        frame = point.frame
        return frame.by_zeta @ zeta + white @ frame.gradients + frame.sigma * eta

    def apply_jacobian_transpose(self, point: Point, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (h + m + d,), for lambda of shape (d,)."""
        frame = point.frame
        return jnp.concatenate(
            [multiplier @ frame.by_zeta, frame.gradients @ multiplier, frame.sigma * multiplier]
        )

    def solve_gram(self, point: Point, rhs: jax.Array) -> jax.Array:
        """G^-1 rhs, (d,)."""
        return point.frame.gram.solve(rhs)

    def normal_space(self, point: Point, origin: jax.Array):
        """The constraint on the normal space through ``origin``: lambda -> c(origin - J^T lambda).

        Parameters
        ----------
        point : Point
            Where the normal space is taken.
        origin : (h + m + d,)
            A position off the manifold.

        Returns
        -------
        callable
            ``step(lambda)``, (d,) to (d,): the correction to lambda by Chebyshev's method.  With
            M = J(q_lambda) J(q)^T it is M^-1 (c + D^2 c[v, v] / 2), v = -J(q)^T M^-1 c Newton's
            move.  The coefficients are affine in lambda, so that the prior is applied once, here.

        Notes
        -----
        Convergence is of third order (Traub 1964, section 5.1).  With few observations M is
        factorised, which takes d + 1 solves beside the factorisation of the equation; with
        more than MAX_DENSE the systems are solved by conjugate residuals, preconditioned by G,
        with one solve for each of the few products with M (Knoll & Keyes 2004, section 2).  With
        more observations than unknowns it is the Woodbury identity, as for G.
        """
        problem, frame = self.problem, point.frame
        zeta, white, eta = self.split(origin)
        coefficients = problem.prior.coefficients(white)
        # Copied once: products with transposes of tall arrays take twice as long.
        spread_transpose = jax.lax.optimization_barrier(frame.spread.T)

        def step(multiplier):
            zeta_here = zeta - multiplier @ frame.by_zeta
            eta_here = eta - frame.sigma * multiplier
            coefficients_here = coefficients - frame.spread @ multiplier
            sigma, by_zeta = self._noise_part(zeta_here, eta_here)
            if self._is_underdetermined and self.num_constraints > MAX_DENSE:
                value, expansion = problem.forward.expand(coefficients_here)
                solve = self._krylov_solver(frame, expansion, by_zeta, sigma)
            else:
                linear, expansion = problem.forward.linearise(coefficients_here)
                value, by_coefficients = linear
                solve = self._dense_solver(frame, spread_transpose, by_coefficients, by_zeta, sigma)
            newton = solve(value + sigma * eta_here - problem.observed, NEWTON_TOLERANCE)
            curvature = problem.forward.second_derivative(expansion, frame.spread @ newton)
            noise = self._noise_curvature(
                zeta_here, eta_here, newton @ frame.by_zeta, frame.sigma * newton
            )
            return newton + solve(0.5 * (curvature + noise), CURVATURE_TOLERANCE)

        return step

    def _dense_solver(self, frame, spread_transpose, by_coefficients, by_zeta, sigma):
        """Solves with M = J_here J^T, J in the frame and J_here of the derivatives given.

        They are exact; the tolerance that they take is for :meth:`_krylov_solver` alone.
        """
        diagonal = sigma * frame.sigma
        if self._is_underdetermined:
            transpose = spread_transpose @ by_coefficients.T + frame.by_zeta @ by_zeta.T
            factor = jax.scipy.linalg.lu_factor(transpose + jnp.diag(diagonal))
            return lambda rhs, _: jax.scipy.linalg.lu_solve(factor, rhs, trans=1)
        gradients = self.problem.prior.sqrt_transpose(by_coefficients.T)
        left = jnp.concatenate([by_zeta, gradients.T], axis=1)
        right = jnp.concatenate([frame.by_zeta, frame.gradients.T], axis=1)
        solve = diagonal_plus_product_solver(diagonal, left, right)
        return lambda rhs, _: solve(rhs)

    def _krylov_solver(self, frame, expansion, by_zeta, sigma):
        """The same to a relative tolerance, from products with M alone."""

        def product(multiplier):
            by_field = self.problem.forward.derivative(expansion, frame.spread @ multiplier)
            by_noise = by_zeta @ (multiplier @ frame.by_zeta) + sigma * frame.sigma * multiplier
            return by_field + by_noise

        def solve(rhs, tolerance):
            solve_gram = frame.gram.solve
            return conjugate_residuals(
                lambda vector: solve_gram(product(vector)), solve_gram(rhs), tolerance, MAX_KRYLOV
            )

        return solve

    @property
    def _is_underdetermined(self) -> bool:
        return self.problem.num_observations <= self.problem.num_unknowns

    def _noise_part(self, zeta, eta):
        """sigma (d,) and d(sigma eta)/dzeta (d, h)."""
        derivative = jax.jacfwd(self.problem.sigma)(zeta)
        return self.problem.sigma(zeta), derivative * eta[:, None]

    def _noise_curvature(self, zeta, eta, zeta_along, eta_along):
        """Second derivative of sigma eta along a direction, (d,)."""
        return second_directional(
            lambda zeta, eta: self.problem.sigma(zeta) * eta, (zeta, eta), (zeta_along, eta_along)
        )
