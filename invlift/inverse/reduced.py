"""Fewer numbers in the place of readings that are combinations of these: the same posterior.

Readings y = A F + s w eta, (d,), with known weights w and eta standard normal, tell of F, (r,),
what z = Q^T (y / w) tells, where Q has k orthonormal columns that span those of A / w: the density
of y is that of z = Q^T (A / w) F + s eta, times one without F, s^-(d - k) exp(-|y / w - Q z|^2 /
(2 s^2)).
"""

from __future__ import annotations

from dataclasses import field, replace

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import qr

from invlift.inverse.models.combinations import Combinations
from invlift.inverse.noise.gaussian import GaussianNoise
from invlift.inverse.noise.scales import KnownScale
from invlift.inverse.problem import InverseProblem
from invlift.programs.pytrees import static

#: Share of the largest column below which a column is a combination of others.
ROUNDING = 1e-10


class ReducedNoise(GaussianNoise):
    """Gaussian noise of k numbers that stand for d readings.

    Attributes
    ----------
    squares : ()
        What no F explains, |y / w - Q z|^2.
    num_left : int
        Number d - k of readings more than numbers.
    """

    squares: jax.Array = field(kw_only=True)
    num_left: int = static(kw_only=True)

    def log_reference_of_parameters(self, zeta: jax.Array) -> jax.Array:
        """That of zeta (h,) and of what no F explains, ()."""
        sigma = self.sigma(zeta)
        left = -self.num_left * jnp.log(sigma) - 0.5 * self.squares / sigma**2
        return super().log_reference_of_parameters(zeta) + left


class ReducedProblem(InverseProblem):
    """A problem with k numbers in the place of the readings.  Build it with :func:`reduced`.

    Attributes
    ----------
    readings : (d,)
    matrix : (d, r)
        A.
    noise_of_readings : GaussianNoise
    back : (d, k)
        The readings from the numbers: w Q.
    """

    readings: jax.Array = field(kw_only=True)
    matrix: jax.Array = field(kw_only=True)
    noise_of_readings: GaussianNoise = field(kw_only=True)
    back: jax.Array = field(kw_only=True)

    @property
    def whole(self) -> InverseProblem:
        """The problem with d readings, in the coordinates of the noise of this one."""
        noise = self.noise_of_readings
        if noise.num_parameters:
            noise = replace(noise, scale=self.noise.scale)
        model = replace(self.model, matrix=self.matrix)
        return InverseProblem(model, self.prior, noise, self.readings)

    def describe(self, theta: jax.Array, coefficients: jax.Array, predicted: jax.Array) -> dict:
        """What is kept of a draw, with all readings, from the numbers predicted, (k,)."""
        return self.whole.describe(theta, coefficients, self.back @ predicted)


def reduced(problem: InverseProblem) -> InverseProblem:
    """A problem of fewer numbers with the same posterior, up to a constant; or the problem itself.

    Itself if its readings are not combinations of fewer numbers
    (:class:`~invlift.inverse.models.combinations.Combinations`), or their noise is not additive and
    Gaussian, of a scale that is known or one for all.
    """
    noise, model = problem.noise, getattr(problem, "model", None)
    if not isinstance(model, Combinations) or type(noise) is not GaussianNoise or noise.relative:
        return problem
    is_known = isinstance(noise.scale, KnownScale)
    if not is_known and getattr(noise.scale, "groups", None) is not None:
        return problem
    values = np.asarray(problem.observed)
    weights = np.broadcast_to(noise.scale.known if is_known else 1.0, values.shape)
    matrix, values = np.asarray(model.matrix) / weights[:, None], values / weights
    basis, triangle, _ = qr(matrix, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    rank = np.count_nonzero(sizes > ROUNDING * sizes[0])
    if rank == values.size:
        return problem
    basis = basis[:, :rank]
    numbers = basis.T @ values
    squares = np.sum((values - basis @ numbers) ** 2)
    scale = KnownScale(jax.device_put(1.0)) if is_known else noise.scale
    noise = ReducedNoise(scale, squares=jax.device_put(squares), num_left=values.size - rank)
    numbers, back = jax.device_put((numbers, weights[:, None] * basis))
    return ReducedProblem(
        replace(problem.model, matrix=jax.device_put(basis.T @ matrix)),
        problem.prior,
        noise,
        numbers,
        readings=problem.observed,
        matrix=model.matrix,
        noise_of_readings=problem.noise,
        back=back,
    )
