"""Unknowns by name, each with a distribution of its own, and models that are functions of them."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, told_at
from invlift.inverse.axes import RESERVED_AXES, Axes, check_agreement, checked_axes, checked_unit
from invlift.inverse.distributions import Distribution, as_distribution
from invlift.inverse.models.base import ForwardModel
from invlift.inverse.priors.base import Prior
from invlift.inverse.priors.named import NamedPrior, Shapes
from invlift.inverse.readings import NamedReading, joined
from invlift.programs.pytrees import static

#: What draws, or the table of them, hold beside the unknowns.
RESERVED = ("predicted", "noise_score", "sigma", "elpd_loo", "p_loo", "num_loo_unreliable")


@dataclass(frozen=True, eq=False)
class Unknown:
    """A distribution, or a prior, with what the numbers are in.

    Attributes
    ----------
    distribution : Distribution or Prior
        Of invlift or of NumPyro.  Of :func:`invlift.manifold_problem` a manifold or a shape.
    unit : str
        As results are to write it, such as "1/s".
    axes : mapping of str to sequence
        For each axis of a value its name and the coordinates along it, numbers or words:
        ``{"year": range(1900, 1921)}``.
    """

    distribution: Any
    unit: str = ""
    axes: Mapping[str, Sequence] = field(default_factory=dict)


class NamedModel(ForwardModel):
    """A user's function of named unknowns.

    Attributes
    ----------
    fn : callable
        ``fn(**unknowns)``, made of JAX operations: noise-free readings, (d,) or arrays by name, or
        these and a dict of further quantities to keep.
    shapes : tuple of (str, tuple of int)
        Names of the unknowns and shapes of their values, as they follow in the coefficients.
    readings : tuple of NamedReading
        The arrays of readings that it gives by name; empty if it gives one array.
    kept_axes : tuple of (str, Axes)
        Axes of the further quantities that have any.
    finer : callable or None
        The same function with half the longest step in time, if it takes such steps.
    """

    coefficients_name: ClassVar[None] = None

    fn: Callable = static()
    shapes: Shapes = static()
    readings: tuple[NamedReading, ...] = static(default=())
    kept_axes: tuple[tuple[str, Axes], ...] = static(default=())
    finer: Callable | None = static(default=None)

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free readings, (d,), for coefficients (N,)."""
        return self._evaluate(coefficients)[0]

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """The unknowns by their names, in their units, and what the function wants to keep."""
        return unpack(coefficients, self.shapes) | self._evaluate(coefficients)[1]

    def _evaluate(self, coefficients):
        found = self.fn(**unpack(coefficients, self.shapes))
        readings, kept = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
        if isinstance(readings, tuple) or not isinstance(kept, Mapping):
            expected = "readings, or a pair of these and a dict of quantities to keep"
            said = f"a tuple of {len(found)}, the last a {type(found[-1]).__name__}"
            raise InputError("forward map", expected, said, "return that")
        for name in {*RESERVED, *dict(self.shapes)} & {*kept}:
            expected, remedy = "a name that no unknown and no other draw has", "rename it"
            raise InputError("a quantity that the model keeps", expected, f"{name!r}", remedy)
        kept = {name: _as_array(name, value) for name, value in kept.items()}
        return (joined(readings, self.readings) if self.readings else readings), kept


def _as_array(name: str, value: Any) -> jax.Array:
    where, remedy = f"quantity {name} that the model keeps", "return an array of real numbers"
    try:
        value = jnp.asarray(value)
    except (TypeError, ValueError):
        raise InputError(where, "numbers", f"{value!r}"[:80], remedy) from None
    if jnp.iscomplexobj(value):
        raise InputError(where, "real numbers", "complex ones", remedy)
    return value


