"""Axes of values: their names, and coordinates along them, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from invlift.errors import InputError, KeyPath, as_path, as_text

#: Names of axes with the coordinates along each: part of the structure of what has them.
Axes = tuple[tuple[str, tuple], ...]

#: Axes that draws have already.
RESERVED_AXES = ("chain", "draw", "sensor", "node", "cell")


def checked_axes(
    where: str | KeyPath, axes: Mapping[str, Sequence], shape: tuple[int, ...]
) -> Axes:
    """Axes as plain values, which fit the shape of a value.

    Dates become text, as ISO 8601 writes them.

    Raises
    ------
    InputError
        If a name is one that draws have already, or the coordinates do not fit the shape.
    """
    where = (*as_path(where), "axes")
    if not isinstance(axes, Mapping) or not all(hasattr(x, "__len__") for x in axes.values()):
        expected = "names of axes with the coordinates along each"
        raise InputError(where, expected, f"{axes!r}"[:80], 'give {"year": [1900, 1901]}, say')
    for axis in set(axes) & set(RESERVED_AXES):
        raise InputError(where, "another name", f"{axis!r}, which draws have already", "rename it")
    found = tuple((str(axis), _plain(labels)) for axis, labels in axes.items())
    lengths = tuple(len(labels) for _, labels in found)
    if found and lengths != shape:
        raise InputError(
            where,
            f"coordinates for a value of shape {shape}",
            ", ".join(
                f"{size} along {axis}" for (axis, _), size in zip(found, lengths, strict=True)
            ),
            "give each axis of the value a name, and a coordinate to each of its entries",
        )
    return found


def check_names(draws: Iterable[str], axes: Collection[str]) -> None:
    """Check that no draw is called like an axis: files have the coordinates by that name.

    Raises
    ------
    InputError
        If one is.
    """
    for name in draws:
        if name in (*RESERVED_AXES, *axes):
            expected = "another name than that of an axis"
            raise InputError(f"draws of {name}", expected, f"{name!r}", "rename one of the two")


def checked_unit(where: str | KeyPath, unit: str) -> str:
    """A unit as it is to be written.

    Raises
    ------
    InputError
        If it is no text.
    """
    if not isinstance(unit, str):
        raise InputError(where, "text", f"{unit!r}"[:80], 'write it, "mV" say')
    return unit


def axes_in_time(
    name: str, shape: tuple[int, ...], at: np.ndarray, axis: str = "time"
) -> dict[str, Sequence]:
    """Axes of values of a shape, one for each time (T,): those after the time by number."""
    return {axis: at} | {f"{name}_{i}": range(size) for i, size in enumerate(shape)}


def path_of(name: str, shape: tuple[int, ...], at: np.ndarray) -> tuple[str, Axes]:
    """What the path of a state of a shape at times (T,) is called among the draws, and its axes."""
    axes = axes_in_time(name, shape, at)
    return f"{name}_path", checked_axes(("state", name), axes, (len(at), *shape))


def check_agreement(named: Iterable[tuple[KeyPath, Axes]]) -> None:
    """Check that an axis is the same wherever it occurs, and has a name of its own.

    Parameters
    ----------
    named : iterable of pairs of path and Axes
        Of each value its path, which ends with its name, and its axes.

    Raises
    ------
    InputError
        If two have one axis with different coordinates, or an axis is called as a value.
    """
    seen, named = {}, list(named)
    names = {path[-1] for path, _ in named}
    for path, own in named:
        for axis, labels in own:
            if axis in names:
                found = f"that of an axis of {as_text(path)}"
                raise InputError(("unknown", axis), "another name", found, "rename it")
            first, known = seen.setdefault(axis, (path[-1], labels))
            if labels != known:
                raise InputError(
                    (*path, "axes"),
                    f"the coordinates along {axis} that {first} has",
                    "others",
                    "give two axes two names",
                )


def _plain(labels: Sequence) -> tuple:
    labels = np.asarray(labels)
    if labels.dtype.kind == "M":
        labels = np.datetime_as_string(labels, unit="auto")
    return tuple(labels.tolist())
