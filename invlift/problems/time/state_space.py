"""Inverse problems of state-space models: a state with random transitions, read with noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, as_input_error, as_numbers, checked_integer, first_line
from invlift.lift.targets.diffusion import DiffusionPosterior
from invlift.lift.targets.state_space import StateSpacePosterior
from invlift.models.path import where_read
from invlift.models.state_space import StateSpaceModel, StateSpacePrior
from invlift.noise import Noise
from invlift.noise.by_name import noise_by_name
from invlift.problems.censored import CensoredProblem, with_censored
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.problem import InverseProblem
from invlift.problems.time.checks_in_time import (
    check_finite,
    check_increasing,
    check_labels,
    check_names,
    check_same,
    checked_columns,
    noise_where_read,
    shapes_of,
    with_forecast,
)
from invlift.programs.compilation import program
from invlift.programs.precision import require_float64
from invlift.unknowns.axes import path_of
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.named import Unknown, named_prior, unpack
from invlift.unknowns.priors.named import Shapes

#: Least number of states of prior paths on which ``recover`` is tested, and their seed; tolerance
#: of a recovered state, relative to states larger than 1; relative error of a reading that may
#: explain more; and largest share of states that are not recovered as numbers.
NUM_STATES, SEED, CLOSE, ROUNDING, MOST_LOST = 1000, 0, 1e-6, 1e-12, 0.1


class StateSpaceProblem(InverseProblem):
    """Inverse problem of a state-space model.  Build it with :func:`state_space`."""

    def lifted(self) -> StateSpacePosterior | DiffusionPosterior:
        """Return the lifted posterior, with a cost linear in the number of times.

        Its coordinates are the states if they all follow from readings, else those of a diffusion.
        """
        follows = self.model.recover is not None
        return StateSpacePosterior(self) if follows else DiffusionPosterior(self)


def state_space(
    transition: Callable[..., Mapping[str, Any]],
    unknowns: Mapping[str, Unknown | Distribution],
    initial: Callable[..., Mapping[str, Any]],
    readings: Mapping[str, Any],
    noise: Noise | Distribution | float | Mapping[str, float | Distribution],
    *,
    times: Sequence[float] | np.ndarray | None = None,
    num_noise: int | None = None,
    observe: Callable[..., Mapping[str, Any]] | None = None,
    recover: Callable[..., Mapping[str, Any]] | None = None,
    forecast: Sequence[float] = (),
) -> StateSpaceProblem | CensoredProblem:
    """Build the inverse problem of a state-space model with noisy readings at T times.

    A step of constrained samplers takes a time linear in T, as does an evaluation for all others.
    Where the states follow from the readings, they are the coordinates (Au, Graham & Thiery 2023,
    section 6.2 and supplement 4).  Where they do not, where a reading is missing, or with a
    forecast, the Gram matrix is factorised by innovations as in a Kalman filter, which takes some
    five times as long.

    Parameters
    ----------
    transition : callable
        ``transition(t, state, push, **unknowns)``: state t, a dict of numbers or arrays by name,
        from state t - 1 and k standard normal variables (k,), written in JAX operations.  It is
        called for t = 1, ..., T - 1 and on through the forecast.
    unknowns : mapping of str to Unknown or Distribution
        As of :func:`~invlift.problems.inverse_problem.inverse_problem`.
    initial : callable
        ``initial(push, **unknowns)``: state 0, from k further standard normal variables.
    readings : mapping of str to (T,) or (T, ...)
        Readings by name, NaN where missing; at one time, all entries are missing or none.  A dict
        or a data frame.  Without ``times`` each row is one step: labels of rows that are numbers or
        dates must be equally spaced, by days, working days or months say.
    noise : Noise, Distribution, float or mapping of str to float or Distribution
        As of :func:`~invlift.problems.time.ode_problem.ode_problem`.  With limits of censored
        readings derivatives are dense, which suits some hundred times.
    times : (T,), optional
        Times of the readings, increasing, as an axis of the results; 0, 1, ... if left out.  The
        transition receives the index t, not these times.
    num_noise : int, optional
        k.  If left out, the size of a state, which must then be the size of its readings.
    observe, recover : callable, optional
        ``observe(state, **unknowns)`` returns the predicted readings of a state, by name.
        ``recover(reading, **unknowns)`` returns the state from its readings, if these determine it.
        Parts of the state itself are read if both are left out.
    forecast : sequence of float
        Further times, after the last of ``times``, to each of which the state moves once.

    Returns
    -------
    StateSpaceProblem, or CensoredProblem
        Draws hold the unknowns, and the states and noise-free readings at all times and those of
        the forecast, ``level_path``, (T, ...), for ``level``.  They do not hold the variables that
        move the states.

    Raises
    ------
    InputError
        If readings, times, forecast or names are invalid, a function returns wrong names or shapes,
        or ``recover`` is not the inverse of ``observe``; or as of
        :func:`~invlift.problems.inverse_problem.inverse_problem`.
    """
    require_float64()
    columns = checked_columns(readings)
    is_numbered, size = times is None, len(next(iter(columns.values())))
    times = _checked_times(times, size)
    check_labels(readings, noise, None if is_numbered else times)
    noise = noise_where_read(noise, columns)
    times, columns = with_forecast(times, columns, forecast)
    if is_numbered and not np.array_equal(times, np.arange(times.size)):
        expected = f"{size}, {size + 1}, ... behind times that are numbered 0, ..., {size - 1}"
        raise InputError("forecast", expected, f"{forecast!r}"[:80], "correct it, or give times")
    times = np.arange(times.size) if is_numbered else times
    if recover is not None and observe is None:
        raise InputError("observe", "the inverse of recover", "none", "give both, or neither")
    named = named_prior(unknowns)
    rows = tuple((name, column.shape[1:]) for name, column in columns.items())
    is_chosen = num_noise is not None
    num_noise = num_noise if is_chosen else _size(rows)
    num_noise = checked_integer("num_noise", num_noise, 1, remedy="say how many move a state")
    given = unpack(named.transform(jnp.zeros(named.num_white)), named.shapes)
    push = jnp.zeros(num_noise)
    _check_index("initial", lambda push: initial(push, **given), num_noise)
    state = _shapes("initial", lambda: initial(push, **given))
    at_zero = {name: jnp.zeros(shape) for name, shape in state}
    _check_index("transition", lambda push: transition(times[0], at_zero, push, **given), num_noise)
    if observe is None:
        known = tuple(each for each in state if each[0] in dict(rows)) or state
        check_same("initial", "the state, of which parts are read", known, rows)
        recover = _itself if len(state) == len(rows) else None
    if not is_chosen and recover is None and _size(state) != num_noise:
        expected = "the number of noise variables, as state and readings differ in size"
        raise InputError("num_noise", expected, "none", "give it")
    check_names(state, rows, named.shapes, is_part=observe is None)
    observed, found, grid = where_read(columns, times)
    is_complete = grid.places.size == math.prod(grid.shape)
    kept = dict(state) | dict(rows)
    model = StateSpaceModel(
        transition,
        named.shapes,
        found,
        tuple(path_of(name, shape, times) for name, shape in kept.items()),
        initial=initial,
        observe=observe,
        recover=recover if is_complete else None,
        state_shapes=state,
        reading_shapes=rows,
        grid=grid,
        num_noise=num_noise,
    )
    _check_functions(model, recover, given, push)
    prior = StateSpacePrior.of(named, times.size * num_noise)
    values = np.concatenate([each.ravel() for each in observed.values()])
    made = inverse_problem(model, prior, noise_by_name(noise, observed), values)
    made = StateSpaceProblem(made.model, made.prior, made.noise, made.observed)
    if observe is not None and model.recover is not None:
        _check_inverse(made)
    return with_censored(made)


def _itself(values: Mapping[str, Any], **given) -> Mapping[str, Any]:
    return values


def _size(shapes: Shapes) -> int:
    return sum(math.prod(shape) for _, shape in shapes)


# Checks of input ----------------------------------------------------------------------------------


def _checked_times(times: Any, size: int) -> np.ndarray:
    """Return the times as increasing numbers, (T,)."""
    if times is None:
        return np.arange(size)
    at = as_numbers("times", times, remedy="count from a start")
    if at.shape != (size,):
        expected = f"{size} numbers, one for each row of the readings"
        raise InputError("times", expected, f"shape {at.shape}", "correct it")
    check_increasing(at)
    return at


def _shapes(where: str, call: Callable[[], Any]) -> Shapes:
    """Return names and shapes of the values that a function returns."""
    expected = "a JAX function of the unknowns by name, behind its other arguments"
    with as_input_error(where, expected, "correct it"):
        shapes = jax.eval_shape(call)
    return shapes_of(where, shapes)


def _check_index(where: str, call: Callable[[np.ndarray], Any], num_noise: int) -> None:
    """Check that no index is beyond the number of variables: JAX would return the last one."""
    try:
        jax.eval_shape(lambda: call(np.zeros(num_noise)))
    except IndexError as error:
        expected = f"push[0] to push[{num_noise - 1}], as num_noise is {num_noise}"
        remedy = "give num_noise, how many variables move a state"
        raise InputError(where, expected, first_line(error), remedy) from None
    except Exception:  # reported by the call with its final arguments
        return


def _check_functions(
    model: StateSpaceModel, recover: Callable | None, given: dict, push: jax.Array
) -> None:
    """Check the values of each function at the prior's medians."""
    state, rows = model.state_shapes, model.reading_shapes
    zeros = {name: jnp.zeros(shape) for name, shape in state}
    reading = {name: jnp.zeros(shape) for name, shape in rows}
    what = "the state as initial has it"
    shapes = _shapes("transition", lambda: model.fn(1, zeros, push, **given))
    check_same("transition", what, shapes, state)
    first = model.initial(push, **given)
    check_finite("initial state", first)
    check_finite("state 1, which transition returns,", model.fn(1, first, push, **given))
    if model.observe is not None:
        shapes = _shapes("observe", lambda: model.observe(zeros, **given))
        check_same("observe", "what is read", shapes, rows)
    if recover is None:
        return
    shapes = _shapes("recover", lambda: recover(reading, **given))
    check_same("recover", what, shapes, state)
    if _size(state) != _size(rows):
        raise InputError(
            "observe",
            f"as many numbers as the state has, {_size(state)}",
            f"{_size(rows)}",
            "leave recover out if no state follows from what is read of it",
        )


