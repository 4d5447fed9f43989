"""Lifting some combinations of many readings, the rest in the density, in a reference that has it.

Readings y = F + s w eta, (d,), with known weights w and eta standard normal, may be rotated: with
orthonormal columns Q, (d, k), the combinations z = Q^T (y / w) have the noise s eta as well, and
what is left of y / w is independent of it, with the density

    s^-(d - k) exp(-(|r|^2 - |Q^T r|^2) / (2 s^2)),  r = (y - F) / w.

The k combinations are lifted, this stays in the density.  The variables of the field are v with
w = m + L v, and likewise those of the noise's scale, so that a normal approximation of what is left
is standard normal in them.  The posterior is the same for any m and L, and for any Q, as what is
lifted of the likelihood is taken out of the rest; only steps depend on them.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.inverse.laplace_approximation import LaplaceApproximation
from invlift.inverse.noise.gaussian import GaussianNoise
from invlift.inverse.noise.scales import Scale
from invlift.inverse.priors.base import Prior, Tangent
from invlift.inverse.problem import InverseProblem
from invlift.programs.pytrees import Module


class Lift(Module):
    """What is lifted of a problem's readings, and what its variables have as their reference.

    Attributes
    ----------
    basis : (d, k)
        Q: orthonormal columns, each of readings of one scale.
    of_noise : LaplaceApproximation
        Reference of the noise's parameters zeta, (h,).
    of_white : LaplaceApproximation
        That of the prior's variables w, (m,).
    """

    basis: jax.Array
    of_noise: LaplaceApproximation
    of_white: LaplaceApproximation

    def colour(self, theta: jax.Array) -> jax.Array:
        """Unknowns (zeta, w), (h + m,), of variables with these references, (h + m,)."""
        zeta, white = self._split(theta)
        return jnp.concatenate([self.of_noise.colour(zeta), self.of_white.colour(white)])

    def whiten(self, theta: jax.Array) -> jax.Array:
        """The variables, (h + m,), of unknowns (zeta, w), (h + m,)."""
        zeta, white = self._split(theta)
        return jnp.concatenate([self.of_noise.whiten(zeta), self.of_white.whiten(white)])

    def _split(self, theta):
        return jnp.split(theta, [self.of_noise.mode.shape[0]])


class ReferencePrior(Prior):
    """A prior in variables v with w = m + L v.

    Attributes
    ----------
    prior : Prior
        Of w.
    reference : LaplaceApproximation
        Normal with mean m and covariance L L^T.
    """

    prior: Prior
    reference: LaplaceApproximation

    @property
    def is_affine(self) -> bool:
        """Whether the prior is."""
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

    def log_reference(self, white: jax.Array) -> jax.Array:
        """As :meth:`Prior.log_reference`."""
        own = self.reference.colour(white)
        return self.prior.log_reference(own) + self.reference.log_ratio(white)


class _Through(NamedTuple):
    """Derivatives by v from those by w."""

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


class CombinationsScale(Scale):
    """Scale of combinations of readings, each of readings with one scale.

    Attributes
    ----------
    scale : Scale
        Of the d readings, over their weights.
    rows : (k,) int
        A reading of each combination.
    reference : LaplaceApproximation or None
        Of the parameters; None: they are those of the readings' scale.
    """

    scale: Scale
    rows: jax.Array
    reference: LaplaceApproximation | None = None

    @property
    def num_parameters(self) -> int:
        """Number h of unknowns."""
        return self.scale.num_parameters

    def value(self, zeta: jax.Array) -> jax.Array:
        """Sigma, () or (k,), from zeta (h,)."""
        sigma = self.scale.value(self._own(zeta))
        return sigma[self.rows] if jnp.ndim(sigma) else sigma

    def log_reference(self, zeta: jax.Array) -> jax.Array:
        """As :meth:`Scale.log_reference`."""
        found = self.scale.log_reference(self._own(zeta))
        return found if self.reference is None else found + self.reference.log_ratio(zeta)

    def near(self, sigma: jax.Array) -> CombinationsScale:
        """As :meth:`Scale.near`, of one number."""
        return CombinationsScale(self.scale.near(sigma), self.rows, self.reference)

    def log_density_of_rest(
        self, zeta: jax.Array, residual: jax.Array, combined: jax.Array | float = 0.0
    ) -> jax.Array:
        """Log density, (), of what is not lifted of readings over weights, less a constant.

        From the residual, (d,), and combinations of it, (k,): zero if it has none of them.
        """
        sigma = self.scale.value(self._own(zeta))
        logs, num_left = jnp.log(sigma), residual.size - self.rows.size
        all_logs = jnp.sum(logs) - jnp.sum(logs[self.rows]) if logs.ndim else num_left * logs
        squares = jnp.sum((residual / sigma) ** 2)
        return -all_logs - 0.5 * (squares - jnp.sum((combined / self.value(zeta)) ** 2))

    def _own(self, zeta):
        return zeta if self.reference is None else self.reference.colour(zeta)


class PartlyLiftedProblem(InverseProblem):
    """Combinations of a problem's readings, with the rest as a factor of the density.

    Build it with :func:`partly_lifted_problem`.  Its unknowns are the problem's in their reference.

    Attributes
    ----------
    asked : InverseProblem
        With d readings.
    weights : () or (d,)
    basis : (d, k)
    """

    has_factor: ClassVar[bool] = True

    asked: InverseProblem = field(kw_only=True)
    weights: jax.Array = field(kw_only=True)
    basis: jax.Array = field(kw_only=True)

    def log_factor(self, readings: jax.Array, zeta: jax.Array) -> jax.Array:
        """Log density of what is not lifted, (), from all predicted readings, (d,)."""
        residual = (self.asked.observed - readings) / self.weights
        combined = residual @ self.basis
        return self.noise.scale.log_density_of_rest(zeta, residual, combined)


def weights_of(problem: InverseProblem) -> jax.Array:
    """Known weights of the noise, () or (d,): all of a scale that is known."""
    return problem.noise.scale.over_weights()[0]


def scale_of_combinations(problem: InverseProblem, basis: jax.Array, reference=None) -> Scale:
    """The scale of combinations of a problem's readings over their weights."""
    scale = problem.noise.scale.over_weights()[1]
    return CombinationsScale(scale, jnp.argmax(jnp.abs(basis), axis=0), reference)


