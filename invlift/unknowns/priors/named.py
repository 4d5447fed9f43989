"""Independent unknowns by name, each with a distribution or a prior, as one prior."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, errors_at
from invlift.programs.pytrees import static
from invlift.unknowns.axes import Axes
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.priors.base import Prior
from invlift.unknowns.transformation import Tangent, linearised

#: Names of arrays and their shapes, as they follow one another in a vector.
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class NamedPrior(Prior):
    """Prior of independent named unknowns.

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
        Names of the axes of each unknown, with their coordinates; empty without names.
    main : str
        The unknown whose :meth:`parameters` have no prefix.
    """

    parts: dict[str, Distribution | Prior] = field()
    shapes: Shapes = static()
    units: tuple[str, ...] = static()
    axes: tuple[Axes, ...] = static()
    main: str = static(default="")

    @property
    def units_by_name(self) -> dict[str, str]:
        """Units of the unknowns that have one."""
        return {name: unit for (name, _), unit in zip(self.shapes, self.units, strict=True) if unit}

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables."""
        return sum(self.parts[name].num_white for name, _ in self.shapes)

    @property
    def is_affine(self) -> bool:
        """True if all parts are affine, and some of them have their own derivatives."""
        parts = self.parts.values()
        return self._has_tangents and all(part.is_affine for part in parts)

    @property
    def _has_tangents(self) -> bool:
        return any(part.has_tangent for part in self.parts.values())

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients X(w), (N,), for w of (m,)."""
        values = [jnp.ravel(part.transform(own)) for _, part, own in self.split(white)]
        return jnp.concatenate(values)

    def linearise(self, white: jax.Array) -> tuple[jax.Array, Tangent]:
        """X(w), (N,), and its derivatives, from those of the parts if any has its own."""
        if not self._has_tangents:
            is_elementwise = all(part.is_elementwise for part in self.parts.values())
            return linearised(self.transform, white, is_elementwise)
        parts = [part.linearise(own) for _, part, own in self.split(white)]
        values, tangents = zip(*parts, strict=True)
        return jnp.concatenate(values), _Beside(self, tangents)

    def log_reference(self, white: jax.Array) -> jax.Array:
        """As :meth:`Prior.log_reference`."""
        return sum((part.log_reference(own) for _, part, own in self.split(white)), jnp.zeros(()))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Prior.sample`."""
        return np.concatenate([self.parts[name].sample(rng) for name, _ in self.shapes])

    def whiten(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the variables, (m,), that give values by name.

        Raises
        ------
        InputError
            If a value is impossible, or an unknown has a prior, which is not inverted.
        """
        scores = []
        for name, _ in self.shapes:
            with errors_at(("starts", name)):
                white = np.asarray(self.parts[name].whiten(values[name]))
            if not np.all(np.isfinite(white)):
                expected = "values that the distribution can have"
                remedy = "give another, or an array of standard normal variables"
                raise InputError(("starts", name), expected, f"{values[name]}"[:80], remedy)
            scores.append(white)
        return np.concatenate(scores)

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """Unknown parameters of the priors among the parts, such as `phi_prior_range` of `phi`."""
        return {
            f"{self.prefix(name)}{key}": value
            for name, part, own in self.split(white)
            for key, value in part.parameters(own).items()
        }

    @property
    def materials(self) -> Mapping[str, float | str]:
        """Materials of the main unknown."""
        return self.parts[self.main].materials if self.main in self.parts else {}

    def prefix(self, name: str) -> str:
        """Return the prefix of the names of an unknown's parameters."""
        return "" if name == self.main else f"{name}_"

    @property
    def distributions(self) -> dict[str, Distribution]:
        """As :attr:`Prior.distributions`: of numbers, and of unknown parameters of priors."""
        return {
            f"{self.prefix(name)}{key}" if key else name: each
            for name, part in self.parts.items()
            for key, each in part.distributions.items()
        }

    def split(self, white: jax.Array) -> Iterator[tuple[str, Distribution | Prior, jax.Array]]:
        """Yield name, distribution and variables of each unknown, without variables after these."""
        *parts, _ = jnp.split(white, self._ends[0])
        for (name, _), own in zip(self.shapes, parts, strict=True):
            yield name, self.parts[name], own

    @property
    def firsts(self) -> dict[str, int]:
        """Index of the first coefficient of each unknown, by its name."""
        return dict(zip((name for name, _ in self.shapes), [0, *self._ends[1][:-1]], strict=True))

    @property
    def placed(self) -> dict[int, Distribution | Prior]:
        """As :attr:`Prior.placed`."""
        return {first: self.parts[name] for name, first in self.firsts.items()}

    @property
    def _ends(self) -> tuple[list[int], list[int]]:
        """Ends of the variables, and of the coefficients, of all unknowns."""
        sizes = [self.parts[name].num_white for name, _ in self.shapes]
        shapes = [math.prod(shape) for _, shape in self.shapes]
        return tuple(np.cumsum(each).tolist() for each in (sizes, shapes))


class _Beside(NamedTuple):
    """Derivatives of a prior from those of its parts."""

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
        return jnp.split(values, self.prior._ends[0][:-1])

    def _by_value(self, values):
        return jnp.split(values, self.prior._ends[1][:-1])
