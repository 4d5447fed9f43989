"""Higher derivatives of JAX functions, along a direction or a curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax


def second_directional(fn: Callable, primals: tuple, tangents: tuple) -> jax.Array:
    """Return the second derivative of a function along a direction, by forward mode twice.

    Parameters
    ----------
    fn : callable
        Function of as many arrays as there are primals; differentiable in forward mode.
    primals, tangents : tuple of arrays
        Point and direction; the shapes of both agree in pairs.

    Returns
    -------
    jax.Array
        d^2 fn(primals + t tangents) / dt^2 at t = 0, with the shape of the function's value.
    """

    def first(*primals):
        return jax.jvp(fn, primals, tangents)[1]

    return jax.jvp(first, primals, tangents)[1]


def derivatives_along(fn: Callable, path: Sequence) -> list[Any]:
    """Return the derivatives of a function along a curve, by forward mode.

    Parameters
    ----------
    fn : callable
        Function of one pytree of arrays; differentiable in forward mode.
    path : sequence of pytrees
        x(0), x'(0), ..., the derivatives of order 0 to n of the curve x(t) at t = 0.

    Returns
    -------
    list of pytrees
        The derivatives of order 0 to n of fn(x(t)) at t = 0.

    Notes
    -----
    The derivative of order n - 1 is a function of x, x', ..., x^(n-1), whose derivatives are x',
    x'', ..., x^(n).  The derivative of order n is the derivative of this function along them (Faa
    di Bruno's formula).
    """
    if len(path) == 1:
        return [fn(path[0])]

    def lower(*path):
        return derivatives_along(fn, path)

    values, tangents = jax.jvp(lower, tuple(path[:-1]), tuple(path[1:]))
    return [*values, tangents[-1]]
