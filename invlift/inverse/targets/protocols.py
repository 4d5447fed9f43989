"""What targets offer to samplers along the normal space of a manifold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class DensitySolves(NamedTuple):
    """Right-hand sides that a density's model solves for, by what is evaluated.

    Attributes
    ----------
    value : int
        The log density.
    gradient : int
        The log density and its gradient.
    metric : int
    metric_derivative : int
        A derivative of the metric in one direction or, transposed, along one matrix.
    """

    value: int = 0
    gradient: int = 0
    metric: int = 0
    metric_derivative: int = 0


class NormalSolves(NamedTuple):
    """Right-hand sides that a constraint's model solves for along a normal space.

    Attributes
    ----------
    residual, linearise, derivative : int
        What these methods solve for, without the systems of ``solve``.
    """

    residual: int = 0
    linearise: int = 0
    derivative: int = 0


class Sight(NamedTuple):
    """How a target changes along a heading: what shows whether its derivatives are right.

    Attributes
    ----------
    point
        At the position.
    value, slope : (d,)
        What is differentiated, and its derivative along the heading as steps use it.
    first, second : (d,)
        The same derivative and the next one, of other code.
    scale : ()
        By which the heading was scaled.
    """

    point: Any
    value: jax.Array
    slope: jax.Array
    first: jax.Array
    second: jax.Array
    scale: jax.Array


class LocalConstraint(NamedTuple):
    """A constraint on a normal space, lambda -> c(origin - J^T lambda), around one lambda.

    Attributes
    ----------
    residual : (d,)
        c there.
    solve : callable
        ``solve(rhs, tolerance)``: M^-1 rhs, (d,), for rhs (d,) and M = J(q_lambda) J^T, exactly or
        to a relative tolerance; and the right-hand sides that the model solved for on the way.
    derivative : callable
        ``derivative(path, lower)``: derivative of order n = len(path) + 1 of c, (d,), along the
        curve of lambda with the derivatives ``path``, (d,) each, and that of order n zero; and what
        saves work for order n + 1 along the same curve, which is ``lower`` there.  For n = 2 that
        is an empty tuple.
    """

    residual: jax.Array
    solve: Callable[[jax.Array, float], tuple[jax.Array, Any]]
    derivative: Callable[[tuple[jax.Array, ...], Any], tuple[jax.Array, Any]]
