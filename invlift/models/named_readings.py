"""Named readings, which follow one another in the vector of all readings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, as_numbers
from invlift.unknowns.axes import OF_READINGS, Axes, checked_axes

#: Names of axes that other columns of tables and files of readings have.
RESERVED_COLUMNS = (*OF_READINGS, "name", "sigma")


class NamedReading(NamedTuple):
    """Description of a named array of readings.

    Attributes
    ----------
    name : str
    shape : tuple of int
        Shape of the array.
    axes : tuple of pairs of str and tuple
        Names and coordinates of its axes; empty without names.
    """

    name: str
    shape: tuple[int, ...]
    axes: Axes

    @property
    def labels(self) -> list[str]:
        """A name for each reading: `hare[1901]`, or `hare[0]` without coordinates."""
        if not self.shape:
            return [self.name]
        along = [labels for _, labels in self.axes] or list(map(range, self.shape))
        return [f"{self.name}[{', '.join(map(str, each))}]" for each in product(*along)]


def check_columns(where: str, axes: Axes) -> None:
    """Refuse axes of readings with names that other columns of their tables have."""
    for axis, _ in axes:
        if axis in RESERVED_COLUMNS:
            found = f"{axis!r}, which is that of another column in the results"
            raise InputError((where, "axes"), "another name", found, "rename it")


def labels_of(readings: Sequence[NamedReading]) -> list[str]:
    """Return a label for each reading."""
    return [label for each in readings for label in each.labels]


def named_readings(
    observed: Mapping[str, Any], axes: Mapping[str, Mapping[str, Sequence]]
) -> tuple[np.ndarray, tuple[NamedReading, ...]]:
    """Return all readings as one vector, and a description of each array.

    Parameters
    ----------
    observed : mapping of str to array
        Arrays or xarray.DataArray by name, or an xarray.Dataset: anything with `dims` and `coords`.
    axes : mapping of str to mapping of str to sequence
        Axes by name of the readings, for arrays without axes of their own.

    Returns
    -------
    (d,) float array, tuple of NamedReading

    Raises
    ------
    InputError
        If there are no readings, one is not finite, or axes do not fit.
    """
    if not observed:
        raise InputError("argument observed", "at least one array", "none", "name the readings")
    readings, values = [], []
    for name, given in observed.items():
        where = f"argument observed, {name}"
        array = as_numbers(where, given, "an array of numbers")
        bad = np.argwhere(~np.isfinite(array))
        if array.size == 0 or bad.size:
            raise InputError(
                where,
                "finite numbers, none missing",
                f"{array[tuple(bad[0])]} at index {', '.join(map(str, bad[0]))}"
                if bad.size
                else "no numbers",
                "leave out what is missing, here and in the model",
            )
        given_axes = axes[name] if name in axes else _axes_of(given)
        given_axes = checked_axes(("readings", name), given_axes, array.shape)
        check_columns(where, given_axes)
        readings.append(NamedReading(str(name), array.shape, given_axes))
        values.append(array.ravel())
    return np.concatenate(values), tuple(readings)


def of_frame(frame: Any) -> Any:
    """Return the columns of a data frame as arrays of xarray, with rows in the same order.

    Raises
    ------
    InputError
        If an index of several levels does not have each combination once, the last level changing
        fastest.
    """
    if (index := frame.index).nlevels == 1:
        return frame.to_xarray()
    levels = [index.get_level_values(level).unique() for level in range(index.nlevels)]
    if list(index) != list(product(*levels)):
        raise InputError(
            "argument observed",
            "a row for each combination of the labels, the last of them changing first",
            "some missing, twice, or in another order",
            "sort the table by its index, or leave the index out by reset_index",
        )
    labelled = frame.to_xarray()  # this sorts the labels
    return labelled.reindex(dict(zip(labelled.sizes, levels, strict=True)))


def check_like(where: str, given: Any, reading: NamedReading, observed: Any = None) -> None:
    """Check that an array has shape, axes and labels of the readings, as entries are paired.

    ``observed`` are the readings as given.  Indices are compared if both are of pandas, unless an
    index consists of row numbers.

    Raises
    ------
    InputError
        If the axes have another shape, other names, another order or other coordinates.
    """
    is_array = isinstance(given, np.ndarray | jax.Array) and given.ndim > 1
    if is_array and given.shape != reading.shape:
        expected = f"shape {reading.shape}, as the readings have"
        raise InputError(where, expected, f"{given.shape}", "transpose it, say")
    indices = [getattr(each, "index", None) for each in (given, observed)]
    if all(hasattr(each, "equals") for each in indices):
        own, theirs = indices
        are_numbers = any(np.array_equal(each, np.arange(len(each))) for each in indices)
        if len(own) == len(theirs) and not (are_numbers or own.equals(theirs)):
            expected = "the index of the readings, in their order"
            raise InputError(where, expected, "another", "take reindex(readings.index)")
    if not getattr(given, "dims", ()) or not reading.axes:
        return
    own, known = dict(checked_axes(where, _axes_of(given), np.shape(given))), dict(reading.axes)
    own |= {axis: known.get(axis) for axis in own if axis not in given.coords}
    if list(own.items()) != list(known.items()):
        expected = f"axes {', '.join(known)} with the coordinates of the readings, in their order"
        remedy = "take reindex_like(readings) and transpose"
        raise InputError(where, expected, f"{', '.join(own)}, or other coordinates", remedy)


def flattened(values: Any, readings: Sequence[NamedReading]) -> jax.Array:
    """Return a model's readings by name as one vector, (d,).

    Raises
    ------
    InputError
        If names differ, or an array has another shape.
    """
    expected = ", ".join(each.name for each in readings)
    has_names = isinstance(values, Mapping)
    if not has_names or set(values) != {each.name for each in readings}:
        raise InputError(
            "forward map",
            f"a dict of the readings {expected}",
            f"one of {', '.join(map(str, values)) or 'nothing'}"
            if has_names
            else type(values).__name__,
            "return the readings by the names that the observed values have",
        )
    for name, shape, _ in readings:
        if jnp.shape(values[name]) != shape:
            raise InputError(
                f"forward map, {name}",
                f"shape {shape}, as observed",
                f"{jnp.shape(values[name])}",
                "return one value for each observed one",
            )
    return jnp.concatenate([jnp.ravel(values[each.name]) for each in readings])


def coordinates_of(readings: Sequence[NamedReading]) -> dict[str, list]:
    """Return name and coordinates along each axis of each of the d readings.

    Keys are "name" and the axes.  A reading without an axis has NaN there, or "" among text.
    """
    if not readings:
        return {}
    columns = {"name": [each.name for each in readings for _ in range(math.prod(each.shape))]}
    for axis in dict.fromkeys(axis for each in readings for axis, _ in each.axes):
        known = [
            label for each in readings for name, xs in each.axes if name == axis for label in xs
        ]
        missing = "" if any(isinstance(label, str) for label in known) else math.nan
        along = columns[axis] = []
        for each in readings:
            place = [name for name, _ in each.axes].index(axis) if axis in dict(each.axes) else None
            rows = product(*(labels for _, labels in each.axes)) if each.axes else ()
            along += (
                [missing] * math.prod(each.shape) if place is None else [row[place] for row in rows]
            )
    return columns


def _axes_of(given: Any) -> dict[str, Sequence]:
    """Axes of an array of xarray, numbered from 0 where it has no coordinates."""
    coords = getattr(given, "coords", {})
    return {
        str(axis): np.asarray(coords[axis]) if axis in coords else range(size)
        for axis, size in zip(getattr(given, "dims", ()), np.shape(given), strict=False)
    }
