"""Merging of readings that are the same function of the unknowns into their mean.

With Gaussian noise of standard deviation s w_i and known weights w_i, the weighted mean of n
readings of one function F is a sufficient statistic of F.  Its standard deviation is s (sum
w_i^-2)^-1/2.  The density of the residuals from the mean depends on s alone (Gelman et al. 2013,
Bayesian Data Analysis, section 2.5).  The posterior is the same, and a place that is read a
thousand times costs as much as one reading.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.models.base import first_of_same
from invlift.noise.families import GaussianNoise
from invlift.noise.scales import KnownScale, Scale
from invlift.problems.problem import InPlaceOf, InverseProblem


class ScaleOfMeans(Scale):
    """Unknown scale of means of readings; the readings of a mean share one scale.

    Its log reference includes the density of the residuals from the means.

    Attributes
    ----------
    scale : Scale
        Scale of a reading of each mean.
    weights : () or (r,)
        Standard deviations of the means, divided by the scale.
    counts : (r,)
        Number of readings of each mean.
    squares : (r,)
        Weighted sums of squares of their residuals from the mean.
    """

    has_data: ClassVar[bool] = True

    scale: Scale
    weights: jax.Array
    counts: jax.Array
    squares: jax.Array

    @property
    def num_white(self) -> int:
        """Number h of unknowns."""
        return self.scale.num_white

    @property
    def groups(self) -> jax.Array | None:
        """Index of the scale of each mean, (r,); None: one for all."""
        return self.scale.groups

    def transform(self, zeta: jax.Array) -> jax.Array:
        """Sigma, () or (r,), from zeta (h,)."""
        return self.scale.transform(zeta) * self.weights

    def over_weights(self) -> tuple[jax.Array, ScaleOfMeans]:
        """As :meth:`Scale.over_weights`."""
        return self.weights, replace(self, weights=jnp.ones(()))

    def parameter(self, zeta: jax.Array) -> jax.Array:
        """As :meth:`Scale.parameter`, for the scale of the readings."""
        return self.scale.parameter(zeta)

    def log_reference(self, zeta: jax.Array) -> jax.Array:
        """As :meth:`Scale.log_reference`, plus the residuals' log density up to a constant."""
        sigma = self.scale.transform(zeta)
        rest = (self.counts - 1.0) * jnp.log(sigma) + 0.5 * self.squares / sigma**2
        return self.scale.log_reference(zeta) - jnp.sum(rest)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Scale.sample`."""
        return self.scale.sample(rng)

    def near(self, sigma: jax.Array) -> ScaleOfMeans:
        """As :meth:`Scale.near`, for the scale of a reading."""
        return replace(self, scale=self.scale.near(sigma))


class MergedProblem(InPlaceOf):
    """A problem in which means replace readings of one function.  Build it with :func:`merged`.

    Attributes
    ----------
    rows : (r,) int
        Index of a reading of each mean.
    means : (d,) int
        Index of the mean of each reading.
    """

    rows: jax.Array = field(kw_only=True)
    means: jax.Array = field(kw_only=True)

    def readings_of_whole(self, predicted: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.readings_of_whole`, from those of the means, (r,)."""
        return predicted[self.means]

    def reading_asked_for(self, index: int) -> tuple[InverseProblem, int | None]:
        """As :meth:`InverseProblem.reading_asked_for`: one reading of the mean."""
        return self.asked.reading_asked_for(int(self.rows[index]))

    def describe(self, theta: jax.Array, coefficients: jax.Array, predicted: jax.Array) -> dict:
        """As :meth:`InverseProblem.describe`, from predictions of the means, (r,)."""
        return self.asked.describe(theta, coefficients, self.readings_of_whole(predicted))


def merged(problem: InverseProblem) -> InverseProblem:
    """Replace readings that are one function of the unknowns by their mean.

    Parameters
    ----------
    problem : InverseProblem

    Returns
    -------
    InverseProblem
        A problem with the same posterior.  It is the given problem unless the noise is additive and
        Gaussian, and some readings are known to be the same function with the same noise scale.
    """
    noise = problem.noise
    if type(noise) is not GaussianNoise or noise.relative or noise.censored is not None:
        return problem
    labels = problem.model.alike()
    if labels is None or not problem.lifted().is_dense:
        return problem
    weights, scale = problem.noise.scale.over_weights()
    groups = scale.groups
    rows, means = first_of_same(labels, *([] if groups is None else [np.asarray(groups)]))
    if rows.size == labels.size:
        return problem
    observed, size = np.asarray(problem.observed), rows.size
    precisions = np.broadcast_to(1.0 / np.asarray(weights) ** 2, means.shape)
    totals = np.bincount(means, precisions, size)
    # Relative to the first reading of each mean: sums of large, nearly equal numbers lose digits.
    apart = observed - observed[rows][means]
    shifts = np.bincount(means, precisions * apart, size) / totals
    sds = jax.device_put(totals**-0.5)
    if problem.noise.num_parameters:
        squares = np.bincount(means, precisions * (apart - shifts[means]) ** 2, size)
        counts = np.bincount(means, minlength=size).astype(float)
        scale = ScaleOfMeans(scale.of_readings_at(rows), sds, *jax.device_put((counts, squares)))
    else:
        scale = KnownScale(sds)
    return MergedProblem(
        problem.model.of_readings(rows),
        problem.prior,
        GaussianNoise(scale),
        jax.device_put(observed[rows] + shifts),
        asked=problem,
        rows=jax.device_put(rows),
        means=jax.device_put(means),
    )
