"""Ordinary differential equations, of which some states were read at some times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from invlift.errors import InputError
from invlift.inverse.distributions import Distribution
from invlift.inverse.models.solve_ode import solve_ode
from invlift.inverse.noise import Noise
from invlift.inverse.noise.by_name import noise_by_name
from invlift.inverse.problem import InverseProblem, inverse_problem
from invlift.inverse.unknowns import Unknown

#: Steps from the first reading to the last if no longest step is given.
NUM_STEPS = 400


def ode_problem(
    slope: Callable[..., Any],
    unknowns: Mapping[str, Unknown | Distribution],
    initial: Callable[..., Any],
    times: Sequence[float] | np.ndarray,
    readings: Mapping[str, Sequence[float]],
    noise: Noise | Distribution | float,
    *,
    observe: Callable[..., Mapping[str, Any]] | None = None,
    start: float | None = None,
    max_step: float | None = None,
    method: str = "rk4",
    forecast: Sequence[float] = (),
) -> InverseProblem:
    """Inverse problem of x' = slope(t, x), read at some times.

    Parameters
    ----------
    slope : callable
        ``slope(t, state, **unknowns)``: derivatives by time, a dict by name like the state, made of
        JAX operations.
    unknowns : mapping of str to Unknown or Distribution
        As of :func:`inverse_problem`.
    initial : callable
        ``initial(**unknowns)``: state at the start, a dict of numbers or arrays.
    times : (T,)
        When something was read, not decreasing, in the unit that slopes are per.
    readings : mapping of str to (T,)
        What was read, by name, NaN where it was not: columns of a table.
    noise : Noise, Distribution or float
        Normal noise whose standard deviation has this distribution, one for each name, or is known;
        or any noise of all readings, those of one name after those of the other.
    observe : callable, optional
        ``observe(state, **unknowns)``: what is read of a state, by the names of the readings.  The
        state itself if left out.
    start : float, optional
        Time of the initial state: the first of the times if left out.
    max_step : float, optional
        Longest step, in the unit of time: the whole time in 400 steps if left out.  Halve it to see
        whether the posterior changes.
    method : {"rk4", "dopri5", "rodas3", "exponential"}
        See :func:`~invlift.inverse.models.solve_ode.solve_ode`; "rodas3" for stiff equations,
        "exponential" with an infinite step for linear ones.
    forecast : sequence of float
        Further times, not before the last of ``times``, at which the path goes on.

    Returns
    -------
    InverseProblem
        Draws hold the unknowns, and what would be read without noise at all times and those of the
        forecast: ``hare_path`` of readings ``hare``.

    Raises
    ------
    InputError
        If times, readings, step or method are not as they must be, slope, initial state and what is
        read of it do not have the same names, or as of :func:`inverse_problem`: among others where
        the solution is not finite at the prior's medians.  Elsewhere a chain then stays where it
        is.
    """
    times = np.asarray(times, dtype=float)
    columns = {str(name): np.asarray(column, dtype=float) for name, column in readings.items()}
    _check_table(times, columns)
    every = np.concatenate([times, np.asarray(forecast, dtype=float)])
    first = float(times[0]) if start is None else float(start)
    if max_step is None:
        max_step = (every[-1] - first) / NUM_STEPS
    rows = {name: np.flatnonzero(~np.isnan(column)) for name, column in columns.items()}

    def model(**given):
        def own_slope(time, state):
            return slope(time, state, **given)

        states = solve_ode(own_slope, initial(**given), every, max_step, start=first, method=method)
        paths = states if observe is None else jax.vmap(lambda each: observe(each, **given))(states)
        if not (isinstance(paths, Mapping) and set(rows) <= set(paths)):
            found = ", ".join(map(str, paths)) if isinstance(paths, Mapping) else "no names"
            raise InputError(
                "initial" if observe is None else "observe",
                f"a dict of what is read: {', '.join(rows)}",
                found,
                "name the parts of the state, or what is read of it, as the readings",
            )
        kept = {f"{name}_path": paths[name] for name in rows}
        return {name: paths[name][which] for name, which in rows.items()}, kept

    observed = {name: columns[name][which] for name, which in rows.items()}
    axes = {f"{name}_path": {"time": every} for name in rows}
    axes |= {name: {"read_at": times[which]} for name, which in rows.items()}
    return inverse_problem(model, unknowns, noise_by_name(noise, observed), observed, axes=axes)


def _check_table(times: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    """Check that readings are a table of numbers with a row for each time."""
    if times.ndim != 1 or not times.size:
        raise InputError("times", "at least one", f"shape {times.shape}", "give when was read")
    if not columns:
        raise InputError("readings", "at least one by name", "none", "give them as a dict")
    for name, column in columns.items():
        if column.shape != times.shape:
            raise InputError(
                f"readings {name}",
                f"{times.size} values, one for each time, NaN where nothing was read",
                f"shape {column.shape}",
                "correct it",
            )
        infinite = np.flatnonzero(np.isinf(column))
        if infinite.size or np.all(np.isnan(column)):
            raise InputError(
                f"readings {name}",
                "finite values, some of them at least",
                f"{column[infinite[0]]} at index {infinite[0]}" if infinite.size else "none",
                "correct it, or leave the name out",
            )
