"""Lifting of some combinations of many readings, with the rest in the density and reference.

Combinations z = A y of readings y, (d,), are lifted with normal noise.  The rest of the likelihood
stays in the density,

    log p(y | F, zeta) - log N(z | A F, zeta),

so that the posterior is the same for any A and any noise of the readings; only steps depend on
them.  A = Q^T / w has orthonormal columns Q, (d, k), and weights w.  Normal noise with standard
deviations proportional to w has the Fisher information of the readings' noise.  If the readings'
noise is normal, y = F + s w eta, the lifted noise of combinations is exact, and the rest is
independent of it.

The variables of the field are v with w = m + L v, and the noise's parameters are treated in the
same way.  A normal approximation of the rest is then standard normal in these variables.  The
posterior is also the same for any m and L.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.noise import Noise
from invlift.problems.laplace_approximation import (
    LaplaceApproximation,
    laplace_approximation,
    standard_normal,
)
from invlift.problems.problem import InPlaceOf, InverseProblem
from invlift.programs.compilation import program
from invlift.programs.pytrees import Module
from invlift.unknowns.priors.base import Prior
from invlift.unknowns.transformation import Tangent

#: Largest distance of a start from the noise's reference, in standard deviations of it.
FARTHEST = 5.0


class Reference(Module):
    """Reference distributions of a problem's unknowns.

    Attributes
    ----------
    of_noise : LaplaceApproximation
        Reference of the noise's parameters zeta, (h,).
    of_white : LaplaceApproximation
        Reference of the prior's variables w, (m,).
    """

    of_noise: LaplaceApproximation
    of_white: LaplaceApproximation

    def colour(self, theta: jax.Array) -> jax.Array:
        """Map standard normal variables, (h + m,), to unknowns (zeta, w), (h + m,)."""
        return self._each("colour", theta)

    def whiten(self, theta: jax.Array) -> jax.Array:
        """Map unknowns (zeta, w), (h + m,), to variables, (h + m,): inverts :meth:`colour`."""
        return self._each("whiten", theta)

    def _each(self, name, theta):
        zeta, white = jnp.split(theta, [self.of_noise.mode.shape[0]])
        parts = getattr(self.of_noise, name)(zeta), getattr(self.of_white, name)(white)
        return jnp.concatenate(parts)


class Lift(Reference):
    """Combinations of a problem's readings that are lifted, and references of its unknowns.

    Attributes
    ----------
    basis : (d, k)
        Q: orthonormal columns, each of readings of one scale.
    """

    basis: jax.Array


class ReferencePrior(Prior):
    """A prior in variables v with w = m + L v; :class:`Referred` has their density.

    Attributes
    ----------
    prior : Prior
        Prior of w.
    reference : LaplaceApproximation
        Normal with mean m and covariance L L^T.
    """

    prior: Prior
    reference: LaplaceApproximation

    @property
    def is_affine(self) -> bool:
        """True if the prior is affine."""
        return self.prior.is_affine

    @property
    def num_white(self) -> int:
        """Number m of variables."""
        return self.prior.num_white

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients, (N,), for v of (m,)."""
        return self.prior.transform(self.reference.colour(white))

    def linearise(self, white: jax.Array) -> tuple[jax.Array, Tangent]:
        """As :meth:`Prior.linearise`."""
        value, tangent = self.prior.linearise(self.reference.colour(white))
        return value, _Through(self.reference, tangent)


class _Through(NamedTuple):
    """Derivatives by v, computed from those by w."""

    reference: LaplaceApproximation
    tangent: Tangent

    def push(self, directions):
        return self.tangent.push(self.reference.scaled(directions))

    def pull(self, values):
        return self.reference.scaled(self.tangent.pull(values))

    def curvature(self, direction):
        return self.tangent.curvature(self.reference.scaled(direction))

    def pull_back(self, weights, directions, pushed):
        inside = self.reference.scaled(directions)
        return self.reference.scaled(self.tangent.pull_back(weights, inside, pushed))


