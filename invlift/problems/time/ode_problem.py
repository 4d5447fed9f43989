"""Inverse problems of ordinary differential equations, with readings at some times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, as_numbers, names_in
from invlift.models.solve_ode import solve_ode
from invlift.noise import Noise
from invlift.noise.by_name import noise_by_name
from invlift.problems.inverse_problem import NOT_FINITE, inverse_problem
from invlift.problems.problem import InverseProblem
from invlift.problems.time.checks_in_time import (
    call,
    check_finite,
    check_labels,
    check_named,
    checked_columns,
    checked_start,
    noise_where_read,
    with_forecast,
)
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.named import RESERVED, Unknown, named_prior, unpack
from invlift.unknowns.priors.named import NamedPrior

#: Steps from the first reading to the last if no longest step is given.
NUM_STEPS = 400


def ode_problem(
    slope: Callable[..., Any],
    unknowns: Mapping[str, Unknown | Distribution],
    initial: Callable[..., Any],
    times: Sequence[float] | np.ndarray,
    readings: Mapping[str, Sequence[float]],
    noise: Noise | Distribution | float | Mapping[str, float | Distribution],
    *,
    derived: Callable[..., Mapping[str, Any]] | None = None,
    observe: Callable[..., Mapping[str, Any]] | None = None,
    start: float | None = None,
    max_step: float | None = None,
    method: str = "rk4",
    forecast: Sequence[float] = (),
) -> InverseProblem:
    """Build the inverse problem of x' = slope(t, x) with readings at some times.

    Parameters
    ----------
    slope : callable
        ``slope(t, state, **unknowns)``: derivatives by time, a dict by name like the state, written
        in JAX operations.
    unknowns : mapping of str to Unknown or Distribution
        As of :func:`inverse_problem`.
    initial : callable
        ``initial(**unknowns)``: state at the start, a dict of numbers or arrays.
    times : (T,)
        Times of the readings, not decreasing, in the time unit of the slopes.
    readings : mapping of str to (T,)
        Readings by name, NaN where missing: a dict or a data frame.
    noise : Noise, Distribution, float or mapping of str to float or Distribution
        Standard deviation of normal noise: a distribution, which gives each name an unknown scale,
        or a known number for all, or either of these by name.  Or any noise of all readings that
        are not missing, one name after the other.
    derived : callable, optional
        ``derived(**unknowns)``: quantities computed from the unknowns, a dict by new names, written
        in JAX operations.  The other functions receive them with the unknowns, and draws hold them.
    observe : callable, optional
        ``observe(state, **unknowns)``: predicted readings of a state, by name.  The state itself if
        left out.
    start : float, optional
        Time of the initial state: the first of the times if left out.
    max_step : float, optional
        Longest step, in the unit of time: the whole time in 400 steps if left out.  ``invlift
        check`` and the verdict on a run say where solutions change with half of it.
    method : {"rk4", "dopri5", "rodas3", "exponential"}
        See :func:`~invlift.models.solve_ode.solve_ode`; "rodas3" for stiff equations,
        "exponential" with an infinite step for linear ones.
    forecast : sequence of float
        Further times, increasing, after the last of ``times``, for which the path is continued.

    Returns
    -------
    InverseProblem
        Draws hold the unknowns, the derived quantities, and the noise-free readings at all times
        and those of the forecast: ``hare_path`` for readings ``hare``.

    Raises
    ------
    InputError
        If times, readings, forecast, start, step or method are invalid, if slope, initial state and
        readings do not have the same names, if a derived name is taken, or as
        :func:`inverse_problem`: among others if the solution is finite neither at the prior's
        medians nor at one of 20 draws.  Where a chain meets a solution that is not finite, it stays
        at its position.
    """
    times = as_numbers("times", times)
    columns = checked_columns(readings, times)
    check_labels(readings, noise, times)
    every, _ = with_forecast(times, {}, forecast)
    first = checked_start(times, start)
    if max_step is None:
        max_step = (every[-1] - first) / NUM_STEPS or np.inf
    rows = {name: np.flatnonzero(~np.isnan(column)) for name, column in columns.items()}

    further_of = partial(_further, derived, tuple(rows))

    def model(max_step, /, **given):
        further = further_of(**given)
        given = given | further
        own_slope = partial(slope, **given)
        states = solve_ode(own_slope, initial(**given), every, max_step, start=first, method=method)
        paths = states if observe is None else jax.vmap(lambda each: observe(each, **given))(states)
        if not (isinstance(paths, Mapping) and set(rows) <= set(paths)):
            raise InputError(
                "initial" if observe is None else "observe",
                f"a dict of what is read: {', '.join(rows)}",
                names_in(paths),
                "name the parts of the state, or what is read of it, as the readings",
            )
        kept = further | {f"{name}_path": paths[name] for name in rows}
        return {name: paths[name][which] for name, which in rows.items()}, kept

    _check_functions(named_prior(unknowns), slope, initial, observe, further_of, first)
    observed = {name: columns[name][which] for name, which in rows.items()}
    axes = {f"{name}_path": {"time": every} for name in rows}
    axes |= {name: {"read_at": times[which]} for name, which in rows.items()}
    noise = noise_by_name(noise_where_read(noise, columns), observed)
    try:
        problem = inverse_problem(partial(model, max_step), unknowns, noise, observed, axes=axes)
    except InputError as error:
        if error.path != (NOT_FINITE,):
            raise
        where, remedy = "solution at the prior's medians", "give a shorter max_step, or method = "
        remedy += "'rodas3' if the equations are stiff; see that times are in the slope's unit"
        raise InputError(where, "finite numbers", error.found, remedy) from None
    half = 0.5 * min(max_step, np.max(np.diff(every, prepend=first)) or np.inf)
    return replace(problem, model=replace(problem.model, finer=partial(model, half)))


def _further(derived: Callable | None, readings: Sequence[str], /, **unknowns) -> dict[str, Any]:
    """Return the quantities derived from the unknowns, after a check that their names are free."""
    found = {} if derived is None else derived(**unknowns)
    taken = {*unknowns, *RESERVED, *(f"{name}_path" for name in readings)}
    if not isinstance(found, Mapping) or taken & set(found):
        raise InputError(
            "derived",
            "a dict by names that are not those of unknowns or other draws",
            ", ".join(map(str, sorted(taken & set(found))))
            if isinstance(found, Mapping)
            else f"a {type(found).__name__}",
            "give each quantity a name of its own",
        )
    return dict(found)


def _check_functions(prior: NamedPrior, slope, initial, observe, further_of, first: float) -> None:
    """Check that functions accept the unknowns, and are finite at the start and prior medians."""
    given = unpack(prior.transform(jnp.zeros(prior.num_white)), prior.shapes)
    given |= call("derived", further_of, given)
    state = call("initial", initial, given)
    check_finite("initial state", state)
    if observe is None:
        check_named("initial", state)
    else:
        call("observe", observe, given, state)
    check_finite(f"slope at the start, {first:g},", call("slope", slope, given, first, state))
