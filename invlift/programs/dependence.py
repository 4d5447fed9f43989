"""Dependence analysis: the inputs on which each output of a traced function may depend.

Each number in the program carries the smallest and the largest label of the inputs on which it may
depend, from one operation to the next.  This is an abstract interpretation (Cousot & Cousot 1977)
on the lattice of intervals.  The result holds for all values of the inputs: both branches of a
``where`` count, and for an operation without a rule all outputs depend on all inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

#: Label of an input that is not tracked.
NONE = np.iinfo(np.int32).max

#: Operations by name, in groups with a rule each; the first group acts elementwise.
_ELEMENTWISE = {
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "clamp", "convert_element_type", "copy", "copy_p",
    "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1",
    "floor", "ge", "gt", "igamma", "igamma_grad_a", "igammac", "integer_pow", "is_finite", "le",
    "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter",
    "not", "or", "polygamma", "pow", "random_gamma_grad", "real", "reduce_precision",
    "regularized_incomplete_beta", "rem", "round", "rsqrt", "select_n", "sign", "sin", "sinh",
    "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor", "zeta",
}  # fmt: skip
_REARRANGING = {
    "broadcast_in_dim", "concatenate", "reshape", "rev", "slice", "split", "squeeze", "transpose",
}  # fmt: skip
_INDEXED = {"dynamic_slice": 1, "dynamic_update_slice": 2, "gather": 1, "pad": 2}
_REDUCING = {
    "argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod",
    "reduce_sum",
}  # fmt: skip
_CUMULATIVE = {"cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"}
_OF_MATRICES = {"cholesky", "triangular_solve"}


class Spread(NamedTuple):
    """Smallest and largest label of the inputs on which each number of an array may depend.

    Attributes
    ----------
    least, minus_most : int arrays of the array's shape
        Smallest label, and minus the largest label; both NONE where there is no label.  The union
        of two dependences is therefore the minimum of both arrays.
    """

    least: jax.Array
    minus_most: jax.Array

    def map(self, fn: Callable[[jax.Array], jax.Array]) -> Spread:
        """Apply a function that moves or joins entries to both arrays."""
        return Spread(fn(self.least), fn(self.minus_most))


def spread(
    fn: Callable[[jax.Array], jax.Array], at: jax.Array, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest label of the inputs on which each output may depend.

    Parameters
    ----------
    fn : callable
        (m,) to (d,), of JAX operations.
    at : (m,)
        Inputs for the tracing; their values do not matter.
    labels : (k, m) int array
        k labellings of the inputs: numbers from 0, or NONE for inputs that are not tracked.

    Returns
    -------
    least, most : (k, d) int array
        For an output without a label, ``least`` is larger than ``most``.
    """
    traced = jax.make_jaxpr(fn)(at)

    @jax.jit
    @jax.vmap
    def run(labels):
        negated = jnp.where(labels == NONE, NONE, -labels)
        (output,) = _run(traced.jaxpr, traced.consts, [Spread(labels, negated)])
        return _spread_of(output)

    bounds = run(jnp.asarray(labels, jnp.int32))
    return np.asarray(bounds.least), -np.asarray(bounds.minus_most)


def _run(jaxpr, consts, inputs):
    """Return the outputs of a program: arrays if they are known, else spreads."""
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env |= dict(zip(jaxpr.invars, inputs, strict=True))

    def read(variable):
        return variable.val if isinstance(variable, core.Literal) else env[variable]

    for equation in jaxpr.eqns:
        outputs = _of_equation(equation, [read(each) for each in equation.invars])
        env |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(each) for each in jaxpr.outvars]


