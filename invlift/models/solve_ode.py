"""Ordinary differential equations by fixed steps, as a function that JAX differentiates.

Steps do not depend on the unknowns.  A solution with adaptive steps jumps where their number
changes, and constraints cannot be met to 1e-9 across a jump.  Fixed steps under one scan also take
a twentieth of the time of a library of adaptive solvers with the same number of steps
(tests/benchmarks/measurements.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from invlift.errors import InputError
from invlift.models.linear_moves import FEW, linear_moves, product
from invlift.programs.traced import depends, has_jumps

#: Maximum number of steps of one solution: more are most likely a wrong unit of time.
MAX_STEPS = 1_000_000


def solve_ode(
    slope: Callable[[jax.Array, Any], Any],
    initial: Any,
    times: Sequence[float] | np.ndarray,
    max_step: float,
    *,
    start: float | None = None,
    method: str = "rk4",
) -> Any:
    """Solve x' = slope(t, x) from an initial state.

    Parameters
    ----------
    slope : callable
        ``slope(t, state)``, written in JAX operations: derivatives by time, a pytree like the
        state.
    initial : pytree of arrays
        State at the start; a dict of numbers by name, say.
    times : (T,)
        Times of the solution, not decreasing; numbers, not traced by JAX.
    max_step : float
        Longest step.  Each interval between two of the times is divided into equal steps; one if
        infinite.
    start : float, optional
        Time of the initial state: the first of the times if left out.
    method : {"rk4", "dopri5", "rodas3", "exponential"}
        The classical fourth-order method (Kutta 1901); the fifth-order method of Dormand & Prince
        (1980); for stiff equations a third-order, linearly implicit, L-stable method (Sandu et al.
        1997); the second-order exponential Rosenbrock-Euler method (Hochbruck & Ostermann 2010,
        section 2.4), exact for any step if the slope is linear: x' = A x + b + c t.

    Returns
    -------
    pytree of arrays
        Like the state, with a first axis of the T times.

    Raises
    ------
    InputError
        If times decrease or are not finite, the step is not positive or makes more than 1,000,000
        steps, there is no such method, or slopes are not shaped like the state.
    """
    times, start, max_step = _checked(times, start, max_step, method)
    begins, lengths, places = _steps(times, start, max_step)
    # Integers would stay integers along the path.
    initial = jax.tree.map(lambda part: jnp.asarray(part, float), initial)
    slopes = jax.eval_shape(lambda state: slope(jnp.asarray(start), state), initial)
    if _shapes(slopes) != _shapes(initial):
        raise InputError(
            "slope",
            f"a derivative for each part of the state: {_shapes(initial)}",
            f"{_shapes(slopes)}",
            "return a dict or an array like the state",
        )
    first, unravel = ravel_pytree(initial)

    def flat_slope(time, state):
        return ravel_pytree(slope(time, unravel(state)))[0].astype(first.dtype)

    if method == "exponential" and _is_linear(flat_slope, jnp.asarray(start), first):
        return jax.vmap(unravel)(_linear(flat_slope, jnp.asarray(start), first, times))

    def advance(state, step):
        state = METHODS[method](flat_slope, step[0], state, step[1])
        return state, state

    _, later = jax.lax.scan(advance, first, (jnp.asarray(begins), jnp.asarray(lengths)))
    states = jnp.concatenate([first[None], later])[places]
    return jax.vmap(unravel)(states)


def _shapes(state):
    """Shapes of the parts of a state, by name where they have names."""
    return jax.tree.map(lambda part: tuple(part.shape), state)


def _checked(times, start, max_step, method):
    times = np.atleast_1d(np.asarray(times, dtype=float))
    start = float(times[0]) if start is None and times.size else start
    every = np.append(np.nan if start is None else start, times)
    backwards = np.flatnonzero(~(np.diff(every) >= 0.0))
    if times.ndim != 1 or not times.size or not np.all(np.isfinite(every)) or backwards.size:
        found = "none" if not times.size else f"shape {times.shape}"
        if times.ndim == 1 and times.size:
            index = backwards[0] if backwards.size else np.flatnonzero(~np.isfinite(times))[0]
            found = f"{every[index + 1]:g} at index {index}, after {every[index]:g}"
        raise InputError("times", "finite numbers that do not decrease", found, "sort them")
    if not (isinstance(max_step, int | float | np.number) and max_step > 0.0):
        raise InputError(
            "max_step",
            "a positive number",
            f"{max_step!r}",
            "give the longest step, in time's unit",
        )
    if (every[-1] - start) / max_step > MAX_STEPS:
        raise InputError(
            "max_step",
            f"at most {MAX_STEPS:,} steps from {start:g} to {every[-1]:g}",
            f"{max_step:g}",
            "give a longer one, in the unit of the times",
        )
    if method not in METHODS:
        raise InputError("method", f"one of {', '.join(METHODS)}", f"{method!r}", "choose one")
    return times, start, float(max_step)


def _steps(times, start, max_step):
    """Return begin and length of each step, and the number of steps up to each of the times."""
    every = np.append(start, times)
    between = np.diff(every)
    numbers = np.maximum(np.ceil(between / max_step - 1e-9), between > 0.0).astype(int)
    lengths = np.repeat(between / np.maximum(numbers, 1), numbers)
    places = np.cumsum(numbers)
    within = np.arange(lengths.size) - np.repeat(places - numbers, numbers)
    return np.repeat(every[:-1], numbers) + within * lengths, lengths, places


# Methods: one step of the state, (n,), over a time h ----------------------------------------------


def _explicit(nodes, rows, weights) -> Callable:
    """Return the explicit Runge-Kutta method of a Butcher tableau."""

    def step(slope, time, state, length):
        stages = []
        for node, row in zip(nodes, rows, strict=True):
            inner = sum((a * k for a, k in zip(row, stages, strict=True) if a), jnp.zeros(()))
            stages.append(slope(time + node * length, state + length * inner))
        return state + length * sum(b * k for b, k in zip(weights, stages, strict=True) if b)

    return step


_RK4 = _explicit(
    (0, 1 / 2, 1 / 2, 1), ((), (1 / 2,), (0, 1 / 2), (0, 0, 1)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)
)
_DOPRI5 = _explicit(
    (0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1),
    (
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)


def _rodas3(slope, time, state, length):
    """A Rosenbrock method: linear systems with 1 / (h gamma) - J, one factorisation a step."""
    gamma = 0.5
    by_time = jax.jacfwd(slope, 0)(time, state)
    jacobian = jax.jacfwd(slope, 1)(time, state)
    solve = _solver(jnp.eye(state.size) / (length * gamma) - jacobian)

    def stage(at, moved, mixed, share):
        return solve(slope(time + at * length, moved) + mixed / length + share * length * by_time)

    one = stage(0.0, state, 0.0, 0.5)
    two = stage(0.0, state, 4.0 * one, 1.5)
    three = stage(1.0, state + 2.0 * one, one - two, 0.0)
    four = stage(1.0, state + 2.0 * one + three, one - two - 8.0 / 3.0 * three, 0.0)
    return state + 2.0 * one + three + four


def _solver(matrix: jax.Array) -> Callable:
    """Return a solver of systems with a matrix, (n, n), for right-hand sides (n,)."""
    if len(matrix) <= FEW:
        inverse = _inverse(matrix)
        return lambda rhs: jnp.sum(inverse * rhs, axis=1)
    factor = jax.scipy.linalg.lu_factor(matrix)
    return lambda rhs: jax.scipy.linalg.lu_solve(factor, rhs)


@jax.custom_jvp
def _inverse(matrix):
    """Invert a small matrix by Gauss-Jordan elimination with partial pivoting.

    A loop of its operations is compiled as one kernel; calls of LAPACK take a hundred times as
    long.
    """
    number = jnp.arange(len(matrix))
    rows = jnp.concatenate([matrix, jnp.eye(len(matrix))], axis=1)
    for k in range(len(matrix)):
        size = jnp.where(number >= k, jnp.abs(rows[:, k]), -1.0)
        is_pivot = (number == jnp.argmax(size))[:, None]
        pivot = jnp.sum(jnp.where(is_pivot, rows, 0.0), axis=0)
        rows = jnp.where(is_pivot, rows[k], rows)
        pivot /= pivot[k]
        rows = jnp.where((number == k)[:, None], pivot, rows - rows[:, k, None] * pivot)
    return rows[:, len(matrix) :]


@_inverse.defjvp
def _inverse_jvp(primals, tangents):
    inverse = _inverse(*primals)
    return inverse, -product(inverse, product(tangents[0], inverse))


def _exponential(slope, time, state, length):
    by_time, jacobian = (jax.jacfwd(slope, which)(time, state) for which in (0, 1))
    moves = linear_moves(jacobian, [slope(time, state), by_time], length[None])
    return state + moves[:, 0]


def _linear(slope, start, state, times):
    """Return the states at all times, (T, n), for a slope A x + b + c t."""
    derivatives = [slope(start, state)]
    if depends(slope, start, state)[0]:
        derivatives.append(jax.jacfwd(slope, 0)(start, state))
    jacobian = jax.jacfwd(slope, 1)(start, state)
    return state + linear_moves(jacobian, derivatives, jnp.asarray(times - start)).T


def _is_linear(slope, start, state) -> bool:
    """Return whether a slope is A x + b + c t, judged by its operations."""

    def derivatives(time, state):
        return [jax.jacfwd(slope, which)(time, state) for which in (0, 1)]

    return not (has_jumps(slope, start, state) or any(depends(derivatives, start, state)))


#: Methods by name.
METHODS = {"rk4": _RK4, "dopri5": _DOPRI5, "rodas3": _rodas3, "exponential": _exponential}
