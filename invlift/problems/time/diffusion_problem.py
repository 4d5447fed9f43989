"""Inverse problems of stochastic differential equations, with readings at some times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, as_numbers, checked_integer
from invlift.lift.targets.diffusion import DiffusionPosterior
from invlift.models.diffusion import DiffusionModel
from invlift.models.path import where_read
from invlift.models.sde_schemes import SCHEMES
from invlift.models.state_space import StateSpacePrior
from invlift.noise import Noise
from invlift.noise.by_name import noise_by_name
from invlift.noise.families import exact_readings
from invlift.problems.censored import CensoredProblem, with_censored
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.problem import InverseProblem
from invlift.problems.time.checks_in_time import (
    call,
    check_finite,
    check_increasing,
    check_labels,
    check_named,
    check_names,
    check_same,
    checked_columns,
    checked_start,
    noise_where_read,
    shapes_of,
    with_forecast,
)
from invlift.problems.time.diffusion_blocks import in_blocks
from invlift.programs.precision import require_float64
from invlift.unknowns.axes import path_of
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.named import Unknown, named_prior, unpack
from invlift.unknowns.priors.named import NamedPrior, Shapes

#: Number of states at which a scheme's condition on the noise is tested, their seed, and the
#: relative tolerance.
NUM_TRIED, SEED, CLOSE = 8, 0, 1e-8
#: Largest number of steps.  Chains need memory for each; more are most likely a mistake.
MAX_STEPS = 10_000_000


class DiffusionProblem(InverseProblem):
    """Inverse problem of a diffusion.  Build it with :func:`diffusion_problem`."""

    def lifted(self) -> DiffusionPosterior:
        """Return the lifted posterior; a step has a cost linear in the number of time steps.

        It has parts for :class:`~invlift.samplers.kernels.alternate.Alternate`, unless exact
        readings depend on unknowns beside the state.
        """
        return in_blocks(self)


def diffusion_problem(
    drift: Callable[..., Mapping[str, Any]],
    diffusion: Callable[..., Mapping[str, Any]],
    unknowns: Mapping[str, Unknown | Distribution],
    initial: Callable[..., Mapping[str, Any]],
    times: Sequence[float] | np.ndarray,
    readings: Mapping[str, Sequence[float]],
    noise: Noise | Distribution | float | Mapping[str, float | Distribution] | None,
    *,
    steps_per_interval: int,
    observe: Callable[..., Mapping[str, Any]] | None = None,
    start: float | None = None,
    scheme: str = "euler-maruyama",
    forecast: Sequence[float] = (),
) -> DiffusionProblem | CensoredProblem:
    """Build the inverse problem of dx = drift dt + diffusion dW with noisy or exact readings.

    The unknowns are its parameters and the whole path, which is computed in small steps.  A step of
    constrained samplers takes a time linear in the number of these (Graham, Thiery & Beskos 2022).

    Parameters
    ----------
    drift : callable
        ``drift(t, state, **unknowns)``: a dict by name like the state, per unit of time, written in
        JAX operations.
    diffusion : callable
        ``diffusion(t, state, **unknowns)``: strength of the noise of each part of the state, a dict
        by name, per square root of time.  A value of the shape of its part has an independent
        Wiener process for each entry.  A value with one more last axis, (..., k), has a strength
        for each of k processes that all parts share.  A part that is left out has no noise.
    unknowns : mapping of str to Unknown or Distribution
        As of :func:`~invlift.problems.inverse_problem.inverse_problem`.
    initial : callable
        ``initial(**unknowns)``: state at the start, a dict of numbers or arrays.
    times : (T,)
        Times of the readings, increasing.
    readings : mapping of str to (T,)
        Readings by name, NaN where missing: a dict or a data frame.
    noise : Noise, Distribution, float, mapping of str to float or Distribution, or None
        As of :func:`~invlift.problems.time.ode_problem.ode_problem`.  None for exact readings,
        from which only constrained samplers draw.  With limits of censored readings derivatives
        are dense, which suits some hundred steps.
    steps_per_interval : int
        S: number of equal steps from each time of readings to the next.  Double it to see whether
        the posterior changes.
    observe : callable, optional
        ``observe(state, **unknowns)``: predicted readings of a state, numbers by name.  Parts of
        the state itself if left out.
    start : float, optional
        Time of the initial state: the first of the times if left out.
    scheme : {"euler-maruyama", "milstein", "taylor-1.5"}
        Scheme of a step.  "milstein" is of strong order 1, for noise that commutes; "taylor-1.5" of
        order 3/2, for noise of a strength that depends on the unknowns alone.
    forecast : sequence of float
        Further times, increasing, after the last of ``times``, up to which the path is continued.

    Returns
    -------
    DiffusionProblem, or CensoredProblem
        Draws hold the unknowns, and at all steps the paths of the state and of the noise-free
        readings, ``level_path`` for ``level``.  They do not hold the variables that drive the path.

    Raises
    ------
    InputError
        If times, readings, forecast, scheme or the number of steps are invalid, a function returns
        wrong names or shapes, the noise does not meet the condition of the scheme, or as
        :func:`~invlift.problems.inverse_problem.inverse_problem`.
    """
    require_float64()
    times = as_numbers("times", times)
    columns = checked_columns(readings, times)
    check_labels(readings, noise, times)
    noise = noise_where_read(noise, columns)
    begin = _checked_start(times, start, is_exact=noise is None)
    times, columns = with_forecast(times, columns, forecast)
    where, most = "steps_per_interval", MAX_STEPS // times.size
    num_steps = checked_integer(where, steps_per_interval, 1, most, "25 is usual")
    if scheme not in SCHEMES:
        raise InputError("scheme", f"one of {', '.join(SCHEMES)}", f"{scheme!r}", "choose one")
    named = named_prior(unknowns)
    given = unpack(named.transform(jnp.zeros(named.num_white)), named.shapes)
    state = call("initial", initial, given)
    shapes = shapes_of("initial", state)
    check_finite("initial state", state)
    found = call("drift", drift, given, begin, state)
    check_finite(f"drift at the start, {begin:g},", found)
    check_same("drift", "the state as initial has it", shapes_of("drift", found), shapes)
    strengths = call("diffusion", diffusion, given, begin, state)
    check_finite(f"diffusion at the start, {begin:g},", strengths)
    num_wiener = _num_wiener(strengths, shapes)
    read = state if observe is None else call("observe", observe, given, state)
    _check_read(read, columns, "initial" if observe is None else "observe")
    rows = tuple((name, ()) for name in columns)
    kept = dict(shapes) | dict(rows)
    check_names(shapes, rows, named.shapes, is_part=observe is None)

    at = _times_of_steps(begin, times, num_steps)
    observed, found, grid = where_read(columns, times)
    model = DiffusionModel(
        drift,
        named.shapes,
        found,
        tuple(path_of(name, shape, at) for name, shape in kept.items()),
        diffusion=diffusion,
        initial=initial,
        observe=observe,
        scheme=scheme,
        state_shapes=shapes,
        reading_shapes=rows,
        num_wiener=num_wiener,
        num_steps=num_steps,
        is_read_at_start=bool(begin == times[0]),
        at=jax.device_put(at[:-1]),
        lengths=jax.device_put(np.diff(at)),
        grid=grid,
    )
    _check_noise(model, named)
    prior = StateSpacePrior.of(named, math.prod(model.move_shape))
    noise = exact_readings() if noise is None else noise_by_name(noise, observed)
    try:
        made = inverse_problem(model, prior, noise, np.concatenate(list(observed.values())))
    except InputError:
        _check_path(model, prior)  # a more specific error, if the path is the cause
        raise
    return with_censored(DiffusionProblem(made.model, made.prior, made.noise, made.observed))


def _times_of_steps(begin: float, times: np.ndarray, num_steps: int) -> np.ndarray:
    """Times at which steps begin and end, (1 + L S,)."""
    ends = times[times > begin]
    starts = np.concatenate([[begin], ends[:-1]])
    share = np.arange(1, num_steps + 1) / num_steps
    steps = starts[:, None] + share * (ends - starts)[:, None]
    steps[:, -1] = ends
    return np.concatenate([[begin], steps.ravel()])


# Checks of input ----------------------------------------------------------------------------------


def _checked_start(times: np.ndarray, start: Any, *, is_exact: bool) -> float:
    """Return the time of the initial state, and check the times against it."""
    check_increasing(times)
    begin = checked_start(times, start)
    if begin == times[-1]:
        raise InputError("times", "one after the start at least", f"{begin:g}", "set start")
    if is_exact and begin == times[0]:
        raise InputError(
            "start",
            "a time before the first of the readings, as these are exact",
            f"{begin:g}",
            "say by initial what is known of the state there, and leave that row out; or set an "
            "earlier start",
        )
    return begin


def _num_wiener(strengths: Any, shapes: Shapes) -> int:
    """Return the number of Wiener processes from the value of the diffusion."""
    check_named("diffusion", strengths)
    state = dict(shapes)
    unknown = [name for name in strengths if name not in state]
    if unknown:
        raise InputError(
            "diffusion", f"parts of the state, {', '.join(state)}", f"{unknown[0]}", "rename it"
        )
    found = {name: np.shape(value) for name, value in strengths.items()}
    if all(shape == state[name] for name, shape in found.items()):
        return sum(math.prod(shape) for shape in found.values())
    numbers = {shape[-1] if shape and shape[:-1] == state[name] else 0
               for name, shape in found.items()}  # fmt: skip
    if len(numbers) != 1 or 0 in numbers:
        wrong = next(name for name in found if found[name] != state[name])
        raise InputError(
            f"diffusion {wrong}",
            f"the shape of the state's, {state[wrong]}, or all parts with one last axis more, for "
            "the Wiener processes that they share",
            f"shape {found[wrong]}",
            "return one of both",
        )
    return numbers.pop()


def _check_read(read: Any, columns: Mapping[str, np.ndarray], where: str) -> None:
    """Check that a state gives one number for each name of the readings."""
    names = list(read) if isinstance(read, Mapping) else []
    wrong = [name for name in columns if name not in names or jnp.shape(read[name]) != ()]
    if wrong:
        raise InputError(
            where,
            f"a dict with a number for each of the readings, {', '.join(columns)}",
            f"none for {wrong[0]} among {', '.join(map(str, names)) or 'no names'}",
            "name the parts of the state as the readings, or give observe",
        )


def _check_noise(model: DiffusionModel, prior: NamedPrior) -> None:
    """Check that the noise meets the condition of the scheme, at draws from the prior.

    The times are spread over the path, as a strength may vanish at its start.
    """
    scheme, rng = SCHEMES[model.scheme], np.random.default_rng(SEED)
    if not scheme.demand:
        return
    for index in np.linspace(0, model.at.size - 1, NUM_TRIED).astype(int):
        time = model.at[index]
        values = prior.transform(jax.device_put(prior.sample(rng)))
        _, diffusion = model.coefficients_of(values)
        state = model.first(values)
        state = state + 0.1 * rng.standard_normal(state.shape) * jnp.maximum(1.0, jnp.abs(state))
        matrix = diffusion(time, state)
        defect = scheme.defect(diffusion, time, state)
        if jnp.max(jnp.abs(defect)) > CLOSE * jnp.maximum(1.0, jnp.max(jnp.abs(matrix))):
            remedy = 'correct diffusion, or take scheme "euler-maruyama"'
            raise InputError("diffusion", scheme.demand, "another", remedy)


def _check_path(model: DiffusionModel, prior: NamedPrior) -> None:
    """Check that the path at the prior's medians is finite without driving noise."""
    values, moves = model.split(prior.transform(jnp.zeros(prior.num_white)))
    try:
        states = np.asarray(model.states(values, moves))
    except Exception:  # not a JAX function, which was reported before
        return
    wrong = np.flatnonzero(~np.isfinite(states).all(axis=1))
    if wrong.size:
        time = model.at[wrong[0] - 1] + model.lengths[wrong[0] - 1]  # not the first: it was checked
        found = f"{states[wrong[0]]} at time {time:g}"
        remedy = "raise steps_per_interval, or correct the functions or the prior"
        raise InputError("path at the prior's medians", "finite states", found, remedy)