def _of_equation(equation, inputs):
    name, params = equation.primitive.name, equation.params
    called = params.get("jaxpr", params.get("call_jaxpr"))
    if name != "scan" and isinstance(called, core.ClosedJaxpr | core.Jaxpr):
        return _run(getattr(called, "jaxpr", called), getattr(called, "consts", ()), inputs)
    if not any(isinstance(each, Spread) for each in inputs):
        outputs = equation.primitive.bind(*inputs, **params)
        return outputs if equation.primitive.multiple_results else [outputs]
    if name == "scan":
        return _scan(params, inputs)
    spreads = [_spread_of(each) for each in inputs]
    num_moved = _INDEXED.get(name, len(inputs))
    is_placed = not any(isinstance(each, Spread) for each in inputs[num_moved:])
    if name in _REARRANGING or (name in _INDEXED and is_placed):
        if name == "gather":  # the value at an index out of bounds depends on no input
            params = params | {"fill_value": NONE}
        bind = functools.partial(equation.primitive.bind, **params)
        moved = zip(*spreads[:num_moved], strict=True)
        least, negated = (bind(*each, *inputs[num_moved:]) for each in moved)
        if equation.primitive.multiple_results:
            return list(map(Spread, least, negated))
        return [Spread(least, negated)]
    shape = equation.outvars[0].aval.shape
    if name in _ELEMENTWISE:
        return [_join(spreads, shape)]
    if name in _REDUCING:
        return [spreads[0].map(lambda part: jnp.min(part, axis=params["axes"]))]
    if name in _CUMULATIVE:
        axis, is_reversed = params["axis"], params["reverse"]
        return [spreads[0].map(lambda part: lax.cummin(part, axis, is_reversed))]
    if name == "dot_general":
        return [_join(_of_product(params["dimension_numbers"], spreads), shape)]
    if name in _OF_MATRICES:
        least = functools.partial(jnp.min, axis=(-2, -1), keepdims=True)
        return [_join([each.map(least) for each in spreads], shape)]
    least = functools.partial(jnp.min, initial=NONE)
    whole = _join([each.map(least) for each in spreads], ())
    return [_join([whole], each.aval.shape) for each in equation.outvars]


def _scan(params, inputs):
    """Iterate the carry of a scan to its fixed point; join entries along the scanned axis."""
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    consts, rest = inputs[:num_consts], inputs[num_consts:]
    carry = [_spread_of(each) for each in rest[:num_carry]]
    over = [_spread_of(each).map(lambda part: jnp.min(part, axis=0)) for each in rest[num_carry:]]
    body = params["jaxpr"]

    def step(carry):
        outputs = [
            _spread_of(each) for each in _run(body.jaxpr, body.consts, [*consts, *carry, *over])
        ]
        joined = jax.tree.map(jnp.minimum, carry, outputs[:num_carry])
        return joined, outputs[num_carry:]

    def is_running(loop):
        before, after = loop
        same = jax.tree.map(lambda a, b: jnp.all(a == b), before, after)
        return ~functools.reduce(jnp.logical_and, jax.tree.leaves(same), jnp.asarray(True))

    _, carry = lax.while_loop(
        is_running, lambda loop: (loop[1], step(loop[1])[0]), (carry, step(carry)[0])
    )
    outputs = step(carry)[1]
    length = params["length"]
    stacked = [
        each.map(lambda part: jnp.broadcast_to(part, (length, *part.shape))) for each in outputs
    ]
    return [*carry, *stacked]


def _of_product(dimensions, inputs):
    """Return the factors of a product on the axes of the product, joined over summed axes."""
    num_free = [
        each.least.ndim - len(summed) - len(batch)
        for each, summed, batch in zip(inputs, *dimensions, strict=True)
    ]
    outputs = []
    for each, summed, batch, before, after in zip(
        inputs, *dimensions, (0, num_free[0]), (num_free[1], 0), strict=True
    ):

        def arrange(part, summed=summed, batch=batch, before=before, after=after):
            free = [axis for axis in range(part.ndim) if axis not in (*summed, *batch)]
            part = jnp.transpose(part, (*batch, *free, *summed))
            part = jnp.min(part, axis=tuple(range(part.ndim - len(summed), part.ndim)))
            of_batch, own = part.shape[: len(batch)], part.shape[len(batch) :]
            return part.reshape(*of_batch, *(1,) * before, *own, *(1,) * after)

        outputs.append(each.map(arrange))
    return outputs


def _join(spreads: Sequence[Spread], shape: tuple[int, ...]) -> Spread:
    joined = (functools.reduce(jnp.minimum, parts) for parts in zip(*spreads, strict=True))
    return Spread(*(jnp.broadcast_to(part, shape) for part in joined))


def _spread_of(value):
    if isinstance(value, Spread):
        return value
    return Spread(*2 * [jnp.full(np.shape(value), NONE, jnp.int32)])
