"""Properties of a function from its traced program: used arguments, loops, own derivative rules.

For the dependence of single outputs on single inputs see :mod:`invlift.programs.dependence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Var, jaxprs_in_params


def depends(fn: Callable, *arguments: jax.Array) -> list[bool]:
    """Return for each argument, an array, whether the function's value may depend on it.

    This considers the operations, not their values: a true entry may have no dependence.
    """
    jaxpr = jax.make_jaxpr(fn)(*arguments).jaxpr
    return _are_used(jaxpr, {each for each in jaxpr.outvars if isinstance(each, Var)})


#: Operations without jumps in the type of their value, whose derivative does not show their jumps.
_JUMPING = {"ceil", "floor", "rem", "round", "sign", "stop_gradient"}


def has_jumps(fn: Callable, *arguments: jax.Array) -> bool:
    """Return whether a function may jump, or bend, where its derivatives do not show it.

    A comparison with an argument, as in ``where(time < 5.0, 1.0, 0.0)``, has derivatives of zero on
    both sides.  This considers the operations, not their values: a true result may have no jump.
    """
    jaxpr = jax.make_jaxpr(fn)(*arguments).jaxpr
    return _follow(jaxpr, [True] * len(jaxpr.invars))[0]


def _follow(jaxpr: Jaxpr, inputs: Sequence[bool]) -> tuple[bool, list[bool]]:
    """Return whether variables may pass a jump, and which outputs they reach, from such inputs."""
    reached = {each for each, is_in in zip(jaxpr.invars, inputs, strict=True) if is_in}

    def is_reached(each):
        return isinstance(each, Var) and each in reached

    for each in jaxpr.eqns:
        own = [is_reached(variable) for variable in each.invars]
        if not any(own):
            continue
        outputs = [True] * len(each.outvars)
        for inner in jaxprs_in_params(each.params):
            is_called = len(inner.invars) == len(own) and len(inner.outvars) == len(outputs)
            is_loop = each.primitive.name in ("scan", "while", "cond")
            is_plain = is_called and not is_loop
            jumps, ends = _follow(inner, own if is_plain else [True] * len(inner.invars))
            if jumps:
                return True, []
            outputs = ends if is_plain else outputs
        is_real = all(jnp.issubdtype(out.aval.dtype, jnp.inexact) for out in each.outvars)
        if each.primitive.name in _JUMPING or not is_real:
            return True, []
        reached.update(out for out, is_in in zip(each.outvars, outputs, strict=True) if is_in)
    return False, [is_reached(each) for each in jaxpr.outvars]


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
