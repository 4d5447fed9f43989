"""Unknowns by name, each with a distribution of its own, and models that are functions of them."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.inverse.distributions import Distribution, as_distribution
from invlift.inverse.models.base import ForwardModel
from invlift.inverse.priors.base import Prior
from invlift.pytrees import static

#: What draws hold beside the unknowns.
RESERVED = ("predicted", "noise_score", "sigma")
#: Axes that draws have already.
RESERVED_AXES = ("chain", "draw", "sensor", "node", "cell")


@dataclass(frozen=True, eq=False)
class Unknown:
    """A distribution, or a prior, with what the numbers are in.

    Attributes
    ----------
    distribution : Distribution or Prior
        Of invlift or of NumPyro.
    unit : str
        As results are to write it, such as "1/s".
    axes : mapping of str to sequence
        For each axis of a value its name and the coordinates along it, numbers or words:
        ``{"year": range(1900, 1921)}``.
    """

    distribution: Any
    unit: str = ""
    axes: Mapping[str, Sequence] = field(default_factory=dict)


class NamedPrior(Prior):
    """Independent unknowns by name.

    Coefficients, (N,), are the entries of all unknowns in their own units, one unknown after the
    other.

    Attributes
    ----------
    parts : dict of str to Distribution or Prior
    shapes : tuple of (str, tuple of int)
        Names of the unknowns and shapes of their values.
    units : tuple of str
        Unit of each.
    axes : tuple of tuples of (str, tuple)
        Of each, names of the axes with their coordinates; empty where they have none.
    """

    parts: dict[str, Distribution | Prior]
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = static()
    units: tuple[str, ...] = static()
    axes: tuple[tuple[tuple[str, tuple], ...], ...] = static()

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables."""
        return sum(self.parts[name].num_white for name, _ in self.shapes)

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients X(w), (N,), for w of (m,)."""
        values = [jnp.ravel(part.transform(own)) for _, part, own in self._split(white)]
        return jnp.concatenate(values)

    def log_reference(self, white: jax.Array) -> jax.Array:
        """As :meth:`Prior.log_reference`."""
        return sum((part.log_reference(own) for _, part, own in self._split(white)), jnp.zeros(()))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Prior.sample`."""
        return np.concatenate([self.parts[name].sample(rng) for name, _ in self.shapes])

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """What is unknown about the priors among the parts."""
        priors = [(part, own) for _, part, own in self._split(white) if isinstance(part, Prior)]
        return {key: value for part, own in priors for key, value in part.parameters(own).items()}

    def _split(self, white):
        """Name, distribution and variables of each unknown."""
        parts = [(name, self.parts[name]) for name, _ in self.shapes]
        ends = np.cumsum([part.num_white for _, part in parts])
        for (name, part), end in zip(parts, ends, strict=True):
            yield name, part, white[end - part.num_white : end]


class NamedModel(ForwardModel):
    """A user's function of named unknowns.

    Attributes
    ----------
    fn : callable
        ``fn(**unknowns)``, made of JAX operations: noise-free readings, (d,), or these and a dict
        of further quantities to keep.
    shapes : tuple of (str, tuple of int)
        Names of the unknowns and shapes of their values, as they follow in the coefficients.
    """

    coefficients_name: ClassVar[None] = None

    fn: Callable = static()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = static()

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free readings, (d,), for coefficients (N,)."""
        return self._evaluate(coefficients)[0]

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """The unknowns by their names, in their units, and what the function wants to keep."""
        return self._unpack(coefficients) | self._evaluate(coefficients)[1]

    def _evaluate(self, coefficients):
        found = self.fn(**self._unpack(coefficients))
        return found if isinstance(found, tuple) else (found, {})

    def _unpack(self, coefficients):
        ends = np.cumsum([math.prod(shape) for _, shape in self.shapes])
        return {
            name: coefficients[end - math.prod(shape) : end].reshape(shape)
            for (name, shape), end in zip(self.shapes, ends, strict=True)
        }


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
    if not unknowns:
        raise InputError("unknowns", "at least one", "none", "name them with their distributions")
    parts, units, axes = {}, [], []
    for name, given in unknowns.items():
        if not (isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)):
            raise InputError(
                "unknowns", "names that a function's arguments can have", f"{name!r}", "rename it"
            )
        if name in RESERVED:
            raise InputError(
                f"unknown {name}", "another name", "one that the draws have already", "rename it"
            )
        given = given if isinstance(given, Unknown) else Unknown(given)
        part = given.distribution
        try:
            parts[name] = part if isinstance(part, Prior) else as_distribution(part)
        except InputError as error:
            raise error.at(f"unknown {name}") from None
        units.append(str(given.unit))
        axes.append(_checked_axes(name, given.axes, _shape_of(parts[name])))
    _check_agreement(parts, axes)
    shapes = tuple((name, _shape_of(part)) for name, part in parts.items())
    return NamedPrior(parts, shapes, tuple(units), tuple(axes))


def _checked_axes(name: str, axes: Mapping[str, Sequence], shape: tuple[int, ...]) -> tuple:
    """Axes as plain values, which fit the shape."""
    where = f"unknown {name}, axes"
    for axis in set(axes) & set(RESERVED_AXES):
        raise InputError(where, "another name", f"{axis!r}, which draws have already", "rename it")
    found = tuple((str(axis), tuple(np.asarray(labels).tolist())) for axis, labels in axes.items())
    lengths = tuple(len(labels) for _, labels in found)
    if found and lengths != shape:
        raise InputError(
            where,
            f"coordinates for a value of shape {shape}",
            ", ".join(
                f"{size} along {axis}" for (axis, _), size in zip(found, lengths, strict=True)
            ),
            "give each axis of the value a name, and a coordinate to each of its entries",
        )
    return found


def _check_agreement(names, axes) -> None:
    """Check that an axis is the same wherever it occurs."""
    seen = {}
    for name, own in zip(names, axes, strict=True):
        for axis, labels in own:
            first, known = seen.setdefault(axis, (name, labels))
            if labels != known:
                raise InputError(
                    f"unknown {name}, axes",
                    f"the coordinates along {axis} that {first} has",
                    "others",
                    "give two axes two names",
                )


def _shape_of(part: Distribution | Prior) -> tuple[int, ...]:
    if isinstance(part, Distribution):
        return part.shape
    return jax.eval_shape(part.transform, jax.ShapeDtypeStruct((part.num_white,), float)).shape
