"""What targets are to samplers: a density, or one on the manifold where a constraint vanishes.

Samplers see a target through these methods alone, so that they run on a sphere as well as on the
lifted posterior of a partial differential equation.  Q is the dimension of positions, d the number
of constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

#: What is kept of a draw, and that of which only moments are: arrays by name.
Described = tuple[dict[str, jax.Array], dict[str, jax.Array]]


class Density(Protocol):
    """A density of positions (Q,): a pytree with these members."""

    def logdensity(self, position: jax.Array) -> jax.Array:
        """Log density, (), up to a constant."""
        ...

    def loglikelihood(self, position: jax.Array) -> jax.Array:
        """The same relative to the standard normal one, ()."""
        ...

    def describe(self, position: jax.Array) -> Described:
        """What is kept of a draw."""
        ...


class Point(Protocol):
    """A position of a constrained target and all that is known there: a NamedTuple.

    It has at least these members, l being the log density relative to the standard normal one, and
    whatever the target's methods need.

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
    """A constraint on a normal space, lambda -> c(origin - J^T lambda), around one lambda.

    Attributes
    ----------
    residual : (d,)
        c there.
    solve : callable
        ``solve(rhs, tolerance)``: M^-1 rhs, (d,), for rhs (d,) and M = J(q_lambda) J^T, exactly or
        to a relative tolerance.
    derivative : callable
        ``derivative(path, lower)``: derivative of order n = len(path) + 1 of c, (d,), along the
        curve of lambda with the derivatives ``path``, (d,) each, and that of order n zero; and what
        saves work for order n + 1 along the same curve, which is ``lower`` there.  For n = 2 that
        is an empty tuple.
    """

    residual: jax.Array
    solve: Callable[[jax.Array, float], jax.Array]
    derivative: Callable[[tuple[jax.Array, ...], Any], tuple[jax.Array, Any]]


class NormalSpace(Protocol):
    """The constraint on a normal space: lambda -> c(origin - J^T lambda).

    Attributes
    ----------
    max_derivative : int
        Order of the derivatives of the constraint along curves up to which they cost less than they
        save, 1, 2 or 3.
    """

    max_derivative: int

    def residual(self, multiplier: jax.Array) -> jax.Array:
        """The constraint at lambda, (d,) to (d,)."""
        ...

    def linearise(self, multiplier: jax.Array) -> LocalConstraint:
        """The constraint at lambda and its derivatives along the normal space."""
        ...


class ConstrainedTarget(Protocol):
    """A density on {q : c(q) = 0}: a pytree with these members.

    It is exp(-|q|^2/2 + l(q)) with respect to the manifold's own measure.
    """

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (Q,) to (d,)."""
        ...

    def point(self, position: jax.Array) -> Point:
        """Evaluate everything at a position, (Q,)."""
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
        """The constraint on the normal space of a point.

        Parameters
        ----------
        point
            As :meth:`point` returns it.
        origin : (Q,)
            Position through which the normal space goes.

        Returns
        -------
        NormalSpace
        """
        ...

    def describe(self, point: Point) -> Described:
        """What is kept of a draw: arrays of any shape (...), by name."""
        ...


Target = Density | ConstrainedTarget


class Slopes(NamedTuple):
    """How a target changes along a direction: what shows whether its derivatives are right.

    Attributes
    ----------
    point
        At the position.
    value, slope : (d,)
        What is differentiated, and its derivative along the direction as steps use it.
    first, second : (d,)
        The same derivative and the next one, of other code.
    scale : ()
        By which the direction was scaled.
    """

    point: Point
    value: jax.Array
    slope: jax.Array
    first: jax.Array
    second: jax.Array
    scale: jax.Array
