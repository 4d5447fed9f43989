"""Student-t noise: heavy tails, with degrees of freedom that are known or unknown."""

from __future__ import annotations

from typing import ClassVar

import jax
import numpy as np

from invlift.errors import InputError
from invlift.noise.base import Noise
from invlift.noise.scales import Scale, UnknownScale, as_scale, unknown_scale
from invlift.unknowns.distributions import Distribution, is_distribution, student_t


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