def unpack(coefficients: jax.Array, shapes: Shapes) -> dict[str, jax.Array]:
    """The values of unknowns by name, of shapes in this order, from coefficients (N,)."""
    ends = np.cumsum([math.prod(shape) for _, shape in shapes])
    return {
        name: coefficients[end - math.prod(shape) : end].reshape(shape)
        for (name, shape), end in zip(shapes, ends, strict=True)
    }


def pack(values: Mapping[str, Any], shapes: Shapes) -> jax.Array:
    """Values by name as one vector, (N,): the inverse of :func:`unpack`."""
    return jnp.concatenate([jnp.asarray(values[name]).ravel() for name, _ in shapes])


def named_prior(unknowns: Mapping[str, Unknown | Distribution | Prior]) -> NamedPrior:
    """Prior of unknowns by name.

    Parameters
    ----------
    unknowns : mapping of str to Unknown, Distribution or Prior
        Distributions of invlift or of NumPyro; a prior, of a field say, for a vector.

    Raises
    ------
    InputError
        If there are none, a name cannot be that of an argument or means something else among the
        draws, what it stands for is no distribution, or axes do not fit it or each other.
    """
    if not isinstance(unknowns, Mapping) or not unknowns:
        found = "none" if isinstance(unknowns, Mapping) else type(unknowns).__name__
        remedy = "name them with their distributions, as a dict"
        raise InputError("unknowns", "at least one by name", found, remedy)
    parts, shapes, units, axes = {}, [], [], []
    for name, given in unknowns.items():
        check_name(name)
        given = given if isinstance(given, Unknown) else Unknown(given)
        part = given.distribution
        with told_at(f"unknown {name}"):
            parts[name] = part if isinstance(part, Prior) else as_distribution(part)
        shape = parts[name].shape
        if 0 in shape:
            raise InputError(f"unknown {name}", "at least one number", "none", "leave it out")
        shapes.append((name, shape))
        units.append(checked_unit(f"unknown {name}, unit", given.unit))
        axes.append(checked_axes(f"unknown {name}", given.axes, shape))
    check_agreement((f"unknown {name}", own) for name, own in zip(parts, axes, strict=True))
    return NamedPrior(parts, tuple(shapes), tuple(units), tuple(axes))


def check_name(name: str, taken: Sequence[str] = ()) -> None:
    """Check that a name can be that of an unknown.

    Raises
    ------
    InputError
        If it cannot be that of a function's argument, or means something else among the draws or
        is taken.
    """
    if not (isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)):
        raise InputError(
            "unknowns", "names that a function's arguments can have", f"{name!r}", "rename it"
        )
    if name in (*RESERVED, *RESERVED_AXES, *taken):
        raise InputError(f"unknown {name}", "another name", "one that is taken", "rename it")


def with_axes(
    model: NamedModel, prior: NamedPrior, axes: Mapping[str, Mapping[str, Sequence]]
) -> NamedModel:
    """The model with the axes of the further quantities that it keeps.

    Parameters
    ----------
    model : NamedModel
    prior : NamedPrior
        Of its arguments.
    axes : mapping of str to mapping of str to sequence
        For each axis of a quantity its name and the coordinates along it.

    Raises
    ------
    InputError
        If there is no such quantity, or axes do not fit it, each other or those of the unknowns.
    """
    size = sum(math.prod(shape) for _, shape in model.shapes)
    kept = jax.eval_shape(lambda x: model._evaluate(x)[1], jax.ShapeDtypeStruct((size,), float))
    found = []
    for name, own in axes.items():
        if name not in kept:
            raise InputError(
                f"argument axes, {name}",
                f"a quantity that the model gives, {', '.join(kept) or 'by name'}",
                "none of that name",
                "return it by this name, behind the readings in a dict",
            )
        found.append((name, checked_axes(f"quantity {name}", own, kept[name].shape)))
    unknowns = zip((f"unknown {name}" for name, _ in prior.shapes), prior.axes, strict=True)
    check_agreement([*unknowns, *((f"quantity {name}", own) for name, own in found)])
    return replace(model, kept_axes=tuple(found))
