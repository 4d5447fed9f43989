"""The ordinary posterior in the coordinates in which its Laplace approximation is standard normal.

Samplers whose reference is the standard normal distribution there have the approximation as their
reference: preconditioned Crank-Nicolson becomes its generalised form (Pinski, Simpson, Stuart &
Weber 2015, section 4; Rudolf & Sprungk 2018), MALA is preconditioned by the covariance.
"""

from __future__ import annotations

import jax

from invlift.inverse.laplace_approximation import LaplaceApproximation, laplace_approximation
from invlift.inverse.problem import InverseProblem
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.programs.pytrees import Module
from invlift.targets import Described


class LaplaceWhitened(Module):
    """Density of the xi, (h + m,), with theta = ``approximation.colour(xi)``.

    Attributes
    ----------
    posterior : OrdinaryPosterior
        Of theta.
    approximation : LaplaceApproximation
    """

    posterior: OrdinaryPosterior
    approximation: LaplaceApproximation

    @property
    def problem(self) -> InverseProblem:
        """The problem it is the posterior of."""
        return self.posterior.problem

    @property
    def dimension(self) -> int:
        """Number h + m of unknowns."""
        return self.posterior.dimension

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (h + m,), of a point on the lifted manifold."""
        return self.approximation.whiten(self.posterior.from_lifted(lifted))

    def logdensity(self, white: jax.Array) -> jax.Array:
        """Log density, (), up to a constant, at xi (h + m,)."""
        return self.posterior.logdensity(self.approximation.colour(white))

    def loglikelihood(self, white: jax.Array) -> jax.Array:
        """Log density relative to the standard normal one, (), up to a constant: constant if the
        approximation is exact.
        """
        return self.logdensity(white) + 0.5 * white @ white

    def unknowns(self, white: jax.Array) -> jax.Array:
        """Theta, (h + m,), at xi (h + m,)."""
        return self.approximation.colour(white)

    def describe(self, white: jax.Array) -> Described:
        """What is kept of a draw, and that of which only moments are: by name."""
        return self.posterior.describe(self.unknowns(white))


def laplace_whitened(problem: InverseProblem) -> LaplaceWhitened:
    """The target of an inverse problem.

    Raises
    ------
    InputError
        As :func:`~invlift.inverse.laplace_approximation.laplace_approximation`.
    """
    return LaplaceWhitened(OrdinaryPosterior(problem), laplace_approximation(problem))
