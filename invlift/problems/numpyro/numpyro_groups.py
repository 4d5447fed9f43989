"""Groups of readings of a NumPyro model, with latent variables of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import numpy as np

from invlift.lift.jacobians.grouped import Grouped, Grouping
from invlift.problems.numpyro.numpyro_sites import Sites
from invlift.programs.dependence import NONE, spread

#: With fewer readings one dense matrix is as fast.
MIN_READINGS = 50


def find_grouping(sites: Sites, data: Mapping[str, jax.Array]) -> Grouping | None:
    """Find groups of readings along one plate, or another axis, of the latent sites.

    NumPyro does not enforce that members of a plate are independent.  The program itself therefore
    decides whether readings of one member depend on variables of another
    (:func:`~invlift.programs.dependence.spread`).

    Returns
    -------
    Grouping or None
        The grouping with the most variables in groups; None if there is none, or none is faster.
    """
    members = (_members(sites, axis) for axis in _axes(sites))
    candidates = [each for each in members if _is_worth(each, sites)]
    if not candidates:
        return None
    labels = np.full((len(candidates), sites.num_white), NONE)
    for row, members in zip(labels, candidates, strict=True):
        row[members] = np.arange(len(members))[:, None]

    def scores(white):
        return sites.at(white, data).scores

    least, most = spread(scores, np.zeros(sites.num_white), labels)
    groupings = [
        (members, np.where(low == NONE, 0, low))
        for members, low, high in zip(candidates, least, most, strict=True)
        if np.all(low >= high)
    ]
    if not groupings:
        return None
    members, groups = max(groupings, key=lambda each: each[0].size)
    shared = np.setdiff1d(np.arange(sites.num_white), members)
    order = (*shared.tolist(), *members.ravel().tolist())
    return Grouping(order, Grouped(tuple(groups.tolist()), *members.shape))


def _axes(sites: Sites) -> list[str]:
    """Names of the axes of latent sites."""
    return list(dict.fromkeys(name for site in sites.latent for name, _ in site.axes))


def _members(sites: Sites, axis: str) -> np.ndarray:
    """Return the indices of the variables at each place along an axis, (B, c)."""
    parts, start = [], 0
    for site in sites.latent:
        numbers = np.arange(start, start + site.size)
        start += site.size
        names = [name for name, _ in site.axes]
        if axis not in names:
            continue
        at = names.index(axis)
        before, length = math.prod(site.shape[:at]), site.shape[at]
        if site.size % (before * length) == 0:
            parts.append(numbers.reshape(before, length, -1).swapaxes(0, 1).reshape(length, -1))
    return np.concatenate(parts, axis=1) if parts else np.zeros((0, 0), int)


def _is_worth(members: np.ndarray, sites: Sites) -> bool:
    """Return whether groups of these members at least halve the sweeps for derivatives."""
    num_groups, width = members.shape
    num_readings = sum(site.size for site in sites.lifted)
    num_sweeps = sites.num_white - members.size + width
    is_faster = 2 * num_sweeps <= min(sites.num_white, num_readings)
    return num_groups > 1 and is_faster and num_readings >= MIN_READINGS
