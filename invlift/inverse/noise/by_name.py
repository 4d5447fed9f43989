"""The noise of readings by name, of what a person gives for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from invlift.errors import InputError
from invlift.inverse.distributions import Distribution, as_distribution, is_distribution
from invlift.inverse.noise.base import Noise
from invlift.inverse.noise.gaussian import gaussian_noise, known_noise
from invlift.inverse.noise.scales import unknown_scale
from invlift.inverse.readings import as_numbers


def noise_by_name(
    noise: Noise | Distribution | float | Mapping[str, Any], observed: Mapping[str, np.ndarray]
) -> Noise:
    """Noise of all readings, those of one name after those of the other.

    Parameters
    ----------
    noise : Noise, Distribution, float or mapping of str to float or Distribution
        A noise; or the standard deviation of a normal one, for all or by name; or its distribution,
        one scale for each name, likewise.
    observed : mapping of str to array

    Raises
    ------
    InputError
        If it is no distribution of one positive number, no positive number for each name and no
        distribution for each, all of one family.
    """
    if isinstance(noise, Noise):
        return noise
    if isinstance(noise, int | float | np.number):
        return known_noise(noise)
    sizes = [each.size for each in observed.values()]
    if isinstance(noise, Mapping) and any(map(is_distribution, noise.values())):
        noise = _stacked(noise, observed)
    if isinstance(noise, Mapping):
        return known_noise(np.repeat(_checked_numbers(noise, observed), sizes))
    if not is_distribution(noise):
        raise InputError(
            "noise",
            "a positive number, a distribution of one, or a noise",
            f"{noise!r}"[:80],
            "give the standard deviation, 0.1 say, or invlift.lognormal(median=0.1, factor=2)",
        )
    groups = None
    if len(observed) > 1:
        groups = np.repeat([*observed], sizes)
    try:
        return gaussian_noise(unknown_scale(as_distribution(noise), groups))
    except InputError as error:
        raise error.at("noise") from None


_REMEDY = "give a number for each, or a distribution that the scale of each has"


def _check_names(noise, observed) -> None:
    if noise.keys() != observed.keys():
        expected, found = f"a number for each of {', '.join(observed)}", ", ".join(map(str, noise))
        raise InputError("noise", expected, found or "none", _REMEDY)


def _stacked(noise, observed) -> Distribution:
    """Distributions by name as one of all scales, in the order of the readings."""
    _check_names(noise, observed)
    parts = [as_distribution(noise[name]) for name in observed if is_distribution(noise[name])]
    kinds = {jax.tree.structure(part) for part in parts}
    if len(parts) < len(observed) or len(kinds) > 1 or not all(p.is_elementwise for p in parts):
        given = ", ".join(type(each).__name__ for each in noise.values())
        remedy = "give lognormal distributions of several medians, for example"
        raise InputError("noise", "distributions of one family for all names", given, remedy)
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *each: jax.device_put(np.stack(each)), *parts)


def _checked_numbers(noise, observed) -> list[np.ndarray]:
    """A positive number for each name, in the order of the readings."""
    _check_names(noise, observed)
    numbers = []
    for name in observed:
        where, expected = f"noise {name}", "a positive number"
        numbers.append(as_numbers(where, noise[name], expected, _REMEDY))
        if numbers[-1].shape or not 0.0 < numbers[-1] < np.inf:
            raise InputError(where, expected, f"{noise[name]!r}"[:80], _REMEDY)
    return numbers
