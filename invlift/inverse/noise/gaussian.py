"""Gaussian noise, of known or unknown scale."""

from __future__ import annotations

import numpy as np

from invlift.inverse.noise.base import Noise
from invlift.inverse.noise.scales import Scale, as_scale, half_normal_scale, lognormal_scale


class GaussianNoise(Noise):
    """Independent Normal noise: T is the identity.  Relative, it is lognormal."""


def gaussian_noise(scale: Scale | float | np.ndarray, *, relative: bool = False) -> GaussianNoise:
    """Independent Normal noise, y = F + sigma eta, or y = F exp(sigma eta) if relative.

    Parameters
    ----------
    scale : number, (d,) array or Scale
        Standard deviation: known, in units of the readings, or unknown, as
        :func:`lognormal_scale`.  Of relative noise that of the logarithm.
    relative : bool

    Raises
    ------
    InputError
        If a known scale is not finite and positive.
    """
    return GaussianNoise(as_scale(scale), relative=relative)


def known_noise(sigma: float | np.ndarray) -> GaussianNoise:
    """Gaussian noise of known scale, one number or (d,), in units of the observations.

    Raises
    ------
    InputError
        If a value is not finite and positive.
    """
    return gaussian_noise(sigma)


def lognormal_noise(location: float, scale: float) -> GaussianNoise:
    """Gaussian noise of unknown scale with log sigma ~ Normal(location, scale^2).

    Raises
    ------
    InputError
        If location is not finite or scale not positive.
    """
    return gaussian_noise(lognormal_scale(location, scale))


def half_normal_noise(scale: float) -> GaussianNoise:
    """Gaussian noise of unknown scale sigma = |Normal(0, scale^2)|.

    Raises
    ------
    InputError
        If scale is not positive.
    """
    return gaussian_noise(half_normal_scale(scale))
