"""Derivatives of JAX functions that JAX has no name for, and what they depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax.extend.core import Jaxpr, JaxprEqn, Var, jaxprs_in_params


def depends(fn: Callable, *arguments: jax.Array) -> list[bool]:
    """For each of a function's arguments, arrays, whether its value depends on it.

    As its operations show, without their numbers: it may depend less than this says.
    """
    jaxpr = jax.make_jaxpr(fn)(*arguments).jaxpr
    return _are_used(jaxpr, {each for each in jaxpr.outvars if isinstance(each, Var)})


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


def derivatives_along(fn: Callable, path: Sequence) -> list[Any]:
    """Derivatives of a function along a curve, by forward mode.

    Parameters
    ----------
    fn : callable
        Of one pytree of arrays; differentiable in forward mode.
    path : sequence of pytrees
        x(0), x'(0), ..., the derivatives of order 0 to n of the curve x(t) at t = 0.

    Returns
    -------
    list of pytrees
        Those of fn(x(t)).

    Notes
    -----
    The derivative of order n - 1 is a function of the first n derivatives of x, whose own
    derivatives are the last n: order n is its derivative along them (Faa di Bruno's formula).
    """
    if len(path) == 1:
        return [fn(path[0])]

    def lower(*path):
        return derivatives_along(fn, path)

    values, tangents = jax.jvp(lower, tuple(path[:-1]), tuple(path[1:]))
    return [*values, tangents[-1]]


def reach_loops(fn: Callable, *arguments: jax.Array) -> list[bool]:
    """For each of a function's arguments, arrays, whether a loop in it depends on it.

    As its operations show, without their numbers: it may be fewer than this says.
    """
    jaxpr = jax.make_jaxpr(fn)(*arguments).jaxpr
    loops = (each for each in jaxpr.eqns if _in_loops([each]))
    inputs = (each for loop in loops for each in loop.invars)
    return _are_used(jaxpr, {each for each in inputs if isinstance(each, Var)})


def _are_used(jaxpr: Jaxpr, used: set[Var]) -> list[bool]:
    """For each input of a program, whether one of some of its variables depends on it."""
    for equation in reversed(jaxpr.eqns):
        if used.intersection(equation.outvars):
            used.update(each for each in equation.invars if isinstance(each, Var))
    return [each in used for each in jaxpr.invars]


def loop_operations(fn: Callable, at: Any) -> set[str]:
    """JAX's names of the loops that a function of a pytree runs, and of all operations in them."""
    return _in_loops(jax.make_jaxpr(fn)(at).jaxpr.eqns)


def _in_loops(equations: Iterable[JaxprEqn], is_inside: bool = False) -> set[str]:
    found = set()
    for each in equations:
        name, params = each.primitive.name, each.params
        # What is unrolled, as polynomials are, is no loop.
        is_loop = name == "while" or (name == "scan" and params["length"] > params["unroll"])
        is_within = is_inside or is_loop
        found |= {name} if is_within else set()
        for called in jaxprs_in_params(params):
            found |= _in_loops(called.eqns, is_within)
    return found
