"""Gaussian noise, of known or unknown scale."""

from __future__ import annotations

import numpy as np

from invlift.noise.base import Noise
from invlift.noise.scales import Scale, as_scale
from invlift.unknowns.distributions import Distribution


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
