"""Readings that are the same function of the unknowns, as one: their mean.

With Gaussian noise of standard deviation s w_i, weights w_i known, n readings of one function F
tell of it what their weighted mean tells, with standard deviation s (sum w_i^-2)^-1/2.  What is
left of them has a density of s alone (sufficiency: Gelman et al. 2013, Bayesian Data Analysis,
section 2.5).  The posterior is the same, and a place that is read a thousand times costs what one
reading costs.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.models.base import first_of_same
from invlift.noise.gaussian import GaussianNoise
from invlift.noise.scales import KnownScale, Scale
from invlift.problems.problem import InverseProblem


class ScaleOfMeans(Scale):
    """Unknown scale of the means of readings, each of readings with one scale.

    Its log reference holds the density of what the means leave over of the readings.

    Attributes
    ----------
    scale : Scale
        Of a reading of each mean.
    weights : () or (r,)
        Standard deviations of the means over those of a reading.
    counts : (r,)
        Readings of each mean.
    squares : (r,)
        Sums of squares of these less the mean.
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
        return getattr(self.scale, "groups", None)

    def transform(self, zeta: jax.Array) -> jax.Array:
        """Sigma, () or (r,), from zeta (h,)."""
        return self.scale.transform(zeta) * self.weights

    def over_weights(self) -> tuple[jax.Array, ScaleOfMeans]:
        """As :meth:`Scale.over_weights`."""
        return self.weights, replace(self, weights=jnp.ones(()))

    def parameter(self, zeta: jax.Array) -> jax.Array:
        """As of the readings."""
        return self.scale.parameter(zeta)

    def log_reference(self, zeta: jax.Array) -> jax.Array:
        """As :meth:`Scale.log_reference`, with the log density of what is left, less a constant."""
        sigma = self.scale.transform(zeta)
        rest = (self.counts - 1.0) * jnp.log(sigma) + 0.5 * self.squares / sigma**2
        return self.scale.log_reference(zeta) - jnp.sum(rest)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Scale.sample`."""
        return self.scale.sample(rng)

    def near(self, sigma: jax.Array) -> ScaleOfMeans:
        """As :meth:`Scale.near`, of the scale of a reading."""
        return replace(self, scale=self.scale.near(sigma))


class MergedProblem(InverseProblem):
    """A problem with means in the place of readings of one function.  Build it with :func:`merged`.

    Attributes
    ----------
    asked : InverseProblem
        With d readings.
    rows : (r,) int
        A reading of each mean.
    means : (d,) int
        The mean of each reading.
    """

    asked: InverseProblem = field(kw_only=True)
    rows: jax.Array = field(kw_only=True)
    means: jax.Array = field(kw_only=True)

    @property
    def whole(self) -> InverseProblem:
        """The problem with d readings."""
        return self.asked

    def readings_of_whole(self, predicted: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.readings_of_whole`, of those of the means, (r,)."""
        return predicted[self.means]

    def number_in_whole(self, index: int) -> int:
        """That of a reading of a mean."""
        return int(self.rows[index])

    def describe(self, theta: jax.Array, coefficients: jax.Array, predicted: jax.Array) -> dict:
        """As of the problem with d readings, from predictions of the means, (r,)."""
        return self.asked.describe(theta, coefficients, self.readings_of_whole(predicted))


def merged(problem: InverseProblem) -> InverseProblem:
    """The same posterior with the mean of all readings that are one function of the unknowns.

    Parameters
    ----------
    problem : InverseProblem

    Returns
    -------
    InverseProblem
        Itself where no two readings with additive Gaussian noise are known to be one function, and
        to have noise of one scale.
    """
    noise = problem.noise
    if type(noise) is not GaussianNoise or noise.relative or noise.censored is not None:
        return problem
    labels = problem.model.alike()
    if labels is None or not problem.lifted().is_dense:
        return problem
    weights, scale = problem.noise.scale.over_weights()
    groups = getattr(scale, "groups", None)
    rows, means = first_of_same(labels, *([] if groups is None else [np.asarray(groups)]))
    if rows.size == labels.size:
        return problem
    observed, size = np.asarray(problem.observed), rows.size
    precisions = np.broadcast_to(1.0 / np.asarray(weights) ** 2, means.shape)
    totals = np.bincount(means, precisions, size)
    # Less the first of each place: sums of large numbers that are nearly equal lose digits.
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
