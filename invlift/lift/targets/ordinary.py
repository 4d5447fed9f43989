"""The ordinary posterior: a density on the unknowns, for samplers that do not lift."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from invlift.programs.pytrees import Module
from invlift.targets import Described


class OrdinaryPosterior(Module):
    """Density of theta = (zeta, w) given the data (Au, Graham & Thiery 2023, section 1).

    With the problem in the coordinates in which its Laplace approximation is standard normal,
    samplers whose reference is the standard normal distribution have the approximation as their
    reference: preconditioned Crank-Nicolson becomes its generalised form (Pinski, Simpson, Stuart &
    Weber 2015, section 4; Rudolf & Sprungk 2018), MALA is preconditioned by the covariance.

    Attributes
    ----------
    problem : InverseProblem
    """

    problem: Any  # of a higher layer, so no type: only its methods are used here

    @property
    def dimension(self) -> int:
        """Number h + m of unknowns."""
        return self.problem.num_unknowns

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (h + m,), of a point on the lifted manifold of the whole problem."""
        return self.problem.from_whole(lifted)[: self.dimension]

    def loglikelihood(self, theta: jax.Array) -> jax.Array:
        """Log density relative to the standard normal one, (), up to a constant; one factorisation.

        It is the log likelihood plus the log prior density of unknowns that are not standard
        normal.
        """
        problem = self.problem
        zeta, white = problem.split(theta)
        likelihood = problem.noise.loglikelihood(problem.predict(theta), zeta, problem.observed)
        return likelihood + problem.log_reference_of_unknowns(zeta, white)

    def logdensity(self, theta: jax.Array) -> jax.Array:
        """Log density, (), up to a constant, at theta (h + m,)."""
        return self.loglikelihood(theta) - 0.5 * theta @ theta

    def metric(self, theta: jax.Array) -> jax.Array:
        """Return the Gauss-Newton metric, (h + m, h + m): I + J^T J, from one factorisation.

        J, (d, h + m), are the derivatives of the noise variables eta(theta) that explain the data.
        The metric is the Hessian of |theta|^2/2 + |eta|^2/2 without the curvature of eta.  For
        Gaussian noise of known scale it is the Fisher information and the prior's precision, I +
        F'^T Sigma^-1 F' (Au, Graham & Thiery 2023, supplement 1, eq. 2).  With many readings it is
        that of the combinations used to search for starts: sampling is exact with any metric.
        """
        problem = self.problem.searched
        whole, pull_back = jax.vjp(self.problem.to_whole, theta)
        zeta, white = problem.split(whole)
        predicted, by_white = problem.value_and_jacobian(white)
        _, slope = problem.noise_variables(predicted, zeta)
        by_zeta = jax.jacfwd(problem.noise.invert, 1)(predicted, zeta, problem.observed)
        jacobian = jnp.concatenate([by_zeta, slope[:, None] * by_white], axis=1)
        (jacobian,) = jax.vmap(pull_back)(jacobian)
        return jnp.eye(theta.shape[0]) + jacobian.T @ jacobian

    def unknowns(self, theta: jax.Array) -> jax.Array:
        """Theta of the whole problem, (h + m,), at a position."""
        return self.problem.to_whole(theta)

    def describe(self, theta: jax.Array) -> Described:
        """Return by name the values stored with a draw, and those stored only as moments."""
        _, white = self.problem.split(theta)
        coefficients = self.problem.prior.transform(white)
        predicted, expansion = self.problem.model.expand(coefficients)
        predicted = self.problem.readings_of_whole(predicted)
        described = self.problem.whole.describe(self.unknowns(theta), coefficients, predicted)
        return described, expansion.byproducts
