"""Description of an inverse problem in a few lines of text."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from invlift.models.base import ForwardModel, JaxFunction
from invlift.models.named_model import NamedModel
from invlift.noise import Noise
from invlift.noise.scales import KnownScale, Scale, ScalesOfGroups, UnknownScale
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.distributions.of_numpyro import Coordinate, Exact
from invlift.unknowns.priors.base import Prior
from invlift.unknowns.priors.named import NamedPrior


def lines_of(
    model: ForwardModel, prior: Prior, noise: Noise, observed: np.ndarray
) -> list[tuple[str, str]]:
    """Return name and description of each part, in the order in which they are shown.

    Parameters
    ----------
    model : ForwardModel
    prior : Prior
    noise : Noise
    observed : (d,)
    """
    fn = model.fn if isinstance(model, NamedModel | JaxFunction) else None
    fn = getattr(fn, "__wrapped__", fn)
    name = getattr(getattr(fn, "func", fn), "__name__", None)  # a partial has its function's
    lines = [("model", name or type(model).__name__)]
    if isinstance(prior, NamedPrior):
        for (each, shape), unit in zip(prior.shapes, prior.units, strict=True):
            size = f" of shape {shape}" if shape else ""
            lines.append((each, f"{_brief(prior.parts[each])}{size} {unit}".rstrip()))
    else:
        lines.append(("prior", _brief(prior)))
    if noise.is_exact:
        lines.append(("noise", "none"))
    else:
        kind = type(noise).__name__
        lines.append(("noise", f"{kind}, relative" if noise.relative else kind))
        lines.append(("sigma", _scale(noise.scale)))
        lines += [(each, _scale(getattr(noise, each))) for each in noise.shape_parameters]
    lines.append(("readings", f"{observed.size}, {ends_of(observed)}"))
    return lines


def _scale(scale: Scale) -> str:
    """Describe a scale of the noise, known or unknown."""
    if isinstance(scale, KnownScale):
        return ends_of(scale.known)
    if isinstance(scale, UnknownScale):
        one = _brief(scale.prior)
        return one if scale.groups is None else f"{one}, {scale.num_white} of them"
    if isinstance(scale, ScalesOfGroups):
        parts = map(_scale, scale.parts)
        if scale.group_names:
            parts = map(" ".join, zip(scale.group_names, parts, strict=True))
        return ", ".join(parts)
    return type(scale).__name__


def _brief(part: Distribution | Prior) -> str:
    """Describe a distribution by its parameters, or a prior by its size."""
    if isinstance(part, Coordinate | Exact):
        return type(part.given).__name__
    if isinstance(part, Prior):
        return f"{type(part).__name__} of {part.num_white} unknowns"
    values = {each.name: np.asarray(getattr(part, each.name)) for each in fields(part)}
    numbers = [f"{name}={ends_of(value)}" for name, value in values.items() if value.dtype == float]
    return f"{type(part).__name__}({', '.join(numbers)})"


def ends_of(values: Any, form: str = ".4g") -> str:
    """Format one number, or the smallest and the largest of several."""
    return " to ".join(dict.fromkeys(format(end, form) for end in (np.min(values), np.max(values))))