def _check_inverse(problem: StateSpaceProblem) -> None:
    """Check that ``recover`` returns the states of paths drawn from the prior."""
    rng = np.random.default_rng(SEED)
    num = -(-NUM_STATES // problem.model.num_times)
    white = np.stack([problem.prior.sample(rng) for _ in range(num)])
    shares = map(float, _shares(problem, white))
    for share, most, found in zip(shares, (0.0, MOST_LOST), ("other states", "none"), strict=True):
        if share > most:
            found += f" for what was read at {100 * share:.2g} % of the times, on paths drawn from "
            remedy = "correct one of them, or leave recover out"
            raise InputError("recover", "the inverse of observe", f"{found}the prior", remedy)


@program
def _shares(problem: StateSpaceProblem, white):
    """Shares of finite states on paths of w, (num, m + T k), with another or no recovered state.

    A recovered state may differ by what a rounded reading explains, as where the reading hardly
    depends on the state.
    """

    def of_path(white):
        model = problem.model
        values, moves = model.split(problem.prior.transform(white))
        states = model.on_path(model.states(values, moves))
        read = jax.vmap(lambda state: model.read(state, values))(states)
        recovered = jax.vmap(lambda reading: model.recovered(reading, values))(read)
        slopes = jax.vmap(jax.jacfwd(lambda reading: model.recovered(reading, values)))(read)
        error = ROUNDING * jnp.maximum(jnp.abs(read), np.finfo(float).tiny / ROUNDING)
        explained = jnp.einsum("tij,tj->ti", jnp.abs(slopes), error)
        limit = CLOSE * jnp.maximum(1.0, jnp.abs(states)) + explained
        is_other = (jnp.abs(recovered - states) > limit).any(axis=1)
        is_known = jnp.isfinite(states).all(axis=1) & jnp.isfinite(read).all(axis=1)
        is_lost = ~jnp.isfinite(recovered).all(axis=1)
        return [jnp.sum(is_known & each) for each in (is_other & ~is_lost, is_lost, is_known)]

    *numbers, known = (jnp.sum(each) for each in jax.vmap(of_path)(white))
    return [each / jnp.maximum(1, known) for each in numbers]
