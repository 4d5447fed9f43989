"""The noise of readings by name, of what a person gives for it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from invlift.errors import InputError
from invlift.inverse.distributions import Distribution, as_distribution
from invlift.inverse.noise.base import Noise
from invlift.inverse.noise.gaussian import gaussian_noise, known_noise
from invlift.inverse.noise.scales import unknown_scale


def noise_by_name(noise: Noise | Distribution | float, observed: Mapping[str, np.ndarray]) -> Noise:
    """Noise of all readings, those of one name after those of the other.

    Parameters
    ----------
    noise : Noise, Distribution or float
        A noise; or the standard deviation of a normal one, or its distribution, one scale for each
        name.
    observed : mapping of str to array

    Raises
    ------
    InputError
        If it is no distribution of one positive number.
    """
    if isinstance(noise, Noise):
        return noise
    if isinstance(noise, int | float | np.number):
        return known_noise(noise)
    groups = None
    if len(observed) > 1:
        groups = np.repeat(np.arange(len(observed)), [each.size for each in observed.values()])
    try:
        return gaussian_noise(unknown_scale(as_distribution(noise), groups))
    except InputError as error:
        raise error.at("noise") from None
