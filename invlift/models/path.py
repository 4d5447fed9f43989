"""Models of a state that standard normal variables move step by step, and of its readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field

import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.jacobians.markov import Grid
from invlift.models.named_model import NamedModel
from invlift.models.named_readings import NamedReading, named_readings
from invlift.programs.pytrees import static
from invlift.unknowns.axes import axes_in_time
from invlift.unknowns.named import pack, unpack
from invlift.unknowns.priors.named import Shapes


class PathModel(NamedModel):
    """Map from unknowns and the variables v of all steps to noise-free readings.

    There are L intervals of S steps each, and T times of readings: the start, if something was read
    there, and the ends of the intervals.  A state is a vector, (n,), of its parts one after the
    other; the values of all unknowns are one vector, (N,).  A subclass implements ``move_shape``,
    ``num_steps``, ``is_read_at_start``, ``at``, ``lengths``, ``first`` and ``step``.

    Attributes
    ----------
    initial : callable
        State at the start, by name.
    observe : callable or None
        ``observe(state, **unknowns)`` returns the noise-free readings of a state, by name; parts of
        the state itself if None.
    state_shapes : tuple of (str, tuple of int)
        Parts of the state.
    reading_shapes : tuple of (str, tuple of int)
        Readings at one time.
    grid : Grid
        Places of the readings, one name after the other, among all names at all times.
    """

    initial: Callable = static(kw_only=True)
    observe: Callable | None = static(kw_only=True)
    state_shapes: Shapes = static(kw_only=True)
    reading_shapes: Shapes = static(kw_only=True)
    grid: Grid = field(kw_only=True)

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """Return unknowns by name, and paths, (num, ...), of states and readings."""
        values, moves = self.split(coefficients)
        states = self.on_path(self.states(values, moves))
        return unpack(values, self.shapes) | self.paths(states, values)

    def split(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Split coefficients into values of the unknowns, (N,), and v, (L S, q)."""
        rows, width = self.move_shape
        values, moves = jnp.split(coefficients, [coefficients.size - rows * width])
        return values, moves.reshape(rows, width)

    def states(self, values: jax.Array, moves: jax.Array) -> jax.Array:
        """States at the start and after each step.

        Parameters
        ----------
        values : (N,)
            Values of all unknowns, in their units.
        moves : (L S, q)
            Standard normal variables v.

        Returns
        -------
        (1 + L S, n)
        """
        return self.states_from(self.first(values), values, moves)

    def states_from(self, first: jax.Array, values: jax.Array, moves: jax.Array) -> jax.Array:
        """As :meth:`states`, from another first state.

        Parameters
        ----------
        first : (n,)
        values : (N,)
        moves : (L S, q)

        Returns
        -------
        (1 + L S, n)
        """

        def follow(state, each):
            later = self.step(*each, state, values)
            return later, later

        _, later = jax.lax.scan(follow, first, (self.at, self.lengths, moves))
        return jnp.concatenate([first[None], later])

    def when_read(self, states: jax.Array) -> jax.Array:
        """Select the states at the T times of readings from those at all steps, (1 + L S, n)."""
        return states[0 if self.is_read_at_start else self.num_steps :: self.num_steps]

    def on_path(self, states: jax.Array) -> jax.Array:
        """Select the states stored with a draw, (num, n), from those at all steps, (1 + L S, n)."""
        return states

    def read(self, state: jax.Array, values: jax.Array) -> jax.Array:
        """Return the noise-free readings of a state.

        Parameters
        ----------
        state : (n,)
        values : (N,)

        Returns
        -------
        (r,)
            All names, one after the other, in the units of the readings.
        """
        named = unpack(state, self.state_shapes)
        if self.observe is not None:
            named = self.observe(named, **unpack(values, self.shapes))
        return pack(named, self.reading_shapes).astype(float)

    def paths(self, states: jax.Array, values: jax.Array) -> dict[str, jax.Array]:
        """Return paths of state parts and noise-free readings, by name: ``level_path``.

        Parameters
        ----------
        states : (num, n)
        values : (N,)

        Returns
        -------
        dict of (num, ...)
        """

        def at_one_time(state):
            read = unpack(self.read(state, values), self.reading_shapes)
            return read | unpack(state, self.state_shapes)

        return {f"{name}_path": path for name, path in jax.vmap(at_one_time)(states).items()}

    def _evaluate(self, coefficients):
        values, moves = self.split(coefficients)
        states = self.states(values, moves)
        read = jax.vmap(lambda state: self.read(state, values))(self.when_read(states))
        return self.grid.gather(read), self.paths(self.on_path(states), values)


def where_read(
    columns: Mapping[str, np.ndarray], times: np.ndarray
) -> tuple[dict[str, np.ndarray], tuple[NamedReading, ...], Grid]:
    """Select the readings of columns (T, ...), which are NaN where nothing was read, by name.

    Returns
    -------
    dict of str to (r, ...), tuple of NamedReading, Grid
        Readings at their r times, their descriptions, and their places among all columns.
    """
    sizes = [math.prod(column.shape[1:]) for column in columns.values()]
    starts = np.cumsum([0, *sizes])
    observed, axes, places = {}, {}, []
    for (name, column), start, size in zip(columns.items(), starts, sizes, strict=False):
        rows = np.flatnonzero(~np.isnan(column.reshape(len(column), size)).any(axis=1))
        observed[name] = column[rows]
        axes[name] = axes_in_time(name, column.shape[1:], times[rows], "read_at")
        places.append((rows[:, None] * starts[-1] + start + np.arange(size)).ravel())
    grid = Grid(jax.device_put(np.concatenate(places)), (len(times), int(starts[-1])))
    return observed, named_readings(observed, axes)[1], grid
