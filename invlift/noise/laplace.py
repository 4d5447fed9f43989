"""Laplace noise: the density falls exponentially on both sides of a peak."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtri

from invlift.noise.base import Noise
from invlift.noise.scales import Scale, as_scale
from invlift.unknowns.distributions import Distribution

#: Newton's method is used for tail probabilities below exp(-10): they underflow at exp(-745).
_FAR = 10.0


class LaplaceNoise(Noise):
    """Independent Laplace noise: T(eta) is the quantile of probability Phi(eta).

    T' is continuous, T'' jumps where eta is 0, as the density's slope does; elsewhere T is smooth.
    """

    def transform(self, eta: jax.Array) -> jax.Array:
        """T(eta) = -log(2 Phi(-eta)) for eta above 0; T is odd."""
        # By ``where``, as the derivatives of abs and sign at 0 are 0.
        size = jnp.where(eta < 0.0, -eta, eta)
        value = -log_ndtr(-size) - np.log(2.0)
        return jnp.where(eta < 0.0, -value, value)

    def inverse_transform(self, value: jax.Array) -> jax.Array:
        """Return eta with T(eta) equal to the value."""
        size = jnp.where(value < 0.0, -value, value)
        eta = _score(size + np.log(2.0))
        return jnp.where(value < 0.0, -eta, eta)


@jax.custom_jvp
def _score(log_tail):
    """Return z with Phi(-z) = exp(-log_tail), for z above 0 of any size."""
    near = -ndtri(jnp.exp(-jnp.minimum(log_tail, _FAR)))
    # Newton's method, which converges from above on a convex function: four steps are one more than
    # double precision needs.
    far = jnp.sqrt(2.0 * jnp.maximum(log_tail, _FAR))
    for _ in range(4):
        far += (log_tail + log_ndtr(-far)) / _hazard(far)
    return jnp.where(log_tail < _FAR, near, far)


@_score.defjvp
def _score_jvp(primals, tangents):
    score = _score(*primals)
    return score, tangents[0] / _hazard(score)


def _hazard(z):
    """Normal density divided by the probability of the upper tail."""
    return jnp.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(-z))


def laplace_noise(
    scale: Scale | Distribution | float | np.ndarray, *, relative: bool = False
) -> LaplaceNoise:
    """Independent Laplace noise, of density exp(-|r| / sigma) / (2 sigma).

    Parameters
    ----------
    scale : number, (d,) array, Distribution or Scale
        Sigma, the mean of |r| (the standard deviation is sqrt(2) sigma): known, in units of the
        readings, or unknown: see :func:`gaussian_noise`.
    relative : bool
        If true, r is log(y / F), else y - F.

    Returns
    -------
    LaplaceNoise
        For :func:`inverse_problem`.

    Raises
    ------
    InputError
        If a known scale is not finite and positive.
    """
    return LaplaceNoise(as_scale(scale), relative=relative)
