"""Unknowns by name, each with a distribution of its own, and models that are functions of them."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.inverse.axes import Axes, check_agreement, checked_axes, checked_unit
from invlift.inverse.distributions import Distribution, Normal, as_distribution
from invlift.inverse.models.base import ForwardModel
from invlift.inverse.priors.base import Prior, Tangent, linearised
from invlift.inverse.readings import NamedReading, joined
from invlift.programs.pytrees import static

#: What draws hold beside the unknowns.
RESERVED = ("predicted", "noise_score", "sigma")
#: Names of arrays and their shapes, as they follow one another in a vector.
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


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
    main : str
        The one whose :meth:`parameters` have no name in front.
    """

    parts: dict[str, Distribution | Prior]
    shapes: Shapes = static()
    units: tuple[str, ...] = static()
    axes: tuple[Axes, ...] = static()
    main: str = static(default="")

    @property
    def units_by_name(self) -> dict[str, str]:
        """Units of the unknowns that have one."""
        return {name: unit for (name, _), unit in zip(self.shapes, self.units, strict=True) if unit}

    @property
    def has_lanes(self) -> bool:
        """As of a model: where it pays for the priors among the parts."""
        return all(getattr(part, "has_lanes", True) for part in self.parts.values())

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables."""
        return sum(self.parts[name].num_white for name, _ in self.shapes)

    @property
    def is_affine(self) -> bool:
        """Whether some unknowns have priors, and these are affine, and all others are normal."""
        parts = self.parts.values()
        return self._has_priors and all(
            part.is_affine if isinstance(part, Prior) else isinstance(part, Normal)
            for part in parts
        )

    @property
    def _has_priors(self) -> bool:
        return any(isinstance(part, Prior) for part in self.parts.values())

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients X(w), (N,), for w of (m,)."""
        values = [jnp.ravel(part.transform(own)) for _, part, own in self._split(white)]
        return jnp.concatenate(values)

    def linearise(self, white: jax.Array) -> tuple[jax.Array, Tangent]:
        """X(w), (N,), and its derivatives: those of the parts, if any has some of its own."""
        if not self._has_priors:
            return super().linearise(white)
        found = [
            part.linearise(own) if isinstance(part, Prior) else _linearised(part, own)
            for _, part, own in self._split(white)
        ]
        values, tangents = zip(*found, strict=True)
        return jnp.concatenate(values), _Beside(self, tangents)

    def sqrt(self, white: jax.Array) -> jax.Array:
        """S w of an affine prior, (N,) or (N, k)."""
        parts = [
            part.sqrt(own) if isinstance(part, Prior) else _scaled(part, own)
            for _, part, own in self._split(white)
        ]
        return jnp.concatenate(parts)

    def sqrt_transpose(self, values: jax.Array) -> jax.Array:
        """S^T v of an affine prior, (m,) or (m, k)."""
        parts = (self.parts[name] for name, _ in self.shapes)
        values = jnp.split(values, self._ends[1])
        return jnp.concatenate([
            part.sqrt_transpose(own) if isinstance(part, Prior) else _scaled(part, own)
            for part, own in zip(parts, values, strict=True)
        ])  # fmt: skip

    def log_reference(self, white: jax.Array) -> jax.Array:
        """As :meth:`Prior.log_reference`."""
        return sum((part.log_reference(own) for _, part, own in self._split(white)), jnp.zeros(()))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Prior.sample`."""
        return np.concatenate([self.parts[name].sample(rng) for name, _ in self.shapes])

    def whiten(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The variables, (m,), of values by name.

        Raises
        ------
        InputError
            If a value cannot be, or an unknown has a prior, which is not inverted.
        """
        found = []
        for name, _ in self.shapes:
            part, remedy = (
                self.parts[name],
                "give another, or an array of standard normal variables",
            )
            if isinstance(part, Prior):
                expected = "a distribution with an inverse"
                raise InputError(f"starts, {name}", expected, type(part).__name__, remedy)
            white = np.asarray(part.whiten(values[name]))
            if not np.all(np.isfinite(white)):
                expected = "values that the distribution can have"
                raise InputError(f"starts, {name}", expected, f"{values[name]}"[:80], remedy)
            found.append(white)
        return np.concatenate(found)

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """What is unknown about the priors among the parts, as `phi_prior_range` of `phi`."""
        return {
            f"{self.prefix(name)}{key}": value
            for name, part, own in self._split(white)
            if isinstance(part, Prior)
            for key, value in part.parameters(own).items()
        }

    def prefix(self, name: str) -> str:
        """What precedes the names of the parameters of an unknown."""
        return "" if name == self.main else f"{name}_"

    def _split(self, white):
        """Name, distribution and variables of each unknown."""
        for (name, _), own in zip(self.shapes, jnp.split(white, self._ends[0]), strict=True):
            yield name, self.parts[name], own

    @property
    def _ends(self) -> tuple[list[int], list[int]]:
        """Where variables and coefficients of all unknowns but the last end."""
        sizes = [self.parts[name].num_white for name, _ in self.shapes]
        shapes = [math.prod(shape) for _, shape in self.shapes]
        return tuple(np.cumsum(each)[:-1].tolist() for each in (sizes, shapes))


class _Beside(NamedTuple):
    """Tangents of the parts of a prior."""

    prior: NamedPrior
    tangents: tuple[Tangent, ...]

    def push(self, directions):
        return self._of_parts("push", self._by_white(directions))

    def pull(self, values):
        return self._of_parts("pull", self._by_value(values))

    def curvature(self, direction):
        return self._of_parts("curvature", self._by_white(direction))

    def pull_back(self, weights, directions, pushed):
        parts = self._by_value(weights), self._by_white(directions), self._by_value(pushed)
        return self._of_parts("pull_back", *parts)

    def _of_parts(self, method, *arguments):
        parts = zip(self.tangents, *arguments, strict=True)
        return jnp.concatenate([getattr(tangent, method)(*own) for tangent, *own in parts])

    def _by_white(self, values):
        return jnp.split(values, self.prior._ends[0])

    def _by_value(self, values):
        return jnp.split(values, self.prior._ends[1])


class _Raveled(NamedTuple):
    """A distribution whose values are vectors."""

    part: Distribution

    def transform(self, white):
        return jnp.ravel(self.part.transform(white))


def _linearised(part: Distribution, white):
    return linearised(_Raveled(part), white)


def _scaled(part: Normal, values):
    """Values (k,) or (k, num), times the standard deviations."""
    return (jnp.broadcast_to(part.sd, part.shape).ravel() * values.T).T


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
    """

    coefficients_name: ClassVar[None] = None

    fn: Callable = static()
    shapes: Shapes = static()
    readings: tuple[NamedReading, ...] = static(default=())
    kept_axes: tuple[tuple[str, Axes], ...] = static(default=())

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free readings, (d,), for coefficients (N,)."""
        return self._evaluate(coefficients)[0]

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """The unknowns by their names, in their units, and what the function wants to keep."""
        return unpack(coefficients, self.shapes) | self._evaluate(coefficients)[1]

    def _evaluate(self, coefficients):
        found = self.fn(**unpack(coefficients, self.shapes))
        readings, kept = found if isinstance(found, tuple) else (found, {})
        return (joined(readings, self.readings) if self.readings else readings), kept


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
    if not unknowns:
        raise InputError("unknowns", "at least one", "none", "name them with their distributions")
    parts, units, axes = {}, [], []
    for name, given in unknowns.items():
        check_name(name)
        given = given if isinstance(given, Unknown) else Unknown(given)
        part = given.distribution
        try:
            parts[name] = part if isinstance(part, Prior) else as_distribution(part)
        except InputError as error:
            raise error.at(f"unknown {name}") from None
        units.append(checked_unit(f"unknown {name}, unit", given.unit))
        axes.append(checked_axes(f"unknown {name}", given.axes, _shape_of(parts[name])))
    check_agreement((f"unknown {name}", own) for name, own in zip(parts, axes, strict=True))
    shapes = tuple((name, _shape_of(part)) for name, part in parts.items())
    return NamedPrior(parts, shapes, tuple(units), tuple(axes))


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
    if name in (*RESERVED, *taken):
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


def _shape_of(part: Distribution | Prior) -> tuple[int, ...]:
    if isinstance(part, Distribution):
        return part.shape
    return jax.eval_shape(part.transform, jax.ShapeDtypeStruct((part.num_white,), float)).shape
