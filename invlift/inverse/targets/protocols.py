"""What targets offer to samplers along the normal space of a manifold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


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
