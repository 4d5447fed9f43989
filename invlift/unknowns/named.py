"""Named unknowns, each with its distribution, and the prior of all of them."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, errors_at, names_in
from invlift.unknowns.axes import RESERVED_AXES, check_agreement, checked_axes, checked_unit
from invlift.unknowns.distributions import Distribution, as_distribution
from invlift.unknowns.priors.base import Prior
from invlift.unknowns.priors.named import NamedPrior, Shapes

#: Names that draws, or the table of draws, hold beside the unknowns.
RESERVED = ("predicted", "noise_score", "sigma", "elpd_loo", "p_loo", "num_loo_unreliable")


@dataclass(frozen=True, eq=False)
class Unknown:
    """A distribution or prior, with unit and axes of its values.

    Attributes
    ----------
    distribution : Distribution or Prior
        Of invlift or of NumPyro.  For :func:`invlift.manifold_problem` a manifold or a shape.
    unit : str
        As written in results, such as "1/s".
    axes : mapping of str to sequence
        Name of each axis of a value, and the coordinates along it, numbers or words: ``{"year":
        range(1900, 1921)}``.
    """

    distribution: Any
    unit: str = ""
    axes: Mapping[str, Sequence] = field(default_factory=dict)

    @property
    def law(self) -> Distribution | Prior:
        """The distribution as one of invlift; raises an InputError if it is none."""
        given = self.distribution
        return given if isinstance(given, Prior) else as_distribution(given)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a value."""
        return self.law.shape


def unpack(coefficients: jax.Array, shapes: Shapes) -> dict[str, jax.Array]:
    """Return values by name, with shapes in this order, from coefficients (N,)."""
    ends = np.cumsum([math.prod(shape) for _, shape in shapes])
    return {
        name: coefficients[end - math.prod(shape) : end].reshape(shape)
        for (name, shape), end in zip(shapes, ends, strict=True)
    }


def pack(values: Mapping[str, Any], shapes: Shapes) -> jax.Array:
    """Return values by name as one vector, (N,): the inverse of :func:`unpack`."""
    return jnp.concatenate([jnp.asarray(values[name]).ravel() for name, _ in shapes])


def named_prior(unknowns: Mapping[str, Unknown | Distribution | Prior]) -> NamedPrior:
    """Return the prior of named unknowns.

    Parameters
    ----------
    unknowns : mapping of str to Unknown, Distribution or Prior
        Distributions of invlift or of NumPyro; a prior, of a field say, for a vector.

    Raises
    ------
    InputError
        If there are no unknowns, a name cannot be that of an argument or is reserved in the draws,
        a value is not a distribution, or axes do not fit it or each other.
    """
    if not isinstance(unknowns, Mapping) or not unknowns:
        remedy = "name them with their distributions, as a dict"
        raise InputError("unknowns", "at least one by name", names_in(unknowns), remedy)
    parts, shapes, units, axes = {}, [], [], []
    for name, given in unknowns.items():
        check_name(name)
        given = given if isinstance(given, Unknown) else Unknown(given)
        with errors_at(("unknown", name)):
            parts[name] = given.law
        shape = parts[name].shape
        if 0 in shape:
            raise InputError(("unknown", name), "at least one number", "none", "leave it out")
        shapes.append((name, shape))
        units.append(checked_unit(("unknown", name, "unit"), given.unit))
        axes.append(checked_axes(("unknown", name), given.axes, shape))
    check_agreement((("unknown", name), own) for name, own in zip(parts, axes, strict=True))
    return NamedPrior(parts, tuple(shapes), tuple(units), tuple(axes))


def check_name(name: str, taken: Sequence[str] = ()) -> None:
    """Check that a name can be that of an unknown.

    Raises
    ------
    InputError
        If it cannot be that of a function's argument, is reserved in the draws, or is taken.
    """
    if not (isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)):
        raise InputError(
            "unknowns", "names that a function's arguments can have", f"{name!r}", "rename it"
        )
    if name in (*RESERVED, *RESERVED_AXES, *taken):
        raise InputError(("unknown", name), "another name", "one that is taken", "rename it")