class CombinedNoise(Noise):
    """Normal noise of combinations of readings divided by weights.

    Attributes
    ----------
    noise : Noise
        Noise of the d readings.
    rows : (k,) int
        Index of a reading of each combination; both have the same scale.
    """

    noise: Noise
    rows: jax.Array

    @property
    def num_parameters(self) -> int:
        """Number h of unknowns."""
        return self.noise.num_parameters

    def log_reference_of_parameters(self, zeta: jax.Array) -> jax.Array:
        """As :meth:`Noise.log_reference_of_parameters`."""
        return self.noise.log_reference_of_parameters(zeta)

    def _values(self, zeta):
        sigma = jnp.ones(())
        if self.noise.scale.num_white:
            sigma = self.noise.sigma(self._unknowns(zeta))
        return (sigma[self.rows] if jnp.ndim(sigma) else sigma), ()


class Referred(InPlaceOf):
    """A problem whose unknowns have another reference.  Build it with :func:`referred`.

    Attributes
    ----------
    reference : Reference
    condensed : InverseProblem
        Problem used to search for starts: the problem itself, or one with fewer readings.
    """

    reference: Reference = field(kw_only=True)
    condensed: InverseProblem = field(kw_only=True)

    @property
    def searched(self) -> InverseProblem:
        """The condensed problem."""
        return self.condensed

    def to_whole(self, theta: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.to_whole`."""
        return self.reference.colour(theta)

    def readings_of_whole(self, predicted: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.readings_of_whole`."""
        return self.asked.readings_of_whole(predicted)

    def reading_asked_for(self, index: int) -> tuple[InverseProblem, int | None]:
        """As :meth:`InverseProblem.reading_asked_for`."""
        return self.asked.reading_asked_for(index)

    def from_whole(self, lifted: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.from_whole`."""
        theta = self.reference.whiten(lifted[: self.num_unknowns])
        zeta, _ = self.split(theta)
        eta = self.noise.invert(self.predict(theta), zeta, self.observed)
        return jnp.concatenate([theta, eta])

    def log_reference_of_unknowns(self, zeta: jax.Array, white: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.log_reference_of_unknowns`, with the references."""
        scores, reference = self.reference.colour(jnp.concatenate([zeta, white])), self.reference
        ratio = reference.of_noise.log_ratio(zeta) + reference.of_white.log_ratio(white)
        return self.asked.log_reference_of_unknowns(*self.split(scores)) + ratio


class PartlyLiftedProblem(Referred):
    """Combinations of a problem's readings, with the rest as a factor of the density.

    Build it with :func:`partly_lifted_problem`.

    Attributes
    ----------
    matrix : (k, d)
        A.
    """

    has_factor: ClassVar[bool] = True

    matrix: jax.Array = field(kw_only=True)

    def reading_asked_for(self, index: int) -> tuple[InverseProblem, None]:
        """Return the user's problem, and None: readings are combinations."""
        return self.whole, None

    def from_whole(self, lifted: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.from_whole`, with noise near its reference.

        Where chains start, the noise of a prior draw is many standard deviations from its
        reference.
        """
        h = self.noise.num_parameters
        xi = self.reference.of_noise.whiten(lifted[:h])
        near = self.reference.of_noise.colour(jnp.clip(xi, -FARTHEST, FARTHEST))
        return super().from_whole(jnp.concatenate([near, lifted[h:]]))

    def log_density_of_rest(self, readings: jax.Array, zeta: jax.Array) -> jax.Array:
        """Log density of the part not lifted, (), from all predicted readings, (d,)."""
        asked, scores = self.asked, self.reference.of_noise.colour(zeta)
        every = asked.noise.loglikelihood(readings, scores, asked.observed)
        return every - self.noise.loglikelihood(self.matrix @ readings, zeta, self.observed)


def referred(
    problem: InverseProblem,
    reference: Reference | None = None,
    condensed: InverseProblem | None = None,
) -> Referred:
    """Return the problem of the same posterior in variables with a reference.

    Parameters
    ----------
    problem : InverseProblem
    reference : Reference
        The standard normal distribution if left out: variables are the unknowns themselves.
    condensed : InverseProblem
        Problem used to search for starts; the problem's ``searched`` if left out.
    """
    if reference is None:
        sizes = problem.noise.num_parameters, problem.prior.num_white
        reference = Reference(*map(standard_normal, sizes))
    return Referred(
        problem.model,
        ReferencePrior(problem.prior, reference.of_white),
        replace(problem.noise, coordinate=reference.of_noise),
        problem.observed,
        asked=problem,
        reference=reference,
        condensed=problem.searched if condensed is None else condensed,
    )


def laplace_reference(problem: InverseProblem) -> Reference:
    """Return the Laplace approximation of a posterior, as a reference.

    Raises
    ------
    InputError
        As :func:`~invlift.problems.laplace_approximation.laplace_approximation`.
    """
    return Reference(*laplace_approximation(problem).split(problem.noise.num_parameters))


def laplace_referred(problem: InverseProblem) -> Referred:
    """Return the problem in variables in which its Laplace approximation is standard normal.

    Raises
    ------
    InputError
        As :func:`laplace_reference`.
    """
    return referred(problem, laplace_reference(problem.searched))


@program
def weights_of(problem: InverseProblem) -> jax.Array:
    """Return standard deviations, (d,), of normal noise with the problem's Fisher information.

    If the scale is unknown, they are divided by it.
    """
    noise, zeta = problem.noise, jnp.zeros(problem.noise.num_parameters)
    _, information = noise.score_and_information(problem.observed, zeta, problem.observed)
    sigma = noise.sigma(zeta) if noise.scale.num_white else 1.0
    return information**-0.5 / sigma


def noise_of_combinations(problem: InverseProblem, basis: jax.Array) -> CombinedNoise:
    """Return the noise with which combinations, (k,), of weighted readings are lifted."""
    rows = jnp.argmax(jnp.abs(basis), axis=0)
    return CombinedNoise(problem.noise.scale, problem.noise, rows)


def partly_lifted_problem(
    problem: InverseProblem, lift: Lift, condensed: InverseProblem | None = None
) -> PartlyLiftedProblem:
    """Return the problem of the same posterior in which some combinations alone are lifted.

    Parameters
    ----------
    problem : InverseProblem
    lift : Lift
    condensed : InverseProblem
        Problem used to search for starts; the problem's ``searched`` if left out.
    """
    uncensored = problem.searched
    matrix = problem.of_all_readings(lift.basis.T / weights_of(uncensored))
    noise = noise_of_combinations(uncensored, lift.basis)
    return PartlyLiftedProblem(
        problem.model.combined(matrix),
        ReferencePrior(problem.prior, lift.of_white),
        replace(noise, coordinate=lift.of_noise),
        matrix @ problem.observed,
        asked=problem,
        reference=lift,
        matrix=matrix,
        condensed=uncensored if condensed is None else condensed,
    )


class CondensedProblem(InPlaceOf):
    """A problem of combinations that nearly replace all readings, to search for modes and starts.

    Build it with :func:`condensed_problem`.

    Attributes
    ----------
    nearest : (d,)
        Noise-free readings whose residuals are the part of the data outside the span of Q.
    """

    nearest: jax.Array = field(kw_only=True)

    def reading_asked_for(self, index: int) -> tuple[InverseProblem, None]:
        """Return the user's problem, and None: readings are combinations."""
        return self.whole, None

    def log_reference_of_unknowns(self, zeta: jax.Array, white: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.log_reference_of_unknowns`, with the density of the rest."""
        every = self.asked.noise.loglikelihood(self.nearest, zeta, self.asked.observed)
        rest = every - self.noise.loglikelihood(self.observed, zeta, self.observed)
        return super().log_reference_of_unknowns(zeta, white) + rest


def condensed_problem(
    problem: InverseProblem, basis: jax.Array, predicted: jax.Array
) -> CondensedProblem:
    """Return a problem of few combinations whose posterior is nearly the same.

    Parameters
    ----------
    problem : InverseProblem
    basis : (d, p)
        Q: orthonormal columns, each of readings of one scale, that span nearly all changes of
        weighted readings under the prior.
    predicted : (d,)
        Noise-free readings at some unknowns.
    """
    weights = weights_of(problem)
    matrix, residual = basis.T / weights, (problem.observed - predicted) / weights
    rest = residual - basis @ (residual @ basis)
    model, observed = problem.model.combined(matrix), matrix @ problem.observed
    noise, nearest = noise_of_combinations(problem, basis), problem.observed - rest * weights
    return CondensedProblem(model, problem.prior, noise, observed, asked=problem, nearest=nearest)
