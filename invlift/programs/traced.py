"""Properties of a function from its traced program: used arguments, loops, own derivative rules.

For the dependence of single outputs on single inputs see :mod:`invlift.programs.dependence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
from jax.extend.core import Jaxpr, JaxprEqn, Var, jaxprs_in_params


def depends(fn: Callable, *arguments: jax.Array) -> list[bool]:
    """Return for each argument, an array, whether the function's value may depend on it.

    This considers the operations, not their values: a true entry may have no dependence.
    """
    jaxpr = jax.make_jaxpr(fn)(*arguments).jaxpr
    return _are_used(jaxpr, {each for each in jaxpr.outvars if isinstance(each, Var)})


def reach_loops(fn: Callable, *arguments: jax.Array) -> list[bool]:
    """Return for each argument, an array, whether a loop in the function may depend on it.

    This considers the operations, not their values: a true entry may have no dependence.
    """
    jaxpr = jax.make_jaxpr(fn)(*arguments).jaxpr
    loops = (each for each in jaxpr.eqns if _in_loops([each]))
    inputs = (each for loop in loops for each in loop.invars)
    return _are_used(jaxpr, {each for each in inputs if isinstance(each, Var)})


def _are_used(jaxpr: Jaxpr, used: set[Var]) -> list[bool]:
    """Return for each input of a program whether one of the given variables depends on it."""
    for equation in reversed(jaxpr.eqns):
        if used.intersection(equation.outvars):
            used.update(each for each in equation.invars if isinstance(each, Var))
    return [each in used for each in jaxpr.invars]


def loop_operations(fn: Callable, at: Any) -> set[str]:
    """Return JAX's names of the loops in a function of a pytree, and of all operations in them."""
    return _in_loops(jax.make_jaxpr(fn)(at).jaxpr.eqns)


def _in_loops(equations: Iterable[JaxprEqn], is_inside: bool = False) -> set[str]:
    names = set()
    for each in equations:
        name, params = each.primitive.name, each.params
        # A fully unrolled scan, as for polynomials, is not a loop.
        is_loop = name == "while" or (name == "scan" and params["length"] > params["unroll"])
        is_within = is_inside or is_loop
        names |= {name} if is_within else set()
        for called in jaxprs_in_params(params):
            names |= _in_loops(called.eqns, is_within)
    return names


def functions_with_own_rules(fn: Callable, at: Any) -> list[str]:
    """Return names of inner functions with custom derivative rules, or "a function" if unnamed."""
    return list(dict.fromkeys(_with_own_rules(jax.make_jaxpr(fn)(at).jaxpr)))


def _with_own_rules(jaxpr: Jaxpr) -> Iterator[str]:
    for each in jaxpr.eqns:
        inner = list(jaxprs_in_params(each.params))
        if each.primitive.name.startswith(("custom_jvp", "custom_vjp")):
            names = (own.params.get("name") for part in inner for own in part.eqns)
            yield next(filter(None, names), "a function")
        for part in inner:
            yield from _with_own_rules(part)
