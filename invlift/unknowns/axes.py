"""Axes of values: their names, and coordinates along them, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from invlift.errors import InputError, KeyPath, as_path, as_text

#: Names of axes with the coordinates along each: part of the pytree structure of their owner.
Axes = tuple[tuple[str, tuple], ...]

#: Names of axes that draws already have.
RESERVED_AXES = ("chain", "draw", "sensor", "node", "cell")
#: Names that results have for numbers of each reading, beside its name and its noise.
OF_READINGS = (
    "observed", "units", "points", "limit", "limits", "predicted_mean", "predicted_sd",
    "standardised_residual", "predictive_p_value", "loo_elpd", "loo_pareto_k", "loo_pit",
)  # fmt: skip


def checked_axes(
    where: str | KeyPath, axes: Mapping[str, Sequence], shape: tuple[int, ...]
) -> Axes:
    """Return axes as plain values, after a check that they fit the shape of a value.

    Dates become text in ISO 8601 format.

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
    """Check that no draw has the name of an axis, which files use for its coordinates.

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
    """Return a unit, after a check that it is text.

    Raises
    ------
    InputError
        If it is not text.
    """
    if not isinstance(unit, str):
        raise InputError(where, "text", f"{unit!r}"[:80], 'write it, "mV" say')
    return unit


def axes_in_time(
    name: str, shape: tuple[int, ...], at: np.ndarray, axis: str = "time"
) -> dict[str, Sequence]:
    """Return axes of values of a shape, one for each time (T,); axes after time are numbered."""
    return {axis: at} | {f"{name}_{i}": range(size) for i, size in enumerate(shape)}


def path_of(name: str, shape: tuple[int, ...], at: np.ndarray) -> tuple[str, Axes]:
    """Return name and axes of the path of a state at times (T,), as the draws have them."""
    axes = axes_in_time(name, shape, at)
    return f"{name}_path", checked_axes(("state", name), axes, (len(at), *shape))


def check_agreement(named: Iterable[tuple[KeyPath, Axes]]) -> None:
    """Check that equal axes have equal coordinates, and that no axis has the name of a value.

    Parameters
    ----------
    named : iterable of pairs of path and Axes
        Path of each value, which ends with its name, and its axes.

    Raises
    ------
    InputError
        If an axis has different coordinates in two values, or has the name of a value.
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
