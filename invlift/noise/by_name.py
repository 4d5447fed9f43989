"""Noise of named readings, from the scales that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from invlift.errors import InputError, as_numbers, errors_at
from invlift.noise.base import Noise
from invlift.noise.families import gaussian_noise, known_noise
from invlift.noise.scales import KnownScale, Scale, as_scale, unknown_scale
from invlift.unknowns.distributions import Distribution, is_distribution


def noise_by_name(
    noise: Noise | Distribution | float | np.ndarray | Mapping[str, Any],
    observed: Mapping[str, np.ndarray],
) -> Noise:
    """Return the noise of all readings, one name after the other.

    Parameters
    ----------
    noise : Noise, Distribution, float, (d,) array or mapping of str to these
        A noise.  Or the standard deviation of normal noise, for all readings, for each reading, or
        by name.  Or its distribution, with one scale for each name, for all names or by name.
    observed : mapping of str to array

    Raises
    ------
    InputError
        If it is neither a positive number, nor a distribution of one, nor one of these for each
        name.
    """
    if isinstance(noise, Noise):
        return noise
    sizes = [each.size for each in observed.values()]
    groups = np.repeat([*observed], sizes)
    # A series of pandas, say, goes by its labels if they are names of readings.
    if hasattr(noise, "keys") and not {*observed}.isdisjoint(noise.keys()):
        noise = dict(noise.items())
    if isinstance(noise, Mapping):
        parts = _parts(noise, observed)
        if all(isinstance(part, KnownScale) for part in parts):
            known = zip(parts, sizes, strict=True)
            return known_noise(np.concatenate([np.broadcast_to(p.known, num) for p, num in known]))
        return gaussian_noise(unknown_scale(parts, groups))
    if not is_distribution(noise):
        expected = "a positive number, a distribution of one, a number for each reading, or a noise"
        return known_noise(as_numbers("noise", noise, expected, _REMEDY))
    with errors_at("noise"):
        return gaussian_noise(unknown_scale(noise, groups if len(observed) > 1 else None))


_REMEDY = "give the standard deviation, 0.1 say, or its distribution, half_normal(0.1) say"


def _parts(noise: Mapping[str, Any], observed: Mapping[str, np.ndarray]) -> list[Scale]:
    """Return the scale of each name, in the order of the readings."""
    if noise.keys() != observed.keys():
        expected = f"a number or a distribution for each of {', '.join(observed)}"
        raise InputError("noise", expected, ", ".join(map(str, noise)) or "none", _REMEDY)
    parts, has_unknown = [], any(map(is_distribution, noise.values()))
    expected = "a positive number, or, where the others are known too, one for each reading"
    for name in observed:
        where, given = ("noise", name), noise[name]
        if not is_distribution(given):
            given = as_numbers(where, given, expected, _REMEDY).ravel()
            is_fitting = given.size == 1 or (given.size == observed[name].size and not has_unknown)
            if not is_fitting or not np.all((given > 0.0) & (given < np.inf)):
                raise InputError(where, expected, f"{noise[name]!r}"[:80], _REMEDY)
            given = given if given.size > 1 else given[0]
        with errors_at(where):
            parts.append(as_scale(given))
    return parts