def partly_lifted_problem(problem: InverseProblem, lift: Lift) -> PartlyLiftedProblem:
    """The same posterior with the combinations alone as readings.

    Parameters
    ----------
    problem : InverseProblem
        With additive Gaussian noise.
    lift : Lift
    """
    weights, basis = weights_of(problem), lift.basis
    matrix = basis.T / weights
    return PartlyLiftedProblem(
        problem.model.combined(matrix),
        ReferencePrior(problem.prior, lift.of_white),
        GaussianNoise(scale_of_combinations(problem, basis, lift.of_noise)),
        matrix @ problem.observed,
        asked=problem,
        weights=weights,
        basis=basis,
    )


class CondensedNoise(GaussianNoise):
    """Gaussian noise of combinations that stand for more readings.

    Attributes
    ----------
    rest : (d,)
        What is left of the readings over their weights, whatever the unknowns.
    """

    rest: jax.Array = field(kw_only=True)

    def log_reference_of_parameters(self, zeta: jax.Array) -> jax.Array:
        """That of zeta (h,), and of the rest, ()."""
        left = self.scale.log_density_of_rest(zeta, self.rest)
        return super().log_reference_of_parameters(zeta) + left


class CondensedProblem(InverseProblem):
    """Combinations that nearly stand for all readings: for modes, and for where chains start.

    Build it with :func:`condensed_problem`.

    Attributes
    ----------
    asked : InverseProblem
        With d readings.
    """

    asked: InverseProblem = field(kw_only=True)

    @property
    def whole(self) -> InverseProblem:
        """The problem of the readings as they are."""
        return self.asked.whole


def condensed_problem(
    problem: InverseProblem, basis: jax.Array, predicted: jax.Array
) -> CondensedProblem:
    """A problem of combinations whose posterior is nearly the same, with few readings.

    Parameters
    ----------
    problem : InverseProblem
        With additive Gaussian noise, of a scale that is known or unknown.
    basis : (d, p)
        Q: orthonormal columns, each of readings of one scale, that span nearly all that the prior
        can change of readings over weights.
    predicted : (d,)
        Noise-free readings for some unknowns.
    """
    weights = weights_of(problem)
    matrix, residual = basis.T / weights, (problem.observed - predicted) / weights
    rest = residual - basis @ (residual @ basis)
    noise = CondensedNoise(scale_of_combinations(problem, basis), rest=rest)
    model, observed = problem.model.combined(matrix), matrix @ problem.observed
    return CondensedProblem(model, problem.prior, noise, observed, asked=problem)
