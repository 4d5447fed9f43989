"""Families of noise: Gaussian, Laplace and Student-t noise, and exact readings."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtri

from invlift.errors import InputError
from invlift.noise.base import Noise
from invlift.noise.scales import KnownScale, Scale, UnknownScale, as_scale, unknown_scale
from invlift.unknowns.distributions import Distribution, is_distribution, student_t


class GaussianNoise(Noise):
    """Independent Normal noise: T is the identity.  If relative, it is lognormal."""


def gaussian_noise(
    scale: Scale | Distribution | float | np.ndarray, *, relative: bool = False
) -> GaussianNoise:
    """Independent Normal noise, y = F + sigma eta, or y = F exp(sigma eta) if relative.

    Parameters
    ----------
    scale : number, (d,) array, Distribution or Scale
        Standard deviation: known, in units of the readings, or unknown, with a prior for all
        readings or, by :func:`unknown_scale`, for each group of them.  For relative noise, it is
        that of the logarithm.
    relative : bool
        True if the noise multiplies the readings.

    Returns
    -------
    GaussianNoise
        For :func:`inverse_problem`.

    Raises
    ------
    InputError
        If a known scale is not finite and positive.

    Examples
    --------
    >>> invlift.gaussian_noise(0.1).num_parameters
    0
    >>> invlift.gaussian_noise(invlift.lognormal(median=0.1, factor=2.0)).num_parameters
    1
    """
    return GaussianNoise(as_scale(scale), relative=relative)


def known_noise(sigma: float | np.ndarray) -> GaussianNoise:
    """Gaussian noise of known scale, one number or (d,), in units of the observations.

    Parameters
    ----------
    sigma : float or (d,) array
        Standard deviation, in the unit of the readings.

    Returns
    -------
    GaussianNoise
        For :func:`inverse_problem`.

    Raises
    ------
    InputError
        If a value is not finite and positive.
    """
    return gaussian_noise(sigma)


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


class StudentTNoise(Noise):
    """Independent Student-t noise of nu degrees of freedom.

    Attributes
    ----------
    degrees_of_freedom : Scale
        nu, (); its unknown, if it has one, follows those of the scale in zeta.

    Notes
    -----
    See :mod:`invlift.unknowns.distributions.student_t`.
    """

    degrees_of_freedom: Scale

    shape_parameters: ClassVar[tuple[str, ...]] = ("degrees_of_freedom",)

    def transform(self, eta: jax.Array, nu: jax.Array) -> jax.Array:
        """T(eta)."""
        return student_t.transform(eta, nu)

    def inverse_transform(self, value: jax.Array, nu: jax.Array) -> jax.Array:
        """Eta = T^-1(value)."""
        return student_t.inverse_transform(value, nu)

    def log_ratio(self, eta: jax.Array, nu: jax.Array) -> jax.Array:
        """Log density of each eta relative to the standard normal one."""
        return student_t.log_ratio(eta, nu)

    def scores(self, eta: jax.Array, nu: jax.Array) -> jax.Array:
        """As :meth:`Noise.scores`."""
        return student_t.normal_score(eta, nu)

    def draw(self, rng: np.random.Generator, size: int, nu: np.ndarray) -> np.ndarray:
        """Draws of t, (size,)."""
        return rng.standard_t(nu, size)


def student_t_noise(
    scale: Scale | Distribution | float | np.ndarray,
    degrees_of_freedom: Scale | Distribution | float,
    *,
    relative: bool = False,
) -> StudentTNoise:
    """Independent Student-t noise, y = F + sigma t, or y = F exp(sigma t) if relative.

    Parameters
    ----------
    scale : number, (d,) array, Distribution or Scale
        Sigma, which multiplies t (the standard deviation is sigma sqrt(nu / (nu - 2)), infinite for
        nu up to 2): known, in units of the readings, or unknown: see :func:`gaussian_noise`.
    degrees_of_freedom : number or Distribution
        nu: known, at least 1, or unknown with a prior such as ``lognormal(2.0, 0.7)``.
    relative : bool
        True if the noise multiplies the readings.

    Returns
    -------
    StudentTNoise
        For :func:`inverse_problem`.

    Raises
    ------
    InputError
        If a known scale is not finite and positive, or the degrees of freedom are below 1 or more
        than one number.
    """
    if is_distribution(degrees_of_freedom):
        degrees_of_freedom = unknown_scale(degrees_of_freedom)
    known = np.asarray(getattr(degrees_of_freedom, "known", degrees_of_freedom))
    if not isinstance(degrees_of_freedom, UnknownScale) and not (
        known.shape == () and known.dtype.kind in "iuf" and np.isfinite(known) and known >= 1.0
    ):
        raise InputError(
            ("noise", "degrees_of_freedom"),
            "a number of at least 1, or a prior",
            f"{degrees_of_freedom}",
            "give a number, or a prior such as lognormal(2.0, 0.7)",
        )
    if isinstance(degrees_of_freedom, UnknownScale) and degrees_of_freedom.groups is not None:
        raise InputError(
            ("noise", "degrees_of_freedom"),
            "one prior for all readings",
            f"groups, {degrees_of_freedom.num_white} of them",
            "leave the groups out",
        )
    return StudentTNoise(as_scale(scale), as_scale(degrees_of_freedom), relative=relative)


class ExactReadings(Noise):
    """Exact readings, y = F: the posterior is a density on the manifold F = y.

    Only constrained samplers draw from it; the lifted form has no noise variables.
    """

    is_exact: ClassVar[bool] = True

    def invert(self, predicted: jax.Array, zeta: jax.Array, observed: jax.Array) -> jax.Array:
        """Return zero, (d,): no noise is needed to explain the readings."""
        return jnp.zeros_like(predicted)

    def sample(self, rng: np.random.Generator, predicted: np.ndarray, zeta: np.ndarray):
        """The readings themselves, (d,)."""
        return predicted

    def loglikelihood(
        self, predicted: jax.Array, zeta: jax.Array, observed: jax.Array
    ) -> jax.Array:
        """Return zero, (): every draw reproduces the readings."""
        return jnp.zeros(())


def exact_readings() -> ExactReadings:
    """Return the noise of exact readings, which is none."""
    return ExactReadings(KnownScale(jax.device_put(np.float64(0.0))))
