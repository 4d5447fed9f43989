"""Densities on a given manifold, with respect to the manifold's own measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.lift.jacobians import ConstraintJacobian, GramFactor
from invlift.lift.targets.manifold import ManifoldPoint, ManifoldTarget
from invlift.problems.manifolds.manifolds import Manifold, ProductJacobian, constraints
from invlift.problems.problem_base import ProblemBase
from invlift.programs.pytrees import PyTree, static
from invlift.targets import Described
from invlift.unknowns.axes import Axes
from invlift.unknowns.named import unpack
from invlift.unknowns.priors.named import Shapes


class ManifoldProblem(ProblemBase, ManifoldTarget):
    """A density of named unknowns on a manifold, with respect to the manifold's own measure.

    No Gram matrix enters the density: it is given on the manifold itself, a sphere say (Brubaker,
    Salzmann & Urtasun 2012).  Positions, (Q,), are the entries of all unknowns, one unknown after
    the other.  Made by :func:`invlift.manifold_problem`.

    Attributes
    ----------
    parts : tuple of (str, Manifold)
        The unknowns.
    units : tuple of str
        Unit of each.
    axes : tuple of tuples of (str, tuple)
        Names of the axes of each unknown, with their coordinates; empty without names.
    data : pytree of arrays
        Further argument of the functions; None if there is none.
    logdensity_fn, constraint_fn, derived_fn, metric_fn, start_fn : callable or None
        See :func:`invlift.manifold_problem`.
    """

    parts: tuple[tuple[str, Manifold], ...] = static()
    units: tuple[str, ...] = static()
    axes: tuple[Axes, ...] = static()
    data: PyTree
    logdensity_fn: Callable = static()
    constraint_fn: Callable | None = static(default=None)
    derived_fn: Callable | None = static(default=None)
    metric_fn: Callable | None = static(default=None)
    start_fn: Callable | None = static(default=None)

    @property
    def shapes(self) -> Shapes:
        """Names of the unknowns and their shapes."""
        return tuple((name, part.shape) for name, part in self.parts)

    @property
    def dimension(self) -> int:
        """Number Q of entries of all unknowns."""
        return sum(part.size for _, part in self.parts)

    @property
    def num_unknowns(self) -> int:
        """Number Q of entries of all unknowns; problems with readings use this name."""
        return self.dimension

    @property
    def num_constraints(self) -> int:
        """Number d of constraints."""
        return jax.eval_shape(self.constraint, np.zeros(self.dimension)).size

    def unknowns(self, position: jax.Array) -> dict[str, jax.Array]:
        """The unknowns by name, in their shapes, at a position, (Q,)."""
        return unpack(position, self.shapes)

    def position(self, unknowns: Mapping[str, jax.Array]) -> jax.Array:
        """The position, (..., Q), of unknowns by name, each of (..., *shape)."""
        flat = [
            jnp.reshape(unknowns[name], (*jnp.shape(unknowns[name])[: -len(shape) or None], -1))
            for name, shape in self.shapes
        ]
        return jnp.concatenate(flat, axis=-1)

    def random_position(self, rng_key: jax.Array) -> jax.Array:
        """Return a random position, (Q,), that need not satisfy the user's constraint.

        It is on each named manifold, or the user's own start if one was given.
        """
        if self.start_fn is not None:
            return self.position(self.start_fn(rng_key, **self._data))
        keys = jax.random.split(rng_key, len(self.parts))
        points = (part.point(key) for (_, part), key in zip(self.parts, keys, strict=True))
        return jnp.concatenate([jnp.ravel(point) for point in points])

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,): the constraints of the named manifolds, then the user's constraint."""
        values = constraints([part for _, part in self.parts], position)
        if self.constraint_fn is None:
            return values
        return jnp.concatenate([values, jnp.ravel(self.call(self.constraint_fn, position))])

    def linearise(self, position: jax.Array) -> tuple[jax.Array, ConstraintJacobian]:
        """c(q), (d,), and its Jacobian, which is dense if the user gave a constraint."""
        if self.constraint_fn is not None:
            return super().linearise(position)
        parts = tuple(part for _, part in self.parts)
        return self.constraint(position), ProductJacobian(position, parts)

    def logdensity(self, position: jax.Array, gram: GramFactor) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        return self.call(self.logdensity_fn, position) + 0.5 * position @ position

    def metric(self, position: jax.Array) -> jax.Array:
        """The metric of the space around the manifold, (Q, Q).

        Raises
        ------
        InputError
            If none was given.
        """
        if self.metric_fn is None:
            raise InputError(
                "argument metric of manifold_problem", "a metric for a kernel in the target's own",
                "none", "give one, or choose the mass matrix, metric = 'diagonal'",
            )  # fmt: skip
        return self.call(self.metric_fn, position)

    def describe(self, point: ManifoldPoint) -> Described:
        """Return the unknowns and the quantities derived from them, and no moments."""
        derived = {} if self.derived_fn is None else self.call(self.derived_fn, point.position)
        return self.unknowns(point.position) | derived, {}

    def lines(self) -> list[tuple[str, str]]:
        """As :meth:`ProblemBase.lines`: unknowns, functions."""
        lines = [
            (name, f"{part} {unit}".rstrip())
            for (name, part), unit in zip(self.parts, self.units, strict=True)
        ]
        for name in ("constraint", "logdensity", "derived", "metric"):
            fn = getattr(self, f"{name}_fn")
            if fn is not None:
                lines.append((name, getattr(fn, "__name__", type(fn).__name__)))
        return lines

    def call(self, fn: Callable, position: jax.Array) -> Any:
        """Evaluate one of the user's functions at a position, (Q,)."""
        return fn(**self.unknowns(position), **self._data)

    @property
    def _data(self) -> dict[str, Any]:
        return {} if self.data is None else {"data": self.data}
