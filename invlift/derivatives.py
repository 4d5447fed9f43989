"""Derivatives of JAX functions that JAX has no name for."""

from __future__ import annotations

from collections.abc import Callable

import jax


def second_directional(fn: Callable, primals: tuple, tangents: tuple) -> jax.Array:
    """Second derivative of a function along a direction, by forward mode twice.

    Parameters
    ----------
    fn : callable
        Of as many arrays as there are primals; differentiable in forward mode.
    primals, tangents : tuple of arrays
        Where, and along which direction; shapes in pairs the same.

    Returns
    -------
    jax.Array
        d^2 fn(primals + t tangents) / dt^2 at t = 0, shaped like the function's value.
    """

    def first(*primals):
        return jax.jvp(fn, primals, tangents)[1]

    return jax.jvp(first, primals, tangents)[1]
