"""Protocols of targets of samplers: a density, or a density on a constraint manifold.

Samplers use a target only through these methods, so that they run on a sphere as well as on the
lifted posterior of a partial differential equation.  Q is the dimension of positions, d the number
of constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

#: Recorded quantities of a draw, and quantities of which only moments are stored: arrays by name.
Described = tuple[dict[str, jax.Array], dict[str, jax.Array]]


class Density(Protocol):
    """A density of positions (Q,); a pytree with these members."""

    def logdensity(self, position: jax.Array) -> jax.Array:
        """Return the log density, (), up to a constant."""
        ...

    def loglikelihood(self, position: jax.Array) -> jax.Array:
        """Return the log density relative to the standard normal density, ()."""
        ...

    def describe(self, position: jax.Array) -> Described:
        """Return the recorded quantities of a draw, arrays (...) by name."""
        ...


class Point(Protocol):
    """A position of a constrained target with its evaluated quantities; a NamedTuple.

    It has at least these members, and further ones that the methods of the target need. l is the
    log density relative to the standard normal density.

    Attributes
    ----------
    position : (Q,)
    constraint : (d,)
    logdensity : ()
        l.
    logdensity_grad : (Q,)
    """

    position: jax.Array
    constraint: jax.Array
    logdensity: jax.Array
    logdensity_grad: jax.Array


class LocalConstraint(NamedTuple):
    """Constraint on a normal space, lambda -> c(origin - J^T lambda), near one lambda.

    Attributes
    ----------
    residual : (d,)
        c at lambda.
    solve : callable
        ``solve(rhs, tolerance)``: M^-1 rhs, (d,), for rhs (d,) and M = J(q_lambda) J^T, exactly or
        to a relative tolerance.
    derivative : callable
        ``derivative(path, lower)`` returns the derivative of order n = len(path) + 1 of c, (d,),
        along the curve of lambda with the derivatives ``path``, (d,) each, and a zero derivative of
        order n. It also returns intermediate results, which are the argument ``lower`` for order
        n + 1 along the same curve.  For n = 2 ``lower`` is an empty tuple.
    """

    residual: jax.Array
    solve: Callable[[jax.Array, float], jax.Array]
    derivative: Callable[[tuple[jax.Array, ...], Any], tuple[jax.Array, Any]]


class NormalSpace(Protocol):
    """The constraint on a normal space: lambda -> c(origin - J^T lambda).

    Attributes
    ----------
    max_derivative : int
        Largest order of the derivatives of the constraint along curves that save more time than
        they cost, 1, 2 or 3.
    """

    max_derivative: int

    def residual(self, multiplier: jax.Array) -> jax.Array:
        """Return the constraint at lambda, (d,) to (d,)."""
        ...

    def linearise(self, multiplier: jax.Array) -> LocalConstraint:
        """Return the constraint at lambda, (d,), and its derivatives along the normal space."""
        ...


class ConstrainedTarget(Protocol):
    """A density on {q : c(q) = 0}; a pytree with these members.

    It is exp(-|q|^2/2 + l(q)) with respect to the Hausdorff measure of the manifold.
    """

    def constraint(self, position: jax.Array) -> jax.Array:
        """Return the constraint c(q), (Q,) to (d,)."""
        ...

    def point(self, position: jax.Array) -> Point:
        """Evaluate the target at a position, (Q,)."""
        ...

    def apply_jacobian(self, point: Point, vector: jax.Array) -> jax.Array:
        """Apply the Jacobian of the constraint, J.

        Parameters
        ----------
        point
            As :meth:`point` returns it.
        vector : (Q,)

        Returns
        -------
        (d,)
        """
        ...

    def apply_jacobian_transpose(self, point: Point, multiplier: jax.Array) -> jax.Array:
        """Apply the transposed Jacobian, J^T.

        Parameters
        ----------
        point
            As :meth:`point` returns it.
        multiplier : (d,)

        Returns
        -------
        (Q,)
        """
        ...

    def solve_gram(self, point: Point, rhs: jax.Array) -> jax.Array:
        """Solve a system with the Gram matrix, (J J^T)^-1 rhs.

        Parameters
        ----------
        point
            As :meth:`point` returns it.
        rhs : (d,)

        Returns
        -------
        (d,)
        """
        ...

    def on_normal_space(self, point: Point, origin: jax.Array) -> NormalSpace:
        """Return the constraint on the normal space of a point.

        Parameters
        ----------
        point
            As :meth:`point` returns it.
        origin : (Q,)
            Position that the normal space contains.

        Returns
        -------
        NormalSpace
        """
        ...

    def describe(self, point: Point) -> Described:
        """Return the recorded quantities of a draw: arrays of any shape (...), by name."""
        ...


Target = Density | ConstrainedTarget


class Slopes(NamedTuple):
    """Derivatives of a target along a direction, for tests of its derivatives.

    Attributes
    ----------
    point
        Point at the position.
    value, slope : (d,)
        The differentiated quantity, and its derivative along the direction as steps use it.
    first, second : (d,)
        First and second derivative along the direction, from other code.
    scale : ()
        Factor by which the direction was scaled.
    """

    point: Point
    value: jax.Array
    slope: jax.Array
    first: jax.Array
    second: jax.Array
    scale: jax.Array
