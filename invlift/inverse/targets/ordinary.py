"""The ordinary posterior: a density on the unknowns, for samplers that do not lift."""

from __future__ import annotations

import jax

from invlift.inverse.problem import InverseProblem
from invlift.pytrees import Module


class OrdinaryPosterior(Module):
    """Density of theta = (zeta, w) given the data (Au, Graham & Thiery 2023, section 1).

    Attributes
    ----------
    problem : InverseProblem
    """

    problem: InverseProblem

    @property
    def dimension(self) -> int:
        """Number h + m of unknowns."""
        return self.problem.num_unknowns

    def loglikelihood(self, theta: jax.Array) -> jax.Array:
        """Log density relative to the standard normal one, (), up to a constant; one factorisation.

        The likelihood, and the prior density of those of the noise's parameters that are not
        standard normal.
        """
        problem = self.problem
        zeta, _ = problem.split(theta)
        likelihood = problem.noise.loglikelihood(problem.predict(theta), zeta, problem.observed)
        return likelihood + problem.noise.log_reference_of_parameters(zeta)

    def logdensity(self, theta: jax.Array) -> jax.Array:
        """Log density, (), up to a constant, at theta (h + m,)."""
        return self.loglikelihood(theta) - 0.5 * theta @ theta

    def describe(self, theta: jax.Array) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """What is kept of a draw, and that of which only moments are: by name."""
        _, white = self.problem.split(theta)
        coefficients = self.problem.prior.transform(white)
        predicted, expansion = self.problem.model.expand(coefficients)
        return self.problem.describe(theta, coefficients, predicted), expansion.byproducts
