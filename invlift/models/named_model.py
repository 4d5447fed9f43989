"""Model from a user's function of named unknowns, which may return readings by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from invlift.errors import InputError
from invlift.models.base import ForwardModel
from invlift.models.named_readings import NamedReading, flattened
from invlift.programs.pytrees import static
from invlift.unknowns.axes import Axes, check_agreement, checked_axes
from invlift.unknowns.named import RESERVED, unpack
from invlift.unknowns.priors.named import NamedPrior, Shapes


class NamedModel(ForwardModel):
    """A user's function of named unknowns.

    Attributes
    ----------
    fn : callable
        ``fn(**unknowns)``, written in JAX operations: noise-free readings, (d,) or arrays by name,
        or these and a dict of further quantities to keep.
    shapes : tuple of (str, tuple of int)
        Names of the unknowns and shapes of their values, as they follow in the coefficients.
    readings : tuple of NamedReading
        The arrays of readings that it returns by name; empty if it returns one array.
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
        """Return unknowns by name, in their units, and further quantities at coefficients (N,)."""
        return unpack(coefficients, self.shapes) | self._evaluate(coefficients)[1]

    def _evaluate(self, coefficients):
        returned = self.fn(**unpack(coefficients, self.shapes))
        readings, kept = (
            returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, {})
        )
        if isinstance(readings, tuple) or not isinstance(kept, Mapping):
            expected = "readings, or a pair of these and a dict of quantities to keep"
            said = f"a tuple of {len(returned)}, the last a {type(returned[-1]).__name__}"
            raise InputError("forward map", expected, said, "return that")
        for name in {*RESERVED, *dict(self.shapes)} & {*kept}:
            expected, remedy = "a name that no unknown and no other draw has", "rename it"
            raise InputError("a quantity that the model keeps", expected, f"{name!r}", remedy)
        kept = {name: _as_array(name, value) for name, value in kept.items()}
        return (flattened(readings, self.readings) if self.readings else readings), kept


def _as_array(name: str, value: Any) -> jax.Array:
    where, remedy = f"quantity {name} that the model keeps", "return an array of real numbers"
    try:
        value = jnp.asarray(value)
    except (TypeError, ValueError):
        raise InputError(where, "numbers", f"{value!r}"[:80], remedy) from None
    if jnp.iscomplexobj(value):
        raise InputError(where, "real numbers", "complex ones", remedy)
    return value


def with_axes(
    model: NamedModel, prior: NamedPrior, axes: Mapping[str, Mapping[str, Sequence]]
) -> NamedModel:
    """Return the model with axes of the further quantities that it returns.

    Parameters
    ----------
    model : NamedModel
    prior : NamedPrior
        Prior of its arguments.
    axes : mapping of str to mapping of str to sequence
        For each axis of a quantity its name and the coordinates along it.

    Raises
    ------
    InputError
        If there is no such quantity, or axes do not fit it, each other or those of the unknowns.
    """
    size = sum(math.prod(shape) for _, shape in model.shapes)
    kept = jax.eval_shape(lambda x: model._evaluate(x)[1], jax.ShapeDtypeStruct((size,), float))
    checked = []
    for name, coordinates in axes.items():
        if name not in kept:
            raise InputError(
                f"argument axes, {name}",
                f"a quantity that the model gives, {', '.join(kept) or 'by name'}",
                "none of that name",
                "return it by this name, behind the readings in a dict",
            )
        checked.append((name, checked_axes(("quantity", name), coordinates, kept[name].shape)))
    unknowns = zip((("unknown", name) for name, _ in prior.shapes), prior.axes, strict=True)
    check_agreement(
        [*unknowns, *((("quantity", name), coordinates) for name, coordinates in checked)]
    )
    return replace(model, kept_axes=tuple(checked))
