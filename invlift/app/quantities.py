"""What the draws of a problem are of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invlift.inverse.problem import InverseProblem
from invlift.inverse.unknowns import NamedPrior
from invlift.posterior.names import FIELD, NOISE_SCORE, PARAMETERS, PREDICTED, SIGMA, SOLUTION
from invlift.posterior.quantities import MAX_ENTRIES
from invlift.posterior.quantity import Quantity, numbered_axes


def quantities_of(
    problem: InverseProblem,
    labels: Sequence[str] | None = None,
    prior_sd: np.ndarray | None = None,
) -> tuple[Quantity, ...]:
    """Describe the draws of a problem.

    Parameters
    ----------
    problem : InverseProblem
    labels : sequence of d str, optional
        Names of the readings.
    prior_sd : (N,) array, optional
        Prior standard deviation of the field.

    Returns
    -------
    tuple of Quantity
        Of what has axes or a unit.
    """
    prior, scale = problem.prior, problem.noise.scale
    place = {"nodes": "node", "cells": "cell"}.get(getattr(prior, "location", None))
    if place is not None:
        found = [
            Quantity(FIELD, {place: None}, prior_sd=prior_sd),
            Quantity(SOLUTION, {"node": None}, is_derived=True),
        ]
    elif isinstance(prior, NamedPrior):
        parts = zip(prior.shapes, prior.units, prior.axes, strict=True)
        found = [
            Quantity(name, dict(axes) or numbered_axes(name, len(shape)), unit)
            for (name, shape), unit, axes in parts
        ]
        kept_axes = getattr(problem.model, "kept_axes", ())
        found += [Quantity(name, dict(axes)) for name, axes in kept_axes]
    else:
        found = [Quantity(PARAMETERS, {"parameter": None})]
    if getattr(scale, "groups", None) is not None:
        found.append(Quantity(SIGMA, {"noise_group" if scale.is_shared else "sensor": None}))
    readings = {"sensor": None if labels is None else list(labels)}
    return *found, *(Quantity(name, readings, is_derived=True) for name in (PREDICTED, NOISE_SCORE))


def fields_of(problem: InverseProblem, quantities: Sequence[Quantity]) -> tuple[str, ...]:
    """Names of the draws that may be too large to be kept: fields, and long vectors."""
    long = []
    if isinstance(problem.prior, NamedPrior):
        long = [name for name, shape in problem.prior.shapes if np.prod(shape) > MAX_ENTRIES]
    return *(each.name for each in quantities if each.place), *long
